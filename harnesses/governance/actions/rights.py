"""Programs that change who may do what, and the keys that let them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from harnesses.governance.actions.nouns import DESTRUCTIVE, Call, Category, Changes, Found, Rule, Sayings, Write, unclear
from harnesses.governance.actions.options import options


def _chmod(call: Call) -> Sayings:
    yield Changes(DESTRUCTIVE, "it changes permissions")
    modes = [word for word in call.args if re.fullmatch(r"[-+=ugoarwxXst,0-7]+", word.text) and not word.text.startswith("--")]
    # `chmod -w file` takes a right away: what looks like options may be a mode.
    given = options(call.args)
    if given.has("R", "recursive"):
        yield Found(Category.PERM_DESTROY, "it changes the permissions of whole folders")
    elif given.loose:
        yield unclear("it is not known what permissions it gives, and to what")
    for mode in modes:
        if _opens(mode.text):
            yield Found(
                Category.PERM_DESTROY, f"{mode} opens the file to everybody, closes it to all, or has it run as its owner"
            )
    for path in given.operands[1:]:
        yield Write(path, "changes the permissions of")


def _opens(mode: str) -> bool:
    if mode.isdigit():
        return mode[-1] in "2367" or mode.strip("0") == "" or (len(mode) >= 4 and mode[-4] in "24673" and mode[-4] != "0")
    return any(
        ("s" in part and "-s" not in part and "=" not in part)
        or bool(re.match(r"[ug]*[oa][ugoa]*[+=][rxX]*w|[+=][rxX]*w.*$", part) and re.match(r".*[oa]", part))
        for part in mode.split(",")
    )


def _owners(call: Call) -> Sayings:
    yield Changes(DESTRUCTIVE, "it changes who owns files")
    given = options(call.args, "", ("from", "reference"))
    if given.has("R", "recursive"):
        yield Found(Category.PERM_DESTROY, "it changes who owns whole folders")
    elif given.loose:
        yield unclear("it is not known what it changes")
    for path in given.operands[1:]:
        yield Write(path, "changes who owns")


def _rights(call: Call, *, reads: tuple[str, ...] = ()) -> Sayings:
    """Programs that change who may do what on the machine."""
    if any(word.text in ("--help", "--version", *reads) for word in call.args):
        return
    yield Found(Category.PERM_DESTROY, f"{call.program} changes who may do what")


def _openssl(call: Call) -> Sayings:
    texts = [word.text for word in call.args]
    for place, text in enumerate(texts[:-1]):
        if text in ("-out", "-keyout"):
            yield Write(call.args[place + 1])


def _ssh_keygen(call: Call) -> Sayings:
    given = options(call.args, "tbCfNPOsImnVzDEGRYFHl")
    if not given.has("l", "F", "y", "E") or given.has("p"):
        yield Found(Category.SECRET_WRITE, "it makes or changes keys")


RULES: Mapping[str, Rule] = {
    "chmod": _chmod,
    "chown": _owners,
    "chgrp": _owners,
    "setfacl": partial(_rights, reads=()),
    "chattr": _rights,
    "chflags": _rights,
    "setcap": _rights,
    "icacls": _rights,
    "cacls": _rights,
    "takeown": _rights,
    "visudo": partial(_rights, reads=("-c",)),
    "usermod": _rights,
    "useradd": _rights,
    "userdel": _rights,
    "adduser": _rights,
    "deluser": _rights,
    "groupmod": _rights,
    "groupdel": _rights,
    "passwd": partial(_rights, reads=("-S",)),
    "chpasswd": _rights,
    "openssl": _openssl,
    "ssh-keygen": _ssh_keygen,
}
