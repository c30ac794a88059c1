"""Makes shell scripts by a grammar, spoils some of them, and has bash run them: to compare what runs with what was read.

Every script calls functions `mark1`, `mark2`, … and nothing that is on disk; bash is given no other program to find.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from attrs import define

from harnesses.guard.bash_parser import read_bash
from harnesses.guard.command_model import Simple, Unreadable

BASH = Path("/bin/bash")
_WORDS = (
    *(
        "a",
        "b",
        "-x",
        "$x",
        '"$x"',
        "'q r'",
        '"q r"',
        "~",
        "*",
        "{a,b}",
        "\\#",
        "a#b",
        '"a # b"',
        "$'\\n'",
        "$'\\''",
        "${x:-d}",
    ),
    *("${#x}", "a=b", '""', "''", "--", "E", "\\\\", '"\\""', "'\\'", "$((1+1))", "$(( (1) ))", '"`: `"', "=", "!", '"it\'s"'),
    *("[a]", "a\\ b", "\"$(echo ')')\"", '$"x"', "${x//\\//_}", "${x#\\#}", '"${x:-"y"}"', '"${x:-\'}"', "${x:-\\}}"),
)
_WITHIN = (
    *("$({})", "`{}`", '"$({})"', '"a `{}` b"', "<({})", "${{x:-$({})}}", '"${{x:-$({})}}"', "$( {}\n)", 'a"$({})"b'),
    *('"$(( $({}) + 1 ))"', '${{x:-"$({})"}}'),
)
_PROGRAMS = (
    *("echo", "printf %s", "true", "false", "x=1", "[ a = b ]", "test -n a", "x=$y echo", "! true", "cd .", "read x"),
    *("export y=2", "local z", "shift", ": "),
)
_REDIRECTS = (" >/dev/null", " 2>&1", " </dev/null", " <<<a", " &>/dev/null", " >&2", ' <<< "$x"', " 3>&-")
_BODIES = (
    *("", "mark\n", "text\n", "it's\n", 'a "b\n', "$(mark)\n", "E \n", " E\n", "E\\\n\n", "\\\n", "`: `\n", "EO\\\nF\n"),
    *("\tx\n", "\\$(mark)\n", "${x:-$(mark)}\n", "$(echo ')')\n"),
)
_TAILS = ("", " # c", "; echo 'x'", " | cat", " && mark", " # it's")
_ENDS = {"E": "E", "'E'": "E", '"E"': "E", "\\E": "E", "'E'F": "EF"}
_JOINTS = (";", " ; ", "\n", " && ", " || ", " | ", " &\n", " # c\n", " # it's\n", "\n\n", "|\n", "&&\n")
_COMPOUND = (
    *("( {} )", "{{ {}; }}", "if {}; then {}; fi", "if {}; then {}; elif {}; then {}; else {}; fi"),
    *("for i in a $x; do {}; done", "while false; do {}; done", "until true; do {}; done"),
    *("case a in b*) {};; (c|d) {};; *) {};; esac", "f() {{ {}; }}; f", "[[ $({}) == a* ]]", "[[ a =~ (b|c) ]]"),
    *("(( x = 1 + (2) ))", "for ((i=0;i<1;i++)); do {}; done", "time {}", "function g {{ {}\n}}\ng"),
)
_SPOILERS = (*" \n;&|()'\"`\\$#<>{}!=*\r", "<<E", "$(", "${", "$'")


@define
class Maker:
    """Makes scripts, always the same for the same seed."""

    chance: random.Random

    def script(self, depth: int = 3) -> str:
        """Return a script in which each `mark` has a number."""
        numbers = iter(range(1, 10_000))
        return re.sub("mark", lambda _: f"mark{next(numbers)}", self._list(depth))

    def spoilt(self, text: str) -> str:
        """Return a script from which something was taken, or to which something was added."""
        for _ in range(self.chance.choice((0, 0, 1, 1, 2))):
            at, other = self.chance.randrange(len(text) + 1), self.chance.randrange(len(text) + 1)
            how = self.chance.random()
            if how < 0.4:
                text = text[:at] + text[at + 1 :]
            elif how < 0.8:
                text = text[:at] + self.chance.choice(_SPOILERS) + text[at:]
            else:
                text = text[: min(at, other)] + text[max(at, other) :]
        return text

    def _list(self, depth: int) -> str:
        text = self._command(depth)
        for _ in range(self.chance.choice((0, 0, 1, 2))):
            text += ("" if text.endswith("\n") else self.chance.choice(_JOINTS)) + self._command(depth)
        return text

    def _command(self, depth: int) -> str:
        if depth > 0 and self.chance.random() < 0.35:
            pattern = self.chance.choice(_COMPOUND)
            return pattern.format(*(self._list(depth - 1) for _ in range(pattern.count("{}"))))
        text = "mark" if self.chance.random() < 0.35 else self.chance.choice(_PROGRAMS)
        text += "".join(f" {self._word(depth)}" for _ in range(self.chance.choice((0, 0, 1, 1, 2, 3))))
        how = self.chance.random()
        if how < 0.07:
            return text + self._here_document()
        return text + self.chance.choice(_REDIRECTS) if how < 0.25 else text

    def _word(self, depth: int) -> str:
        if depth <= 0 or self.chance.random() < 0.7:
            return self.chance.choice(_WORDS)
        return self.chance.choice(_WITHIN).format(self._list(depth - 1).replace("`", ""))

    def _here_document(self) -> str:
        mark, tab = self.chance.choice(tuple(_ENDS)), self.chance.choice(("", "-"))
        body = self.chance.choice(_BODIES)
        return f" <<{tab}{mark}{self.chance.choice(_TAILS)}\n{body}{chr(9) if tab else ''}{_ENDS[mark]}\n"


def run_by_bash(text: str) -> set[str]:
    """Return the marks that bash runs."""
    marks = sorted(set(re.findall(r"mark\d+", text)))
    functions = "".join(f"{mark}() {{ builtin echo {mark} >> $MARKS; return 0; }}; " for mark in marks)
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told"
        nowhere = Path(folder) / "in"
        nowhere.mkdir()
        # What a script leaves running in the background comes to its end by itself, after two seconds of work.
        process = subprocess.Popen(
            [str(BASH), "--noprofile", "--norc", "-c", f"ulimit -t 2; readonly MARKS; {functions}x=\n{text}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"PATH": "/nonexistent", "HOME": "/nonexistent", "MARKS": os.fspath(told)},
            cwd=nowhere,
            start_new_session=True,
        )
        with suppress(subprocess.TimeoutExpired):  # what it has run until then counts
            process.wait(timeout=20)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return set(told.read_text().split()) if told.exists() else set()


def read_by_us(text: str) -> set[str] | None:
    """Return the marks that are read as commands; None if it is unreadable, or if what runs is said to be unknown."""
    try:
        items = read_bash(text)
    except Unreadable:
        return None
    # What `time` runs is judged where its words are, as with other programs that run one.
    commands = [item.words[item.words[0].text == "time" :] for item in items if isinstance(item, Simple) and item.words]
    first = [words[0] for words in commands if words]
    if not all(word.known for word in first):
        return None
    return {word.text for word in first if word.text.startswith("mark")}
