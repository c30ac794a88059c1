"""Ready-made judges for stored steps: they compare today's verdict on a step with the recorded one.

guardrails   a `Watch` with today's limits, compared with the `guardrail` records
features     validators that run nothing, compared with the verdict in the output of a feature harness
evidence     an `EvidencePolicy` and today's contract rules, compared with the verdict that a pipeline recorded
actions      the classifier of commands, compared with the approvals that were requested

A judge serves one pass over the steps of one harness: the ones for guardrails and loops keep earlier steps in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias, cast

import msgspec
from attrs import asdict, evolve

from harnesses.features.feature import Feature, Verdict
from harnesses.features.feature_validators import OutcomeValidator, proves
from harnesses.features.loop.feature_harness import FeatureHarness
from harnesses.features.turn_results import check_verdict
from harnesses.governance import EvidencePolicy, Guardrails, Watch, completeness, judge, read_builder, read_validator
from harnesses.governance.contracts.contract import Check, ValidatorContract, failed
from harnesses.governance.errors import ContractError
from harnesses.governance.evidence.attempt_verdict import unreadable
from harnesses.governance.evidence.evidence_ledger import read_ledger
from harnesses.guard import classify
from harnesses.pipeline.harness import PipelineHarness
from harnesses.pipeline.pipeline_state import MoveKind, PipelineState, TaskRecord
from harnesses.step import Step
from orchestrator.codec import decode
from orchestrator.errors import UsageError
from orchestrator.history.rejudging import Judge, Look
from orchestrator.history.state_at_step import Like

Command: TypeAlias = str | list[str]


# guardrails


def guardrails(
    rails: Guardrails,
    figures: Callable[[Any], Mapping[str, object]] | None = None,
    *,
    moment: Callable[[Any], datetime | None] | None = None,
    like: Like | None = None,
) -> Judge:
    """Return a judge that applies these limits to stored steps; a verdict is the list of findings.

    At the first step it starts from what the step before kept; at a new attempt it continues with its own data, as a run does.
    Budgets and deadlines are not checked.

    Args:
        figures: as for `Watch`; its argument is typed if `like` is given here or to `rejudge`.
    """
    again = _Watching(Watch(rails, figures, moment=moment))
    return Judge("guardrails", again.findings, _findings_on_record, like=like)


class _Watching:
    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._last: tuple[int, int] | None = None
        """Number and attempt of the last step seen."""

    def findings(self, look: Look) -> object:
        record = look.record
        if self._last is None or self._last[0] + 1 != record.step_number:
            self._watch.restore(look.kept.get("governance", {}), lambda: look.before)
        elif self._last[1] != record.attempt:
            self._watch.restore(self._watch.kept(), lambda: look.before)
        self._last = record.step_number, record.attempt
        step = Step[Any, Any](record.step_number, record.timestamp, record.input, record.output, record.state_delta)
        # The whole state, because a delta that was read back has other keys than a live one.
        delta = {"value": None} if look.before is not look.after else {}
        return [_pick_fields(asdict(found)) for found in self._watch.look(step, delta, lambda: look.after)]


def _findings_on_record(look: Look) -> object:
    return [_pick_fields(decode(record.body)) for record in look.beside if record.kind == "guardrail"]


def _pick_fields(finding: Mapping[str, Any]) -> dict[str, Any]:
    return {name: finding.get(name) for name in ("limit_name", "current_value", "limit_value", "reason", "policy")}


# features


def features(validator: OutcomeValidator[Any], *, like: Like = FeatureHarness) -> Judge:
    """Return a judge that runs a validator on each recorded try, with the agent's recorded answer; a verdict is a `Verdict`.

    Two verdicts agree if both pass or both do not pass, whatever their reasons.

    Raises:
        UsageError: the validator runs something. It declares so by `proves`; without a declaration it is assumed to.
    """
    if proves(validator):
        raise UsageError(
            f"validator {validator!r:.100} runs something, or does not declare that it does not (`proves = False`): expected "
            "one that only reads; nothing is run when steps are re-judged"
        )

    async def today(look: Look) -> object:
        result = look.record.output.result
        feature = _feature_of(look)
        if result is None or feature is None:
            return None
        return check_verdict(await validator.validate(feature, result), f"validator {validator!r:.100}")

    def same(stored: Verdict, now: Verdict) -> bool:
        return stored.passed is now.passed

    return Judge("features", today, lambda look: look.record.output.verdict, same, like)


def _feature_of(look: Look) -> Feature | None:
    """Return the feature that a step is about, as it was at that step."""
    id = look.record.input.feature_id
    return next((feature for feature in look.before.features if feature.id == id), None)


# evidence


def evidence(policy: EvidencePolicy, *, like: Like = PipelineHarness) -> Judge:
    """Return a judge for a pipeline's verdicts: the same contract, checks and evidence, by today's rules.

    Evaluated again: whether the contract can be read and is complete, and whether the evidence suffices. Results of checks and
    validators, and the content that the evidence refers to, are taken from the record: no file is read.
    A verdict is a `ValidatorContract`; two agree if their statuses are the same.
    """

    def today(look: Look) -> object:
        stored, task = _verdict_in(look), _task_of(look.before, look)
        if stored is None or task is None or task.claim is None or task.built is None:
            return None
        contract, checks = _contract_checks(task, look)
        names = {check.name for check in checks}
        stays = [one for one in stored.checks if one.name not in names and not f"{one.name}:".startswith("evidence:")]
        ledger, problems = read_ledger(cast(Sequence[Mapping[str, object]], look.record.output.evidence))
        entries = [evolve(one, subject=()) for one in ledger if one.kind != "validation"]
        met = policy.met_by(entries, stages=contract, attempt=task.claim.attempt)
        met += tuple(failed("evidence", problem) for problem in problems)
        return judge(task.claim, None, [*checks, *stays], met, validator=stored.validator, contract_needed=False)

    def same(stored: ValidatorContract, now: ValidatorContract) -> bool:
        return stored.status is now.status

    return Judge("evidence", today, _verdict_in, same, like)


def _verdict_in(look: Look) -> ValidatorContract | None:
    """Return the verdict that a step recorded."""
    task = _task_of(look.after, look) if look.record.input.kind is MoveKind.JUDGE else None
    if task is None or not task.validation:
        return None
    return read_validator(task.validation, task_id=str(task.id))


def _task_of(state: PipelineState, look: Look) -> TaskRecord | None:
    return next((task for task in state.tasks if str(task.id) == look.record.input.task), None)


def _contract_checks(task: TaskRecord, look: Look) -> tuple[Sequence[str], list[Check]]:
    """Return the stages of a task, and the checks of its contract by today's rules."""
    stages = [str(id) for note in look.before.plan if note.id == task.id for id in note.stages]
    assert task.built is not None
    if not (text := task.built.contract or task.builder):
        return stages, []
    try:
        return stages, list(completeness(read_builder(text, task_id=str(task.id)), stages=stages))
    except ContractError as error:
        return stages, list(unreadable(error))


# actions


def actions(
    command_of: Callable[[Mapping[str, Any]], Command | None] | None = None, *, disposable: Collection[str] = ()
) -> Judge:
    """Return a judge for recorded commands: those that effects ran, and those that approval was requested for.

    A verdict is the set of categories that each command needs approval for, `{"git push -f": ["git-force", "publish"]}`; the
    recorded one is what approval was requested for. Commands are parsed, not run.

    Args:
        command_of: returns the command in the body of an intent; default reads what `GovernedCommands` records.
        disposable: as for `classify`.
    """
    command_of = command_of or _read_command

    def today(look: Look) -> object:
        return {
            _text(command): sorted({one.category for one in classify(command, disposable=disposable, root=root)})
            for command, root, _ in _commands(look, command_of)
        } or None

    def stored(look: Look) -> object:
        asked = {body["key"]: _categories(body) for kind, body in _bodies(look) if kind == "approval_requested"}
        return {_text(command): asked.get(key, []) for command, _, key in _commands(look, command_of)} or None

    return Judge("actions", today, stored)


def _commands(look: Look, command_of: Callable[[Mapping[str, Any]], Command | None]) -> Iterator[tuple[Command, str, str]]:
    """Yield each command of a step, its working folder, and the key of its effect."""
    for kind, body in _bodies(look):
        command, folder = None, ""
        if kind == "intent":
            command, folder = command_of(body), _folder(body)
        elif kind == "approval_requested":
            match body.get("arguments"):
                case {"command": asked, **more} if _is_command(asked):
                    command, folder = cast(Command, asked), str(more.get("cwd", ""))
                case _:
                    pass
        if command is not None:
            yield command, folder, body["key"]


def _folder(body: Mapping[str, Any]) -> str:
    match body.get("arguments"):
        case [_, str() as folder]:
            return folder
        case _:
            return ""


def _bodies(look: Look) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((record.kind, decode(record.body)) for record in look.beside)


def _read_command(body: Mapping[str, Any]) -> Command | None:
    """Return the command and working folder of an intent that `GovernedCommands` recorded."""
    match body.get("arguments"):
        case [str() | [*_] as command, str()] if _is_command(command):
            return cast(Command, command)
        case _:
            return None


def _is_command(command: Any) -> bool:
    if isinstance(command, list):
        words = cast(list[object], command)
        return bool(words) and all(isinstance(word, str) for word in words)
    return isinstance(command, str) and bool(command)


def _categories(body: Mapping[str, Any]) -> list[str]:
    """Return the categories that approval was requested for."""
    match body.get("arguments"):
        case {"categories": [*names]}:
            return sorted(map(str, names))
        case _:
            return [str(body.get("category"))]


def _text(command: Command) -> str:
    return command if isinstance(command, str) else msgspec.json.encode(command).decode()
