"""The parser of the command: where options may stand, what a mistake is told as, and what each verb's help has."""

from __future__ import annotations

import inspect
import json
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from harnesses.diagnostics.extras import install_command
from orchestrator.cli import main
from orchestrator.cli.command_app import arrange, make_app, parse
from orchestrator.cli.command_help import long_help, read_help, short_help, verb_help
from orchestrator.cli.reference import markdown
from orchestrator.cli.verb_table import GROUPS, NAMES, VERBS
from orchestrator.errors import UsageError
from tests.orchestrator.commanding import PYTHON, Command, surroundings
from tests.zygote import run_python

HEAVY = {"trio", "structlog", "duckdb", "rich", "pandas", "polars", "pyarrow", "asyncio", "h11", "cryptography"}
"""Modules that take long to import."""
_TOLD = (
    "import json, sys; from orchestrator.cli import main; code = main(sys.argv[1:]);"
    "print(json.dumps([code, *sorted({name.split('.')[0] for name in sys.modules})]), file=sys.stderr)"
)


@pytest.mark.parametrize(
    ("line", "verb", "rest"),
    [
        ("status --json", "status", ["--json"]),
        ("--json --store x.db status", "status", ["--json", "--store", "x.db"]),
        ("--store=x.db steps a", "steps", ["--store=x.db", "a"]),
        ("approvals --json reopen 1", "approvals reopen", ["--json", "1"]),
        ("approvals a", "approvals", ["a"]),
        ("latch on", "kill-switch", ["on"]),
        ("guard -- status --json", "guard", ["--", "status", "--json"]),
        ("--store status", None, ["--store", "status"]),
        ("-- status", None, ["--", "status"]),
        ("", None, []),
    ],
)
def test_the_verb_is_found_wherever_common_options_stand(line, verb, rest):
    asked = arrange(line.split())

    assert (asked.verb, list(asked.rest)) == (verb, rest)


@pytest.mark.parametrize(
    ("line", "store"),
    [("status", ""), ("--store a status", "a"), ("status --store=a --store b", "b"), ("run x.py -- --store a", "")],
)
def test_a_complaint_names_the_store_that_was_given(line, store):
    assert arrange(line.split()).store == store


def called(line: list[str]) -> tuple[str, inspect.BoundArguments]:
    """Return the function that a command is carried out by, and what it is called with."""
    partial = parse(make_app(), arrange(line))
    function = partial.func  # type: ignore[attr-defined]
    return function.__name__, inspect.signature(function).bind(*partial.args, **partial.keywords)  # type: ignore[attr-defined]


def test_what_follows_two_dashes_belongs_to_the_program_that_is_run():
    _, bound = called(["run", "p.py", "--quiet", "--", "--limit", "40", "--", "--help"])

    assert bound.arguments["arguments"] == ("--limit", "40", "--", "--help")
    assert bound.arguments["quiet"] is True


def test_what_follows_two_dashes_belongs_to_the_guarded_command():
    _, bound = called(["guard", "--json", "--allow", "a", "--allow", "b", "--", "rm", "--json", "-h"])

    assert bound.arguments["command"] == ("rm", "--json", "-h")
    assert bound.arguments["allow"] == ("a", "b")


@pytest.mark.parametrize("words", [["guard", "rm", "--help"], ["guard", "rm", "-h"], ["guard", "--allwo", "x", "--", "ls"]])
def test_guard_blocks_what_it_can_not_read(words, capsys):
    assert main(words) == 2
    assert capsys.readouterr().out == ""


def test_guard_blocks_when_its_own_module_is_broken(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "orchestrator.cli.operate.guard_verb", None)

    assert main(["guard", "--", "ls"]) == 2
    assert capsys.readouterr().err.startswith("orchestrator: guard: blocked, because this command itself failed")


def test_the_last_of_an_option_that_is_given_twice_counts():
    _, bound = called(["--store", "a", "steps", "x", "--limit", "1", "--limit", "2", "--store", "b"])

    assert bound.arguments["limit"] == 2
    assert bound.arguments["common"].store == "b"


@pytest.mark.parametrize(
    ("words", "html"),
    [
        (["analyze", "run.db", "--html"], "-"),
        (["analyze", "--html", "--json"], "-"),
        (["analyze", "--html", "a.html", "report"], "a.html"),
        (["analyze", "run.db"], None),
    ],
)
def test_the_file_of_a_page_may_be_left_out(words, html):
    _, bound = called(words)

    assert bound.arguments["shape"].html == html if "shape" in bound.arguments else html is None


@pytest.mark.parametrize("words", [["sql", "run.db", "-"], ["send", "a", "-"], ["contract", "-", "--task", "t"]])
def test_a_dash_stands_for_standard_input(words):
    assert called(words)[0]


@pytest.mark.parametrize("words", [["send", "a", "--txet"], ["sql", "run.db", "q", "--cvs"], ["run", "x", "--log", "--quiet"]])
def test_an_option_is_not_taken_for_a_word(words):
    with pytest.raises(UsageError, match="expected a value, got the option '--"):
        called(words)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_the_summary_of_a_verb_is_that_of_its_function_and_every_option_has_help(verb):
    app = make_app()
    chain, apps, rest = app.parse_commands(verb.name.split(" "))

    assert (" ".join(chain), rest) == (verb.name, [])
    assert inspect.getdoc(apps[-1].default_command).partition("\n")[0] == verb.summary
    assert [row.name for row in read_help(app, verb.name).rows if not row.help] == []


def test_the_help_has_every_verb_in_its_group():
    lines = list(short_help())

    assert [line.removesuffix(":") for line in lines if line.endswith(":")] == list(GROUPS)
    assert [line[2:].split("  ")[0] for line in lines if line.startswith("  ")] == [
        verb.name for group in GROUPS for verb in VERBS if verb.group == group
    ]


def test_the_long_help_says_more_than_the_short_one():
    assert "Exit codes:" in "\n".join(long_help())
    assert "Exit codes:" not in "\n".join(short_help())

    said = read_help(make_app(), "approvals")
    short, long = ("\n".join(verb_help(said, is_long=is_long)) for is_long in (False, True))
    assert "Exit codes: 4 if something waits" in " ".join(long.split())
    assert "Exit codes" not in short
    assert "reopen" in short


def test_the_reference_has_every_verb_and_its_options():
    text = markdown()

    assert [line.removeprefix("### ") for line in text.splitlines() if line.startswith("### ")] == [
        verb.name for group in GROUPS for verb in VERBS if verb.group == group
    ]
    assert "| `--limit N` | show at most N steps, the oldest |" in text
    assert text.count("```") % 2 == 0


@pytest.mark.parametrize(
    "line", ["--help", "-h", "status --store run.db", "steps three --store run.db", "analyze why three --store run.db"]
)
def test_what_is_asked_often_imports_nothing_heavy(line, tmp_path: Path):
    recorded(tmp_path / "run.db")

    done = subprocess.run(
        [*PYTHON, "-c", _TOLD, *line.split()], cwd=tmp_path, env=surroundings(), capture_output=True, text=True, check=True
    )

    code, *modules = json.loads(done.stderr.splitlines()[-1])
    assert code == 0
    assert HEAVY & set(modules) == set()


def recorded(path: Path) -> None:
    """Make a store with a harness that has completed."""
    code = (
        "import sys, trio; from orchestrator import Orchestrator; from tests.orchestrator.commanded import Three\n"
        "async def record():\n"
        "    async with Orchestrator(sys.argv[1]) as orchestrator:\n"
        "        orchestrator.start(Three(0), name='three')\n"
        "trio.run(record)"
    )
    run_python("-c", code, path, env=surroundings(), check=True)


def test_without_its_extra_the_command_says_how_to_install_it(tmp_path: Path):
    code = "import sys; sys.modules['cyclopts'] = None; from orchestrator.cli import main; sys.exit(main(['status']))"

    done = run_python("-c", code, cwd=tmp_path, env=surroundings(), capture_output=True, text=True)

    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("orchestrator: this command needs cyclopts, which ")
    assert line.endswith(f"expected the extra `cli`; run `{install_command('cli')}`")


_BASH = """
source ./script
COMP_WORDS=(orchestrator {words}); COMP_CWORD={last}
_orchestrator orchestrator
echo "${{COMPREPLY[@]}}"
"""
_ZSH = """
fpath=($PWD $fpath)
autoload -Uz compinit && compinit -D -u
autoload +X _orchestrator
whence -w _orchestrator
echo $_comps[orchestrator]
"""


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["sta"], {"start", "state", "status"}),
        (["steps", "--fol"], {"--follow"}),
        (["approvals", "re"], {"reopen"}),
        (["kill-switch", "o"], {"on", "off"}),
    ],
)
def test_bash_completes_verbs_options_and_choices(words, found, tmp_path: Path, capsys):
    assert main(["completion", "bash"]) == 0
    (tmp_path / "script").write_text(capsys.readouterr().out)
    program = _BASH.format(words=" ".join(words), last=len(words))

    done = subprocess.run(["bash", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)

    assert (set(done.stdout.split()), done.stderr) == (found, "")


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_loads_the_script(tmp_path: Path, capsys):
    assert main(["completion", "zsh"]) == 0
    (tmp_path / "_orchestrator").write_text(capsys.readouterr().out)

    done = subprocess.run(["zsh", "-f", "-c", _ZSH], cwd=tmp_path, capture_output=True, text=True, check=True)

    assert done.stdout.splitlines() == ["_orchestrator: function", "_orchestrator"]


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes_verbs_and_options(tmp_path: Path, capsys):
    assert main(["completion", "fish"]) == 0
    (tmp_path / "script").write_text(capsys.readouterr().out)
    program = "source script; complete -C 'orchestrator sta'; complete -C 'orchestrator steps --fol'"

    done = subprocess.run(["fish", "--no-config", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)

    assert {line.split("\t")[0] for line in done.stdout.splitlines()} == {"start", "state", "status", "--follow"}


@pytest.mark.parametrize("package", ["harnesses", "orchestrator", "orchestrator.store", "orchestrator.history"])
def test_what_a_package_exports_is_what_its_lists_say(package):
    module = import_module(package)
    names: dict[str, object] = {}
    exec(f"from {package} import *", names)

    assert set(module.__all__) <= set(dir(module))
    assert set(module.__all__) <= set(names)
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing_of_that_name'"):
        _ = module.nothing_of_that_name


def test_a_module_of_a_package_is_an_attribute_of_it(tmp_path: Path):
    code = "import orchestrator, harnesses; print(orchestrator.store.sqlite.__name__, harnesses.effects.approval.__name__)"

    assert run_python("-c", code, env=surroundings(), capture_output=True, text=True, check=True).stdout.split() == [
        "orchestrator.store.sqlite",
        "harnesses.effects.approval",
    ]


def test_every_verb_is_known_by_one_name():
    assert len(NAMES) == len(VERBS)


def test_help_of_a_verb_needs_no_store(tmp_path: Path):
    with Command(tmp_path) as command:
        done = command("steps", "--store", "none.db", "-h")

    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("usage: orchestrator steps NAME [OPTIONS]\n")


def test_the_end_of_a_program_collects_no_garbage() -> None:
    """With ccxt loaded it would take seconds, in which the watchdog of a stopped run kills it."""
    program = """
from orchestrator.cli import main

class Told:
    def __del__(self):
        print("collected")

main(["schema"])
told = Told()
told.itself = told
del told
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)

    assert "collected" not in done.stdout.splitlines()
