"""Benchmarks: `python -m tests.benchmarks [NAME …]` prints one JSON line each. They compare within one run; none is a test."""
