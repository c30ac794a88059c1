"""Checks of operands that one line of the table cannot express: target paths, commands run by others, scripts.

A check gets a command whose options are known, and raises `NotHarmless` for an operand that is not harmless. Invariant: a
check accepts only operands it knows; a value known only at run time is refused, unless no value could be harmful. A sed, awk
or jq script passes if it consists only of constructs listed here, which read its input and write standard output.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from attrs import frozen

from harnesses.guard.allowed_paths import Places
from harnesses.guard.command_model import Category, NotHarmless, Simple, Unreadable, Word
from harnesses.guard.harmless_table import Read, Row, read_options

_ADDRESS = r"(?:\d+(?:[~+,]\d+)?|\$|/(?:[^/\\\n]|\\[^\n])+/I?)"
_SED = re.compile(
    rf"""(?x)\s*+ (?:{_ADDRESS}(?:\s*+,\s*+[+~]?{_ADDRESS})?)? \s*+ !? \s*+
    (?: [pdqQDNPnhHgGxl=]
      | s(?P<mark>[/|,\#@:!%+~])(?:(?!(?P=mark))[^\\\n]|\\[^\n])*(?P=mark)(?:(?!(?P=mark))[^\\\n]|\\[^\n])*(?P=mark)[gpiI0-9]*
    ) [ \t]*+ (?:[;\n]|\Z) """
)
_AWK = re.compile(
    r"""(?x) (?: "(?:[^"\\\n]|\\.)*+" | /(?:[^/"\\\n(){}\[\]<>|@;=]|\[[\w.,:^ -]+\]|\\[^"\n])*+/
    | (?!getline\b)[a-z]\w*+(?!\s*\() | \d++(?!\w)
    | (?:BEGIN|END|NR|NF|O?FS|O?RS|FNR|FILENAME|RSTART|RLENGTH)\b | [\s$,;{}()\[\]=+*%!~?:.<>^-] | && | \|\|
    | (?:length|substr|index|split|g?sub|gensub|match|sprintf|tolower|toupper|int|sqrt|exp|log|if|while|for|print|printf|in)\b
    )*+ """
)
_AWK_NEVER = re.compile("ENVIRON|PROCINFO|SYMTAB|FUNCTAB|ARG[CV]|print.*>|>.*print", re.DOTALL)
_JQ = re.compile(r"(?i)\b(env|include|import|get_search_list|input_filename)\b|\$__|\$ENV")


def is_plain_sed(script: str) -> bool:
    """Return whether a sed script only edits its output: no `w`, `r`, `e`, and nothing that is not listed."""
    at = 0
    while at < len(script):
        found = _SED.match(script, at)
        if found is None:
            return False
        at = found.end()
    return True


def is_plain_awk(program: str) -> bool:
    """Return whether an awk program only prints: no command, file, environment or function that is not listed.

    A `/` is read as the start of a pattern, in which nothing can be called, quoted or opened, so it may also be a division.
    After `print`, a `>` would name a file.
    """
    return _AWK.fullmatch(program) is not None and _AWK_NEVER.search(program) is None


def is_plain_jq(text: str) -> bool:
    """Return whether a jq filter only reads its input: it does not show the environment, or read other files."""
    return _JQ.search(text) is None


Judge: TypeAlias = Callable[[Sequence[Word]], str]
"""Judges a command run by another one: raises `NotHarmless`, or returns the kind of change it makes."""
Look: TypeAlias = Callable[[Places, Word], None]
"""Raises `NotHarmless` if a file must not be read, or written."""
_SEVERAL = "\x01"
"""Placeholder in a shape for a word that may become several."""
_FEEDS = re.compile(
    r"(?:find(?! .*printf)|git ls-files|rg (?:--files|-l)|fd|grep -[EFHIinrsw]*l[EFHIinrsw]*|ls)(?: (?![~/…]|\S*\.\.)[^ \n]*)*"
    r"(?:\n(?:head|tail|sort|uniq|grep (?!.*(?:-[a-zA-Z]*o|--)))[^\n]*)*"
)
"""Commands that print names of files below the workspace, and filters that select some of them."""
_READERS = re.compile(r"(?:grep|wc|ls|head|cat|stat|file|md5sum|sha256sum) ")
"""Programs that `find` may run for each file."""
_SED_SCRIPTS = ("-e", "--expression")
_MODE = re.compile(r"[ua]?\+x|u\+[rwx]+|[67][0-7][0145]|[67]00|[67]44|755|644")


@frozen
class ReadCommand:
    """A command with parsed options."""

    command: Simple
    words: Sequence[Word]
    """The words after the program and its verb."""
    row: Row
    read: Read
    places: Places
    judge: Judge


Check: TypeAlias = Callable[[ReadCommand], str | None]
"""Raises `NotHarmless`, or returns the kind of change a command makes if the table does not give it."""


def check(command: Simple, words: Sequence[Word], row: Row, places: Places, judge: Judge) -> str:
    """Check the options and operands of a command against its row; return the kind of change it makes."""
    is_raw = row.operands == "find" or not (row.letters or row.names)
    use = ReadCommand(command, words, row, Read(operands=list(words)) if is_raw else read_options(row, words), places, judge)
    kind, _, pattern = row.operands.partition(" ")
    if kind[:1] == "~":
        if not re.fullmatch(row.operands[1:], _shape(use.read.operands)):
            raise NotHarmless(f"`{' '.join(map(str, use.read.operands))}` is not in the table of harmless operands")
    elif kind in ("runs", "xargs"):
        if kind == "xargs" and not _FEEDS.fullmatch("\n".join(command.feeds)):
            raise Unreadable("the input of `xargs` is unknown")
        found = re.match(pattern, _shape(words) + " ")
        if found is None or len(words) == found[0].count(" "):
            raise NotHarmless("the command it runs, or an option before it, is not in the table of harmless commands")
        return judge([*words[found[0].count(" ") :], *[Word("file")] * (kind == "xargs")])
    elif change := CHECKS[kind](use):
        return change
    return row.changes.rstrip("?") if use.read.operands or not row.changes.endswith("?") else ""


def _shape(words: Sequence[Word]) -> str:
    """Join words to one line for pattern matching: no blanks inside a word, and a mark for one that may become several."""
    return " ".join(
        _SEVERAL if word.splits or word.glob else re.sub(r"\s", "_", word.text).replace(_SEVERAL, "") or '""' for word in words
    )


def _each(use: ReadCommand, look: Look, most: int | None = None) -> None:
    """Apply a path check to all operands, of which there may be at most `most`."""
    for word in use.read.operands:
        look(use.places, word)
    if most is not None and len(use.read.operands) > most:
        raise NotHarmless(f"there are more than {most} operands, which may be written to")


def _removes(use: ReadCommand) -> None:
    is_deep = use.read.values("-r", "-R", "--recursive")
    for word in use.read.operands:
        if is_deep and not use.places.may_go(word):
            raise NotHarmless(f"{word} is not listed as a disposable folder")
        use.places.check_write(word, runs=not is_deep)


def _script(use: ReadCommand, is_plain: Callable[[str], bool] | None = None, *, options: Sequence[str] = ()) -> None:
    """Check a script (the first operand, unless an option gives it) and the files it reads."""
    given = use.read.values(*options)
    scripts = given or use.read.operands[:1]
    if is_plain and not all(word and word.known and is_plain(word.text) for word in scripts):
        raise NotHarmless("the script is not known to only print what it reads")
    for word in use.read.operands[not given :]:
        use.places.check_read(word)


def _sed(use: ReadCommand) -> str:
    _script(use, is_plain_sed, options=_SED_SCRIPTS)
    in_place = use.read.values("-i", "--in-place")
    if any(in_place):
        raise NotHarmless("the command keeps copies under other names")
    for word in use.read.operands[not use.read.values(*_SED_SCRIPTS) :] if in_place else ():
        use.places.check_write(word)
    return "in-place-edit" if in_place else ""


def _find(use: ReadCommand) -> str:
    """Allow `find` to search, and to run a reader for the files it finds below the workspace."""
    words, runs = list(use.words), list[list[Word]]()
    while Word("-exec") in words:
        start = words.index(Word("-exec"))
        end = next((at for at in range(start, len(words)) if words[at].text in (";", "+")), None)
        if end is None:
            raise NotHarmless("`-exec` has no end")
        runs.append(words[start + 1 : end])
        del words[start : end + 1]
    read = read_options(use.row, words)
    for run in runs:
        for word in read.operands:
            use.places.check_read(word)
        if not _READERS.match(_shape(run)) or use.judge(run):
            raise NotHarmless("`find` runs a program that is not in the table of harmless readers")
    return ""


def _go(use: ReadCommand) -> None:
    if len(use.words) == 1 and use.words[0].text not in ("-", ""):
        use.places.go(use.words[0])
    else:
        use.places.folders = {None}


def _transfer(use: ReadCommand, look: Look) -> None:
    """Check the sources of a copy or move and the files written at its target, which is the last operand."""
    *sources, target = use.read.operands or [Word("")]
    if not sources:
        raise NotHarmless("the source or the target of a copy or move is unknown")
    for source in sources:
        look(use.places, source)
        name = source.text.rstrip("/").rpartition("/")[2]
        if name in ("", ".", ".."):
            raise NotHarmless("the source of a copy or move is unknown")
        for place in (target, Word(f"{target.text.rstrip('/')}/{name}", source.splits, source.glob)):
            if place.text not in (".", "./"):
                use.places.check_write(place)


def _mode(use: ReadCommand) -> None:
    if not use.words or not use.read.operands or not _MODE.fullmatch(use.read.operands[0].text):
        raise NotHarmless("the command gives permissions to others, or removes those of the owner", Category.PERM_DESTROY)
    for word in use.read.operands[1:]:
        use.places.check_write(word)


def _git_paths(use: ReadCommand) -> None:
    for word in use.read.operands:
        for text in {word.text, word.text.rpartition(":")[2]} - {"", "."}:
            use.places.check_read(Word(text, word.splits, word.glob))


def _git_checkout(use: ReadCommand) -> None:
    """Allow checking out or creating a branch, but not a path, whose changes would be overwritten."""
    if not re.fullmatch(r"(?:[\w/.~^@-]+(?: |$))?", _shape(use.read.operands)):
        raise NotHarmless("the command may discard uncommitted changes", Category.GIT_FORCE)
    if use.read.values("-b") or not use.read.operands:
        return
    name, folders = use.read.operands[0].text, use.places.folders_on_disk()
    if name in ("main", "master", "develop", "-") and not folders:
        return
    if folders is None or name[0] == "." or any(os.path.lexists(os.path.join(folder, name)) for folder in folders):
        raise NotHarmless(
            f"`{name}` may be a path, whose changes would be discarded: expected `git switch`", Category.GIT_FORCE
        )


CHECKS: Mapping[str, Check] = {
    "any": lambda use: None,
    "read": partial(_each, look=Places.check_read),
    "read_one": partial(_each, look=Places.check_read, most=1),
    "write": partial(_each, look=Places.check_write),
    "remove": _removes,
    "pattern": partial(_script, options=("-e", "--regexp", "--files", "--type-list")),
    "awk": partial(_script, is_plain=is_plain_awk),
    "jq": partial(_script, is_plain=is_plain_jq),
    "sed": _sed,
    "find": _find,
    "cd": _go,
    "copy": partial(_transfer, look=Places.check_read),
    "move": partial(_transfer, look=Places.check_write),
    "mode": _mode,
    "git_paths": _git_paths,
    "git_checkout": _git_checkout,
}
