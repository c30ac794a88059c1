"""Programs that go through text and may write, or run, what their script says: sed, awk, sort, patch. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from harnesses.governance.actions.nouns import (
    DESTRUCTIVE,
    IN_PLACE,
    UNKNOWN,
    Call,
    Changes,
    Rule,
    Sayings,
    Word,
    Write,
    unclear,
)
from harnesses.governance.actions.options import options

_LONG_SCRIPT = 5_000


def _sed(call: Call) -> Sayings:
    given = options(call.args, "efl" if call.program == "sed" else "eEfF", ("expression", "file", "line-length"))
    in_place = given.has("i", "in-place") if call.program in ("sed", "gsed") else given.has("i")
    scripts = [*given.of("e", "expression")]
    files = given.operands
    if not scripts and not given.has("f", "file"):
        scripts, files = [*files[:1]], files[1:]
    if in_place:
        yield Changes(IN_PLACE, "it changes files in place")
        for path in files:
            yield Write(path)
    elif given.loose and call.args and call.args[0].may_be_option:
        yield unclear("it is not known whether it changes files in place")
    if call.program in ("sed", "gsed"):
        for script in scripts:
            yield from _sed_script(script)


def _sed_script(script: Word) -> Sayings:
    for text in re.split(r"[\n;{}]", script.text):
        if re.match(r"\s*(\d+|\$|/[^/]*/)?(,(\d+|\$|/[^/]*/))?\s*!?\s*e(\s|$)", text):
            yield unclear("its script runs a program")
        if written := re.match(r"\s*(?:\d+|\$|/[^/]*/)?(?:,(?:\d+|\$|/[^/]*/))?\s*!?\s*[wW]\s+(\S+)", text):
            yield Write(Word(written.group(1)))
    if substituted := re.match(
        r"\s*(?:\d+|\$)?s(.)(?:\\.|(?!\1).)*\1(?:\\.|(?!\1).)*\1([a-zA-Z0-9]*)(?:\s+(\S+))?", script.text
    ):
        if "e" in substituted.group(2):
            yield unclear("its script runs a program")
        if "w" in substituted.group(2).lower():
            yield Write(Word(substituted.group(3) or UNKNOWN))


def _sort(call: Call) -> Sayings:
    for path in options(call.args, "oktST", ("output", "key", "field-separator")).of("o", "output"):
        yield Write(path)


def _patch(call: Call) -> Sayings:
    given = options(call.args, "pdior", ("output", "input", "directory"))
    if given.has("dry-run"):
        return
    yield Changes(IN_PLACE, "it changes files in place")
    for path in (*given.operands[:1], *given.of("o", "output")):
        yield Write(path)
    if call.input.kind == "text":
        for name in re.findall(r"^\+\+\+ (?:b/)?(\S+)", call.input.word.text, re.MULTILINE):
            yield Write(Word(name))


def _awk(call: Call) -> Sayings:
    given = options(call.args, "vfFie", ("assign", "file", "include", "source"))
    if any(value.text == "inplace" for value in given.of("i", "include")):
        yield Changes(IN_PLACE, "it changes files in place")
        for path in given.operands[1:]:
            yield Write(path)
    if given.has("f", "file"):
        return
    for script in (*given.operands[:1], *given.of("e", "source")):
        if len(script.text) > _LONG_SCRIPT:
            yield unclear(f"its script is longer than {_LONG_SCRIPT} characters")
            continue
        without = re.sub(r"/(?:\\.|[^/\n])*/", "//", script.text)
        if re.search(r"\bsystem\s*\(|\"\s*\|\s*getline|\|&|\|\s*(\"|[a-z])", without):
            yield unclear("its script runs a program")
        for path in re.findall(r"print[^;}\n]*?>>?\s*(\"[^\"]*\"|[A-Za-z_$][\w$]*)", script.text):
            yield Changes(DESTRUCTIVE, "its script writes files")
            yield Write(Word(path.strip('"')) if path.startswith('"') else Word(UNKNOWN))


RULES: Mapping[str, Rule] = {
    "sed": _sed,
    "gsed": _sed,
    "sort": _sort,
    "patch": _patch,
    "awk": _awk,
    "gawk": _awk,
    "mawk": _awk,
    "nawk": _awk,
}
