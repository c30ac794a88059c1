"""Pages that a reader follows at the keyboard: their files are written and their commands run, in the order of the page.

A page is a session if one of its blocks names a file: its first line, or the one after a shebang, is a comment such as
`# primes.py`. In a session

* a block that names a file is written to it, in the folder that the shell is in;
* each `$ command` of a `console` block is run by one bash for the whole page; lines that begin with `> ` continue it;
* what a command prints, on both streams, is what the page shows, except for times, durations and ids, and how far a program
  came before it was killed or told something. A line `…` stands for any number of lines.

    python -m tests.docs.sessions PAGE …     writes what the commands print now into the pages
"""

from __future__ import annotations

import os
import re
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from attrs import define, frozen

from tests import ROOT
from tests.zygote import run_python

HOME = "/home/ann/checkout"
"""How pages call the folder in which a session begins. It has `examples`, as a checkout does."""
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"(?:#!.*\n)?# ([\w./-]+\.\w+)\n")
_END = "\x1e"
_MASKS = {
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?Z?(\+00:00)?": "TIME",
    r"\b(?=\w*\d)[0-9a-f]{7,64}\b": "ID",
    r"\b\d+(\.\d+)? ?m?s\b": "DURATION",
    r"\b(interrupted|stopped) +\d+ +\d+": "ended early",
    r"(?m)\bstep \d+$": "step",
    r"\bafter step \d+; step \d+": "after step",
    r"\bmessage \d+": "message",
    r"\bafter record \d+;": "after record;",
    r"', step \d+\)": "', step)",
    r"\b\d+ records under \d+ seals, \d+ not sealed": "sealed",
    r"[ \t]+": " ",
    r" +(?=\n)": "",
}


@frozen
class Command:
    """One command of a page."""

    text: str
    shown: str
    """What the page says that it prints."""
    start: int
    end: int
    """Where `shown` stands in the page."""


@frozen
class File:
    """A file that a page has its reader write."""

    path: str
    text: str


def is_session(page: str) -> bool:
    """Return whether a page has its reader write files."""
    return any(isinstance(part, File) for part in parts(page))


def parts(page: str) -> Iterator[Command | File]:
    """Yield the files and commands of a page, in order."""
    for block in BLOCK.finditer(page):
        mark, text = block.groups()
        if mark == "console":
            yield from _commands(text, block.start(2))
        elif named := NAMED.match(text):
            yield File(named[1], text)


def _commands(text: str, offset: int) -> Iterator[Command]:
    for found in re.finditer(r"^\$ (.*\n(?:> .*\n)*)((?:(?!\$ ).*\n)*)", text, flags=re.MULTILINE):
        command = re.sub(r"^> ", "", found[1], flags=re.MULTILINE)
        yield Command(command, found[2], offset + found.start(2), offset + found.end(2))


def is_shown(printed: str, shown: str) -> bool:
    """Return whether `shown` says what was printed."""
    pattern = "(?:.*\n)*?".join(map(re.escape, _mask(shown).split("…\n")))
    return re.fullmatch(pattern, _mask(printed)) is not None


def _mask(text: str) -> str:
    for pattern, word in _MASKS.items():
        text = re.sub(pattern, word, text)
    return text


_ORCHESTRATOR = """#!/bin/sh
[ "$1" = run ] || exec {python} -I -S {ask} "$@"
exec {python} -P -m orchestrator "$@"
"""
_ASK = """
import os, socket, sys
with socket.socket(socket.AF_UNIX) as asked:
    asked.connect({path!r})
    words = "\\0".join([os.getcwd(), *sys.argv[1:]]), "\\0".join(f"{{name}}={{value}}" for name, value in os.environ.items())
    socket.send_fds(asked, ["\\1".join(words).encode()], [0, 1, 2])
    sys.exit(int(asked.recv(16)))
"""
_VERB = """
import sys
del sys.path[0]
sys.stdout.reconfigure(line_buffering=True)  # as at a terminal: in order with standard error
from orchestrator.cli import main
sys.exit(main())
"""


class _Verb(socketserver.BaseRequestHandler):
    """Carries out `orchestrator VERB …` for a shell, in a program that is forked from one that has imported the command.

    `orchestrator run`, which a page may kill, is started as its reader starts it.
    """

    def handle(self) -> None:
        told, streams, _, _ = socket.recv_fds(self.request, 1 << 20, 3)
        (cwd, *words), variables = (part.split("\0") for part in told.decode().split("\1"))
        env = dict(variable.split("=", 1) for variable in variables)
        done = run_python("-c", _VERB, *words, cwd=cwd, env=env, stdin=streams[0], stdout=streams[1], stderr=streams[2])
        for stream in streams:
            os.close(stream)
        self.request.send(str(done.returncode).encode())


@contextmanager
def _verbs() -> Generator[Path]:
    """Serve verbs at a socket of which this is the path."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "verbs"
        with socketserver.ThreadingUnixStreamServer(str(path), _Verb) as server:
            serving = threading.Thread(target=server.serve_forever, args=(0.05,))
            serving.start()
            try:
                yield path
            finally:
                server.shutdown()
                serving.join()


@define
class Shell:
    """One bash that begins in `folder`, with `orchestrator` and `python` of this checkout on its path."""

    folder: Path
    _process: subprocess.Popen[str]

    @classmethod
    def open(cls, folder: Path, verbs: Path) -> Shell:
        programs = folder / ".bin"
        programs.mkdir()
        (folder / "examples").symlink_to(ROOT / "examples")
        ask = programs / "ask.py"
        ask.write_text(_ASK.format(path=str(verbs)), encoding="utf-8")
        scripts = {"python": '#!/bin/sh\nexec {python} "$@"\n', "orchestrator": _ORCHESTRATOR}
        for name, script in scripts.items():
            (programs / name).write_text(script.format(python=sys.executable, ask=ask), encoding="utf-8")
            (programs / name).chmod(0o755)
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("ORCHESTRATOR_", "GIT_", "PYTEST_"))}
        environment = {
            **kept,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "HOME": str(folder),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "TERM": "dumb",
            "COLUMNS": "120",
        }
        process = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )
        return cls(folder, process)

    def run(self, command: str) -> str:
        """Run a command and return what it prints."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f'{{\n{command}\n}} </dev/null\necho "{_END}$PWD"\n')
        self._process.stdin.flush()
        printed = ""
        for line in self._process.stdout:
            before, end, where = line.partition(_END)
            printed += before
            if end:
                self.folder = Path(where.rstrip("\n"))
                break
        return printed

    def close(self) -> None:
        """End the shell, and what it has left running."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


def play(page: str, folder: Path) -> Iterator[tuple[Command, str]]:
    """Follow a page in an empty folder, and yield each command with what it prints."""
    with _verbs() as verbs, closing(Shell.open(folder, verbs)) as shell:
        for part in parts(page):
            if isinstance(part, File):
                path = shell.folder / part.path
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(part.text, encoding="utf-8")
            else:
                yield part, shell.run(part.text).replace(str(folder), HOME)


def main(paths: list[str]) -> None:
    """Write what commands print now into pages, where it is not what they show. A page without commands is refused."""
    pages = {path: path.read_text(encoding="utf-8") for path in map(Path, paths)}
    for path, page in pages.items():
        if not is_session(page):
            raise SystemExit(f"{path}: expected a page with sessions, got one without a command and what it prints")
    for path, page in pages.items():
        with tempfile.TemporaryDirectory() as folder:
            played = list(play(page, Path(folder).resolve()))
        for command, printed in reversed(played):
            if not is_shown(printed, command.shown):
                page = page[: command.start] + printed + page[command.end :]
        path.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
