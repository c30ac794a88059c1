"""Bringing files from another machine, and taking them there: rsync, curl, wget. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from harnesses.governance.actions.nouns import DESTRUCTIVE, Call, Category, Changes, Found, Rule, Run, Sayings, Word, Write
from harnesses.governance.actions.options import options
from harnesses.governance.actions.paths import protected


def _rsync(call: Call) -> Sayings:
    given = options(call.args, "efBT", ("rsh", "exclude", "include", "filter", "exclude-from", "files-from", "backup-dir"))
    if given.has("n", "dry-run"):
        return
    yield Changes(DESTRUCTIVE, "it writes files")
    if any(name.startswith(("delete", "del", "remove-source")) for name in given.long):
        yield Found(Category.BROAD_DELETE, "it deletes what is not, or no more, at its source")
    for shell in given.of("e", "rsh"):
        yield Run(tuple(Word(text) for text in shell.text.split()))
    target = given.operands[-1:] if len(given.operands) > 1 else ()
    for path in target:
        if re.match(r"[^/]*:", path.text) or path.text.startswith("rsync:"):
            yield Found(Category.REMOTE_EXEC, "it writes to another machine")
        else:
            yield Write(path)


def _curl(call: Call) -> Sayings:
    given = options(
        call.args,
        "odFTHXuAbcewmKxErDPQtUyYzC",
        (
            "output",
            "output-dir",
            "data",
            "request",
            "header",
            "form",
            "upload-file",
            "data-raw",
            "data-binary",
            "json",
            "user",
            "user-agent",
            "config",
            "cookie-jar",
        ),
    )
    for path in given.of("o", "output", "output-dir", "D", "dump-header", "c", "cookie-jar"):
        if path.text != "-":
            yield Changes(DESTRUCTIVE, "it writes a file")
            yield Write(path)
    for name in given.operands if given.has("O", "remote-name") else ():
        yield Changes(DESTRUCTIVE, "it writes a file")
        yield Write(Word(name.text.rpartition("/")[2], name.splits))
    for data in given.of("d", "F", "data", "data-binary", "form", "T", "upload-file"):
        sent = Word(data.text.rpartition("@")[2], data.splits)
        found = protected(sent) if "@" in data.text or given.has("T", "upload-file") else None
        if found is not None and found[0] == Category.SECRET_WRITE:
            yield Found(Category.PUBLISH, f"it sends {sent}, where secrets are kept, to another machine")
    methods = {method.text.upper() for method in given.of("X", "request")}
    if given.has("T", "upload-file") or methods & {"PUT", "DELETE", "PATCH"}:
        yield Found(Category.PUBLISH, "it changes something on another machine")


def _wget(call: Call) -> Sayings:
    given = options(call.args, "OPoaeUiT", ("output-document", "directory-prefix", "output-file", "header"))
    yield Changes(DESTRUCTIVE, "it writes files")
    for path in given.of("O", "output-document", "P", "directory-prefix", "o"):
        if path.text != "-":
            yield Write(path)


RULES: Mapping[str, Rule] = {
    "rsync": _rsync,
    "curl": _curl,
    "wget": _wget,
}
