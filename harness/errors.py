"""Every error a user can meet, with its exit code and what to do next."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of every command, as the README lists them."""

    CONFIRMED = 0
    NOT_CONFIRMED = 1
    BAD_INPUT = 2
    INFRASTRUCTURE = 3
    BUG = 4
    INTERRUPTED = 130


class HarnessError(Exception):
    """Base of all errors that are meant for the user.

    ``problem`` says what is wrong and where; ``remedy`` says what to do next.
    """

    exit_code = ExitCode.BUG

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.problem}\n  {self.remedy}" if self.remedy else self.problem


class BadInput(HarnessError):
    """A file or an argument is wrong: names the file, the key and the remedy."""

    exit_code = ExitCode.BAD_INPUT


class PatchRefused(BadInput):
    """The patch is malformed or touches what a production patch may not touch."""


class JUnitError(BadInput):
    """A JUnit file cannot be read as one."""


class EvidenceMismatch(BadInput):
    """Evidence of different patches, tests or cases would be mixed."""


class EngineError(HarnessError):
    """The engine, not the code under test, failed."""

    exit_code = ExitCode.INFRASTRUCTURE


class EvidenceUnwritable(EngineError):
    """Evidence cannot be written any more: the disk is full, or the folder is gone."""


class EngineUnavailable(EngineError):
    """The engine cannot be used on this machine."""


class ImageUnavailable(EngineError):
    """The image is neither here nor obtainable."""
