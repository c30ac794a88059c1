"""What can be forged about a piece of work: each function changes one thing, so that it must not pass any more."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from attrs import evolve

from tests.forgery.work import FILES, STAGES, TS, Work

Forge: TypeAlias = Callable[[Work, random.Random], None]
NEEDED = ("task_id", "agent", "status", "summary", "files_modified", "tests_run", "risks", "next_steps")
VALIDATOR_NEEDED = ("task_id", "validator", "status", "checks", "issues", "retry_recommendation")
NOTHING = ["", " ", "\t\n", "\u200b\u200b", "-", "...", "n/a", "TODO", "SKIPPED", "none"]
WRONG: list[Any] = [3, True, {}, {"a": 1}, 1.5, [3], [None], [[]]]
ALIKE = {"b": "\u0432", "i": "\u0456", "e": "\u0435", "u": "\u03c5"}


def a_field_left_out(work: Work, chance: random.Random) -> None:
    del work.builder[chance.choice(NEEDED)]


def a_field_without_a_value(work: Work, chance: random.Random) -> None:
    work.builder[chance.choice(NEEDED)] = None


def a_field_of_another_kind(work: Work, chance: random.Random) -> None:
    work.builder[chance.choice(NEEDED)] = chance.choice(WRONG)


def another_status(work: Work, chance: random.Random) -> None:
    work.builder["status"] = chance.choice(["FAIL", "BLOCKED", "pass", "Pass", "PASSED", "OK", "", "PASS ", "\u0420ASS"])


def nothing_said(work: Work, chance: random.Random) -> None:
    nothing = chance.choice(NOTHING) * chance.choice([1, 1, 9]) if chance.random() < 0.5 else " " * 40
    place = chance.choice(["summary", "work_done", "stage"])
    if place == "summary":
        work.builder["summary"] = nothing
    elif place == "work_done":
        work.builder["memory_summary"]["work_done"] = nothing
    else:
        chance.choice(work.builder["stage_summaries"])["work_done"] = nothing


def no_tests(work: Work, chance: random.Random) -> None:
    work.builder["tests_run"] = [chance.choice(NOTHING) for _ in range(chance.randint(0, 4))]


def no_evidence_said(work: Work, chance: random.Random) -> None:
    owner = chance.choice([work.builder["memory_summary"], *work.builder["stage_summaries"]])
    owner["evidence"] = chance.choice([[], [""], [" ", "\u200b"], [{}], [{"n": 1}], [{"file": " "}]])


def no_memory(work: Work, chance: random.Random) -> None:
    del work.builder["memory_summary"]


def a_stage_left_out_or_said_twice(work: Work, chance: random.Random) -> None:
    stages = work.builder["stage_summaries"]
    if chance.random() < 0.5:
        stages.pop(chance.randrange(len(stages)))
    else:
        stages.append(dict(chance.choice(stages)))


def a_stage_of_its_own(work: Work, chance: random.Random) -> None:
    strange = chance.choice([STAGES[0] + " ", STAGES[0].upper(), "99-mine", "07-code\u200b", "09-deployment"])
    work.builder["stage_summaries"].append({**work.builder["stage_summaries"][0], "stage_id": strange})


def another_attempts_nonce(work: Work, chance: random.Random) -> None:
    owner = chance.choice([work.builder, work.validator])
    nonce: str = owner["nonce"]
    owner["nonce"] = chance.choice(
        ["", nonce[:-1], nonce + "0", nonce.upper() + "A", f"{chance.getrandbits(128):032x}", " " + nonce]
    )


def another_tasks_contract(work: Work, chance: random.Random) -> None:
    owner = chance.choice([work.builder, work.validator])
    owner["task_id"] = chance.choice(["005-testing", "", "004-implementation ", "004-IMPLEMENTATION"])


def a_later_claim(work: Work, chance: random.Random) -> None:
    work.claim = evolve(work.claim, nonce=f"{chance.getrandbits(128):032x}")


def a_validator_that_is_the_builder(work: Work, chance: random.Random) -> None:
    name = "".join(ALIKE.get(letter, letter) if chance.random() < 0.4 else letter for letter in "builder")
    name = "".join(letter.upper() if chance.random() < 0.3 else letter for letter in name)
    spot = chance.randint(0, len(name))
    name = name[:spot] + chance.choice(["", " ", "\u200b", "\u00ad", "-", "_", ".", "\u0301"]) + name[spot:]
    if chance.random() < 0.5:
        work.validator["validator"] = name
    else:
        work.validator["identity"] = {"name": name}


def a_validator_without_a_name(work: Work, chance: random.Random) -> None:
    work.validator["validator"] = chance.choice(["", " ", "\u200b", None])


def a_verdict_that_is_none(work: Work, chance: random.Random) -> None:
    work.validator[chance.choice(VALIDATOR_NEEDED)] = chance.choice([None, 3, True, {"a": 1}, [3]])


def a_verdict_that_says_no(work: Work, chance: random.Random) -> None:
    if chance.random() < 0.5:
        work.validator["status"] = "FAIL"
    else:
        work.validator["checks"].append({"name": "x", "status": "FAIL", "evidence": "broken"})


def content_that_is_another(work: Work, chance: random.Random) -> None:
    path = work.root / chance.choice(FILES)
    chance.choice([_rewrite, _append, _delete, _to_link, _to_directory, _to_pipe, _parent_to_link, _lock_out])(path)


def _rewrite(path: Path) -> None:
    path.write_text("another")


def _append(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n")


def _delete(path: Path) -> None:
    path.unlink()


def _to_link(path: Path) -> None:
    path.rename(path.with_suffix(".real"))
    path.symlink_to(path.with_suffix(".real").name)


def _to_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _to_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _parent_to_link(path: Path) -> None:
    parent, real = path.parent, path.parent.with_name(path.parent.name + ".real")
    parent.rename(real)
    parent.symlink_to(real.name)


def _lock_out(path: Path) -> None:
    shutil.rmtree(path.parent)


def a_file_outside(work: Work, chance: random.Random) -> None:
    outside = work.root.parent / "outside.py"
    outside.write_text("x")
    link = work.root / "src" / "link.py"
    link.unlink(missing_ok=True)
    link.symlink_to(outside)
    named = ["../outside.py", str(outside), "/etc/passwd", "src/link.py", "src/../../outside.py", "", ".", "src", "gone.py"]
    work.builder["files_modified"] = [*work.builder["files_modified"], chance.choice(named)]


def a_file_that_nobody_looked_at(work: Work, chance: random.Random) -> None:
    (work.root / "src/new.py").write_text("new")
    work.builder["files_modified"] = [*work.builder["files_modified"], "src/new.py"]


def a_lower_grade(work: Work, chance: random.Random) -> None:
    row = chance.choice(work.ledger)
    row["grade"] = "reported" if row["kind"] != "tests" else chance.choice(["reported", "observed"])


def evidence_taken_away(work: Work, chance: random.Random) -> None:
    work.ledger.pop(chance.randrange(len(work.ledger)))


def evidence_of_another_attempt(work: Work, chance: random.Random) -> None:
    chance.choice(work.ledger)["attempt"] += chance.choice([1, 2, 7])


def evidence_that_is_none(work: Work, chance: random.Random) -> None:
    row = chance.choice(work.ledger)
    row[chance.choice(["ts", "task_id", "kind", "status", "evidence"])] = chance.choice([None, "", "  ", 3, []])


def evidence_with_another_hash(work: Work, chance: random.Random) -> None:
    bound = chance.choice(chance.choice(work.ledger)["subject"])
    spot = chance.randrange(64)
    digit = chance.choice([one for one in "0123456789abcdefX" if one != bound["sha256"][spot]])
    bound["sha256"] = bound["sha256"][:spot] + digit + bound["sha256"][spot + 1 :]


def evidence_against_it(work: Work, chance: random.Random) -> None:
    row = {**chance.choice(work.ledger), "status": chance.choice(["FAIL", "BLOCKED"])}
    if chance.random() < 0.5:
        work.reported.append(row)
    else:
        work.ledger.append({**row, "grade": chance.choice(["reported", "observed", "rerun"])})


def evidence_that_the_agent_makes_up(work: Work, chance: random.Random) -> None:
    row = work.ledger.pop(chance.randrange(len(work.ledger)))
    work.reported += [{**row, "grade": chance.choice(["rerun", 3, "observed", None]), "ts": TS} for _ in range(3)]


def text_that_is_no_contract(work: Work, chance: random.Random) -> None:
    text = json.dumps(work.builder)
    spot = chance.randrange(1, len(text) - 1)
    deep = "[" * 5000 + "]" * 5000
    work.text = chance.choice(
        [
            text[:spot],
            text[:-1] + ', "status": "PASS"}',
            text[:-1] + ', "x": NaN}',
            text[:-1] + ', "x": 1e999}',
            text[:-1] + f', "x": {deep}}}',
            text[:-1] + f', "x": {"9" * 5000}}}',
            text[:-1] + ', "x": "\\ud800"}',
            text[:-1] + f', "x": "{"y" * 1_000_000}"}}',
            f"[{text}]",
            text + text,
            text.encode("utf-16"),
            text.encode()[:spot] + b"\xff" + text.encode()[spot:],
            "",
            "null",
            "Done! All tests pass.",
        ]
    )


def more_than_the_limits_allow(work: Work, chance: random.Random) -> None:
    name, most = chance.choice([("tool_calls", 40), ("messages", 25)])
    work.builder["execution"][name] = most + chance.choice([1, 2, 1000])


FORGERIES: tuple[Forge, ...] = tuple(
    made
    for name, made in list(globals().items())
    if callable(made) and name.split("_")[0] in ("a", "another", "nothing", "no", "content", "evidence", "text", "more")
)
