"""What programs do to files: delete, overwrite, move, wipe. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from harnesses.governance.actions.nouns import (
    DESTRUCTIVE,
    IN_PLACE,
    Call,
    Category,
    Changes,
    Found,
    Rule,
    Sayings,
    Word,
    Write,
    unclear,
)
from harnesses.governance.actions.options import options
from harnesses.governance.actions.paths import is_everything


def _rm(call: Call) -> Sayings:
    given = options(call.args)
    yield Changes(DESTRUCTIVE, "it deletes files")
    if given.has("r", "R", "recursive"):
        yield Found(Category.BROAD_DELETE, "it deletes folders with all that is in them")
    elif given.loose:
        yield unclear("what it deletes is not known, it may be a whole folder")
    for path in given.operands:
        if is_everything(path):
            yield Found(Category.BROAD_DELETE, f"{path} stands for everything there")
        yield Write(path, "deletes")


def _moves(call: Call) -> Sayings:
    """`mv`: takes away here what it writes there."""
    given = options(call.args, "tS", ("target-directory", "suffix"))
    yield Changes(DESTRUCTIVE, "it moves files")
    targets = tuple(given.of("t", "target-directory"))
    for path in (*given.operands, *targets):
        yield Write(path, "moves")
    sources = given.operands if targets else given.operands[:-1]
    if any(is_everything(path) for path in sources):
        yield Found(Category.BROAD_DELETE, "it moves everything away")
    folders = targets or given.operands[-1:]
    yield from _into(folders, sources)
    if any(path.text in ("/dev/null", "/dev/zero") for path in folders):
        yield Found(Category.BROAD_DELETE, "it moves files to where nothing is kept")


def _copies(call: Call) -> Sayings:
    given = options(call.args, "tSmgo", ("target-directory", "suffix", "mode", "owner", "group"))
    yield Changes(DESTRUCTIVE, "it writes files")
    targets = tuple(given.of("t", "target-directory"))
    folders = targets or given.operands[-1:]
    for path in folders:
        yield Write(path)
    yield from _into(folders, given.operands if targets else given.operands[:-1])
    if call.program == "install" and any(re.search("[2367]$", mode.text) for mode in given.of("m", "mode")):
        yield Found(Category.PERM_DESTROY, "it gives everybody the right to write")


def _into(folders: tuple[Word, ...], sources: tuple[Word, ...]) -> Sayings:
    """Say where files come to lie that keep their name in another folder."""
    for folder in folders:
        for source in sources:
            name = source.text.rstrip("/").rpartition("/")[2]
            if source.known and name not in ("", ".", "..") and not source.glob:
                yield Write(Word(f"{folder.text.rstrip('/')}/{name}", folder.splits, folder.glob))


def _writes(call: Call, *, kind: str = DESTRUCTIVE, takes: str = "") -> Sayings:
    """Programs that write to every path that they are given."""
    given = options(call.args, takes)
    yield Changes(kind, "it writes files")
    for path in given.operands:
        yield Write(path)


def _makes(call: Call) -> Sayings:
    yield Changes(DESTRUCTIVE, "it makes files")
    for path in options(call.args, "mdtr", ("mode", "date", "reference")).operands:
        yield Write(path)


def _dd(call: Call) -> Sayings:
    for word in call.args:
        if word.text.startswith("of="):
            yield Write(Word(word.text[3:], word.splits, word.glob))
            yield Changes(DESTRUCTIVE, "it writes files")
        elif word.may_be_option:
            yield unclear("it is not known where it writes")


def _wipes(call: Call) -> Sayings:
    given = options(call.args)
    if given.has("help", "version", "l") or not call.args:
        return
    yield Changes(DESTRUCTIVE, "it destroys what is there")
    yield Found(Category.BROAD_DELETE, f"{call.program} leaves nothing of what is there")


RULES: Mapping[str, Rule] = {
    "rm": _rm,
    "grm": _rm,
    "unlink": _rm,
    "srm": _wipes,
    "trash": _rm,
    "rmdir": partial(_writes, kind=DESTRUCTIVE),
    "mv": _moves,
    "cp": _copies,
    "install": _copies,
    "ln": _copies,
    "link": _copies,
    "tee": partial(_writes, kind=IN_PLACE),
    "sponge": partial(_writes, kind=IN_PLACE),
    "truncate": partial(_writes, takes="sor"),
    "fallocate": partial(_writes, takes="ol"),
    "touch": _makes,
    "mkdir": _makes,
    "mkfifo": _makes,
    "mknod": _makes,
    "dd": _dd,
    "shred": _wipes,
    "wipefs": _wipes,
    "blkdiscard": _wipes,
    "mkswap": _wipes,
    "fdisk": _wipes,
    "sfdisk": _wipes,
    "gdisk": _wipes,
    "parted": _wipes,
    "format": _wipes,
    "diskpart": _wipes,
    "mkfs": _wipes,
    "mke2fs": _wipes,
    "mkdosfs": _wipes,
    "mkntfs": _wipes,
    "newfs": _wipes,
    "cryptsetup": _wipes,
    "lvremove": _wipes,
    "vgremove": _wipes,
    "pvremove": _wipes,
    "zpool": _wipes,
    "zfs": _wipes,
    "split": partial(_writes, takes="ablnCt"),
}
