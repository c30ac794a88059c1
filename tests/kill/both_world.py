"""What `tests.kill.both` runs: its run file, and repositories whose features a model knows how to bring about."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path

from attrs import asdict, frozen

from harnesses.trading.exchange.ccxt_client import CcxtOptions
from tests.harnesses.agents.command.real_programs import PROGRAMS, program_path
from tests.harnesses.coding.git_repositories import make_repository
from tests.model_server import ModelServer
from tests.venue.placing import reach

_RUN_FILE = """
store = "run.db"
log = "log.jsonl"
intensity = 1000000
backoff = {{ base_s = 0.01, cap_s = 0.5 }}

[[harness]]
name = "trading"
[harness.trading]
feed = {{ function = "tests.kill.both_parts:make_feed", arguments = {{ url = "{url}", start = "{start}", told = "{told}" }} }}
strategy = {{ function = "tests.kill.both_parts:make_strategy" }}
broker = {{ exchange = "binance", options = {{ {options} }} }}
limits = {{ max_age_s = 8640000 }}
period_s = 0.2
"""
_CODING = """
[[harness]]
name = "{name}"
[harness.coding]
repository = "{name}"
workspace = "{name}-space"
agent = {{ dialect = {{ name = "claude_code", program = "{program}", arguments = {arguments} }}, env = {env}, limit_s = 60 }}
"""


def run_file(venue: str, model: str, home: Path, start: str, told: Path, coding: Sequence[str]) -> str:
    """Return a run file with a trading harness and coding harnesses, each beside its repository.

    Args:
        venue: its address, as `model` is that of the model.
        home: the home of the agents.
        start: from when the venue's bars are traded.
        told: the file that says until when.
    """
    text = _RUN_FILE.format(url=venue, start=start, told=told, options=_inline(reach(venue, 4)))
    claude = PROGRAMS["claude"]
    arguments = json.dumps(["--tools", "Bash", "--allowedTools", "Bash"])
    env = _table({**claude.env(model), "HOME": str(home)})
    for name in coding:
        text += _CODING.format(name=name, program=program_path(claude), arguments=arguments, env=env)
    return text


@frozen
class Work:
    """How a repository is made: so many features, of which every third is done wrong at first."""

    features: int

    @property
    def names(self) -> list[str]:
        return [f"part_{number:02}" for number in range(self.features)]

    def make(self, place: Path) -> None:
        """Make a repository in which each part fails its test."""
        files = {"shop/__init__.py": "", "pytest.ini": "[pytest]\npythonpath = .\n"}
        for number, name in enumerate(self.names):
            files[f"shop/{name}.py"] = _body(0)
            files[f"tests/test_{name}.py"] = (
                f"from shop import {name}\n\n\ndef test_price():\n    assert {name}.price(2) == {2 * (number + 1)}\n"
            )
        make_repository(place, files)

    def teach(self, model: ModelServer) -> None:
        """Give the model its answer to each feature: the code, and at every third one wrong code at first."""
        for number, name in enumerate(self.names):
            asked = {"userMessage": f"Feature: tests/test_{name}.py::test_price\n"}
            model.reply({**asked, "hasToolResult": True}, {"content": "It is done."})
            if number % 3 == 0:
                model.reply({**asked, "hasToolResult": False, "sequenceIndex": 0}, _writes(name, number + 2))
            model.reply({**asked, "hasToolResult": False}, _writes(name, number + 1))
        model.reply({}, {"content": "a title"})


def _body(factor: int) -> str:
    return f"def price(count):\n    return count * {factor}\n"


def _writes(name: str, factor: int) -> Mapping[str, object]:
    command = f"cat > shop/{name}.py <<'END'\n{_body(factor)}END"
    call = {"name": "Bash", "arguments": {"command": command, "description": "write the part"}}
    return {"content": "I write it.", "toolCalls": [call]}


def _inline(options: CcxtOptions) -> str:
    """Return options as the content of an inline table of TOML."""
    kept = {key: value for key, value in asdict(options).items() if value not in ({}, "", None)}
    return _table(kept)[1:-1]


def _table(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {_table(one)}" for key, one in value.items()) + "}"
    return str(value) if isinstance(value, Decimal) else json.dumps(value)
