"""Whether work that is said to be done is complete, and who may say so. Pure, but for `file_checks`, which looks at files.

    check                      of a builder that says PASS or DONE_WITH_CONCERNS
    summary_meaningful         10 characters that can be seen, or more
    tests_run_meaningful       one item that says something; `SKIPPED: why` does
    memory_summary_work_done   10 characters or more
    memory_summary_evidence    one item that says something: text, or an object that has such text
    stage_summary:<stage>      for each stage: one entry, with work done (10 characters) and evidence
    stage_summaries_known      no entry for a stage that was not asked for
    stage_summaries            no stage was asked for: nothing to look at

The laws: what nobody can see says nothing; names that a reader would take for the same are the same; and a builder that says
FAIL or BLOCKED need not be complete, and is never passed either: `judge` sees to that.
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
"""Characters of a summary, and of what is said of work done."""
_SHOWN = 20
"""Bad files of which each has a check of its own; the rest are counted in one."""


def completeness(contract: BuilderContract, *, stages: Sequence[str], known: Iterable[str] | None = None) -> tuple[Check, ...]:
    """Return the checks of a builder that says that it is done; none for any other.

    Args:
        stages: that the work was to cover.
        known: stages that an entry may be for; None is `stages`.
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
    """Return whether every file that was modified, all of them, is there and lies inside `root`, links resolved."""
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
    """Return whether who built and who judged are two.

    They are one if they are the same object, or if any name of the one is a name of the other: case, spacing, punctuation,
    invisible characters and letters that look alike make no other. Who has no name is nobody in particular: that fails too.
    That both are the same program and model is said, and does not fail: it is another conversation.
    """
    name = "validator_independent"
    if _innermost(builder) is _innermost(validator) and not isinstance(builder, str):
        return failed(
            name, f"{_names(builder)[0]!r:.100} built it and judged it: expected another to judge; ask another agent"
        )
    built, judged = (tuple(filter(visible, _names(one))) for one in (builder, validator))
    if not built or not judged:
        return failed(name, f"who {'judged' if built else 'built'} it is not known: expected a name; have it named")
    alike = {skeleton(one) for one in built} & {skeleton(one) for one in judged}
    if alike:
        return failed(name, f"built by {built[0]!r:.100}, judged by {judged[0]!r:.100}, who is the same; ask another agent")
    same = _kinds(builder) & _kinds(validator)
    also = f"; both are {' '.join(next(iter(same)))}"[:200] if same else ""
    return passed(name, f"built by {built[0]!r:.100}, judged by {judged[0]!r:.100}{also}")


def says_something(item: EvidenceItem) -> bool:
    """Return whether an item of evidence has a text that is not blank."""
    if isinstance(item, str):
        return bool(visible(item))
    return any(isinstance(value, str) and visible(value) for value in item.values())


def _long(name: str, path: str, text: str) -> Check:
    if says_enough(text, LEAST):
        return passed(name, f"{len(visible(text))} characters")
    return failed(name, f"builder.{path}: expected {LEAST} characters or more, was {text[:40]!r}; say what was done")


def _some(name: str, path: str, items: Sequence[EvidenceItem]) -> Check:
    good = [item for item in items if (is_meaningful(item) if isinstance(item, str) else says_something(item))]
    if good:
        return passed(name, f"{len(good)} of {len(items)} items say something")
    hint = "say which, or `SKIPPED: why`" if path == "tests_run" else "name what shows it"
    return failed(name, f"builder.{path}: expected an item that says something, was {len(items)} that say nothing; {hint}")


def _stage_checks(
    summaries: Sequence[StageSummary], stages: tuple[str, ...], known: Iterable[str] | None
) -> tuple[Check, ...]:
    allowed = set(stages) | set(known or ())
    checks = [_stage_check(stage, [one for one in summaries if one.stage_id == stage]) for stage in stages]
    if not stages:
        checks.append(passed("stage_summaries", "no stage was asked for"))
        if known is None:
            return tuple(checks)
    strange = dict.fromkeys(one.stage_id for one in summaries if one.stage_id not in allowed)
    if strange:
        named = ", ".join(f"{one_line(stage, 40)!r}" for stage in list(strange)[:5])
        checks.append(failed("stage_summaries_known", f"builder.stage_summaries: {named} was not asked for; leave it out"))
    elif stages:
        checks.append(passed("stage_summaries_known"))
    return tuple(checks)


def _stage_check(stage: str, found: Sequence[StageSummary]) -> Check:
    name = f"stage_summary:{stage}"
    if len(found) != 1:
        return failed(name, f"builder.stage_summaries: expected one entry for {stage!r}, was {len(found)}; add what was done")
    work, evidence = found[0].work_done, any(map(says_something, found[0].evidence))
    if not says_enough(work, LEAST):
        return failed(name, f"work_done: expected {LEAST} characters or more, was {work[:40]!r}; say what was done")
    if not evidence:
        return failed(name, "evidence: expected an item that says something, was none; name what shows it")
    return passed(name, f"{len(found[0].evidence)} items of evidence")


def _wrong_with(path: str, root: Path) -> str:
    """Return what is wrong with a file; "" if nothing is."""
    shown = one_line(path, 200)
    try:
        if not path.strip() or "\0" in path:
            return f"{shown!r} is no path: expected a file inside the project; correct it"
        within, place = os.path.realpath(root), os.path.realpath(os.path.join(root, path))
        if os.path.commonpath([within, place]) != within or place == within:
            return f"{shown!r} lies outside of the project: expected a file inside it; leave it out"
        if os.path.isfile(place):
            return ""
        if os.path.isdir(place):
            return f"{shown!r} is a directory: expected a file; name the files in it"
    except (OSError, ValueError) as error:
        return f"{shown!r} cannot be looked at: {one_line(str(error), 100)}; correct it"
    return f"{shown!r} is not there: expected a file that was modified; leave it out, or write it"


def _names(one: object) -> tuple[str, ...]:
    """Return all names that somebody goes by."""
    if isinstance(one, BuilderContract):
        return (one.agent, one.identity.name) if one.identity else (one.agent,)
    if isinstance(one, ValidatorContract):
        return (one.validator, one.identity.name) if one.identity else (one.validator,)
    return (one,) if isinstance(one, str) else (cast("Identity | Agent[Any, Any, Any]", one).name,)


def _kinds(one: object) -> set[tuple[str, str]]:
    """Return the program and model, if both are known."""
    identity = one.identity if isinstance(one, BuilderContract | ValidatorContract) else one
    if isinstance(identity, Identity) and identity.harness and identity.model:
        return {(identity.harness, identity.model)}
    return set()


def _innermost(one: object) -> object:
    """Return the agent itself, whatever it is wrapped in."""
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
"""Words that stand where something should be said."""
_FILLED = re.compile(f"(?:{'|'.join(sorted(filter(None, _FILLERS), key=len, reverse=True))})*")
_SKIPPED = re.compile(r"\s*skip(?:ped)?\b(.*)", re.IGNORECASE | re.DOTALL)
_ALIKE = str.maketrans(
    "авекмнорстухіјѕԁһԛԝɡαβεικνορτυχγωıⅼ",
    "abekmhopctyxijsdhqwgabeiknoptuxywil",
)
"""Letters of other scripts, in lower case, that look like one of ours. Source: Unicode TR39, confusables.txt, an extract."""


def visible(text: str) -> str:
    """Return `text` without what nobody sees: controls, format characters, and white space at its ends."""
    return "".join(letter for letter in text if letter in "\n\t" or unicodedata.category(letter)[0] != "C").strip()


def says_enough(text: str, least: int) -> bool:
    """Return whether a text has at least `least` characters that can be seen, and they are more than marks and fillers."""
    seen = visible(text)
    return len(seen) >= least and not _is_filled(seen)


def is_meaningful(text: str) -> bool:
    """Return whether an item says anything: `SKIPPED: no network` does; a dash, `n/a` and `SKIPPED` do not."""
    seen = visible(text)
    skipped = _SKIPPED.fullmatch(seen)
    said = skipped.group(1) if skipped else seen
    return not _is_filled(said)


def _is_filled(text: str) -> bool:
    """Return whether a text is made of words that say nothing: `TODO`, `n/a - n/a`, or none at all."""
    return _FILLED.fullmatch("".join(letter for letter in text.casefold() if letter.isalnum())) is not None


def skeleton(name: str) -> str:
    """Return what is left of a name when all that a reader may overlook is gone: case, spacing, marks, look-alikes.

    Covered: Unicode's compatibility forms, combining marks, invisible characters, and the Cyrillic and Greek letters that
    look like Latin ones. Not covered: `rn` for `m`, `0` for `o`, and all that needs a typographer.
    """
    flat = unicodedata.normalize("NFKD", name).casefold().translate(_ALIKE)
    return "".join(letter for letter in unicodedata.normalize("NFKD", flat) if letter.isalnum()) or visible(name)
