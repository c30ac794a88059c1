"""Editors and pagers, which can run programs too. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from harnesses.governance.actions.nouns import Call, Changes, Rule, Sayings, Shell, Write, unclear
from harnesses.governance.actions.options import options


def _editor(call: Call) -> Sayings:
    given = options(call.args, "cSsTuU", ("cmd", "eval", "load", "script"))
    yield Changes("in-place-edit", "it changes files")
    if given.values or any(word.text.startswith("+") for word in call.args):
        yield unclear("the editor is told to do what is not judged here")
    for path in given.operands:
        if not path.text.startswith("+"):
            yield Write(path)


def _pager(call: Call) -> Sayings:
    given = options(call.args, "P" if call.program == "man" else "", ("pager",))
    for text in given.of("P", "pager"):
        yield Shell(text)
    if any(word.text.startswith("+") and "!" in word.text for word in call.args):
        yield unclear("it is told to run a program")


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("vi", "vim", "nvim", "ex", "ed", "nano", "emacs", "pico", "view"), _editor),
    "man": _pager,
    "less": _pager,
    "more": _pager,
}
