"""Run files without any Python: ready-made harnesses by a word, supervisors, pools, and the memory of pipelines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from harnesses.budgets.budget import Budget
from harnesses.coding import CodingHarness
from harnesses.features import FeatureHarness
from harnesses.pipeline import PipelineHarness
from harnesses.trading import TradingHarness
from orchestrator import UsageError
from orchestrator.cli.run.harness_factory import make, make_all
from orchestrator.cli.run.run_file import RunFile, parse_run_file
from orchestrator.restart import Strategy
from tests.orchestrator.commanding import ROOT, Command, ended, harnesses, heads, wait_until

DATA = ROOT / "examples" / "data"
FEED = f'feed = {{ files = {{ AAPL = "{DATA}/aapl.csv" }}, limit = 20 }}'
TRADING = f'[[harness]]\nname = "desk"\ntrading = {{ {FEED}, period_s = 0.01 }}\n'
FEATURES = (
    '[[harness]]\nname = "list"\n[harness.features]\nobjective = "A"\nvalidator = "accept_all"\n'
    'agent = { scripted = "a.toml" }\n'
    'features = [{ id = "a", description = "A", steps = "a" }]\n'
)
CODING = '[[harness]]\nname = "fix"\ncoding = { repository = ".", agent = { command = ["x"] }, validator = "pytest" }\n'
PIPELINE = (
    '[[harness]]\nname = "shop"\n[harness.pipeline]\ngoal = "A"\nworkspace = "."\n'
    'agents = { command = ["true"], name = "a" }\n'
    'validators = { command = ["true"], name = "b" }\n'
)
TICKING = '[[harness]]\nname = "{0}"\nharness = "tests.orchestrator.commanded:Ticking"\ninitial_state = 0\n{1}\n'


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    (tmp_path / "a.toml").write_text('[[a]]\nartifact = "a"\n', encoding="utf-8")
    with Command(tmp_path) as command:
        yield command


def parse(text: str, folder: Path = Path()) -> RunFile:
    return parse_run_file(text, folder / "run.toml")


def test_each_word_makes_its_harness(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('[[a]]\nartifact = "a"\n', encoding="utf-8")

    made = make_all(parse(TRADING + FEATURES + CODING + PIPELINE, tmp_path), tmp_path / "run.db")

    assert [type(one.harness) for one in made] == [TradingHarness, FeatureHarness, CodingHarness, PipelineHarness]
    assert [path.name for path in tmp_path.iterdir()] == ["a.toml"], "nothing is made by looking"


def test_a_word_is_the_same_as_its_name_with_arguments() -> None:
    by_word, by_name = parse(CODING), parse(CODING.replace("coding =", 'harness = "coding"\narguments ='))

    assert by_word.harnesses[0].config == by_name.harnesses[0].config


def test_context_and_constraints_have_keys_of_their_own(tmp_path: Path) -> None:
    made = make(parse(TRADING + "max_context_steps = 3\nconstraints = { max_position = 0.5 }\n", tmp_path).harnesses[0])

    assert made.harness.max_context_steps == 3
    assert made.harness.constraints == {"max_position": 0.5}


def test_memory_of_the_file_is_that_of_its_pipelines(tmp_path: Path) -> None:
    own = PIPELINE.replace("[harness.pipeline]", "[harness.pipeline]\nmemory = false")
    file = parse(f'memory = {{ project = "p", path = "m.db", top = 2 }}\n{PIPELINE}{own.replace("shop", "other")}', tmp_path)

    first, other = (one.harness for one in make_all(file))

    assert (first._memory.path, first._memory.settings.top) == (tmp_path / "m.db", 2)
    assert other._memory is None


def test_supervisors_and_pools_are_read_with_parents_first() -> None:
    file = parse(
        '[[supervisor]]\nname = "below"\nparent = "above"\nstrategy = "one_for_all"\nbudget = { steps = 3 }\n'
        '[[supervisor]]\nname = "above"\nintensity = 1\n'
        '[[pool]]\nname = "team"\nparent = "firm"\ntokens = 5\n[[pool]]\nname = "firm"\nmoney = "1.50"\n'
        + TICKING.format("a", 'supervisor = "below"\npool = "team"')
    )

    assert [one.name for one in file.groups.supervisors] == ["above", "below"]
    assert file.groups.supervisors[1].strategy is Strategy.ONE_FOR_ALL
    assert file.groups.supervised["below"] == Budget(steps=3)
    assert dict(file.groups.pooled) == {"team": Budget(tokens=5), "firm": Budget(money=Decimal("1.50"))}
    assert (file.harnesses[0].supervisor, file.harnesses[0].pool) == ("below", "team")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            TRADING + 'harness = "coding"\n',
            "of harness, trading, features, coding, pipeline, got harness and trading",
        ),
        ('[[harness]]\nname = "a"\ntrading = 3\n', "harness 'a': trading: expected a table, got 3; write one"),
        (TRADING + "arguments = {}\n", "arguments: expected none beside trading; write them into the table `trading`"),
        ('[[harness]]\nname = "a"\n', "has no harness, or one of trading, features, coding, pipeline: expected each"),
        ('[[harness]]\nname = "a"\ntradin = {}\n', "unknown key 'tradin': expected one of initial_state"),
        ('[[harness]]\nname = "a"\ntradin = {}\n', "did you mean 'trading'?"),
        (
            TICKING.format("a", 'supervisor = "x"'),
            "expected the name of a [[supervisor]] table, and there is none",
        ),
        (
            '[[pool]]\nname = "desk"\n' + TICKING.format("a", 'pool = "dsk"'),
            "one of desk, got 'dsk'; did you mean 'desk'?",
        ),
        (
            '[[supervisor]]\nname = "a"\nparent = "b"\n[[supervisor]]\nname = "b"\nparent = "a"\n' + TRADING,
            "supervisors are parents of each other: expected no ring",
        ),
        ('[[supervisor]]\nname = "a"\n[[supervisor]]\nname = "a"\n' + TRADING, "supervisor 'a' is there twice"),
        ('[[supervisor]]\nname = "a"\nstrategi = "x"\n' + TRADING, "supervisor 'a': unknown key 'strategi'"),
        ('[[supervisor]]\nname = "a"\nstrategy = "x"\n' + TRADING, "supervisor 'a'"),
        ("[[supervisor]]\n" + TRADING, "supervisor number 1 has no name"),
        ('[[pool]]\nname = "a"\nmony = 3\n' + TRADING, "pool 'a': budget: unknown key 'mony'"),
        ('[[pool]]\nname = "a/b"\n' + TRADING, "pool: name: expected letters, digits"),
        ("pool = 3\n" + TRADING, "pool: expected array, was 3"),
        ("memory = { tops = 1 }\n" + TRADING, "memory: 'tops' is not known: expected one of retrieval"),
    ],
)
def test_a_mistake_is_told_with_its_place(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)

    assert said in str(caught.value)
    assert str(caught.value).startswith("run.toml")


def test_a_mistake_within_a_word_names_harness_word_and_key(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"harness 'desk': .*unknown key 'periods'.* did you mean 'period_s'"):
        make_all(parse(TRADING.replace("period_s", "periods"), tmp_path))


def test_a_run_of_words_goes_on_after_a_stop(command: Command) -> None:
    command.write("run.toml", TRADING + FEATURES)

    first, again = command("run", "run.toml", "--quiet"), command("run", "run.toml")

    assert (first.code, again.code) == (0, 0), first.err + again.err
    assert {one.name: (one.status, one.current_step) for one in harnesses(command.folder / "run.db")} == {
        "desk": ("completed", 21),
        "list": ("completed", 2),
    }
    assert (command.folder / "run.db-desk-venue").is_file()


def test_a_trading_harness_that_was_killed_goes_on_with_its_books(command: Command) -> None:
    command.write("run.toml", TRADING.replace("limit = 20", "limit = 400"))
    process = command.start("run", "run.toml", "--quiet", "--store", "own.db")
    wait_until(lambda: heads(command.folder / "own.db").get("desk", 0) > 30)
    process.kill()
    process.wait()

    done = command("run", "run.toml", "--quiet", "--store", "own.db")

    assert done.code == 0, done.err
    assert heads(command.folder / "own.db") == {"desk": 401}


def test_harnesses_spend_from_their_pool_and_crash_under_their_supervisor(command: Command) -> None:
    command.write(
        "run.toml",
        '[[supervisor]]\nname = "desk"\nbudget = { steps = 50 }\n[[pool]]\nname = "team"\nsteps = 7\n'
        + TICKING.format("a", 'supervisor = "desk"\npool = "team"\nbudget = { steps = 100 }')
        + TICKING.format("b", 'supervisor = "desk"\npool = "team"'),
    )

    done = command("run", "run.toml", "--quiet")
    shown = [json.loads(line) for line in command("budgets", "--json").out.splitlines()]

    assert sum(heads(command.folder / "run.db").values()) == 7, done.err
    assert {one["pool"] for one in shown} == {"pool/team", "supervisor/desk", "harness/a"}


def test_doctor_looks_at_every_word_and_makes_nothing(command: Command) -> None:
    servers = 'mcp = [{ command = ["no-server"] }, { command = ["./bad"] }]'
    agent = f'{{ model = "openai-chat:m", base_url = "http://127.0.0.1:9/v1", {servers} }}'
    missing, asking = CODING.replace('"x"', '"no-such-program"'), CODING.replace('{ command = ["x"] }', agent)
    bare = '{ pytest = ["a.py::b"], python = "./bare" }'
    untested = CODING.replace('"fix"', '"old"').replace('["x"]', '["true"]').replace('"pytest"', bare)
    command.write("run.toml", TRADING + FEATURES + missing + asking.replace('"fix"', '"ask"') + untested + PIPELINE)
    command.write("bad", "#!/no/such/interpreter -x\n")
    command.write("bare", f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n').chmod(0o755)
    before = set(command.folder.iterdir())

    done = command("doctor", "run.toml")

    assert "desk: TradingHarness can be made" in done.out
    assert "shop: PipelineHarness can be made" in done.out
    assert [line for line in done.out.splitlines() if line.startswith("FAIL")] == [
        "FAIL  run file     run.toml: harness 'fix': coding: agent: command: program 'no-such-program' not found: "
        "expected it on PATH, or a path",
        f"FAIL  run file     run.toml: harness 'ask': coding: agent: mcp: command: program '{command.folder}/bad' "
        "cannot be run: expected the interpreter '/no/such/interpreter' that its first line names, got none",
        "FAIL  run file     run.toml: harness 'ask': coding: agent: mcp: command: program 'no-server' not found: "
        "expected it on PATH, or a path",
        f"FAIL  run file     run.toml: harness 'old': coding: validator: pytest: {command.folder}/bare has no pytest: "
        "expected it, since it runs the tests",
    ]
    assert f"run `{command.folder}/bare -m pip install pytest`, or set `python`" in done.out
    assert set(command.folder.iterdir()) == before


def test_doctor_tells_a_mistake_within_a_word(command: Command) -> None:
    command.write("run.toml", TRADING.replace("aapl.csv", "none.csv"))

    done = command("doctor", "run.toml")

    assert done.code == 1
    assert "none.csv" in done.out


def test_orders_reach_a_run_of_words(command: Command) -> None:
    command.write("run.toml", TRADING.replace("limit = 20", "limit = 3000"))
    process = command.start("run", "run.toml", "--quiet")
    wait_until(lambda: heads(command.folder / "run.db").get("desk", 0) > 3)

    paused, resumed, stopped = command.each(["pause", "desk"], ["resume", "desk"], ["stop", "desk"])

    assert [one.code for one in (paused, resumed, stopped)] == [0, 0, 0]
    assert ended(process).code == 3


def test_a_trading_harness_that_is_restarted_by_order_goes_on_with_its_books(command: Command) -> None:
    command.write("run.toml", TRADING.replace("limit = 20", "limit = 3000"))
    process = command.start("run", "run.toml", "--quiet")
    wait_until(lambda: heads(command.folder / "run.db").get("desk", 0) > 3)

    restarted = command("restart", "desk")
    before = heads(command.folder / "run.db")["desk"]
    wait_until(lambda: heads(command.folder / "run.db")["desk"] > before + 3)
    command("stop", "desk")

    assert restarted.code == 0, restarted.err
    assert harnesses(command.folder / "run.db")[0].attempt == 2
    assert ended(process).code == 3
