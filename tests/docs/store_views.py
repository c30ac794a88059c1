"""What the views in the file of a store are, column by column. They are the interface for who opens it by another program."""

from __future__ import annotations

HEAD = {
    "seq": "place among all records",
    "harness": "whose it is",
    "attempt": "which life of the harness",
    "step_number": "the step it belongs to",
    "timestamp": "when it was recorded, as text: ISO 8601, UTC, microseconds",
}
STORE_VIEWS: dict[str, tuple[str, dict[str, str]]] = {
    "steps": (
        "a row for each committed step",
        HEAD
        | {
            "input": "JSON: what the step was given",
            "output": "JSON: what came of it",
            "delta": "JSON: what it changed of the state",
            "summary": "the change in words",
        },
    ),
    "events": (
        "a row for each record that is neither a step nor of an effect",
        HEAD
        | {"kind": "what happened", "run": "the life of the program that recorded it", "body": "JSON: all else that is known"},
    ),
    "harness_status": (
        "a row for each harness, and where it stands at this moment",
        {
            "harness": "its name",
            "status": "as `orchestrator status` has it; of a program that was killed, what it was then",
            "attempt": "the last one",
            "current_step": "its last step",
            "class": "of the harness, in Python",
            "last_event": "JSON: the last event of its life",
        },
    ),
    "messages": (
        "a row for each message",
        {
            "seq": "place among all records",
            "harness": "to whom",
            "sender": "from whom",
            "body": "JSON: what was sent",
            "consumed_step": "the step that used it up",
            "kind": "`plain`, `request` or `reply`",
            "id": "names a request or a reply among all that its recipient gets",
            "type": "the name of its type, if the sender knew one",
            "deadline_us": "when the sender of a request stops waiting, microseconds since 1970 UTC",
        },
    ),
    "effects": (
        "a row for each effect: its newest try, and what became of that",
        HEAD
        | {
            "key": "its name within the step",
            "outcome": "`begun`, `confirmed`, `refused`, `unknown`, `not_done`, `failed` or `interrupted`",
            "arguments": "JSON: what it was given",
            "result": "JSON: what it came to",
            "reason": "why it is not confirmed",
            "idempotent": "1 if doing it twice is the same as doing it once",
            "settled_by": "who has said what became of it, if a person has",
        },
    ),
    "approvals": (
        "a row for each request for an approval",
        HEAD
        | {
            "id": "what it is answered by",
            "key": "its name within the step",
            "category": "of the action",
            "summary": "the action in words",
            "arguments": "JSON: the action exactly",
            "digest": "a hash of it",
            "expires": "when it cannot be answered any more, as text",
            "verdict": "`approved` or `denied`, also once it is reopened",
            "answered_by": "who",
            "reason": "why",
            "used": "1 if the action was begun on the strength of it",
        },
    ),
    "children": (
        "a row for each harness that another has started; `harness` is who has",
        HEAD
        | {
            "child": "the name of the one that was started",
            "factory": "what it is made by: `package.module:attribute`",
            "status": "where it is in its life; null if that has not begun",
        },
    ),
    "transcripts": (
        "a row for each transcript of an agent's turn",
        HEAD
        | {
            "agent": "the agent's name",
            "session": "the conversation that the turn belongs to",
            "turn": "number of the turn within its session",
            "model": "`provider:model` that was asked first",
            "stop_reason": "why the model stopped last",
            "error": "why the turn ended without an answer",
            "messages": "number of messages; `orchestrator transcript` shows them",
            "model_calls": "number of model calls",
            "tool_calls": "number of tool calls",
            "tool_errors": "number of those that failed",
            "input_tokens": "tokens read by the model",
            "output_tokens": "tokens written by the model",
            "cost": "of all model calls, in US dollars, as text",
            "file": "the file with the messages in the folder beside the store, if they are large",
        },
    ),
    "budgets": (
        "a row for each budget, as it is at this moment",
        {
            "pool": "its name",
            "limits": "JSON: what may be spent, by field",
            "spent": "JSON: what was spent",
            "reserved": "JSON: what is reserved now",
        },
    ),
    "reservations": (
        "a row for each reservation that is open at this moment",
        {
            "seq": "of its record",
            "harness": "whose it is",
            "attempt": "which life of the harness",
            "step_number": "the step it belongs to",
            "pools": "JSON: the budgets that it is in",
            "amounts": "JSON: what is reserved",
        },
    ),
}
