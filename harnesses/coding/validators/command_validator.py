"""A validator that runs a command in a new worktree of the commit, and checks its exit code.

Which words of a command name judging files, and which name the files being judged:

sh check.sh, python -m tools.check, ./check     a program that is run judges
sh -c "./check && grep -q ok app.cfg"           so does a program in an inline script
ruff check --config=ruff.toml app.py            so does the value of an option
grep -q ok app.cfg                              a file that is only read is judged
"""

from __future__ import annotations

import posixpath
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Literal

from harnesses.agents.sandbox import Sandbox, as_sandbox
from harnesses.coding.candidate import Candidate
from harnesses.coding.validators.candidate_validator import CandidateValidator, glob_pattern, list_findings
from harnesses.coding.validators.environment import fresh_environment, hash_seed, run_judged
from harnesses.coding.validators.judging_context import JudgingContext, read_context
from harnesses.errors import Waiting
from harnesses.features.errors import InvalidRequest
from harnesses.features.feature import Feature
from harnesses.processes.bounded_command import Ran

_READ_BY = {
    "make": ("GNUmakefile", "makefile", "Makefile", "**/*.mk"),
    "gmake": ("GNUmakefile", "makefile", "Makefile", "**/*.mk"),
    "just": ("justfile", "Justfile", ".justfile"),
    "tox": ("tox.ini", "tox.toml"),
    "nox": ("noxfile.py",),
}
"""Files that a tool reads without being told to."""
_FEATURE = "{feature}"
_TEST_TOOLS = frozenset({"pytest", "py.test", "unittest"})


class Command(CandidateValidator):
    """Runs a command in a new worktree of the commit, with a clean environment and empty standard input.

    Judging files must be unchanged since the base. A commit is refused if it changes a file that the command runs (see
    `find_judging_words`), that matches `protect`, that the tool is known to read (such as a Makefile), or that is named and by
    its name holds expected results: once merged, it would judge the next feature. Files used by those files in turn must be
    listed in `protect`, because they cannot be detected from outside.

    The program is searched on PATH, never in the worktree; a command like `./check.sh` is in the worktree, and is protected if
    it exists at the base. To run pytest use `PytestNodes`: a program under test can make pytest exit with 0.

    Args:
        argv: the command, run without a shell. `{feature}` in it is the id of the feature, which is also in the environment
            variable `FEATURE`. Without it the command judges every feature alike, so work that changes nothing is not
            accepted as proof.
        limit_s: maximum seconds before it is killed with all processes it started.
        env: variables added to the clean environment.
        code: the exit code that means success.
        cwd: working directory, relative to the root of the repository.
        protect: glob patterns of other judging files.
        network: whether it has network access even where a sandbox would block it.
        sandbox: the sandbox that it runs in; "bwrap" is `Sandbox()`. None for bubblewrap, or nothing where that does not work.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        limit_s: float = 60.0,
        env: Mapping[str, str] | None = None,
        code: int = 0,
        cwd: str = ".",
        protect: Iterable[str] = (),
        network: bool = False,
        sandbox: Sandbox | Literal["bwrap"] | None = None,
    ) -> None:
        if isinstance(argv, str) or not argv:
            raise InvalidRequest(f"Command: argv: expected a list of words, was {argv!r}; for a script give ['sh', '-c', ...]")
        if not limit_s > 0:
            raise InvalidRequest(f"Command: limit_s: expected seconds above 0, was {limit_s!r}")
        if posixpath.isabs(cwd) or posixpath.normpath(cwd).startswith(".."):
            raise InvalidRequest(f"Command: cwd: expected a directory within the repository, was {cwd!r}")
        self._argv, self._limit_s, self._env, self._code, self._cwd = tuple(argv), limit_s, dict(env or {}), code, cwd
        self._network = network
        self._sandbox = as_sandbox(sandbox, "Command")
        tool = PurePosixPath(self._argv[0]).name
        globs = (*([protect] if isinstance(protect, str) else protect), *_READ_BY.get(tool, ()))
        self._patterns = tuple(glob_pattern(glob) for glob in globs)

    def __repr__(self) -> str:
        return f"Command({shlex.join(self._argv)!r})"

    @property
    def proves(self) -> bool:
        """Always true: it runs the command."""
        return True

    @property
    def depends_on_feature(self) -> bool:
        """Whether its verdict depends on the feature."""
        return any(_FEATURE in word for word in self._argv)

    async def find(self, feature: Feature, candidate: Candidate) -> tuple[bool, str]:
        """Run the command and return the result."""
        argv = tuple(word.replace(_FEATURE, feature.id) for word in self._argv)
        context = await read_context(candidate)
        named = self._named(context)
        touched = sorted(change.path for change in context.changes if self._protects(change.path, named, context))
        if touched:
            return False, list_findings(
                [f"{path}: is a judging file, and the commit changes it: restore it" for path in touched]
            )
        seed = hash_seed(candidate.commit, candidate.confirmation)
        async with candidate.checkouts.at(candidate.commit) as root:
            cwd = root / self._cwd
            if not cwd.is_dir() or not cwd.resolve().is_relative_to(root.resolve()):
                return False, f"the directory {self._cwd} does not exist in the commit: restore it"
            async with fresh_environment({"FEATURE": feature.id, **self._env}, seed=seed) as around:
                ran, sandbox = await run_judged(
                    argv,
                    around,
                    root=root,
                    cwd=cwd,
                    limit_s=self._limit_s,
                    sandbox=self._sandbox,
                    network=self._network,
                )
                if ran.code in (126, 127) and not shutil.which(argv[0], path=around.env.get("PATH")) and "/" not in argv[0]:
                    raise Waiting(
                        f"{self!r} cannot be run: expected a program on PATH, was {argv[0]!r}; install it, or correct it"
                    )
        return ran.code == self._code, self._told(argv, ran, seed, sandbox, str(root))

    def _named(self, context: JudgingContext) -> frozenset[str]:
        """Return the judging files at the base that the command names."""
        paths = {posixpath.normpath(posixpath.join(self._cwd, word)) for word in find_judging_words(self._argv) if word}
        return frozenset(paths.intersection(context.files))

    def _protects(self, path: str, named: frozenset[str], context: JudgingContext) -> bool:
        if path in named or any(pattern.fullmatch(path) for pattern in self._patterns):
            return True
        looked_at = posixpath.relpath(path, self._cwd) in self._argv
        return context.judges(path) and (looked_at or bool(_TEST_TOOLS.intersection(map(_tool, self._argv))))

    def _told(self, argv: tuple[str, ...], ran: Ran, seed: int, sandbox: str, root: str) -> str:
        additions = "".join(f" {key}={value}" for key, value in sorted({**self._env, "PYTHONHASHSEED": str(seed)}.items()))
        ended = "was killed at its time limit" if ran.code is None else f"ended with code {ran.code}"
        lines = [
            f"`{shlex.join(argv)}` {ended} after {ran.duration_s:.1f} s; "
            f"expected code {self._code} within {self._limit_s:g} s",
            f"in {self._cwd}, sandbox: {sandbox}, clean environment and{additions}",
        ]
        return "\n".join([*lines, ran.tail.replace(f"{root}/", "")]).rstrip()


def _tool(word: str) -> str:
    return PurePosixPath(word).name if word else ""


_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "busybox"})
_INTERPRETERS = re.compile(r"(python|pypy)[0-9.]*|node|deno|bun|perl|ruby|php|lua|Rscript|java|tclsh|awk|gawk|sed")
_BEFORE = frozenset({"env", "exec", "time", "timeout", "nice", "nohup", "command", "!", "if", "then", "else", "do", "while"})
_ENDS = frozenset(";&|()\n")


def find_judging_words(argv: Sequence[str]) -> Iterator[str]:
    """Yield the words of a command that may name a judging file; a module as its path."""
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
    """Yield what an interpreter runs: a file, a module, or the programs in an inline script."""
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
    """Yield the judging words of each command in a shell script."""
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
