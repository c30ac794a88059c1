"""What a repository on disk makes git run: hooks, and settings that name programs.

The law: a setting that is not known to start nothing counts as one that does. The user's own settings are not looked at.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

MAX_CONFIG = 200_000
"""Bytes of a repository's settings that are read."""
_PLAIN = re.compile(
    r"""(?xi) core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|
        autocrlf|eol|abbrev|quotepath|
        safecrlf|longpaths|preloadindex|untrackedcache|sparsecheckout(cone)?|commitgraph|multipackindex|
        compression|bigfilethreshold)
    | extensions\.(worktreeconfig|objectformat|partialclone|refstorage)
    | (user|author|committer)\.(name|email) | user\.signingkey
    | init\.defaultbranch | (branch|remote)\.[^=]*\.(url|pushurl|fetch|push|remote|merge|rebase|pushremote|description|mirror|
        tagopt|prune|
        partialclonefilter|promisor|skipdefaultupdate|gh-resolved|github-pr-owner-number|base|vscode-merge-base)
    | submodule\.[^=]*\.(url|active|branch|path)
    | submodule\.active | (pull|rebase|push|fetch|merge|commit|tag|status|log|diff|color|advice|
        gc|
        maintenance|feature|pack|index|checkout|apply|column|blame|stash|rerere|lfs|http|credential\.https?://[^=]*)
        \.(rebase|ff|default|autosetupremote|prune|autostash|renames|algorithm|colormoved|ui|auto|conflictstyle|style|verbose|
        showuntrackedfiles|date|decorate|abbrevcommit|recursesubmodules|mnemonicprefix|noprefix|context|status|branch|
        interactive|diff|strategy|manyfiles|version|threads|enabled|autoupdate|postbuffer|repositoryformatversion|username|followtags|
        [a-z]*hint|detachedhead|gpgsign|autosquash|updaterefs|writecommitgraph|repo)
    | alias\.[\w-]+
    """
)
_SECTION = re.compile(r'\[\s*([\w.-]+)\s*(?:"((?:[^"\\\n]|\\.)*)")?\s*\]')
_SETTING = re.compile(r"([A-Za-z][\w-]*)\s*(?:=.*)?")


def starts(folder: str, *, changes: bool) -> str | None:
    """Return what git would run in a folder of its repository's accord; None if nothing, or there is none.

    Args:
        changes: whether it changes the repository; then all hooks may run, else only that of a refreshed index.
    """
    try:
        places = list(_places(Path(folder)))
        for place in places:
            for name in ("config", "config.worktree"):
                if setting := _odd_setting(place / name):
                    return f"the repository's setting {setting} may name a program that git runs"
            if hook := _hook(place / "hooks", changes=changes):
                return f"the repository has the hook {hook}"
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
        common = found / "commondir"
        if common.exists():
            yield found / common.read_text(errors="replace")[:4_000].strip()
        for count, module in enumerate((found / "modules").rglob("config")):
            if count > 200:
                raise ValueError("it has more than 200 submodules")
            yield module.parent
        return


def _odd_setting(path: Path) -> str | None:
    """Return the first setting of a file that is not known to start nothing."""
    if not path.exists():
        return None
    text = path.read_bytes()[: MAX_CONFIG + 1].decode(errors="replace")
    if len(text) > MAX_CONFIG:
        return "file, which is too long,"
    section = ""
    for line in text.splitlines():
        line = line.strip()
        if found := _SECTION.match(line):
            section = found[1] + (f".{found[2]}" if found[2] is not None else "")
            line = line[found.end() :].strip()
        if not line or line[0] in "#;":
            continue
        setting = _SETTING.fullmatch(line)
        name = f"{section}.{setting[1] if setting else line[:40]}"
        if setting is None or line.endswith("\\") or not _PLAIN.fullmatch(name):
            return name
    return None


def _hook(folder: Path, *, changes: bool) -> str | None:
    if not folder.is_dir():
        return None
    names = sorted(one.name for one in folder.iterdir() if not one.name.endswith(".sample"))
    return next(
        (name for name in names if changes or name in ("post-index-change", "fsmonitor-watchman", "query-watchman")), None
    )
