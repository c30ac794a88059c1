"""Programs that run another for all that they find or are told: find, fd, xargs. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from harnesses.governance.actions.nouns import (
    ANYTHING,
    DESTRUCTIVE,
    UNKNOWN,
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

_MANY_RUN = 50


def _find(call: Call) -> Sayings:
    texts = [word.text for word in call.args]
    if any(word.splits for word in call.args):
        yield unclear("it is not known what it does with what it finds")
    found = _found_by(call)
    if sum(text.startswith(("-exec", "-ok")) for text in texts) > _MANY_RUN:
        yield unclear(f"it runs more than {_MANY_RUN} programs")
        return
    for place, text in enumerate(texts):
        if text == "-delete":
            yield Changes(DESTRUCTIVE, "it deletes what it finds")
            yield Found(Category.BROAD_DELETE, "it deletes all that it finds")
        elif text in ("-fprint", "-fprintf", "-fls", "-fprint0") and place + 1 < len(texts):
            yield Write(call.args[place + 1])
        elif text in ("-exec", "-execdir", "-ok", "-okdir"):
            words = _up_to(call.args[place + 1 :], (";", "+"))
            inner = tuple(
                Word(word.text.replace("{}", found.text), word.splits, word.glob or found.glob) if "{}" in word.text else word
                for word in words
            )
            if inner and inner[0].text.rpartition("/")[2] in ("rm", "unlink", "shred", "rmdir", "trash"):
                yield Found(Category.BROAD_DELETE, "it deletes all that it finds")
            yield Run(inner)


def _fd(call: Call) -> Sayings:
    texts = [word.text for word in call.args]
    for mark in ("-x", "-X", "--exec", "--exec-batch"):
        if mark in texts:
            words = call.args[texts.index(mark) + 1 :]
            if words and words[0].text.rpartition("/")[2] in ("rm", "unlink", "shred", "rmdir"):
                yield Found(Category.BROAD_DELETE, "it deletes all that it finds")
            yield Run((*words, ANYTHING))


def _found_by(call: Call) -> Word:
    """Return what stands for a file that is found: its name, if that is asked for."""
    names = [call.args[place + 1] for place, word in enumerate(call.args[:-1]) if word.text in ("-name", "-iname")]
    root = call.args[0].text if call.args and not call.args[0].text.startswith("-") else "."
    if len(names) == 1 and names[0].known and not any(word.text in ("-o", "-or", "!", "-not") for word in call.args):
        return Word(f"{root.rstrip('/')}/{names[0].text}", glob=True)
    return Word(f"{root.rstrip('/')}/{UNKNOWN}")


def _up_to(words: tuple[Word, ...], ends: tuple[str, ...]) -> tuple[Word, ...]:
    for place, word in enumerate(words):
        if word.text in ends:
            return words[:place]
    return words


def _xargs(call: Call) -> Sayings:
    given = options(call.args, "aEILnPsd", ("arg-file", "max-args", "max-procs", "replace", "delimiter"), first=True)
    words = given.operands
    if not words:
        return
    if words[0].text.rpartition("/")[2] in ("rm", "unlink", "shred", "trash"):
        yield Found(Category.BROAD_DELETE, "it deletes all that it is told")
    mark = next(iter(given.of("I", "replace")), None)
    if mark is not None:
        yield Run(tuple(Word(word.text.replace(mark.text, UNKNOWN), word.splits) for word in words))
    else:
        yield Run((*words, ANYTHING))


RULES: Mapping[str, Rule] = {
    "find": _find,
    "gfind": _find,
    "fd": _fd,
    "fdfind": _fd,
    "xargs": _xargs,
    "parallel": _xargs,
}
