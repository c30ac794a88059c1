"""What the table cannot say of a program in one line: where its operands lead, and which of them it runs.

Each check looks at a command whose options are known, and raises `NotHarmless` if an operand is not. The law: a check knows
every operand that it lets through; what is known only when the command runs is refused, unless no value of it could do harm.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from attrs import frozen

from harnesses.governance.actions.bash import NAMES
from harnesses.governance.actions.nouns import UNREADABLE, Category, Simple, Word, names
from harnesses.governance.actions.options import NotHarmless, Read
from harnesses.governance.actions.paths import Places
from harnesses.governance.actions.scripts import is_plain_awk, is_plain_jq, is_plain_sed

Judge: TypeAlias = Callable[[Sequence[Word]], str]
"""Judges a command that another one runs: raises `NotHarmless`, or returns the kind of change that it makes."""


@frozen
class Use:
    """A command whose options are known."""

    command: Simple
    words: Sequence[Word]
    """After the program and its verb."""
    read: Read
    places: Places
    judge: Judge


Check: TypeAlias = Callable[[Use], str | None]
"""Raises `NotHarmless`, or returns the kind of change that a command makes if the table does not say."""


def _fail(why: str, category: str = "unknown") -> None:
    raise NotHarmless(why, category)


def _shown(use: Use, word: Word) -> None:
    if found := use.places.may_not_read(word):
        raise NotHarmless(found[1], found[0])


def _written(use: Use, word: Word) -> None:
    if found := use.places.may_not_write(word):
        raise NotHarmless(found[1], found[0])


def _none(use: Use) -> None:
    if use.read.operands:
        _fail(f"`{use.read.operands[0]}` is not in the table of harmless words of this command")


def _text(use: Use) -> None:
    """Let any operand through."""


def _number(use: Use) -> None:
    if not all(re.fullmatch(r"[0-9.]{1,9}[smhd]?", word.text) or word.text == "infinity" for word in use.words):
        _fail("it is not a number")


def _reads(use: Use) -> None:
    for word in use.read.operands:
        _shown(use, word)


def _reads_one(use: Use) -> None:
    if len(use.read.operands) > 1:
        _fail("its second operand is written to")
    _reads(use)


def _writes(use: Use) -> None:
    for word in use.read.operands:
        _written(use, word)


def _pattern(use: Use) -> None:
    given = use.read.has("-e", "-f", "--regexp", "--file", "--files", "--type-list")
    for word in use.read.operands[0 if given else 1 :]:
        _shown(use, word)


def _listing(use: Use) -> None:
    if not use.read.has("-l", "-v", "-Z"):
        _fail("it unpacks: expected the option -l")
    _text(use)


def _archive(use: Use) -> None:
    """Let tar list an archive of this machine."""
    words = [word.text for word in use.words]
    if not (2 <= len(words) <= 20 and re.fullmatch("-?t?[zjJv]*t[zjJv]*f", words[0])) or ":" in words[1]:
        _fail("of `tar` only listing is harmless: expected `tar tf FILE`")
    if any(not word.known or word.text.startswith("-") for word in use.words[1:]):
        _fail("tar has further options, or words that may become one")
    _shown(use, use.words[1])


def _version(use: Use) -> None:
    if len(use.words) != 1 or not use.read.options:
        _fail("only its version is harmless")


def _go(use: Use) -> None:
    if use.command.looped or len(use.words) != 1 or use.words[0].text in ("-", ""):
        use.places.folders = {None}
    else:
        use.places.go(use.words[0])


def _printf(use: Use) -> None:
    words = [word for word in use.words if word.text != "--"]
    if not words or not words[0].known or words[0].text.startswith("-"):
        _fail("the format of `printf` is not known, or is an option")


def _set(use: Use) -> None:
    if not use.words or not all(
        word.known and re.fullmatch("[-+][eufx]*o?|pipefail|errexit|nounset", word.text) for word in use.words
    ):
        _fail("`set` sets more than how errors are treated")


def _read_names(use: Use) -> None:
    if not all(word.known and (word.text in NAMES or re.fullmatch("[a-z][a-z0-9]?", word.text)) for word in use.read.operands):
        _fail("`read` sets a variable that programs may read")


_UNARY = names("-b -c -d -e -f -g -h -k -p -r -s -u -w -x -z -n -L -S -O -G -N")
_BINARY = names("= == != < > -nt -ot -ef =~")
_NUMBERS = names("-eq -ne -lt -le -gt -ge")


def _condition(use: Use, words: Sequence[Word] | None = None) -> None:
    """Let a test of one to three words through: longer ones are read in several ways, `-v` and sums may run commands."""
    words = list(use.words if words is None else words)
    if words and words[-1].text == "]" and use.command.words[0].text == "[":
        words.pop()
    while words and words[0].known and words[0].text == "!":
        words.pop(0)
    bracketed = use.command.words[0].text == "[["
    if any((word.splits or word.glob) and not bracketed for word in words):
        _fail("a word of the test may turn into several", UNREADABLE)
    texts = [word.text for word in words]
    match texts:
        case []:
            return
        case [one] if not one.startswith("-"):
            return
        case [operator, _] if operator in _UNARY:
            return
        case [_, operator, _] if operator in _BINARY and (bracketed or operator != "=~"):
            return
        case [left, operator, right] if operator in _NUMBERS and (not bracketed or (left + right).isdigit()):
            return
        case _:
            _fail(f"the test `{' '.join(texts)}` is not known to be harmless".replace("\0", "…"))


def _conditions(use: Use) -> None:
    words = [word for word in use.words if word.text not in ("]]", "(", ")")]
    part: list[Word] = []
    for word in [*words, Word("&&")]:
        if word.known and word.text in ("&&", "||"):
            _condition(use, part)
            part = []
        else:
            part.append(word)


def _runs(use: Use) -> str:
    """Let `time`, `nice` and `timeout` run what is harmless."""
    words = list(use.words)
    if use.command.words[0].text.rpartition("/")[2] == "timeout":
        while words and words[0].known and words[0].text in ("--foreground", "--preserve-status", "-v"):
            words.pop(0)
        if not words or not re.fullmatch(r"[0-9.]+[smhd]?", words.pop(0).text):
            _fail("the limit of `timeout` is not a number")
    elif words[:1] == [Word("-p")]:
        words.pop(0)
    if not words:
        _fail("it runs nothing that is known")
    return use.judge(words)


_NAMES_FROM = frozenset({"find", "ls", "git", "grep", "rg", "fd", "sort", "head", "tail", "uniq", "wc"})


def _xargs(use: Use) -> str:
    """Let a harmless reader take its files from a list of those below the workspace."""
    words = list(use.words)
    while words and words[0].known and words[0].text.startswith("-"):
        option = words.pop(0).text
        if re.fullmatch("-[nLP][0-9]{1,4}|-[0rt]+|--null|--no-run-if-empty", option):
            continue
        if option not in ("-n", "-L", "-P") or not words or not words.pop(0).text.isdigit():
            _fail(f"option `{option}` of `xargs` is not in the table of harmless ones")
    feeds = use.command.feeds
    if not feeds or feeds[0] not in ("find", "git", "grep", "rg", "fd", "ls") or not set(feeds) <= _NAMES_FROM:
        _fail("it is not known what `xargs` is given", UNREADABLE)
    if not words or words[0].text not in (
        "grep",
        "wc",
        "ls",
        "head",
        "cat",
        "stat",
        "du",
        "file",
        "md5sum",
        "sha256sum",
        "echo",
    ):
        _fail("`xargs` runs what is not in the table of harmless readers")
    return use.judge([*words, Word("file")])


_TESTS = names(
    "-print -print0 -not ! -o -or -a -and ( ) , -prune -empty -readable -writable -executable -nouser -depth -quit "
    "-true -ls -noleaf -mount -xdev -follow -daystart -L -H -P"
)
_TESTS_OF = names(
    "-name -iname -path -ipath -wholename -type -xtype -size -mtime -mmin -atime -ctime -cmin -amin -maxdepth "
    "-mindepth -newer -regex -iregex -regextype -perm -user -group -links -inum -lname -ilname -printf -newermt"
)  # fmt: skip


def _find(use: Use) -> str:
    """Let `find` look, and run a harmless reader for what it finds below the workspace."""
    words, starts = list(use.words), list[Word]()
    while words and words[0].text in ("-L", "-H", "-P"):
        words.pop(0)
    while words and words[0].text[:1] not in ("-", "(", "!"):
        starts.append(words.pop(0))
        if starts[-1].may_be_option:
            _fail(f"`{starts[-1]}` may turn into an option of `find`", UNREADABLE)
    while words:
        word = words.pop(0)
        if word.known and word.text in _TESTS:
            continue
        if word.known and word.text in _TESTS_OF and words and not (words[0].splits or words[0].glob):
            words.pop(0)
            continue
        if not (word.known and word.text == "-exec"):
            _fail(f"`{word}` of `find` is not in the table of harmless ones")
        ends = [at for at, one in enumerate(words) if one.text == ";" or (one.text == "+" and words[at - 1].text == "{}")]
        if not ends:
            _fail("`-exec` has no end")
        for start in starts:
            _shown(use, start)
        if use.judge(words[: ends[0]]):
            _fail("`find` changes all that it finds")
        del words[: ends[0] + 1]
    return ""


def _sed(use: Use) -> str:
    words, scripts, files, changes = list(use.words), list[Word](), list[Word](), ""
    while words:
        word = words.pop(0)
        if word.may_be_option:
            _fail(f"`{word}` may turn into an option of `sed`", UNREADABLE)
        if word.text in ("-e", "--expression") and words:
            scripts.append(words.pop(0))
        elif word.text in ("-i", "-ni", "-Ei", "-ri", "--in-place"):
            changes = "in-place-edit"
        elif not word.text.startswith("-"):
            files.append(word)
        elif not re.fullmatch("-[nErsuz]+|--quiet|--silent|--regexp-extended|--null-data", word.text):
            _fail(f"option `{word}` of `sed` is not in the table of harmless ones")
    if not scripts and files:
        scripts.append(files.pop(0))
    if not scripts or not all(word.known and is_plain_sed(word.text) for word in scripts):
        _fail("the script of `sed` is not known to only edit what it prints")
    for word in files:
        _shown(use, word)
        if changes:
            _written(use, word)
    return changes


def _awk(use: Use) -> None:
    words = list(use.words)
    while words and words[0].known and words[0].text.startswith("-"):
        option = words.pop(0).text
        value = words.pop(0).text if option in ("-F", "-v") and words else option[2:]
        if option[:2] not in ("-F", "-v") or (option[:2] == "-v" and not re.match("([a-z][a-z0-9_]*|O?FS|O?RS)=", value)):
            _fail(f"option `{option}` of `awk` is not in the table of harmless ones")
    if not words or not words[0].known or not is_plain_awk(words[0].text):
        _fail("the program of `awk` is not known to only print")
    for word in words[1:]:
        if word.may_be_option or word.text.startswith("-") or "=" in word.text:
            _fail(f"`{word}` may be an option or an assignment of `awk`")
        _shown(use, word)


def _jq(use: Use) -> None:
    if not use.read.operands:
        return
    if not use.read.operands[0].known or not is_plain_jq(use.read.operands[0].text):
        _fail("the filter of `jq` is not known to only look at its input", "secret-read")
    for word in use.read.operands[1:]:
        _shown(use, word)


def _date(use: Use) -> None:
    if not all(word.text.startswith("+") for word in use.read.operands):
        _fail("it sets the clock")


def _processes(use: Use) -> None:
    words = [word.text for word in use.words]
    if not re.fullmatch(
        r"|aux|auxf|auxww?|ax|-e?f?|-ef|-f?p [0-9,]+|-eo [a-z,%]+|-o [a-z,%=]+ -p [0-9]+", " ".join(words)
    ) or any("env" in word for word in words):
        _fail("of `ps` only the usual lists are harmless: others show the environment, and its secrets", "secret-read")


def _places_of(target: Word, source: Word) -> tuple[Word, Word]:
    """Return what may be written when a file is copied to a target: it, or if it is a folder, what is of that name in it."""
    name = source.text.rstrip("/").rpartition("/")[2]
    return target, Word(f"{target.text.rstrip('/')}/{name}", source.splits, source.glob)


def _copy(use: Use) -> None:
    if len(use.read.operands) < 2:
        _fail("it is not known what is copied to where")
    *sources, target = use.read.operands
    for source in sources:
        _shown(use, source)
        for place in _places_of(target, source):
            if place.text not in (".", "./") and not place.text.endswith(("/.", "/..")):
                _written(use, place)
    if target.text in (".", "./") and any(source.text.endswith(("/.", "..")) for source in sources):
        _fail("it is not known what is copied")


def _move(use: Use) -> None:
    if len(use.read.operands) < 2:
        _fail("it is not known what is moved to where")
    *sources, target = use.read.operands
    for source in sources:
        _written(use, source)
        for place in _places_of(target, source):
            if place.text not in (".", "./"):
                _written(use, place)


def _remove(use: Use) -> None:
    for word in use.read.operands:
        if not word.known:
            _fail(f"it deletes all that is {word}: expected names", Category.BROAD_DELETE)
        if found := use.places.may_not_write(word, runs=False):
            raise NotHarmless(found[1], found[0])


def _mode(use: Use) -> None:
    if not use.read.operands or not re.fullmatch(
        r"[ua]?\+x|u\+[rwx]+|[67][0-7][0145]|[67]00|[67]44|755|644", use.words[0].text
    ):
        _fail("it gives rights to others, or takes them from its owner", Category.PERM_DESTROY)
    for word in use.read.operands[1:]:
        if found := use.places.may_not_write(word, runs=False):
            raise NotHarmless(found[1], found[0])


# git


def _git_paths(use: Use) -> None:
    for word in use.read.operands:
        for text in {word.text, word.text.rpartition(":")[2]}:
            _shown(use, Word(text, word.splits, word.glob)) if text and text != "." else None


def _git_names(use: Use) -> None:
    for word in use.read.operands:
        if not re.fullmatch(r"[\w./@{}^~:*-][\w./@{}^~:*+-]*", word.text):
            _fail(f"`{word}` is not the name of a commit or a branch")


def _git_branch(use: Use) -> str:
    _git_names(use)
    listed = use.read.has(
        "-l", "--list", "--contains", "--merged", "--no-merged", "--show-current", "-a", "-r", "--no-contains"
    )
    if use.read.has("-d") and use.command.words[1].text == "tag":
        _fail("it drops a tag", Category.GIT_FORCE)
    return "git-mutation" if use.read.operands and not listed else ""


def _git_clean(use: Use) -> None:
    if not use.read.has("-n", "--dry-run"):
        _fail("it deletes what git does not know", Category.BROAD_DELETE)
    _git_paths(use)


def _git_checkout(use: Use) -> None:
    """Let a branch be made or taken: a path would be overwritten."""
    _git_names(use)
    if use.read.has("-b") or not use.read.operands:
        return
    word, *more = use.read.operands
    if more or not word.known:
        _fail("it may throw away what is not committed", Category.GIT_FORCE)
    folders = use.places.folders_on_disk()
    if word.text in ("main", "master", "develop", "-") and not folders:
        return
    if folders is None or any(os.path.lexists(os.path.join(folder, word.text)) for folder in folders) or "." in word.text[:1]:
        _fail(f"`{word}` may be a path, whose changes it throws away: expected `git switch`", Category.GIT_FORCE)


def _git_reflog(use: Use) -> None:
    if use.read.operands and use.read.operands[0].text in ("expire", "delete", "drop", "write"):
        _fail("it drops what can be restored", Category.GIT_FORCE)
    _git_names(use)


def _git_config(use: Use) -> None:
    """Let one setting be shown that holds no secret and starts nothing."""
    allowed = r"get|(user|core|init|pull|push|commit|branch|merge|rebase)\.[\w./-]+|remote\.[\w-]+\.fetch"
    words = [word.text for word in use.read.operands]
    if words[:1] == ["get"]:
        words = words[1:]
    if len(words) != 1 or not re.fullmatch(allowed, words[0]) or use.read.has("-l", "--list"):
        _fail("of `git config` only the look at one setting is harmless", Category.PROTECTED_CONFIG_WRITE)


CHECKS: Mapping[str, Check] = {
    "none": _none,
    "any": _text,
    "text": _text,
    "git_clean": _git_clean,
    "number": _number,
    "read": _reads,
    "read_one": _reads_one,
    "write": _writes,
    "pattern": _pattern,
    "listing": _listing,
    "archive": _archive,
    "version": _version,
    "cd": _go,
    "printf": _printf,
    "set": _set,
    "read_names": _read_names,
    "condition": _condition,
    "conditions": _conditions,
    "runs": _runs,
    "xargs": _xargs,
    "find": _find,
    "sed": _sed,
    "awk": _awk,
    "jq": _jq,
    "date": _date,
    "processes": _processes,
    "copy": _copy,
    "move": _move,
    "remove": _remove,
    "mode": _mode,
    "git_paths": _git_paths,
    "git_names": _git_names,
    "git_branch": _git_branch,
    "git_checkout": _git_checkout,
    "git_reflog": _git_reflog,
    "git_config": _git_config,
}
RAW = names("any printf set condition conditions runs xargs find sed awk archive processes number cd")
"""Checks that read the words themselves: their programs have options of other forms."""
