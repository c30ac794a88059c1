"""Checks whether work reported as done is complete, and whether its validator is independent. Only `file_checks` does I/O.

    check                      for a builder that reports PASS or DONE_WITH_CONCERNS
    summary_meaningful         at least 10 visible characters
    tests_run_meaningful       at least one meaningful item; `SKIPPED: why` counts
    memory_summary_work_done   at least 10 characters
    memory_summary_evidence    at least one meaningful item: text, or an object that contains such text
    stage_summary:<stage>      for each stage: one entry, with work done (10 characters) and evidence
    stage_summaries_known      no entry for a stage that was not requested
    stage_summaries            no stage was requested, so there is nothing to check

Invariants: invisible characters do not count; names that a reader would take for the same are the same. A builder that reports
FAIL or BLOCKED need not be complete, and never passes; `judge` enforces that.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

from harnesses.agent import Agent
from harnesses.features.agent_text import one_line
from harnesses.governance.contracts.contract import (
    BuilderContract,
    Check,
    EvidenceItem,
    Identity,
    StageSummary,
    ValidatorContract,
    failed,
    passed,
)

LEAST = 10
"""Minimum number of characters of a summary, and of a description of work done."""
_SHOWN = 20
"""Bad files that get a check of their own; the rest share one."""


def completeness(contract: BuilderContract, *, stages: Sequence[str], known: Iterable[str] | None = None) -> tuple[Check, ...]:
    """Return the checks for a builder that reports its work as done; empty for any other.

    Args:
        stages: the stages that the work had to cover.
        known: stages that may have an entry; None for `stages`.
    """
    if not contract.status.passing:
        return ()
    memory = contract.memory_summary
    return (
        _long("summary_meaningful", "summary", contract.summary),
        _some("tests_run_meaningful", "tests_run", contract.tests_run),
        _long("memory_summary_work_done", "memory_summary.work_done", memory.work_done if memory else ""),
        _some("memory_summary_evidence", "memory_summary.evidence", memory.evidence if memory else ()),
        *_stage_checks(contract.stage_summaries, tuple(dict.fromkeys(stages)), known),
    )


def file_checks(contract: BuilderContract, root: Path | str) -> tuple[Check, ...]:
    """Check that every modified file exists and, with links resolved, is inside `root`."""
    files = tuple(dict.fromkeys(contract.files_modified))
    wrong = [(path, why) for path in files if (why := _wrong_with(path, Path(root)))]
    if not wrong:
        return (passed("files_exist", f"{len(files)} of {len(files)} files are there, inside the project"),)
    checks = [failed(f"file:{one_line(path, 120)}", why) for path, why in wrong[:_SHOWN]]
    if len(wrong) > _SHOWN:
        checks.append(failed("files_exist", f"{len(wrong)} of {len(files)} files are not as they should be"))
    return tuple(checks)


def independent(
    builder: BuilderContract | Identity | Agent[Any, Any, Any] | str,
    validator: ValidatorContract | Identity | Agent[Any, Any, Any] | str,
) -> Check:
    """Check that builder and validator are different.

    They are the same if they are the same object, or if they share a name; case, spacing, punctuation, invisible characters
    and look-alike letters are ignored. A missing name fails. The same program and model are mentioned but pass: it is another
    conversation.
    """
    name = "validator_independent"
    if _innermost(builder) is _innermost(validator) and not isinstance(builder, str):
        return failed(
            name, f"{_names(builder)[0]!r:.100} is both builder and validator: expected another validator; ask another agent"
        )
    built, judged = (tuple(filter(visible, _names(one))) for one in (builder, validator))
    if not built or not judged:
        return failed(name, f"the {'validator' if built else 'builder'} is unknown: expected a name, got none; name the agent")
    alike = {skeleton(one) for one in built} & {skeleton(one) for one in judged}
    if alike:
        return failed(name, f"builder {built[0]!r:.100} and validator {judged[0]!r:.100} are the same; ask another agent")
    same = _kinds(builder) & _kinds(validator)
    also = f"; both are {' '.join(next(iter(same)))}"[:200] if same else ""
    return passed(name, f"built by {built[0]!r:.100}, judged by {judged[0]!r:.100}{also}")


def says_something(item: EvidenceItem) -> bool:
    """Return whether an evidence item contains non-blank text."""
    if isinstance(item, str):
        return bool(visible(item))
    return any(isinstance(value, str) and visible(value) for value in item.values())


def _long(name: str, path: str, text: str) -> Check:
    if says_enough(text, LEAST):
        return passed(name, f"{len(visible(text))} characters")
    return failed(name, f"builder.{path}: expected {LEAST} characters or more, got {text[:40]!r}; say what was done")


def _some(name: str, path: str, items: Sequence[EvidenceItem]) -> Check:
    good = [item for item in items if (is_meaningful(item) if isinstance(item, str) else says_something(item))]
    if good:
        return passed(name, f"{len(good)} of {len(items)} items are meaningful")
    hint = "say which, or `SKIPPED: why`" if path == "tests_run" else "name the evidence"
    return failed(name, f"builder.{path}: expected a meaningful item, got {len(items)} meaningless ones; {hint}")


def _stage_checks(
    summaries: Sequence[StageSummary], stages: tuple[str, ...], known: Iterable[str] | None
) -> tuple[Check, ...]:
    allowed = set(stages) | set(known or ())
    checks = [_stage_check(stage, [one for one in summaries if one.stage_id == stage]) for stage in stages]
    if not stages:
        checks.append(passed("stage_summaries", "no stage was requested"))
        if known is None:
            return tuple(checks)
    strange = dict.fromkeys(one.stage_id for one in summaries if one.stage_id not in allowed)
    if strange:
        named = ", ".join(f"{one_line(stage, 40)!r}" for stage in list(strange)[:5])
        checks.append(failed("stage_summaries_known", f"builder.stage_summaries: {named} was not requested; leave it out"))
    elif stages:
        checks.append(passed("stage_summaries_known"))
    return tuple(checks)


def _stage_check(stage: str, found: Sequence[StageSummary]) -> Check:
    name = f"stage_summary:{stage}"
    if len(found) != 1:
        return failed(name, f"builder.stage_summaries: expected one entry for {stage!r}, got {len(found)}; add what was done")
    work, evidence = found[0].work_done, any(map(says_something, found[0].evidence))
    if not says_enough(work, LEAST):
        return failed(name, f"work_done: expected {LEAST} characters or more, got {work[:40]!r}; say what was done")
    if not evidence:
        return failed(name, "evidence: expected a meaningful item, got none; name the evidence")
    return passed(name, f"{len(found[0].evidence)} items of evidence")


def _wrong_with(path: str, root: Path) -> str:
    """Return the problem with a file; "" if there is none."""
    shown = one_line(path, 200)
    try:
        if not path.strip() or "\0" in path:
            return f"{shown!r} is not a path: expected a file inside the project; correct it"
        within, place = os.path.realpath(root), os.path.realpath(os.path.join(root, path))
        if os.path.commonpath([within, place]) != within or place == within:
            return f"{shown!r} lies outside of the project: expected a file inside it; leave it out"
        if os.path.isfile(place):
            return ""
        if os.path.isdir(place):
            return f"{shown!r} is a directory: expected a file; name the files in it"
    except (OSError, ValueError) as error:
        return f"{shown!r} cannot be read: {one_line(str(error), 100)}; correct it"
    return f"{shown!r} does not exist: expected a modified file; leave it out, or write it"


def _names(one: object) -> tuple[str, ...]:
    """Return all names of an agent, identity or contract."""
    if isinstance(one, BuilderContract):
        return (one.agent, one.identity.name) if one.identity else (one.agent,)
    if isinstance(one, ValidatorContract):
        return (one.validator, one.identity.name) if one.identity else (one.validator,)
    return (one,) if isinstance(one, str) else (cast("Identity | Agent[Any, Any, Any]", one).name,)


def _kinds(one: object) -> set[tuple[str, str]]:
    """Return program and model, if both are known."""
    identity = one.identity if isinstance(one, BuilderContract | ValidatorContract) else one
    if isinstance(identity, Identity) and identity.harness and identity.model:
        return {(identity.harness, identity.model)}
    return set()


def _innermost(one: object) -> object:
    """Return the agent inside any wrappers."""
    for _ in range(20):
        inner: object = getattr(one, "inner", None)
        if not _is_agent(one) or not _is_agent(inner):
            break
        one = inner
    return one


def _is_agent(one: object) -> bool:
    return isinstance(one, Agent)


_FILLERS = frozenset(
    {"", "na", "none", "nil", "null", "nothing", "todo", "tbd", "tba", "pending", "unknown", "skip", "skipped"}
)
"""Filler words, used where a real answer is missing."""
_FILLED = re.compile(f"(?:{'|'.join(sorted(filter(None, _FILLERS), key=len, reverse=True))})*")
_SKIPPED = re.compile(r"\s*skip(?:ped)?\b(.*)", re.IGNORECASE | re.DOTALL)
_ALIKE = str.maketrans(
    "авекмнорстухіјѕԁһԛԝɡαβεικνορτυχγωıⅼ",
    "abekmhopctyxijsdhqwgabeiknoptuxywil",
)
"""Lower-case letters of other scripts that look like Latin ones. Source: Unicode TR39, confusables.txt, an extract."""


def visible(text: str) -> str:
    """Return `text` without invisible characters (controls, format characters) and outer white space."""
    return "".join(letter for letter in text if letter in "\n\t" or unicodedata.category(letter)[0] != "C").strip()


def says_enough(text: str, least: int) -> bool:
    """Return whether a text has at least `least` visible characters and is more than punctuation and fillers."""
    seen = visible(text)
    return len(seen) >= least and not _is_filled(seen)


def is_meaningful(text: str) -> bool:
    """Return whether an item is meaningful: `SKIPPED: no network` is; a dash, `n/a` and `SKIPPED` are not."""
    seen = visible(text)
    skipped = _SKIPPED.fullmatch(seen)
    said = skipped.group(1) if skipped else seen
    return not _is_filled(said)


def _is_filled(text: str) -> bool:
    """Return whether a text consists of fillers only: `TODO`, `n/a - n/a`, or nothing."""
    return _FILLED.fullmatch("".join(letter for letter in text.casefold() if letter.isalnum())) is not None


def skeleton(name: str) -> str:
    """Return a name without the differences that a reader may overlook: case, spacing, marks, look-alikes.

    Covered: Unicode compatibility forms, combining marks, invisible characters, and Cyrillic and Greek letters that look like
    Latin ones. Not covered: `rn` for `m`, `0` for `o`, and subtler typographic likenesses.
    """
    flat = unicodedata.normalize("NFKD", name).casefold().translate(_ALIKE)
    return "".join(letter for letter in unicodedata.normalize("NFKD", flat) if letter.isalnum()) or visible(name)
