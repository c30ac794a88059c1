"""What a repository on disk makes git run: hooks, and settings that name programs.

The law: a setting that is not known to start nothing counts as one that does. The user's own settings are not looked at.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from harnesses.guard.harmless_table import is_kind

MAX_CONFIG = 200_000
"""Bytes of a repository's settings that are read."""
MAX_MODULES = 200
_SECTION = re.compile(r'\[\s*([\w.-]+)\s*(?:"((?:[^"\\\n]|\\.)*)")?\s*\]')
_SETTING = re.compile(r"([A-Za-z][\w-]*)\s*(?:=.*)?")
_HOOKS_OF_LOOKING = ("post-index-change", "fsmonitor-watchman", "query-watchman")


def starts(folder: str, *, changes: bool) -> str | None:
    """Return what git would run in a folder of its repository's accord; None if nothing, or there is none.

    Args:
        changes: whether it changes the repository; then all hooks may run, else only that of a refreshed index.
    """
    try:
        for place in _places(Path(folder)):
            for name in ("config", "config.worktree"):
                if setting := _odd_setting(place / name):
                    return f"the repository's setting {setting} may name a program that git runs"
            for hook in (place / "hooks").iterdir() if (place / "hooks").is_dir() else ():
                if not hook.name.endswith(".sample") and (changes or hook.name in _HOOKS_OF_LOOKING):
                    return f"the repository has the hook {hook.name}"
    except (OSError, ValueError) as error:
        return f"the repository's settings cannot be read: {error}"
    return None


def _places(folder: Path) -> Iterator[Path]:
    """Yield the folders with the settings of the repository that git finds from a folder, and of those within it."""
    for place in (folder, *folder.parents):
        if (place / "HEAD").exists() and (place / "objects").exists():
            raise ValueError(f"{place} is a bare repository")
        found = place / ".git"
        if not os.path.lexists(found):
            continue
        if found.is_file():
            found = place / found.read_text(errors="replace")[:4_000].removeprefix("gitdir:").strip()
        yield found
        if (found / "commondir").exists():
            yield found / (found / "commondir").read_text(errors="replace")[:4_000].strip()
        modules = list(islice((found / "modules").rglob("config"), MAX_MODULES + 1))
        if len(modules) > MAX_MODULES:
            raise ValueError(f"it has more than {MAX_MODULES} submodules")
        yield from (module.parent for module in modules)
        return


def _odd_setting(path: Path) -> str | None:
    """Return the first setting of a file that is not known to start nothing."""
    if not path.exists():
        return None
    text = path.read_bytes()[: MAX_CONFIG + 1].decode(errors="replace")
    if len(text) > MAX_CONFIG:
        return "file, which is too long,"
    section = ""
    # Not `splitlines`: git ends a line at nothing else.
    for line in text.split("\n"):
        line = line.strip()
        if found := _SECTION.match(line):
            section = found[1] + (f".{found[2]}" if found[2] is not None else "")
            line = line[found.end() :].strip()
        if not line or line[0] in "#;":
            continue
        setting = _SETTING.fullmatch(line)
        name = f"{section}.{setting[1] if setting else line[:40]}"
        if setting is None or line.endswith("\\") or not is_kind("git-setting", name):
            return name
    return None
