"""What is kept of an attempt, and what is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from harnesses.errors import HarnessMisuse
from harnesses.governance.contracts.contract_json import read_builder, read_validator
from harnesses.memory import Fact, MemorySettings, Query, Skipped, Written, attempt_id, episode_of, read_settings
from harnesses.redaction.redactor import MARK
from tests.remembering import NOW, episode, memory
from tests.secrets.leaks import GITHUB, WORD

BUILDER = {
    "task_id": "007",
    "agent": "builder",
    "status": "PASS",
    "summary": "Rounded prices to ticks, half to even",
    "files_modified": ["shop/ticks.py"],
    "tests_run": ["pytest tests/test_ticks.py"],
    "risks": ["old orders keep their prices"],
    "next_steps": [],
    "memory_summary": {
        "work_done": "Prices are rounded to ticks in one place",
        "decisions": ["half to even"],
        "evidence": ["tests/test_ticks.py"],
        "context_to_keep": ["tick sizes come from the venue"],
        "context_to_drop": ["the old helper"],
        "next_agent_hints": ["look at fees next"],
    },
    "stage_summaries": [
        {"stage_id": "07-code", "agent_id": "coder", "work_done": "Wrote round_to_tick", "evidence": ["shop/ticks.py"]}
    ],
}
VALIDATOR = {
    "task_id": "007",
    "validator": "judge",
    "status": "PASS",
    "checks": [{"name": "tests", "status": "PASS", "evidence": "12 passed"}],
    "issues": [],
    "retry_recommendation": "none",
}


def _judged(builder: dict | None = None, validator: dict | None = None, attempt: int = 1):
    return episode_of(
        read_builder({**BUILDER, **(builder or {})}, task_id="007"),
        read_validator({**VALIDATOR, **(validator or {})}, task_id="007"),
        run_id="run",
        task="Round prices",
        attempt=attempt,
        evidence_paths=("tasks/007/builder.json", "tasks/007/validation.json"),
        now=NOW,
    )


def test_an_episode_holds_what_the_contracts_say() -> None:
    made = _judged()

    assert (made.id, made.outcome, made.validator_status) == ("ep_run_007_1", "PASS", "PASS")
    assert (made.quality, made.importance) == (0.9, 0.75)
    assert made.work_done == BUILDER["memory_summary"]["work_done"]
    assert made.stages == ("07-code",)
    assert made.stage_notes[0].work_done == "Wrote round_to_tick"
    assert "old orders keep their prices" in made.notes


@pytest.mark.parametrize(
    ("builder", "validator", "quality"),
    [
        ("PASS", "PASS", 0.9),
        ("DONE_WITH_CONCERNS", "PASS", 0.72),
        ("PASS", "FAIL", 0.25),
        ("FAIL", "PASS", 0.25),
        ("BLOCKED", "FAIL", 0.25),
    ],
)
def test_what_it_is_worth_follows_from_the_verdict(builder: str, validator: str, quality: float) -> None:
    made = _judged({"status": builder}, {"status": validator})

    assert made.quality == quality


def test_the_caller_can_claim_neither_trust_nor_quality(tmp_path: Path) -> None:
    kept = memory(tmp_path, write_policy="validation-attempts")
    kept.write(evolve(_judged(validator={"status": "FAIL"}), quality=1.0))

    recalled = kept.recall(Query("round prices to ticks", untrusted=True)).episodes[0]

    assert (recalled.trusted, recalled.episode.quality) == (False, 0.25)
    assert not hasattr(recalled.episode, "trusted")


@pytest.mark.parametrize(
    "change",
    [
        {"evidence_paths": ()},
        {"evidence_paths": (" ",)},
        {"validator_status": "FAIL"},
        {"validator_status": "pass"},
        {"outcome": "UNKNOWN"},
        {"outcome": "BLOCKED"},
        {"task": " "},
        {"run_id": ""},
        {"importance": 1.5},
        {"importance": float("nan")},
    ],
    ids=repr,
)
def test_only_what_is_approved_and_has_provenance_is_kept(tmp_path: Path, change: dict) -> None:
    kept = memory(tmp_path)

    assert isinstance(kept.write(episode(**change)), Skipped)
    assert kept.diagnostics().episodes == 0


def test_an_attempt_is_written_once(tmp_path: Path) -> None:
    kept = memory(tmp_path)

    assert kept.write(episode()) == Written(id="ep_run_one_1", trusted=True)
    assert kept.write(episode()) == Written(id="ep_run_one_1", trusted=True, new=False)
    assert isinstance(kept.write(episode(task="Something else")), Skipped)
    assert kept.diagnostics().episodes == 1


def test_two_attempts_are_two_episodes(tmp_path: Path) -> None:
    kept = memory(tmp_path)

    ids = {kept.write(_judged(attempt=attempt)).id for attempt in (1, 2)}

    assert ids == {"ep_run_007_1", "ep_run_007_2"}


def test_ids_of_long_or_strange_names_do_not_meet() -> None:
    names = [
        ("a" * 150, "b"),
        ("a" * 151, "b"),
        ("a b", "c"),
        ("a-b", "c"),
        ("a", "b_1"),
        ("a_b", "1"),
        ("x/y", ""),
        ("x y", ""),
    ]

    assert len({attempt_id(run, task, 1) for run, task in names}) == len(names)


def test_every_text_has_a_limit_and_no_secret(tmp_path: Path) -> None:
    long = "word " * 3000
    made = _judged({"summary": f"used {GITHUB} {long}", "tests_run": [f"login --password {WORD}"] * 99})
    kept = memory(tmp_path)

    kept.write(evolve(made, task=long, notes=f"password: {WORD} \x1b[31m\x00", files=tuple(map(str, range(99)))))

    read = kept.recall(Query("word")).episodes[0].episode
    assert (len(read.task), len(read.files), len(read.tests)) == (700, 30, 20)
    assert read.notes == f"password: {MARK} [31m"
    content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert GITHUB.encode() not in content
    assert WORD.encode() not in content


def test_facts_are_found_by_a_piece_of_text_or_by_words(tmp_path: Path) -> None:
    kept = memory(tmp_path)
    for learning in ("The venue closes at 22:00 UTC", "Ticks of the venue are 0.01", "Mail goes out by SMTP"):
        kept.learn(learning)
    kept.learn("Mail goes out by SMTP")

    assert [fact.learning for fact in kept.facts("VENUE")] == ["Ticks of the venue are 0.01", "The venue closes at 22:00 UTC"]
    assert [fact.learning for fact in kept.facts("closing venue")] == ["The venue closes at 22:00 UTC"]
    assert len(kept.facts()) == 3


def test_the_latest_twenty_facts_are_given(tmp_path: Path) -> None:
    kept = memory(tmp_path)
    for number in range(25):
        kept.learn(f"fact {number} " + "x" * 2000)

    facts = kept.facts("fact")

    assert [fact.learning.split()[1] for fact in facts] == [str(number) for number in range(24, 4, -1)]
    assert len(facts[0].learning) == 1000


@pytest.mark.parametrize("fact", ["", "  ", Fact(learning="x", created_at=NOW, derived_from=("ep_of_nobody",))], ids=repr)
def test_a_fact_that_says_nothing_or_comes_from_nowhere_is_refused(tmp_path: Path, fact: Fact | str) -> None:
    with pytest.raises(HarnessMisuse, match="expected"):
        memory(tmp_path).learn(fact)


def test_settings_are_read_strictly() -> None:
    assert read_settings({"top": 5, "retrieval": "fused"}) == MemorySettings(top=5, retrieval="fused")
    assert (MemorySettings().top, MemorySettings().max_characters) == (3, 1800)


WRONG = (
    *({"topK": 3}, {"top": 0}, {"top": 11}, {"top": True}, {"top": "3"}, {"max_characters": 399}, {"decay": "true"}),
    *({"retrieval": "semantic"}, {"min_relevance": float("nan")}, {"half_life_days": 0}, {"keep_recent": 9000}),
)


@pytest.mark.parametrize("table", WRONG, ids=repr)
def test_a_setting_that_is_not_as_expected_is_an_error_that_names_it(table: dict) -> None:
    with pytest.raises(HarnessMisuse, match=next(iter(table))):
        read_settings(table)
