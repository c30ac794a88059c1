"""Texts that name environment variables, such as addresses with credentials in a run file."""

from __future__ import annotations

import os
import re

from harnesses.errors import HarnessMisuse

_NAMED = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def from_environment(text: str) -> str:
    """Return a text with each `${NAME}` replaced by that environment variable.

    Raises:
        HarnessMisuse: a variable is not set.
    """
    for name in _NAMED.findall(text):
        if name not in os.environ:
            raise HarnessMisuse(f"expected {name} in the environment, got nothing; set it")
    return _NAMED.sub(lambda match: os.environ[match[1]], text)
