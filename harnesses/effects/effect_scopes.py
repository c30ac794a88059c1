"""Scopes of agent calls: prefixes of the keys of their effects, so that no two calls share a record.

coder#1/edit           effect "edit" of the first call of agent "coder" in the step in progress
coder:parser/edit      the same in a call `run_agent(coder, …, key="parser")`
lead#1/coder#2/edit    in the second call of "coder" by "lead", through `Agent.run`
"""

from __future__ import annotations

from hashlib import sha256
from urllib.parse import quote

from harnesses.effects.effect import MAX_KEY

_MOST_NAME = 60
"""Characters of an agent's name, or of a call's key, in the keys of its effects; a longer one is shortened by its hash."""


def scope_of(agent: str, call: int | str) -> str:
    """Return the scope of one agent call.

    Args:
        call: number of the agent's call within the step, or the key that its caller gave.
    """
    name = _shortened(quote(agent, safe=" ", errors="replace"), _MOST_NAME)
    if isinstance(call, int):
        return f"{name}#{call}/"
    return f"{name}:{_shortened(quote(call, safe=' :', errors='replace'), _MOST_NAME)}/"


def scoped(scope: str, key: str) -> str:
    """Return the key of an effect within a scope, as it is stored."""
    return _shortened(f"{scope}{key}", MAX_KEY)


def _shortened(text: str, most: int) -> str:
    """Return a text of at most `most` characters: a longer one ends in the hash of the whole."""
    if len(text) <= most:
        return text
    digest = sha256(text.encode(errors="surrogatepass")).hexdigest()[:20]
    return f"{text[: most - 21]}~{digest}"
