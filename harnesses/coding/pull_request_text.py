"""Formats title and body of a pull request. No I/O.

Invariant: text of agents, tests and repositories is in code spans, where a host neither links, mentions nor closes anything.
"""

from __future__ import annotations

from itertools import accumulate

from attrs import frozen

from harnesses.features.agent_text import cut_list, failure_line, one_line, proof_lines
from harnesses.features.feature import Feature, FeatureStatus, Standing
from harnesses.features.feature_record import FeatureState
from harnesses.features.handoff_text import before_of, cost_of, diff_of

DEFAULT_OBJECTIVE = "Bring about every feature of the list, one after the other, and break nothing that works."
"""The objective if nobody has named one. It tells a reviewer nothing, so a pull request leaves it out."""
_MOST_FEATURES = 200
_MOST_BODY = 60_000
"""Characters; GitHub takes 65,536."""
_MOST_TITLE = 120


@frozen
class PullRequestText:
    """What a reviewer reads."""

    title: str
    body: str


def pull_request_text(name: str, state: FeatureState, title: str | None, confirmations: int) -> PullRequestText:
    """Return title and body for the accepted work of a feature list.

    Args:
        title: the title that the user has chosen; None for one with the harness's name.
        confirmations: how often each feature had to pass.
    """
    passed = sum(one.status is FeatureStatus.PASSED for one in state.standings)
    count = f"{passed} of {len(state.features)} features {'passes' if passed == 1 else 'pass'}"
    made = title or f"{name}: {count}"
    objective = "" if state.manifest is None else state.manifest.current_objective
    told = [] if objective in ("", DEFAULT_OBJECTIVE) else [code(objective, 1_000), ""]
    rows = [_feature(feature, standing) for feature, standing in zip(state.features, state.standings, strict=True)]
    times = "once" if confirmations == 1 else f"{confirmations} times in a row"
    lines = [
        *told,
        f"{count}. Each accepted work passed {times}, in new worktrees, with the tests as they were before.",
        "",
    ]
    ends = accumulate(len(row) + 1 for row in rows)
    fit = sum(end <= _MOST_BODY - 3_000 for end in ends)
    lines += cut_list(rows, min(fit, _MOST_FEATURES))
    return PullRequestText(one_line(made, _MOST_TITLE).lstrip("- ") or count, "\n".join(lines) + "\n")


def code(text: str, most: int = 200) -> str:
    """Return text as a code span of Markdown, on one line."""
    return f"`{one_line(text, most).replace('`', chr(39)).strip() or ' '}`"


def _feature(feature: Feature, standing: Standing) -> str:
    counts = [f"{standing.tries} {'try' if standing.tries == 1 else 'tries'}", cost_of(standing)]
    says = one_line(feature.description, 300)
    title = code(feature.id) if says.startswith(feature.id) or not says else f"{code(feature.id)}: {code(says, 300)}"
    lines = [f"* {title} **{standing.status}**, {', '.join(filter(None, counts))}"]
    if standing.status is FeatureStatus.PASSED:
        if before := before_of(standing):
            lines.append(f"  * before: {code(before, 300)}")
        if standing.evidence is not None:
            lines.append(f"  * after: {code(proof_lines(standing.evidence.evidence), 400)}")
    elif standing.last_failure:
        lines.append(f"  * {code(failure_line(standing.last_failure), 300)}")
    if diff := diff_of(standing):
        lines.append(f"  * {code(diff)}")
    return "\n".join(lines)
