"""Validators and harnesses for features that are brought about by code."""

from harnesses.coding.python_tests import PythonTests

__all__ = ["PythonTests"]
