"""Checks of the artifacts of the preset's stages. No I/O.

    00-environment            run_mode is greenfield, brownfield or feature
    01-transcript             it has text, and goals
    06-architecture           components, their interfaces, trade-offs, security boundaries
    07-code                   files that exist and have content; tests; no placeholders
    08-testing                totals that add up; a cause for each failure; no skip without a reason
    12-security-threat-model  threats with a category; a mitigation for the high ones; no secrets
    13-compliance-checker     frameworks; a remediation for each gap

Invariants: an artifact of the wrong shape is a failed check that names the place, never an error or a pass; a check without
anything to inspect does not pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

from harnesses.governance.contracts.completeness import is_meaningful
from harnesses.governance.contracts.contract import Check, failed, passed
from harnesses.pipeline.plan.stage import Artifact
from harnesses.redaction.redactor import redact_text

RUN_MODES = ("greenfield", "brownfield", "feature")
SEVERITIES = ("low", "medium", "high", "critical")
_GRAVE = ("high", "critical")
_SHOWN = 5
_MOST = 10_000
"""Maximum entries of a list in an artifact; a longer one is refused."""
_STUB = re.compile(
    r"\b(?:TODO|FIXME)\b[:\s]*(?:implement|write|fill|add|finish|real)"
    r"|\braise\s+NotImplementedError\b|\bthrow\s+new\s+Error\(\s*['\"]not implemented"
    r"|\b(?:unimplemented|todo)!\s*\(|^\s*(?:#|//|/\*)\s*(?:placeholder|stub)\b|\blorem ipsum\b|\byour code here\b",
    re.IGNORECASE | re.MULTILINE,
)


def present(made: Artifact) -> Check:
    """Check that an artifact exists and is not empty; JSON must be an object."""
    name, artifact = "artifact_present", made.artifact
    if made.problem:
        return failed(name, f"{made.path}: {made.problem}")
    if made.path.endswith(".json") and not isinstance(artifact, dict):
        return failed(name, f"{made.path}: expected an object, was {_kind(artifact)}")
    if made.path.endswith(".json") and not any(map(_says, cast(dict[str, object], artifact).values())):
        return failed(name, f"{made.path} says nothing: every field is blank")
    return passed(name, f"{made.path} has content")


def environment(made: Artifact) -> tuple[Check, ...]:
    """Check stage 00: the run mode is one of three."""
    mode, modes = _at(made, "run_mode"), ", ".join(RUN_MODES)
    return (_check("run_mode_valid", mode in RUN_MODES, f"run_mode: expected one of {modes}, was {mode!r:.80}"),)


def transcript(made: Artifact) -> tuple[Check, ...]:
    """Check stage 01: there is a transcript, and it has goals."""
    return (_filled(made, "transcript", "transcript_present"), _listed(made, "goals", "goals_non_empty"))


def architecture(made: Artifact) -> tuple[Check, ...]:
    """Check stage 06: components with interfaces, trade-offs and security boundaries."""
    names = ("components", "interfaces", "tradeoffs", "security_boundaries")
    return tuple(_listed(made, name, f"{name}_listed") for name in names)


def code(made: Artifact) -> tuple[Check, ...]:
    """Check stage 07: changed files exist and have content, tests were run, there are no placeholders."""
    named, files = made.files_modified, made.files
    missing = [path for path in named if path not in files and len(files) < len(named)]
    empty = [path for path, text in files.items() if not text.strip()]
    stubs = [f"{path}: {match.group().strip()[:60]!r}" for path, text in files.items() if (match := _STUB.search(text))]
    tested = [one for one in made.tests_run if is_meaningful(one) and not one.strip().upper().startswith("SKIPPED")]
    there = bool(files)
    return (
        _check("files_named", bool(named), f"files_modified names {len(named)} files"),
        _no_wrong("files_exist", missing, f"{len(files)} files were read", "not there", there=there),
        _no_wrong("files_non_empty", empty, "all have content", "empty", there=there),
        _check("tests_evidence", bool(tested), f"tests_run has {len(tested)} tests that were run"),
        _no_wrong("no_placeholder_stubs", stubs, "none found", "found", there=there),
    )


def testing(made: Artifact) -> tuple[Check, ...]:
    """Check stage 08: totals add up, every failure has a root cause, every skip has a reason."""
    totals = _at(made, "totals")
    counts = {name: _at_in(totals, name) for name in ("total", "passed", "failed", "skipped")}
    numbers = {name: value for name, value in counts.items() if type(value) is int and value >= 0}
    counted = len(numbers) == len(counts) and numbers["total"] > 0
    adds_up = counted and numbers["total"] == numbers["passed"] + numbers["failed"] + numbers["skipped"]
    said = f"totals: expected total > 0 = passed + failed + skipped, was {counts!r:.160}"
    return (
        _check("totals_counted", adds_up, said),
        _explained(made, "failures", "root_cause", numbers.get("failed"), "failures_have_root_cause"),
        _explained(made, "skips", "reason", numbers.get("skipped"), "no_silent_skips"),
    )


def threats(made: Artifact) -> tuple[Check, ...]:
    """Check stage 12: every threat has a category and a severity, severe ones have a mitigation, and there are no secrets."""
    entries, problem = _entries(made, "threats")
    vague = [where for where, one in entries if not _says(one.get("category"))]
    unrated = [where for where, one in entries if one.get("severity") not in SEVERITIES]
    bare = [where for where, one in entries if one.get("severity") in _GRAVE and not _says(one.get("mitigation"))]
    leaks = [where for where, text in _texts(made.artifact, "$") if redact_text(text) != text]
    rated = f"expected one of {', '.join(SEVERITIES)}"
    return (
        _no_wrong("threats_have_category", vague, f"{len(entries)} threats", "no category", problem),
        _no_wrong("threats_have_severity", unrated, "all are rated", rated, problem),
        _no_wrong("grave_threats_mitigated", bare, "all are", "no mitigation", problem),
        _no_wrong("no_secrets", leaks, "none found", "found at", made.problem),
    )


def compliance(made: Artifact) -> tuple[Check, ...]:
    """Check stage 13: frameworks are named, and every gap has a remediation."""
    gaps = _at(made, "gaps")
    entries, problem = _entries(made, "gaps") if gaps != [] else ([], "")
    bare = [where for where, one in entries if not _says(one.get("remediation"))]
    return (
        _listed(made, "frameworks", "frameworks_listed"),
        _no_wrong("gaps_have_remediation", bare, f"{len(entries)} gaps", "none for", problem),
    )


def run_stage_checks(made: Artifact, checks: Callable[[Artifact], Sequence[Check]] | None) -> tuple[Check, ...]:
    """Return the results of an artifact's checks; an error raised by them is a failed check."""
    try:
        return (present(made), *(() if checks is None else checks(made)))
    except Exception as error:
        problem = f"{made.path}: the checks raised {type(error).__name__}: {error!s:.200}"
        return (present(made), failed("stage_checks", problem))


# inspecting plain data


def _check(name: str, good: bool, evidence: str) -> Check:
    return passed(name, evidence) if good else failed(name, evidence)


def _no_wrong(name: str, wrong: Sequence[str], good: str, what: str, problem: str = "", *, there: bool = True) -> Check:
    """Return a check that a list of wrong places is empty, and that there was anything to inspect."""
    found = f"{what}: {', '.join(wrong[:_SHOWN])}" if wrong else good
    return _check(name, there and not problem and not wrong, problem or found)


def _kind(value: object) -> str:
    names: dict[type[object], str] = {
        dict: "an object",
        list: "an array",
        str: "a text",
        bool: "true or false",
        type(None): "null",
    }
    return names.get(type(value), "a number")


def _at(made: Artifact, name: str) -> object:
    return _at_in(made.artifact, name)


def _at_in(value: object, name: str) -> object:
    return cast(dict[str, object], value).get(name) if isinstance(value, dict) else None


def _says(value: object) -> bool:
    """Return whether a value has content: a non-blank text, a number, or a collection with such a value."""
    if isinstance(value, str):
        return is_meaningful(value)
    if isinstance(value, dict):
        return any(map(_says, cast(dict[str, object], value).values()))
    if isinstance(value, list):
        return any(map(_says, cast(list[object], value)))
    return isinstance(value, int | float) and not isinstance(value, bool)


def _filled(made: Artifact, name: str, check: str) -> Check:
    value = _at(made, name)
    said = _says(value)
    return _check(check, said, f"{name}: {'is there' if said else f'expected something, was {value!r:.80}'}")


def _listed(made: Artifact, name: str, check: str) -> Check:
    value = _at(made, name)
    if not isinstance(value, list):
        return failed(check, f"{name}: expected an array with something in it, was {_kind(value)}")
    items = cast(list[object], value)
    blank = [f"{name}[{place}]" for place, item in enumerate(items[:_MOST]) if not _says(item)]
    return _no_wrong(check, blank, f"{name} has {len(items)} entries", "blank", there=0 < len(items) <= _MOST)


def _entries(made: Artifact, name: str) -> tuple[list[tuple[str, dict[str, object]]], str]:
    """Return the objects in an array with their places, and the array's problem."""
    value = _at(made, name)
    if not isinstance(value, list) or not value:
        was = "an empty one" if value == [] else _kind(value)  # pyright: ignore[reportUnknownArgumentType]
        return [], f"{name}: expected an array with something in it, was {was}"
    items = cast(list[object], value)
    if len(items) > _MOST:
        return [], f"{name}: expected at most {_MOST} entries, was {len(items)}"
    for place, item in enumerate(items):
        if not isinstance(item, dict):
            return [], f"{name}[{place}]: expected an object, was {_kind(item)}"
    return [(f"{name}[{place}]", cast(dict[str, object], item)) for place, item in enumerate(items)], ""


def _explained(made: Artifact, name: str, why: str, number: int | None, check: str) -> Check:
    """Check that a list has the given number of entries, and that each has a reason."""
    if number is None:
        return failed(check, f"{name}: how many there are is not counted")
    value = _at(made, name)
    if number == 0 and value in (None, []):
        return passed(check, f"{name}: none")
    entries, problem = _entries(made, name)
    if not problem and len(entries) != number:
        problem = f"{name}: expected {number} entries as counted in totals, was {len(entries)}"
    bare = [f"{where}.{why}" for where, one in entries if not _says(one.get(why))]
    return _no_wrong(check, bare, f"{number} explained", "blank", problem)


def _texts(value: object, path: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield every text in plain data with its path."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping) and depth < 50:
        for key, item in cast(Mapping[str, object], value).items():
            yield f"{path} (a key)", key
            yield from _texts(item, f"{path}.{key:.40}", depth + 1)
            if isinstance(item, str):
                # The key before a value may be what identifies it as a secret.
                yield f"{path}.{key:.40}", f"{key}: {item}"
    elif isinstance(value, list) and depth < 50:
        for place, item in enumerate(cast(list[object], value)):
            yield from _texts(item, f"{path}[{place}]", depth + 1)
