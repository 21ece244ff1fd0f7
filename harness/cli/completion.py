"""``harness completion``: completion of commands, cases and images in the shell."""

from __future__ import annotations

import click

from harness.cli import common

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> int:
    """Print the completion script of a shell.

    \b
    Examples:
      harness completion bash > ~/.local/share/bash-completion/completions/harness
      harness completion zsh > ~/.zfunc/_harness
      harness completion fish > ~/.config/fish/completions/harness.fish
    """
    from click.shell_completion import get_completion_class

    from harness.cli import cli

    kind = get_completion_class(shell)
    assert kind is not None
    common.write_out(kind(cli, {}, "harness", "_HARNESS_COMPLETE").source())
    return 0
