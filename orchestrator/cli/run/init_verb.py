"""The verbs `init` and `schema`: a run file to start from, and what editors need to complete and check one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.std_streams import say
from orchestrator.cli.verb_options import USUAL, Common
from orchestrator.errors import UsageError

_HERE = Path(__file__).parent
_SCHEMA = _HERE / "run_file_schema.json"
_FILES = {"run.toml": "starting_run.toml", "my_harness.py": "starting_harness.txt"}
"""What is written, and from what."""


def init(folder: Annotated[Path, Parameter(metavar="FOLDER")] = Path(), /, common: Common = USUAL) -> int:
    """Write a commented run file to start from, and a harness for it.

    `run.toml` and `my_harness.py` run as they are: `orchestrator run run.toml`. What else a run file can say is in it as
    comments: trading, coding, pipelines, budgets, supervisors, alerts. `run-file.schema.json` is for editors. Files that are
    there already are left alone.

    Args:
        folder: where to write them (default: this folder)
    """
    files = {folder / name: (_HERE / source).read_text(encoding="utf-8") for name, source in _FILES.items()}
    files[folder / "run-file.schema.json"] = _SCHEMA.read_text(encoding="utf-8")
    there = [path for path in files if path.exists()]
    if there:
        raise UsageError(f"{there[0]} is there already: expected a folder without it; name another folder, or move it away")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
            say(f"wrote {path}")
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}; name another folder") from error
    say(f"to run it: orchestrator run {folder / 'run.toml'}")
    return ExitCode.OK


def schema(*, common: Common = USUAL) -> int:
    """Print the JSON Schema of run files, for editors.

    In an editor with Taplo or Even Better TOML, a first line `#:schema ./run-file.schema.json` in the run file is enough.
    """
    sys.stdout.write(_SCHEMA.read_text(encoding="utf-8"))
    return ExitCode.OK
