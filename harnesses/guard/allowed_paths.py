"""Decides which paths a harmless command may read and write.

Only paths below the workspace are allowed, except secrets and files that configure or run things. A path is judged relative to
every folder that the command may have changed to, by its text and, if the workspace is known, by its resolved links. Reading
secrets and files outside the workspace is refused (except for known harmless paths), because the content reaches the agent and
everyone it communicates with.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from fnmatch import fnmatchcase

from attrs import define, field

from harnesses.guard.command_model import HOLE, RUN_CODE, SECRET_READ, Category, Finding, NotHarmless, Unreadable, Word
from harnesses.guard.harmless_table import is_kind

_NOWHERE = re.compile(r"^/dev/(null|zero|stdout|stderr|tty|full|fd/[012])$")
_SHOWS_NOTHING = re.compile(r"^/dev/(null|zero|stdin|tty|fd/(\d+|\0))$|^-$")
_NAME = re.compile(r"[^\s'\"\\|&;()<>*?\[\]{}$`!#:~-][^\s'\"\\|&;()<>*?\[\]{}$`!#:]*")
"""File names that may be written. Other characters could be interpreted when the name is read, for example by xargs."""
_SAMPLES = (
    *(".env", ".env.local", ".npmrc", ".pypirc", ".netrc", ".pgpass", ".git-credentials"),
    *("id_rsa", "id_ed25519", "server.key", "cert.pem"),
)
"""Protected names that a glob pattern must not match."""
MAX_FOLDERS = 16
"""Maximum number of folders tracked as possible working directories; beyond it, the command may be anywhere."""


def protected_path(path: str, *, root: str = "") -> Finding | None:
    """Return why a tool needs approval to write to a path; None if it needs none."""
    found = _find_protection(_from_root(path.strip(), root))
    return None if found is None else Finding(found[0], found[1], path[:200])


def may_hold_secrets(path: str) -> bool:
    """Return whether a path names a file where secrets are kept, or a folder of such files."""
    return is_kind("path-secret", path)


@define
class Places:
    """The folders that a command may run in, and what it may read and write there."""

    root: str = ""
    """The workspace; empty if unknown: absolute paths then count as outside, and links are not resolved."""
    disposable: Collection[str] = ()
    folders: set[str | None] = field(factory=lambda: {""})
    """Folders it may have changed to, relative to the workspace; None means anywhere."""

    def go(self, word: Word) -> None:
        """Note that the command may have changed to a folder."""
        self.folders |= {self._from(folder, word.text) if word.known else None for folder in self.folders}
        if len(self.folders) > MAX_FOLDERS:
            self.folders = {None}

    def folders_on_disk(self) -> list[str] | None:
        """Return the possible folders as absolute paths; None if they or the workspace are unknown."""
        if not self.root or None in self.folders:
            return None
        return [os.path.normpath(os.path.join(self.root, folder)) for folder in self.folders if folder is not None]

    def check_read(self, word: Word) -> None:
        """Raise `NotHarmless` if the content of a file must not be shown."""
        if _SHOWS_NOTHING.match(word.text):
            return
        if HOLE in word.text or word.splits:
            raise Unreadable(f"it is unknown which file {word} is")
        for folder in self.folders:
            path = self._from(folder, word.text)
            for place in (path, path if path is None or word.glob else self._real(path)):
                if place is None or (place.startswith(("~", "..", "/")) and not is_kind("path-shown", place)):
                    raise NotHarmless(f"{word} is outside the workspace and may hold secrets", SECRET_READ)
                if is_kind("path-secret", place) or (word.glob and _may_match_secret(place)):
                    raise NotHarmless(f"{word} may hold secrets", SECRET_READ)

    def check_write(self, word: Word, *, runs: bool = True) -> None:
        """Raise `NotHarmless` if a path must not be written to.

        Args:
            runs: whether to refuse files that tools read as configuration or run, since the same command may run them.
        """
        if word.known and _NOWHERE.match(word.text):
            return
        if HOLE not in word.text and (found := _find_protection(word.text)):
            raise NotHarmless(found[1], found[0])
        is_plain = word.known and _NAME.fullmatch(word.text) and ".." not in word.text.split("/")
        for folder in self.folders:
            path = self._from(folder, word.text) or "/" if is_plain else "/"
            real = self._real(path)
            if path.startswith(("/", "..", "~")) or real.startswith("/") or self._is_linked(path):
                why = f"{word} is not known to be below the workspace"
                raise NotHarmless(why, Category.PROTECTED_CONFIG_WRITE)
            for place in (path, real):
                if found := _find_protection(place):
                    raise NotHarmless(found[1], found[0])
                if runs and is_kind("path-runs", place):
                    raise NotHarmless(f"{word} may be run, or configures what is run", RUN_CODE)

    def may_go(self, word: Word) -> bool:
        """Return whether a whole folder may be deleted: it is below the workspace, and its name is listed as disposable."""
        try:
            self.check_write(word, runs=False)
        except NotHarmless:
            return False
        return word.text.rstrip("/").rpartition("/")[2] in self.disposable

    def _from(self, folder: str | None, text: str) -> str | None:
        """Return a path relative to the workspace; outside of it with a leading `..`, `~` or `/`. None if unknown."""
        if text.startswith("~"):
            return text
        if folder is None and not text.startswith("/"):
            return None
        path = re.sub("^/+", "/", os.path.normpath(os.path.join(folder or "", text)))
        if self.root and not path.startswith("~"):
            path = _from_root(os.path.normpath(os.path.join(self.root, path)), self.root)
        return "" if path == "." else path

    def _real(self, path: str) -> str:
        """Return the path with links resolved, relative to the workspace."""
        if not self.root or path.startswith("~"):
            return path
        return _from_root(os.path.realpath(os.path.join(self.root, path)), os.path.realpath(self.root))

    def _is_linked(self, path: str) -> bool:
        whole = os.path.join(self.root, path)
        return bool(self.root) and os.path.isfile(whole) and os.stat(whole).st_nlink > 1


def _find_protection(path: str) -> tuple[str, str] | None:
    path = re.sub("/+", "/", path)
    for text in (path, os.path.normpath(path)):
        if _NOWHERE.match(text):
            return None
        if is_kind("path-secret", text):
            return Category.SECRET_WRITE, f"{path} may hold secrets"
        if text.startswith("/dev/"):
            return Category.BROAD_DELETE, f"{path} is a device"
        if is_kind("path-protected", text):
            return Category.PROTECTED_CONFIG_WRITE, f"{path} is protected"
    return None


def _may_match_secret(path: str) -> bool:
    """Return whether the last part of a pattern is specific enough to be aimed at a file with secrets."""
    name = path.rpartition("/")[2]
    return bool(name.strip("*?.")) and any(fnmatchcase(one, name) for one in _SAMPLES)


def _from_root(path: str, root: str) -> str:
    """Return a path below `root` relative to it."""
    inside = root.rstrip("/") + "/"
    if len(inside) > 1 and path.startswith(inside) and ".." not in path.split("/"):
        return path.removeprefix(inside)
    return "" if root and path == root.rstrip("/") else path
