"""What the table cannot say of a program in one line: where its operands lead, which of them it runs, and what a script does.

Each check looks at a command whose options are known, and raises `NotHarmless` if an operand is not. The law: a check knows
every operand that it lets through; what is known only when the command runs is refused, unless no value of it could do harm. A
script of sed, awk or jq passes if it is made only of what is listed here, which reads its input and writes standard output.
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
    """Return whether a script of sed only edits what it prints: no `w`, `r`, `e`, and nothing that is not listed."""
    at = 0
    while at < len(script):
        found = _SED.match(script, at)
        if found is None:
            return False
        at = found.end()
    return True


def is_plain_awk(program: str) -> bool:
    """Return whether a program of awk only prints: no command, file, environment or function that is not listed.

    A `/` is read as the beginning of a pattern, in which nothing can be called, quoted or opened: so it may divide as well.
    Behind a `print`, `>` would name a file.
    """
    return _AWK.fullmatch(program) is not None and _AWK_NEVER.search(program) is None


def is_plain_jq(text: str) -> bool:
    """Return whether a filter of jq only looks at its input: it does not show the environment, or read other files."""
    return _JQ.search(text) is None


Judge: TypeAlias = Callable[[Sequence[Word]], str]
"""Judges a command that another one runs: raises `NotHarmless`, or returns the kind of change that it makes."""
Look: TypeAlias = Callable[[Places, Word], None]
"""Raises `NotHarmless` if a file may not be read, or written."""
_SEVERAL = "\x01"
"""Stands in a shape for a word that may become several."""
_FEEDS = re.compile(
    r"(?:find(?! .*printf)|git ls-files|rg (?:--files|-l)|fd|grep -[EFHIinrsw]*l[EFHIinrsw]*|ls)(?: (?![~/…]|\S*\.\.)[^ \n]*)*"
    r"(?:\n(?:head|tail|sort|uniq|grep (?!.*(?:-[a-zA-Z]*o|--)))[^\n]*)*"
)
"""Commands that print names of files below the workspace, and those that take some of them."""
_READERS = re.compile(r"(?:grep|wc|ls|head|cat|stat|file|md5sum|sha256sum) ")
"""Programs that `find` may run for each file."""
_SED_SCRIPTS = ("-e", "--expression")
_MODE = re.compile(r"[ua]?\+x|u\+[rwx]+|[67][0-7][0145]|[67]00|[67]44|755|644")


@frozen
class ReadCommand:
    """A command whose options are known."""

    command: Simple
    words: Sequence[Word]
    """After the program and its verb."""
    row: Row
    read: Read
    places: Places
    judge: Judge


Check: TypeAlias = Callable[[ReadCommand], str | None]
"""Raises `NotHarmless`, or returns the kind of change that a command makes if the table does not say."""


def check(command: Simple, words: Sequence[Word], row: Row, places: Places, judge: Judge) -> str:
    """Check the options and operands of a command by its row, and return the kind of change that it makes."""
    is_raw = row.operands == "find" or not (row.letters or row.names)
    use = ReadCommand(command, words, row, Read(operands=list(words)) if is_raw else read_options(row, words), places, judge)
    kind, _, pattern = row.operands.partition(" ")
    if kind[:1] == "~":
        if not re.fullmatch(row.operands[1:], _shape(use.read.operands)):
            raise NotHarmless(f"`{' '.join(map(str, use.read.operands))}` is not in the table of what is harmless here")
    elif kind in ("runs", "xargs"):
        if kind == "xargs" and not _FEEDS.fullmatch("\n".join(command.feeds)):
            raise Unreadable("it is not known what `xargs` is given")
        found = re.match(pattern, _shape(words) + " ")
        if found is None or len(words) == found[0].count(" "):
            raise NotHarmless("what it runs, or an option before that, is not in the table of harmless ones")
        return judge([*words[found[0].count(" ") :], *[Word("file")] * (kind == "xargs")])
    elif change := CHECKS[kind](use):
        return change
    return row.changes.rstrip("?") if use.read.operands or not row.changes.endswith("?") else ""


def _shape(words: Sequence[Word]) -> str:
    """Return words in one line for a pattern: no blanks within a word, and a mark for one that may become several."""
    return " ".join(
        _SEVERAL if word.splits or word.glob else re.sub(r"\s", "_", word.text).replace(_SEVERAL, "") or '""' for word in words
    )


def _each(use: ReadCommand, look: Look, most: int | None = None) -> None:
    """Look at all operands, of which there may be `most`."""
    for word in use.read.operands:
        look(use.places, word)
    if most is not None and len(use.read.operands) > most:
        raise NotHarmless(f"it has more than {most} operands, which may be written to")


def _removes(use: ReadCommand) -> None:
    is_deep = use.read.values("-r", "-R", "--recursive")
    for word in use.read.operands:
        if is_deep and not use.places.may_go(word):
            raise NotHarmless(f"{word} is not named as disposable with all that is in it")
        use.places.check_write(word, runs=not is_deep)


def _script(use: ReadCommand, is_plain: Callable[[str], bool] | None = None, *, options: Sequence[str] = ()) -> None:
    """Check a script, which is the first operand unless an option gives one, and the files, which are read."""
    given = use.read.values(*options)
    scripts = given or use.read.operands[:1]
    if is_plain and not all(word and word.known and is_plain(word.text) for word in scripts):
        raise NotHarmless("its script is not known to only print what it reads")
    for word in use.read.operands[not given :]:
        use.places.check_read(word)


def _sed(use: ReadCommand) -> str:
    _script(use, is_plain_sed, options=_SED_SCRIPTS)
    in_place = use.read.values("-i", "--in-place")
    if any(in_place):
        raise NotHarmless("it keeps copies under other names")
    for word in use.read.operands[not use.read.values(*_SED_SCRIPTS) :] if in_place else ():
        use.places.check_write(word)
    return "in-place-edit" if in_place else ""


def _find(use: ReadCommand) -> str:
    """Let `find` look, and run a reader for what it finds below the workspace."""
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
            raise NotHarmless("`find` runs what is not in the table of harmless readers")
    return ""


def _go(use: ReadCommand) -> None:
    if len(use.words) == 1 and use.words[0].text not in ("-", ""):
        use.places.go(use.words[0])
    else:
        use.places.folders = {None}


def _transfer(use: ReadCommand, look: Look) -> None:
    """Look at files that go to the last operand, or into it if it is a folder, and check what is written there."""
    *sources, target = use.read.operands or [Word("")]
    if not sources:
        raise NotHarmless("it is not known what is copied or moved to where")
    for source in sources:
        look(use.places, source)
        name = source.text.rstrip("/").rpartition("/")[2]
        if name in ("", ".", ".."):
            raise NotHarmless("it is not known what is copied or moved")
        for place in (target, Word(f"{target.text.rstrip('/')}/{name}", source.splits, source.glob)):
            if place.text not in (".", "./"):
                use.places.check_write(place)


def _mode(use: ReadCommand) -> None:
    if not use.words or not use.read.operands or not _MODE.fullmatch(use.read.operands[0].text):
        raise NotHarmless("it gives rights to others, or takes them from its owner", Category.PERM_DESTROY)
    for word in use.read.operands[1:]:
        use.places.check_write(word)


def _git_paths(use: ReadCommand) -> None:
    for word in use.read.operands:
        for text in {word.text, word.text.rpartition(":")[2]} - {"", "."}:
            use.places.check_read(Word(text, word.splits, word.glob))


def _git_checkout(use: ReadCommand) -> None:
    """Let a branch be made or taken: a path would be overwritten."""
    if not re.fullmatch(r"(?:[\w/.~^@-]+(?: |$))?", _shape(use.read.operands)):
        raise NotHarmless("it may throw away what is not committed", Category.GIT_FORCE)
    if use.read.values("-b") or not use.read.operands:
        return
    name, folders = use.read.operands[0].text, use.places.folders_on_disk()
    if name in ("main", "master", "develop", "-") and not folders:
        return
    if folders is None or name[0] == "." or any(os.path.lexists(os.path.join(folder, name)) for folder in folders):
        raise NotHarmless(f"`{name}` may be a path, whose changes it throws away: expected `git switch`", Category.GIT_FORCE)


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
