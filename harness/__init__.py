"""A/B evidence for bug fixes: same image, same tests, only the production hunks differ."""

__version__ = "0.1.0"
