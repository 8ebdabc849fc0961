"""Measurements side by side with what a user would pick instead: ``python -m benchmarks``.

Every method of a table runs in the same process on the same data, round by round, so that the noise of a machine
hits all of them alike. What is not installed is skipped by name.
"""
