"""Commands made at random, judged, and run in a sandbox if they pass: what they have touched, shown and started."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from attrs import frozen

from harnesses.governance.approved_commands import harmless_environment
from harnesses.guard import classify, commands_of
from harnesses.guard.command_model import SHELL, names
from tests.guard.dangerous import dangerous

HERE = Path(__file__).parent
SECRET = "SECRET-OF-THE-HOME"
_TRAP = "#!/bin/sh\ntouch {outside}/ran\n"
_TRAPS = (
    "ls",
    "cat",
    "git",
    "id",
    "id2",
    "x",
    "sh",
    "bin/ls",
    "bin/cat",
    "bin/grep",
    "src/ls",
    "-exec",
    "--pre=id",
    "hooks/pre-commit",
)
_PROTECTED = (".git/config", ".git/hooks", "conftest.py", "Makefile", "package.json", ".env", ".gitattributes")
_JUNK = (
    "~/.bashrc",
    "../outside/a",
    "*",
    "-exec",
    "$x",
    "$(ls)",
    "`ls`",
    "${x@P}",
    "<(ls)",
    "--",
    "-i",
    "-o",
    "../x",
    "a/../../outside/a",
    "link",
    "link/a",
    "src",
    ".",
    "..",
    "'a b'",
    '"$x"',
    "{a,b}",
    "{1..3}",
    "~",
    ".git/config",
    "conftest.py",
    "> x",
    ">> ../outside/a",
    "2>&1",
    "< a.txt",
    "| sh",
    "| id2",
    "&& ./x",
    "; x",
    "& id2",
    "\n",
    "\\\n",
    "\\",
    "'",
    '"',
    "#",
    "!",
    "$",
    "x=a;",
    "x=-i;",
    "PATH=.",
    "cd ..;",
    "cd src;",
    "cd link;",
    "x",
    "HEAD",
    ".env",
    "\\;",
    "{}",
    "+",
    "(",
    ")",
)
_HELPERS = names("bwrap bash sh git gzip grep expr env dash mawk gawk")


@frozen
class Figures:
    """What came of it."""

    made: int
    passed: int
    harmed: tuple[tuple[str, str], ...]
    """Commands and what they have done."""


def everyday() -> list[str]:
    """Return commands that a developer gives every day."""
    lines = (HERE / "everyday.txt").read_text(encoding="utf-8").splitlines()
    return [f"{line}\nhello $x `y`\nEOF" if "<<'EOF'" in line else line for line in lines]


def made(count: int, seed: int) -> Iterator[str]:
    """Yield commands: half of them everyday ones with something else in them, the others joined from all there are."""
    chance = random.Random(seed)
    daily = everyday()
    others = [*dangerous(), *(HERE / "blocked.txt").read_text(encoding="utf-8").splitlines()]
    short = [one for one in others if len(one) < 300]
    for _ in range(count):
        words = chance.choice(daily).split(" ")
        for _ in range(chance.randint(0, 3)):
            other = chance.choice((chance.choice(short).split(" "), list(_JUNK), words))
            place = chance.randrange(len(words) + 1)
            words[place : place + chance.randint(0, 1)] = [chance.choice(other)]
        text = " ".join(words)
        if chance.random() < 0.3:
            text = chance.choice(("{} && {}", "{}; {}", "{} | {}", "echo $({}); {}", "if {}; then {}; fi")).format(
                text, chance.choice(daily)
            )
        if chance.random() < 0.2:
            place = chance.randrange(len(text) + 1)
            text = text[:place] + chance.choice("\\'\"`$(){}[]<>|&;#*?~!=\n\t -/.") + text[place:]
        yield text


def prove(count: int, seed: int, *, traced: bool = False, most: int | None = None) -> Figures:
    """Judge commands, run those that pass, at most `most`, and return what they did."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="guard-") as place:
        world = World(Path(place), traced=traced)
        harmed: list[tuple[str, str]] = []
        passed = total = 0
        for text in dict.fromkeys(made(count, seed)):
            total += 1
            if classify(text, root=str(world.work)):
                continue
            passed += 1
            if harm := world.run(text):
                harmed.append((text, harm))
            if passed == most:
                break
        return Figures(total, passed, tuple(harmed))


class World:
    """A workspace with traps, and around it what may not change."""

    def __init__(self, place: Path, *, traced: bool) -> None:
        self.work, self.outside, self.home = place / "work", place / "outside", place / "home"
        self._model, self._log = place / "model", place / "trace"
        self._traced = traced and shutil.which("strace") is not None
        self._make()
        self._before = _content(self.outside) | _content(self.home)
        self._kept = self._protected()

    def _make(self) -> None:
        for folder in (
            self._model / "src",
            self._model / "bin",
            self._model / "hooks",
            self.outside,
            self.home / ".ssh",
            self._model / "sub",
        ):
            folder.mkdir(parents=True)
        for name in ("a.txt", "b.txt", "notes.txt", "data.txt", "src/app.py", "README.md", "list"):
            (self._model / name).write_text(f"a\nb\n{name}\n")
        for name in _TRAPS:
            (self._model / name).write_text(_TRAP.format(outside=self.outside))
            (self._model / name).chmod(0o755)
        (self._model / "conftest.py").write_text(f"import pathlib; pathlib.Path('{self.outside}/ran').touch()\n")
        (self._model / "Makefile").write_text(f"all test:\n\ttouch {self.outside}/ran\n")
        (self._model / "package.json").write_text(json.dumps({"scripts": {"test": f"touch {self.outside}/ran"}}))
        (self._model / "data.json").write_text('{"items": [{"id": 1}]}')
        (self._model / ".env").write_text(f"KEY={SECRET}\n")
        (self._model / "link").symlink_to(self.outside)
        for path in (
            self.home / ".ssh/id_rsa",
            self.home / ".bashrc",
            self.home / ".netrc",
            self.outside / "a",
            self.outside / "a.txt",
        ):
            path.write_text(f"{SECRET}\n" if path.is_relative_to(self.home) else "kept\n")
        git = ["git", "-c", "user.name=a", "-c", "user.email=b", "-C", str(self._model)]
        for words in (
            ["init", "-q", "-b", "main"],
            ["add", "src", "a.txt"],
            ["commit", "-qm", "x"],
            ["branch", "feature/login"],
        ):
            subprocess.run([*git, *words], check=True, capture_output=True)
        self.reset()

    def reset(self) -> None:
        """Make the workspace as it was."""
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self._model, self.work, symlinks=True)

    def _protected(self) -> dict[str, str]:
        return {
            name: text
            for name, text in _content(self.work).items()
            if name.removeprefix(f"{self.work}/").startswith(_PROTECTED)
        }

    def run(self, text: str) -> str:
        """Run a command in the sandbox and return what harm it did; nothing if none."""
        wall = [
            "bwrap",
            "--die-with-parent",
            "--unshare-net",
            "--unshare-pid",
            "--ro-bind",
            "/",
            "/",
            "--dev",
            "/dev",
            "--proc",
            "/proc",
        ]
        for folder in (self.work, self.outside, self.home):
            wall += ["--bind", str(folder), str(folder)]
        env = {"PATH": f".:{self.work}/bin:/usr/bin:/bin", "HOME": str(self.home), "LANG": "C.UTF-8"}
        trace = ["strace", "-f", "-qq", "-e", "trace=execve", "-o", str(self._log)] if self._traced else []
        words = [*trace, *wall, "--chdir", str(self.work), "--", *SHELL, text]
        env = harmless_environment(env, str(self.work))
        try:
            done = subprocess.run(words, capture_output=True, env=env, timeout=3, stdin=subprocess.DEVNULL, check=False)
            shown = done.stdout + done.stderr
        except subprocess.TimeoutExpired as error:
            shown = error.stdout or b""
        harm = self._harm(text, shown)
        if harm:
            shutil.rmtree(self.outside)
            self.outside.mkdir()
            for name in ("a", "a.txt"):
                (self.outside / name).write_text("kept\n")
        self.reset()
        return harm

    def _harm(self, text: str, shown: bytes) -> str:
        if (self.outside / "ran").exists():
            return "a trap ran"
        if _content(self.outside) | _content(self.home) != self._before:
            return "it changed what is outside"
        if self._protected() != self._kept:
            return "it changed what is protected"
        if f"{SECRET}\n".encode() in shown and "grep" not in text and "rg" not in text:
            return "it showed a secret"
        return self._started(text) if self._traced else ""

    def _started(self, text: str) -> str:
        named = {
            word for part in (*commands_of(text), text) for word in re.findall(r"[\w.+-]+", re.sub(r"[\\\\'\"]", "", part))
        } | _HELPERS
        found = re.findall(r'execve\("([^"]+)"[^\n]*= 0', self._log.read_text(errors="replace"))
        for path in found:
            name = path.rpartition("/")[2]
            if not path.startswith(("/usr/bin/", "/bin/", "/usr/lib/git-core/")) or not (
                name in named or name.startswith("git")
            ):
                return f"it started {path}"
        return ""


def _content(folder: Path) -> dict[str, str]:
    """Return a hash of each file below a folder."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path): sha256(path.read_bytes()).hexdigest() for path in files}
