"""Scopes of agent calls: prefixes of the keys of their effects, so that no two calls share a record.

coder#1/edit           effect "edit" of the first call of agent "coder" in the step in progress
coder:parser/edit      the same in a call `run_agent(coder, …, key="parser")`
lead#1/coder#2/edit    in the second call of "coder" by "lead", through `Agent.run`
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha256
from urllib.parse import quote, unquote

from harnesses.effects.effect import MAX_KEY

_MOST_NAME = 60
"""Characters of an agent's name, or of a call's key, in the keys of its effects; a longer one is shortened by its hash."""


def scope_of(agent: str, call: int | str) -> str:
    """Return the scope of one agent call.

    Args:
        call: number of the agent's call within the step, or the key that its caller gave.
    """
    return f"{_name_of(agent)}#{call}/" if isinstance(call, int) else f"{_name_of(agent)}:{_name_of(call)}/"


def agent_of(scope: str) -> str:
    """Return the name of the agent that a scope is of, the innermost one; a name that was too long stays shortened."""
    return unquote(re.split(r"[#:]", scope.rstrip("/").rpartition("/")[2], maxsplit=1)[0])


def scoped(scope: str, key: str) -> str:
    """Return the key of an effect within a scope, as it is stored."""
    return _shortened(f"{scope}{key}", MAX_KEY)


@lru_cache(1024)
def _name_of(text: str) -> str:
    """Return the name of an agent or of a call without `/`, `#` and `:`, which separate the parts of a scope."""
    return _shortened(quote(text, safe=" ", errors="replace"), _MOST_NAME)


def _shortened(text: str, most: int) -> str:
    """Return a text of at most `most` characters: a longer one ends in the hash of the whole."""
    if len(text) <= most:
        return text
    digest = sha256(text.encode(errors="surrogatepass")).hexdigest()[:20]
    return f"{text[: most - 21]}~{digest}"
