"""Reading what is run: a shell's words, a script's file, standard input. Pure."""

from __future__ import annotations

import re

from harnesses.governance.actions.nouns import (
    Call,
    Category,
    Code,
    Command,
    File,
    Found,
    Sayings,
    Shell,
    Unreadable,
    Word,
    unclear,
)
from harnesses.governance.actions.options import names, options
from harnesses.governance.actions.tasks import task

SHELLS = names("sh bash zsh dash ash ksh mksh fish csh tcsh rbash")
_DOWNLOADERS = names(
    "curl wget http https fetch aria2c axel lynx links w3m xh nc ncat netcat socat scp ssh gsutil iwr invoke- webrequest"
)
_MAX_FEEDERS = 1_000
"""Commands whose output comes together in one."""
REMOTE_WHY = "it runs what another machine sends"


def downloads(commands: tuple[Command, ...]) -> bool:
    """Return whether one of the commands, or what feeds it, gets something from another machine.

    Raises:
        Unreadable: there are too many of them.
    """
    seen: set[Command] = set()
    waiting = list(commands)
    while waiting:
        command = waiting.pop()
        if command in seen:
            continue
        seen.add(command)
        if len(seen) > _MAX_FEEDERS:
            raise Unreadable(f"more than {_MAX_FEEDERS} commands feed one")
        if any(word.text.rpartition("/")[2].lower() in _DOWNLOADERS for word in command.words[:6]):
            return True
        waiting += (inner for word in command.words for inner in word.inner)
        if command.reads is not None:
            waiting.append(command.reads)
    return False


def shell(call: Call) -> Sayings:
    """Say what a shell is told to run."""
    given = options(call.args, "Oo", ("rcfile", "init-file"), first=True)
    if given.has("version", "help"):
        return
    for path in given.of("rcfile", "init-file"):
        yield from script(path, "shell")
    letters = "".join(word.text[1:] for word in call.args if re.match(r"-[A-Za-z]", word.text))
    if given.has("c"):
        if not given.operands:
            return
        text = given.operands[0]
        if downloads(text.inner):
            yield Found(Category.REMOTE_EXEC, REMOTE_WHY)
        yield Shell(text)
    elif given.operands and given.operands[0].text != "-" and not given.has("s"):
        yield from script(given.operands[0], "shell")
    elif "n" in letters and "s" not in letters and given.operands:
        return
    else:
        yield from from_input(call, "shell")


def script(path: Word, language: str) -> Sayings:
    if downloads(path.inner):
        yield Found(Category.REMOTE_EXEC, REMOTE_WHY)
    elif path.inner or not path.known or path.text in ("/dev/stdin", "/dev/fd/0"):
        yield unclear("it is not known what it runs")
    else:
        yield File(path, language)
        yield from task(path.text.rpartition("/")[2])


def from_input(call: Call, language: str) -> Sayings:
    given = call.input
    if given.kind == "net" or downloads(given.word.inner):
        yield Found(Category.REMOTE_EXEC, REMOTE_WHY)
    elif given.kind == "text":
        yield Shell(given.word) if language == "shell" else Code(language, given.word)
    elif given.kind == "file":
        yield from script(given.word, language)
    else:
        yield unclear(f"{call.program} runs what it reads, and it is not known what that is")
