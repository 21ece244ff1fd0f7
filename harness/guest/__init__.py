"""What runs inside the environment under test: standard library only, Python 3.9 syntax.

Nothing here imports ``harness``: the files are copied into the sandbox and started there as
scripts. They find each other by path, so that nothing of theirs can be imported by a test.
"""
