"""Finds programs that a repository on disk makes git run: hooks, and settings that name programs.

Invariant: a setting that is not known to be harmless counts as one that runs a program. The user's own settings are not
examined.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from harnesses.guard.harmless_table import is_kind

MAX_CONFIG = 200_000
"""Maximum number of bytes read of a repository's settings."""
MAX_MODULES = 200
_SECTION = re.compile(r'\[\s*([\w.-]+)\s*(?:"((?:[^"\\\n]|\\.)*)")?\s*\]')
_SETTING = re.compile(r"([A-Za-z][\w-]*)\s*(?:=.*)?")
_HOOKS_OF_LOOKING = ("post-index-change", "fsmonitor-watchman", "query-watchman")


def starts(folder: str, *, changes: bool) -> str | None:
    """Return the hook or setting by which a folder's repository would make git run a program; None if there is none.

    Args:
        changes: whether the command changes the repository; if so, all hooks may run, else only the one for index refreshes.
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
    """Yield the git folders of the repository that git finds from a folder, and of its submodules."""
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
    """Return the first setting of a file that is not known to be harmless."""
    if not path.exists():
        return None
    text = path.read_bytes()[: MAX_CONFIG + 1].decode(errors="replace")
    if len(text) > MAX_CONFIG:
        return "file, which is too long,"
    section = ""
    # Not `splitlines`: git ends a line only at a line feed.
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
