"""Which paths a harmless command may read and write: below the workspace, without secrets and what configures or runs things.

A path is judged from every folder that the command may have gone to, by its text and, where the workspace is known, by where
its links lead. Reading is refused where secrets are kept and outside the workspace, but for what is known to hold none: what
is read reaches the agent, and whoever it talks to.
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
"""Names that may be written: others may become something else where they are read, such as by xargs."""
_SAMPLES = (
    *(".env", ".env.local", ".npmrc", ".pypirc", ".netrc", ".pgpass", ".git-credentials"),
    *("id_rsa", "id_ed25519", "server.key", "cert.pem"),
)
"""Names that a pattern may not match."""
MAX_FOLDERS = 16
"""Folders that a command may have gone to; with more, it may be anywhere."""


def protected_path(path: str, *, root: str = "") -> Finding | None:
    """Return why a tool may not write to a path without an approval; None if it may."""
    found = _find_protection(_from_root(path.strip(), root))
    return None if found is None else Finding(found[0], found[1], path[:200])


@define
class Places:
    """Where a command may be, and what it may read and write there."""

    root: str = ""
    """The workspace; without it, paths from the top are outside, and no link is looked at."""
    disposable: Collection[str] = ()
    folders: set[str | None] = field(factory=lambda: {""})
    """Where it may have gone to, from the workspace; None is anywhere."""

    def go(self, word: Word) -> None:
        """Note that it may have gone to a folder."""
        self.folders |= {self._from(folder, word.text) if word.known else None for folder in self.folders}
        if len(self.folders) > MAX_FOLDERS:
            self.folders = {None}

    def folders_on_disk(self) -> list[str] | None:
        """Return where it may be as paths from the top; None if that is not known, or the workspace is not."""
        if not self.root or None in self.folders:
            return None
        return [os.path.normpath(os.path.join(self.root, folder)) for folder in self.folders if folder is not None]

    def check_read(self, word: Word) -> None:
        """Raise `NotHarmless` if the content of a file may not be shown."""
        if _SHOWS_NOTHING.match(word.text):
            return
        if HOLE in word.text or word.splits:
            raise Unreadable(f"it is not known which file {word} is")
        for folder in self.folders:
            path = self._from(folder, word.text)
            for place in (path, path if path is None or word.glob else self._real(path)):
                if place is None or (place.startswith(("~", "..", "/")) and not is_kind("path-shown", place)):
                    raise NotHarmless(f"{word} is outside the workspace, where secrets may be", SECRET_READ)
                if is_kind("path-secret", place) or (word.glob and _may_match_secret(place)):
                    raise NotHarmless(f"{word} is where secrets are kept", SECRET_READ)

    def check_write(self, word: Word, *, runs: bool = True) -> None:
        """Raise `NotHarmless` if a path may not be written to.

        Args:
            runs: whether to refuse what configures or is run by tools: it may be run by the same command.
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
                why = f"it is not known to be below the workspace where {word} is"
                raise NotHarmless(why, Category.PROTECTED_CONFIG_WRITE)
            for place in (path, real):
                if found := _find_protection(place):
                    raise NotHarmless(found[1], found[0])
                if runs and is_kind("path-runs", place):
                    raise NotHarmless(f"{word} may be run, or says what is", RUN_CODE)

    def may_go(self, word: Word) -> bool:
        """Return whether a whole folder may be deleted: it is below the workspace, and its name is given as disposable."""
        try:
            self.check_write(word, runs=False)
        except NotHarmless:
            return False
        return word.text.rstrip("/").rpartition("/")[2] in self.disposable

    def _from(self, folder: str | None, text: str) -> str | None:
        """Return a path from the workspace: `..`, `~` or `/` leads it if it is outside; None if it is not known."""
        if text.startswith("~"):
            return text
        if folder is None and not text.startswith("/"):
            return None
        path = re.sub("^/+", "/", os.path.normpath(os.path.join(folder or "", text)))
        if self.root and not path.startswith("~"):
            path = _from_root(os.path.normpath(os.path.join(self.root, path)), self.root)
        return "" if path == "." else path

    def _real(self, path: str) -> str:
        """Return where a path leads on disk, from the workspace."""
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
            return Category.SECRET_WRITE, f"{path} is where secrets are kept"
        if text.startswith("/dev/"):
            return Category.BROAD_DELETE, f"{path} is a device"
        if is_kind("path-protected", text):
            return Category.PROTECTED_CONFIG_WRITE, f"{path} is protected"
    return None


def _may_match_secret(path: str) -> bool:
    """Return whether the last part of a pattern says enough to be meant for a file with secrets."""
    name = path.rpartition("/")[2]
    return bool(name.strip("*?.")) and any(fnmatchcase(one, name) for one in _SAMPLES)


def _from_root(path: str, root: str) -> str:
    """Return a path below `root` as it is seen from there."""
    inside = root.rstrip("/") + "/"
    if len(inside) > 1 and path.startswith(inside) and ".." not in path.split("/"):
        return path.removeprefix(inside)
    return "" if root and path == root.rstrip("/") else path
