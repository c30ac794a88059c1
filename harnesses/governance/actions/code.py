"""What code does that is given to an interpreter on its command line. Pure.

A path or a command is followed as far as it is spelt out. What is not is said to be unknown.
"""

from __future__ import annotations

from harnesses.governance.actions.nouns import Sayings
from harnesses.governance.actions.other_code import other
from harnesses.governance.actions.python import python
from harnesses.governance.actions.sql import sql
from harnesses.governance.actions.stores import mongo


def code(language: str, text: str) -> Sayings:
    """Say what code does."""
    if language == "sql":
        yield from sql(text)
    elif language == "mongo":
        yield from mongo(text)
    elif language == "python":
        yield from python(text)
    else:
        yield from other(text)
