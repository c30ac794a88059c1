"""Interpreters of other languages: code on the command line, a script, or what they read. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from harnesses.governance.actions.databases import SCRIPTS
from harnesses.governance.actions.nouns import (
    ANYTHING,
    Call,
    Category,
    Changes,
    Code,
    File,
    Found,
    Rule,
    Run,
    Sayings,
    Word,
    Write,
)
from harnesses.governance.actions.options import options
from harnesses.governance.actions.other_code import LANGUAGES
from harnesses.governance.actions.running import REMOTE_WHY, SHELLS, downloads, from_input, script, shell


def _python(call: Call) -> Sayings:
    given = options(call.args, "cmWXQ", ("check-hash-based-pycs",), first=True)
    if given.has("V", "version", "help", "h"):
        return
    # What follows -c or -m is for the program, not for Python.
    texts = [word.text for word in call.args]
    for place, text in enumerate(texts):
        found = re.match(r"-[A-Za-z]*?([cm])(.*)$", text, re.DOTALL) if not text.startswith("--") else None
        if found is None:
            if not text.startswith("-") or text == "-":
                break
            continue
        inside = Word(found.group(2)) if found.group(2) else call.args[place + 1] if place + 1 < len(texts) else ANYTHING
        rest = call.args[place + (1 if found.group(2) else 2) :]
        if found.group(1) == "m":
            yield Run((inside, *rest))
            yield File(Word(f"{inside.text.replace('.', '/')}.py"), "python")
        else:
            if downloads(inside.inner):
                yield Found(Category.REMOTE_EXEC, REMOTE_WHY)
            yield Code("python", inside)
        return
    if not given.operands or given.operands[0].text == "-":
        yield from from_input(call, "python")
        return
    yield from _script_with_words(given.operands, call, "python")


def _script_with_words(words: tuple[Word, ...], call: Call, language: str) -> Sayings:
    yield from script(words[0], language)
    rule = SCRIPTS.get(words[0].text.rpartition("/")[2])
    if rule is not None:
        yield from rule(Call(words[0].text, words[1:], call.input))


def _interpreter(call: Call, *, language: str, evaluates: str = "e", long: tuple[str, ...] = ("eval", "print")) -> Sayings:
    takes = {"tcl": "cf", "perl": "eEIMmCdDxF", "ruby": "eIrCEFKT", "php": "rdfcBRFE", "lua": "el"}.get(language, "epr")
    words = call.args[1:] if call.args[:1] and call.args[0].text in ("eval", "run", "repl") else call.args
    if language == "javascript":
        # Here -p takes no value of its own when -e follows in the same word.
        words = tuple(Word("-e") if re.fullmatch(r"-[a-z]*pe|-ep", word.text) else word for word in words)
    given = options(words, takes, (*long, "require", "import", "loader"), first=True)
    if given.has("version", "v", "help", "h", "V") and not given.operands and not given.values:
        return
    if call.args[:1] and call.args[0].text == "eval":
        yield from (Code(language, word) for word in given.operands[:1])
        return
    texts = [*given.of(*evaluates, *long)]
    for text in texts:
        if downloads(text.inner):
            yield Found(Category.REMOTE_EXEC, REMOTE_WHY)
        yield Code(language, text)
    if language in ("perl", "ruby") and any(
        re.match(r"-[a-zA-Z0-9]*i", word.text) and not word.text.startswith(("-I", "-M", "--")) for word in call.args
    ):
        yield Changes("in-place-edit", "it changes files in place")
        for path in given.operands:
            yield Write(path)
    elif texts:
        return
    elif given.operands and given.operands[0].text != "-":
        yield from _script_with_words(given.operands, call, language)
    elif not call.args or given.operands or call.input.kind != "none":
        yield from from_input(call, language)


_EVALUATES = {"perl": "eE", "php": "rBRE", "javascript": "ep", "tcl": "c"}
RULES: Mapping[str, Rule] = {
    **{
        name: _python
        if language == "python"
        else partial(_interpreter, language=language, evaluates=_EVALUATES.get(language, "e"))
        for name, language in LANGUAGES.items()
    },
    **dict.fromkeys(SHELLS, shell),
}
