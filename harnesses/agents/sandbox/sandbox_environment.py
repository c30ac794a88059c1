"""The environment of a sandboxed command: without secrets, and without what leads to services outside."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping

from harnesses.redaction.redactor import redact

_LEADS_OUT = (
    *(
        "DBUS_",
        "SSH_",
        "GPG_",
        "DISPLAY",
        "WAYLAND_",
        "XAUTHORITY",
        "XDG_RUNTIME_DIR",
        "XDG_SESSION_",
        "DOCKER_",
        "CONTAINER_",
    ),
    *("PODMAN_", "TMUX", "STY", "NOTIFY_SOCKET", "LISTEN_", "JOURNAL_", "INVOCATION_", "VSCODE_", "ORCHESTRATOR_", "OTEL_"),
)
"""Prefixes of the environment variables that give access to services outside the sandbox, or to the run."""


_SECRET_NAME = re.compile(
    r"(?:^|[_.-])(?:tokens?|secrets?|pass(?:word|wd|phrase|code)s?|credentials?|(?:api|access|private|secret|signing)_?keys?"
    r"|auth|authorization|bearer)(?:$|[_.-])|_key$|(?:token|secret|password|apikey)$",
    re.IGNORECASE,
)
"""Matches the name of a variable that holds a secret, whatever its value looks like."""
_COUNT = re.compile(r"\d{1,9}")


def environment_within(environment: Mapping[str, str], keep: tuple[str, ...] = ()) -> dict[str, str]:
    """Return a copy of an environment without secrets and without access to services outside.

    Args:
        keep: prefixes of variables that are kept in any case.
    """
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(keep) or not (name.startswith(_LEADS_OUT) or _is_secret(name, value))
    }


def _is_secret(name: str, value: str) -> bool:
    if name.lower().endswith("tokens") and _COUNT.fullmatch(value):  # A limit, such as MAX_TOKENS.
        return False
    return _SECRET_NAME.search(name) is not None or redact({name: value}) != {name: value}


def programs_below_tmp(path: str) -> tuple[str, ...]:
    """Return the directories of programs that the private /tmp would hide: of this Python, and of PATH."""
    found = [os.path.realpath(one) for one in path.split(os.pathsep) if os.path.isabs(one)]
    places = [os.path.realpath(sys.prefix), os.path.realpath(sys.base_prefix), *found]
    return tuple(dict.fromkeys(one for one in places if one.startswith("/tmp/") and os.path.isdir(one)))
