"""The tests. A package, so that a folder of them that is called as a module of Python's does not take its place."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""Where the project is."""
