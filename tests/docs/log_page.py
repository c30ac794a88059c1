"""`docs/reference/log.md`: every kind of line in the log, its fields, and a real line of it."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping

from attrs import frozen

from harnesses.effects.approval import Answer, Request, Use
from orchestrator.events import EVENTS
from orchestrator.log import HEADER
from orchestrator.text.log_line import RENAMED
from tests import ROOT
from tests.docs.field_docs import fields_of, json_type
from tests.docs.tables import rows

RUN = ROOT / "docs" / "reference" / "run.jsonl"
SAMPLES = ROOT / "docs" / "reference" / "log-samples.jsonl"


@frozen
class Kind:
    """One kind of record."""

    meaning: str
    fields: Mapping[str, tuple[str, str]]
    """JSON type and meaning of each field."""


def _fields(**fields: str) -> dict[str, tuple[str, str]]:
    """Return fields from `name="type: meaning"`; `from_` stands for `from`."""
    parts = {name: text.partition(": ") for name, text in fields.items()}
    return {"from" if name == "from_" else name: (type, meaning) for name, (type, _, meaning) in parts.items()}


def _of_class(cls: type, kind: str = "") -> dict[str, tuple[str, str]]:
    renamed = {name: f"{name}_" for name in HEADER} | RENAMED.get(kind, {})
    return {renamed.get(one.name, one.name): (json_type(one.type), one.meaning) for one in fields_of(cls)}


def _sentence(cls: type) -> str:
    return re.sub(r"\s+", " ", (inspect.getdoc(cls) or "").partition("\n\n")[0])


_WORK: dict[str, Kind] = {
    "step": Kind(
        "`execute()` yielded, and the step is on disk.",
        _fields(
            input="any: what the harness yielded as input",
            output="any: what it yielded as output",
            delta="object: how the state changed; `set` replaces fields, `in` goes into one",
            summary="string: from `update_state(…, summary=…)`",
            consumed="array: `seq` of each message that the step used up",
            ticks="object: how far the intervals of `every` have come",
            governance="object: what the guardrails remember from step to step",
            took_us="object: microseconds by part: `work`, `agent`, `effects`, `waiting`, `commit`, `held`",
        ),
    ),
    "output": Kind(
        "A harness or its agent wrote a line.",
        _fields(line="string: the text, without secrets", source="string: who wrote it, if it is not the harness"),
    ),
    "intent": Kind(
        "An effect is about to begin.",
        _fields(
            key="string: the effect within its step",
            arguments="array: what it is called with",
            idempotent="boolean: true if it may run again; left out otherwise",
            keep="boolean: true if a call that is cut off is a result, which blocks nothing; left out otherwise",
        ),
    ),
    "outcome": Kind(
        "An effect has ended, or a person settled it.",
        _fields(
            key="string: the effect within its step",
            outcome="string: `confirmed`, `refused`, `unknown`, `not_done`, `failed` or `interrupted`",
            result="any: what it returned",
            file="object: the file with the result, if it is large: `sha256`, `bytes`, `field`",
            reason="string: why it was refused, or why nobody knows",
            by="string: `operator`, if a person settled it",
        ),
    ),
    "message": Kind(
        "A message was put in a mailbox; `harness` is the recipient.",
        _fields(
            from_="string: the sender; `@operator` for a command",
            message_="any: the message",
            id="string: names it among all that the recipient gets",
            kind="string: `request` or `reply`; left out for a plain message",
            type="string: the name of its type, if the sender knows one",
            deadline_us="integer: of a request: when its sender stops waiting, microseconds since 1970",
        ),
    ),
    "reply": Kind(
        "A harness answered a question of an operator.",
        _fields(re="string: the request", to="string: `@operator`", message_="any: the answer"),
    ),
    "approval_requested": Kind("A harness asks for an approval.", _of_class(Request, "approval_requested")),
    "approval_answered": Kind("A person answered.", _of_class(Answer)),
    "approval_used": Kind("An approval was used: the act is about to begin.", _of_class(Use)),
    "child": Kind(
        "A harness started another one with this step.",
        _fields(
            child="string: the name of the new harness",
            factory="string: `module:name` of what makes it",
            arguments="array: positional arguments, and those by name",
            restart="string: `permanent`, `transient` or `temporary`",
            grace_s="number: seconds it gets to stop",
            step_timeout_s="number: seconds a step may take",
            deadline_s="number: seconds by which it must have ended",
            budget="object: what it may spend by itself",
        ),
    ),
    "evidence": Kind(
        '`attach("evidence", …)`: what speaks for or against work.',
        _fields(attached="object: the value; for the evidence ledger, the fields of `harnesses.governance.Evidence`"),
    ),
    "task": Kind(
        '`attach("task", …)`: what happened to a task.',
        _fields(attached="object: the value"),
    ),
    "transcript": Kind(
        "The conversation of an agent's turn. The line has level `debug`.",
        _fields(
            agent="string: name of the agent",
            model="string: `provider:model` that was asked first",
            scope="string: prefix of the keys of its effects",
            session="string: id of the conversation that the turn belongs to",
            turn="integer: number of the turn within its session",
            stop_reason="string: why the model stopped last",
            error="string: why the turn ended without an answer",
            model_calls="integer: number of model calls",
            tool_calls="integer: number of tool calls",
            tool_errors="integer: number of tool calls that failed",
            input_tokens="integer: tokens read, cached ones included",
            output_tokens="integer: tokens written, reasoning included",
            cached_tokens="integer: of `input_tokens`, from the provider's cache",
            cache_write_tokens="integer: of `input_tokens`, written to the provider's cache",
            reasoning_tokens="integer: of `output_tokens`, spent on reasoning",
            cost="string: of all model calls, in US dollars",
            message_count="integer: number of messages",
            rounds="array: model calls: model, position of the answer, usage, cost, attempts, reason for another model",
            compactions="array: summaries that replaced older messages: position, reason, summary, tokens before and after",
            messages="array: what was said; see [transcripts](../how-to/transcripts.md)",
            file="object: the file with the messages, if they are large: `sha256`, `bytes`, `field`",
        ),
    ),
    "guardrail": Kind(
        "A guardrail was reached.",
        _fields(
            attached="object: `limit_name`, the `current_value` that reached the `limit_value`, `reason`, a sentence, and "
            "`policy`, what is done: `tell`, `restart` or `block`; or a value that the harness attached itself"
        ),
    ),
    "budget": Kind(
        "An account changed.",
        _fields(
            change="string: `funded`, `reserved`, `settled`, `overspent`, `forfeited` or `charged`",
            pools="array: names of the accounts",
            limits="object: the new limits, of `funded`",
            by="string: the operator who has set them, of `funded`",
            reason="string: why the operator has",
            amounts="object: what was reserved, by resource",
            reservation="integer: `seq` of the reservation that ends",
            spent="object: what was charged, by resource",
            usage="object: what an agent reported, by resource",
            agent="string: who reported it",
            thread="string: the conversation that `usage` is the total of",
            settled="array: resources that the harness settles itself",
            near="array: accounts close to a limit; the line is a warning",
            over="array: accounts beyond a limit; the line is a warning",
        ),
    ),
    "latch": Kind(
        "A kill switch was turned on or off; `harness` is empty for all.",
        _fields(on="boolean: whether it is on", reason="string: why", by="string: who did it"),
    ),
    "limits_set": Kind(
        "An operator set time limits of a harness, or its program declared others since.",
        _fields(
            change="string: `set` or `declared`",
            limits="object: the new limits, in seconds; null is no limit",
            limits_before="object: those before",
            by="string: who has set them; empty if `declared`",
            reason="string: why",
            held="object: all limits that operators have set, each with its `value` and what the program `declared` then",
        ),
    ),
    "ordered": Kind(
        "An agent gave an order through `orchestrator mcp`, and it was carried out.",
        _fields(order="string: `pause`, `pause --hard`, `resume`, …", by="string: `mcp`"),
    ),
    "supervisor": Kind(
        "A program has a supervisor; recorded before the first start of a harness below it.",
        _fields(
            supervisor="string: its path, such as `desk/fx`",
            strategy="string: `one_for_one`, `one_for_all` or `rest_for_one`",
            restart="string: `permanent`, `transient` or `temporary`",
            intensity="integer: restarts allowed",
            period_s="number: seconds within which they are counted",
        ),
    ),
    "reloaded": Kind(
        "SIGHUP had the program read its run file again. A warning if something of it is not applied.",
        _fields(
            run_file="string: its path",
            added="array: what was added and runs now",
            not_applied="array: what has changed or is gone, each with what applies it",
            error="string: why it, or some of it, could not be taken up; empty if it was",
        ),
    ),
    "loop_blocked": Kind(
        "A harness blocked the event loop for more than a second.",
        _fields(
            seconds="number: how long, together",
            place="string: file, line and function",
            times="integer: how often, since the last",
        ),
    ),
    "migrated": Kind(
        "The stored state was migrated to a new version of its class.",
        _fields(from_version="integer: of the stored state", to_version="integer: of the class"),
    ),
    "pruned": Kind(
        "Old steps were deleted.",
        _fields(
            by="string: who asked for it",
            keep_steps="integer: how many steps were to stay of each harness",
            since_us="integer: from when on steps were to stay, microseconds since 1970",
            context="integer: how many steps stay at least for a harness that can go on",
            first="object: the first step that is left, by harness",
        ),
    ),
    "repaired": Kind(
        "`orchestrator doctor --repair` mended a known defect of an earlier version.",
        _fields(
            by="string: who asked for it",
            found="string: the defect",
            done="string: what was done",
            unproven="string: what cannot be proven any more",
            residue="integer: position of the seal",
            residue_hash="string: of the residue",
            first_seq="integer: first record of the range",
            last_seq="integer: last record of the range",
            records="integer: how many are left of it",
            moved_by="integer: position that the seal over this record has moved by",
        ),
    ),
}
KINDS: dict[str, Kind] = {event.kind: Kind(_sentence(event), _of_class(event, event.kind)) for event in EVENTS} | _WORK


def samples() -> dict[str, str]:
    """Return the shortest line of each kind, from the run of the pages, else from the samples."""
    found: dict[str, str] = {}
    for path in (RUN, SAMPLES):
        lines = sorted(path.read_text(encoding="utf-8").splitlines(), key=len)
        of_file = {json.loads(line)["event"].removeprefix("harness."): line for line in reversed(lines)}
        found = of_file | found
    return found


_HEAD = """\
# The log

The log is JSON lines, one for each committed record: `Orchestrator(store, log="steps.jsonl")`, `log = "…"` in a run file, or
`orchestrator export --what records`. A line is written after its record is on disk; lines that a crash kept out of the file
are written at the next start. `--log -` is standard output. On a terminal the same records are coloured lines. After the file
was renamed, SIGHUP has the program go on in a new one. [Collectors](../how-to/log-collectors.md) has rules for Loki, Vector,
Datadog and Elasticsearch.

Every line has these fields, in this order:

| field | type | meaning |
|---|---|---|
| `timestamp` | string | when it was recorded, ISO 8601, UTC |
| `level` | string | `debug`, `info`, `warning` or `error` |
| `event` | string | `harness.` and the kind |
| `run` | string | one life of the program; empty for what was recorded from outside |
| `harness` | string | its name; empty for what concerns all |
| `attempt` | integer | one life of the harness between restarts, from 1; 0 before the first |
| `step` | integer | the step that it belongs to, recorded or being made; of a lifecycle event, the last one recorded |
| `seq` | integer | the one order of everything in the store |
| `schema` | integer | version of these fields: 2. Lines of earlier versions of the package have none, and are read alike |
| `service` | string | `OTEL_SERVICE_NAME`, or `orchestrator` |
| `host` | string | name of the machine that wrote the line |
| `message` | string | a sentence for people |

The fields of its kind follow. One that is called like one of the above gets an underscore: `harness_`. Within a version of
the schema a field has one type, in all kinds of lines; `any` is what a harness or an agent made of it. A name tells a unit:
`_s` are seconds, `_us` microseconds. A field whose value is empty may be left out.

`failed`, `gave_up` and `blocked` are errors. Warnings are `restarting`, `budget_spent`, `guardrail`, `loop_blocked`,
`repaired`, budgets near or over a limit, a kill switch that is turned on, approvals that are denied, effects that are refused,
failed, interrupted or of unknown outcome, and steps of a trading harness while trading is halted. `transcript` is for
debugging.
"""
HEADER_FIELDS = re.findall(r"^\| `(\w+)` \|", _HEAD, flags=re.MULTILINE)
_PARTS = {"Lifecycle": [event.kind for event in EVENTS], "Work, and what is said about it": list(_WORK)}


def page() -> str:
    """Return the page."""
    lines, shown = [_HEAD], samples()
    for title, kinds in _PARTS.items():
        lines.append(f"## {title}\n")
        for name in kinds:
            lines += [f"### {name}\n", f"{KINDS[name].meaning}\n"]
            if KINDS[name].fields:
                lines += [*rows(("field", "type", "meaning"), _lines(KINDS[name])), ""]
            lines.append(f"```json\n{_shortened(shown[name])}\n```\n")
    return "\n".join(lines)


def _lines(kind: Kind) -> Iterator[tuple[str, ...]]:
    for name, (type, meaning) in kind.fields.items():
        yield f"`{name}`", type, meaning


def _shortened(line: str) -> str:
    """Return a line with its longest text cut, so that it can be read."""
    fields = json.loads(line)
    for name, value in fields.items():
        if isinstance(value, str) and len(value) > 160:
            fields[name] = value[:150] + " …"
    return json.dumps(fields, ensure_ascii=False)
