"""Packing and unpacking. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from harnesses.governance.actions.nouns import (
    DESTRUCTIVE,
    Call,
    Category,
    Changes,
    Found,
    Rule,
    Run,
    Sayings,
    Word,
    Write,
    unclear,
)
from harnesses.governance.actions.options import options


def _archives(call: Call) -> Sayings:
    given = options(call.args, "fCTXI", ("file", "directory", "to-command", "checkpoint-action", "use-compress-program"))
    first = call.args[0].text.lstrip("-") if call.args else ""
    for name, value in given.values:
        if name in ("I", "to-command", "use-compress-program") or (name == "checkpoint-action" and "exec" in value.text):
            yield Run(tuple(Word(text) for text in value.text.partition("exec=")[2 if "exec=" in value.text else 0].split()))
    if "x" in first or given.has("extract", "get"):
        yield Changes(DESTRUCTIVE, "it writes files")
        for path in given.of("C", "directory"):
            yield Write(path)
    if given.has("remove-files"):
        yield Found(Category.BROAD_DELETE, "it deletes what it has packed")
    if "c" in first or "r" in first or given.has("create"):
        for path in (*given.of("f", "file"), *(call.args[1:2] if call.args and not call.args[0].text.startswith("-") else ())):
            yield Write(path)


def _zip(call: Call) -> Sayings:
    given = options(call.args)
    if any(word.text.startswith(("-TT", "--unzip-command")) for word in call.args):
        yield unclear("it runs a program to test what it has packed")
    if given.has("m", "move"):
        yield Found(Category.BROAD_DELETE, "it deletes what it has packed")
    yield Changes(DESTRUCTIVE, "it writes files")
    for path in given.operands[:1]:
        yield Write(path)


def _unzip(call: Call) -> Sayings:
    given = options(call.args, "dxP")
    if given.has("l", "t", "v", "Z"):
        return
    yield Changes(DESTRUCTIVE, "it writes files")
    for path in given.of("d"):
        yield Write(path)


RULES: Mapping[str, Rule] = {
    "tar": _archives,
    "gtar": _archives,
    "bsdtar": _archives,
    "unzip": _unzip,
    "zip": _zip,
    "7z": _unzip,
}
