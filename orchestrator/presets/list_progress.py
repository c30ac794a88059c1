"""The progress of a feature list or a pipeline, read from its records page by page: tries, passes, and what they cost.

Invariants: a record is read once; tries, passes and cost are those of the analysis (`analyze progress` and `analyze cost`).
Status and evidence are those of the newest state.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from threading import Lock
from typing import Any

import msgspec
from attrs import define, field, frozen

from harnesses.features.feature import Feature, Standing
from harnesses.features.feature_record import Iteration, IterationKind, IterationResult, IterationStatus, SessionManifest
from harnesses.pipeline.pipeline_state import MoveKind, PipelineInput, PipelineOutput, PipelineState
from orchestrator.codec import decode
from orchestrator.errors import UsageError
from orchestrator.presets.run_folder import pipeline_of
from orchestrator.store.sqlite.sqlite_reader import SqliteReader

FEATURES, TASKS = "features", "tasks"
_PAGE, _SPAN = 500, 20_000
_SHORT = 300


@frozen
class _FeatureStep:
    input: Iteration
    output: IterationResult


@frozen
class _TaskStep:
    input: PipelineInput
    output: PipelineOutput


_read_feature_step = msgspec.json.Decoder(_FeatureStep).decode
_read_task_step = msgspec.json.Decoder(_TaskStep).decode


def kind_of_list(body: str) -> str:
    """Return what the harness works on that recorded the body of a step: `features`, `tasks`, or "" for neither."""
    for kind, read in ((FEATURES, _read_feature_step), (TASKS, _read_task_step)):
        try:
            read(body)
        except (msgspec.MsgspecError, UnicodeError):
            continue
        return kind
    return ""


@frozen
class Try:
    """A finished try at a feature or a task, or a set-back."""

    step: int
    time: datetime
    id: str
    """Of the feature or the task."""
    number: int
    status: str
    passed: bool | None
    """None if it does not count as a try."""
    is_try: bool
    took_s: float
    reason: str
    """The end of the evidence, or why there is none."""
    commit: str | None = None
    tokens: int | None = None
    """As the agent reported them."""
    money: Decimal | None = None


@frozen
class Change:
    """The number of features or tasks that pass, after it has changed."""

    time: datetime
    passing: int
    listed: int


@frozen
class Cost:
    """What tries have cost; None where it is not known."""

    tries: int
    in_vain: int
    money: Decimal | None
    tokens: int | None
    took_s: float


@frozen
class FeatureList:
    """A feature list as it stands."""

    manifest: SessionManifest | None = None
    features: tuple[Feature, ...] = ()
    standings: tuple[Standing, ...] = ()


_read_list = msgspec.json.Decoder(FeatureList).decode


@define(eq=False)
class ListProgress:
    """What is known of a list so far.

    Args:
        reader: the store.
        name: the harness.
        what: `features` or `tasks`.
    """

    reader: SqliteReader
    name: str
    what: str
    step: int = field(default=0, init=False)
    """The last step that was read."""
    seq: int = field(default=0, init=False)
    """The last record that was searched for charges."""
    tries: list[Try] = field(factory=list[Try], init=False)
    changes: list[Change] = field(factory=list[Change], init=False)
    begin: datetime | None = field(default=None, init=False)
    end: datetime | None = field(default=None, init=False)
    lock: Lock = field(factory=Lock, init=False)
    """Held while it is read or told."""
    _passing: set[str] = field(factory=set[str], init=False)
    _listed: int = field(default=0, init=False)
    _costs: dict[tuple[str, int], tuple[int | None, Decimal | None]] = field(
        factory=dict[tuple[str, int], tuple[int | None, Decimal | None]], init=False
    )
    """Tokens and money of an attempt at a task, as its agent reported them."""
    _began: dict[tuple[str, int], datetime] = field(factory=dict[tuple[str, int], datetime], init=False)
    charged: dict[int, tuple[Decimal, int]] = field(factory=dict[int, tuple[Decimal, int]], init=False)
    """Money and tokens that were charged, by step."""
    _copied: int = field(default=0, init=False)
    """The last step that a fork has copied, and that its origin has paid for."""

    def advance(self, until: int, last_seq: int, limit_s: float) -> None:
        """Read steps and records up to some, but for no longer than about so many seconds of processor time.

        Raises:
            UsageError: a step is not one of such a harness.
        """
        begun = time.thread_time()
        while self.step < until and time.thread_time() - begun < limit_s:
            rows = self.reader.step_rows(self.name, after=self.step, limit=min(_PAGE, until - self.step))
            if not rows:
                break
            for row in rows:
                self._read(row.step, datetime.fromtimestamp(row.time_us / 1e6, UTC), row.body)
        while self.seq < last_seq and time.thread_time() - begun < limit_s:
            self._search(min(last_seq, self.seq + _SPAN))

    def is_complete(self, until: int, last_seq: int) -> bool:
        """Whether everything up to a step and a record was read."""
        return self.step >= until and self.seq >= last_seq

    def _read(self, step: int, at: datetime, body: str) -> None:
        try:
            if self.what == FEATURES:
                self._read_feature_step(step, at, body)
            else:
                self._read_task_step(step, at, body)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise UsageError(f"harness {self.name!r}: step {step} is not one of a list of {self.what}: {error}") from error
        self.step, self.end = step, at
        self.begin = self.begin or at

    def _read_feature_step(self, step: int, at: datetime, body: str) -> None:
        read = _read_feature_step(body)
        given, said = read.input, read.output
        if given.kind in (IterationKind.INITIALIZE, IterationKind.AMEND):
            self._list(step, at, len(_read_list(self.reader.state_at(self.name, step)).features))
        if given.feature_id is None or given.kind not in (IterationKind.TURN, IterationKind.RECHECK, IterationKind.RECOVER):
            return
        is_try = given.kind is not IterationKind.RECHECK
        passed: bool | None = None
        if is_try and said.status is IterationStatus.PASSED:
            passed = True
        elif is_try and said.status in (IterationStatus.NOT_VALIDATED, IterationStatus.CHAT_FAILED):
            passed = False
        is_rechecked = not is_try and said.status is IterationStatus.PASSED
        verdict, result = said.verdict, said.result
        self._add(
            Try(
                step=step,
                time=at,
                id=given.feature_id,
                number=given.turn,
                status="rechecked" if is_rechecked else said.status.value,
                passed=passed,
                is_try=is_try,
                took_s=said.duration_s,
                reason=(verdict.evidence if verdict else said.note)[-_SHORT:],
                commit=(verdict.commit if verdict else None) or (result.commit if result else None),
                tokens=(result.tokens or None) if result else None,
            ),
            is_set_back=said.status is IterationStatus.SET_BACK,
        )

    def _read_task_step(self, step: int, at: datetime, body: str) -> None:
        read = _read_task_step(body)
        given, said = read.input, read.output
        if given.kind is MoveKind.PLAN:
            self._list(step, at, len((self.pipeline(step) or PipelineState()).plan))
        for event in said.events:
            self._read_event(step, at, event)
        ends = (MoveKind.JUDGE, MoveKind.ACT, MoveKind.RECLAIM, MoveKind.BLOCK)
        if given.kind not in ends or said.status == "IN_PROGRESS":
            return
        is_try = given.kind is not MoveKind.BLOCK
        is_passed = said.status == "PASS"
        other = "needs_context" if said.status == "NEEDS_CONTEXT" else "passed" if is_passed else "not_validated"
        status = {MoveKind.BLOCK: "blocked", MoveKind.RECLAIM: "cut_off"}.get(given.kind, other)
        tokens, money = self._costs.get((given.task, given.attempt), (None, None))
        begun = self._began.get((given.task, given.attempt))
        took_s = (_when(said.events[-1], at) - begun).total_seconds() if begun and said.events else 0.0
        self._add(
            Try(
                step=step,
                time=at,
                id=given.task,
                number=given.attempt,
                status=status,
                passed=is_passed if is_try else None,
                is_try=is_try,
                took_s=max(took_s, 0.0),
                reason=said.note[-_SHORT:],
                tokens=tokens,
                money=money,
            ),
            is_set_back=False,
        )

    def _read_event(self, step: int, at: datetime, event: Mapping[str, Any]) -> None:
        task, attempt = str(event.get("task_id", "")), event.get("attempt")
        match event:
            case {"type": "task_started"} if isinstance(attempt, int):
                self._began[task, attempt] = _when(event, at)
            case {"type": "evidence_stale"}:
                why = f"its evidence is stale because of {event.get('because_of')}"
                self._add(Try(step, at, task, 0, "set_back", None, False, 0.0, why[:_SHORT]), is_set_back=True)
            case {"cost": {**cost}} if isinstance(attempt, int):
                self._costs[task, attempt] = _tokens(cost.get("tokens")), _money(cost.get("actual_usd"))
            case _:
                pass

    def _list(self, step: int, at: datetime, listed: int) -> None:
        if listed != self._listed:
            self._listed = listed
            self.changes.append(Change(at, len(self._passing), listed))

    def _add(self, one: Try, *, is_set_back: bool) -> None:
        self.tries.append(one)
        if one.passed is True and one.id not in self._passing:
            self._passing.add(one.id)
        elif is_set_back and one.id in self._passing:
            self._passing.remove(one.id)
        else:
            return
        self.changes.append(Change(one.time, len(self._passing), self._listed))

    def _search(self, until: int) -> None:
        for record in self.reader.records_between(self.name, ("budget", "forked"), self.seq, until):
            if record.kind == "forked":
                self._copied = max(self._copied, record.step)
                continue
            if spent := decode(record.body).get("spent"):
                money, tokens = self.charged.get(record.step, (Decimal(0), 0))
                more, counted = _money(spent.get("money")) or Decimal(0), _tokens(spent.get("tokens")) or 0
                self.charged[record.step] = money + more, tokens + counted
        self.seq = until

    def cost(self, tries: Iterable[Try]) -> Cost:
        """Return what some tries have cost together."""
        paid = [one for one in tries if one.step > self._copied]
        money = [amount for one in paid if (amount := self.money_of(one)) is not None]
        tokens = [count for one in paid if (count := self.tokens_of(one)) is not None]
        return Cost(
            tries=sum(one.is_try for one in paid),
            in_vain=sum(one.is_try and not one.passed for one in paid),
            money=sum(money, Decimal(0)) if money else None,
            tokens=sum(tokens) if tokens else None,
            took_s=sum(one.took_s for one in paid),
        )

    def money_of(self, one: Try) -> Decimal | None:
        """Return what was charged for a try, or else what its agent reported."""
        return self.charged.get(one.step, (None, None))[0] or one.money

    def tokens_of(self, one: Try) -> int | None:
        """Return the tokens that were charged for a try, or else those that its agent reported."""
        return self.charged.get(one.step, (None, None))[1] or one.tokens

    def result_of(self, step: int) -> IterationResult | None:
        """Return the output of a step of a feature list; None if it was pruned."""
        rows = self.reader.step_rows(self.name, after=step - 1, limit=1)
        return _read_feature_step(rows[0].body).output if rows and rows[0].step == step else None

    def features(self, step: int) -> FeatureList:
        """Return the feature list after a step."""
        return _read_list(self.reader.state_at(self.name, step))

    def pipeline(self, step: int) -> PipelineState | None:
        """Return the state of the pipeline after a step; None if it has not begun."""
        return pipeline_of(decode(self.reader.state_at(self.name, step)))


def _when(event: Mapping[str, Any], at: datetime) -> datetime:
    """Return the time that an event tells, or else that of its step."""
    try:
        return datetime.fromisoformat(str(event.get("ts")))
    except ValueError:
        return at


def _tokens(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _money(value: object) -> Decimal | None:
    try:
        found = Decimal(str(value)) if value is not None else None
    except ArithmeticError:
        return None
    return found if found is not None and found.is_finite() else None
