"""What a run found, as Markdown, in the terminal and as JSON.

Everything is derived from a :class:`harness.verdict.Report`. Whatever came out of an arm
is hostile until :mod:`harness.report.text` has made it harmless.
"""
