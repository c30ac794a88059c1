"""Which words of a command name what judges, and which what is judged. Pure.

sh check.sh, python -m tools.check, ./check     what is run judges
sh -c "./check && grep -q ok app.cfg"           so does what a script in a word runs
ruff check --config=ruff.toml app.py            so does what an option is set to
grep -q ok app.cfg                              what is only looked at is judged
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "busybox"})
_INTERPRETERS = re.compile(r"(python|pypy)[0-9.]*|node|deno|bun|perl|ruby|php|lua|Rscript|java|tclsh|awk|gawk|sed")
_BEFORE = frozenset({"env", "exec", "time", "timeout", "nice", "nohup", "command", "!", "if", "then", "else", "do", "while"})
_ENDS = frozenset(";&|()\n")


def find_judging_words(argv: Sequence[str]) -> Iterator[str]:
    """Yield the words of a command that may name a file that judges; a module as the path that it would have."""
    words = list(argv)
    while words and (words[0] in _BEFORE or "=" in words[0] or re.fullmatch(r"[0-9.]+[smh]?", words[0])):
        words.pop(0)
    if not words:
        return
    yield words[0]
    tool = PurePosixPath(words[0]).name
    rest = words[1:]
    yield from (word.partition("=")[2] for word in rest if word.startswith("-") and "=" in word)
    if tool in _SHELLS or _INTERPRETERS.fullmatch(tool):
        yield from _interpreted(rest, shell=tool in _SHELLS)


def _interpreted(words: list[str], *, shell: bool) -> Iterator[str]:
    """Yield what an interpreter is told to run: a file, a module, or what a script in a word runs."""
    for at, word in enumerate(words):
        after = words[at + 1] if at + 1 < len(words) else ""
        if shell and re.fullmatch(r"-[a-z]*c", word):
            yield from in_script(after)
            return
        if word in ("-c", "-e", "--eval"):
            return
        if word == "-m":
            module = after.replace(".", "/")
            yield from (f"{module}.py", f"{module}/__main__.py")
            return
        if word == "-f":
            yield after
            return
        if not word.startswith("-"):
            yield word
            return


def in_script(script: str) -> Iterator[str]:
    """Yield the words that judge of each command in a script for a shell."""
    lexer = shlex.shlex(script, posix=True, punctuation_chars=";&|()\n")
    lexer.whitespace = " \t\r"
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:
        words = script.split()
    command: list[str] = []
    for word in [*words, ";"]:
        if set(word) <= _ENDS:
            yield from find_judging_words(command)
            command = []
        else:
            command.append(word)
