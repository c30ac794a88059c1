"""What `init` writes runs as it is, every example in it can be used, and the schema accepts what the program accepts."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from orchestrator.cli.run.init_verb import init, schema
from orchestrator.cli.run.run_file import parse_run_file
from orchestrator.errors import UsageError
from tests import ROOT
from tests.orchestrator.commanding import Command


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    text = (ROOT / "orchestrator" / "cli" / "run" / "run_file_schema.json").read_text(encoding="utf-8")
    made: Any = json.loads(text)
    Draft202012Validator.check_schema(made)
    return Draft202012Validator(made)


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    with Command(tmp_path) as command:
        yield command


def test_what_is_written_runs_as_it_is(command: Command) -> None:
    assert command("init", ".").code == 0
    text = (command.folder / "run.toml").read_text()
    (command.folder / "run.toml").write_text(text.replace("limit = 10", "limit = 1"))
    assert command("run", "run.toml", "--quiet").code == 0
    assert "counted to 1" in command("steps", "counting").out


def test_every_example_in_it_can_be_used_and_is_accepted_by_the_schema(
    tmp_path: Path, validator: Draft202012Validator
) -> None:
    init(tmp_path)
    text = re.sub(r"^#\| ?", "", (tmp_path / "run.toml").read_text(), flags=re.MULTILINE)
    read = parse_run_file(text, tmp_path / "run.toml")
    assert [table.config.name for table in read.harnesses] == ["counting", "trader", "fix", "design"]
    assert read.alerts.rules
    assert read.options["budget"]
    validator.validate(tomllib.loads(text))


def test_files_that_are_there_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "my_harness.py").write_text("mine")
    with pytest.raises(UsageError, match="is there already"):
        init(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["my_harness.py"]


def test_the_schema_accepts_the_run_files_of_docs_and_examples_and_refuses_wrong_ones(
    validator: Draft202012Validator, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = [path.read_text() for path in (ROOT / "examples").glob("*.toml")]
    for page in (ROOT / "docs").rglob("*.md"):
        texts += re.findall(r"```toml\n(.*?)```", page.read_text(), flags=re.DOTALL)
    accepted = 0
    for text in texts:
        try:
            parse_run_file(text, Path("run.toml"))
        except UsageError:
            continue
        accepted += 1
        validator.validate(tomllib.loads(text))
    assert accepted >= 8
    for wrong in (
        {"harness": [{"name": "a", "harness": "m:H", "restarts": "permanent"}]},
        {"harness": [{"name": "a", "restart": "always"}]},
        {"harness": [], "grace_s": "soon"},
        {"harness": [], "alert": [{"when": "blockd", "to": "x"}]},
        {"harness": [{"name": "a", "trading": {"feed": {"fils": {}}}}]},
    ):
        assert [*validator.iter_errors(wrong)], wrong
    assert schema() == 0
    assert json.loads(capsys.readouterr().out)["$defs"]["harness"]
