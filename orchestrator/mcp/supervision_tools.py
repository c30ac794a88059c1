"""The tools: a table of paths of the API, each with what is said of it to a model and which fields are metadata.

Their arguments are the named parts of the path, its options, and the fields of its body.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from attrs import field, frozen

from harnesses.errors import near, one_of
from orchestrator.errors import UsageError
from orchestrator.mcp import answer_shapes as shapes
from orchestrator.mcp.analysis_route import ANALYZE, QUESTIONS
from orchestrator.mcp.tool_arguments import FLAG, NUMBER, OBJECT, TEXT, WHOLE, Argument
from orchestrator.web.api_route import Route
from orchestrator.web.site_routes import ROUTES

BY = "mcp"
"""Who gives orders through this server, on record."""
ALL = "all"
_ROUTES: Mapping[tuple[str, str], Route] = {(route.method, route.path): route for route in ROUTES}
_TYPES = {
    **dict.fromkeys(("step", "before", "limit"), WHOLE),
    **dict.fromkeys(("all", "hard", "on"), FLAG),
    "timeout_s": NUMBER,
    "limits": OBJECT,
    "message": "",
}
_CHOICES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("analyze", "question"): tuple(QUESTIONS),
    ("settle", "as"): ("done", "not-done"),
}
_PARTS = {
    "name": "name of the harness, as `status` lists it",
    "id": "of the request, as `approvals` lists it",
    "step": "number of the step, from 1",
}
"""What is said of the named parts of paths."""
_REWORDED = {"all": "also those that are over", "names": "names of harnesses, separated by commas (default: all)"}
"""What is said of options in place of what the API says."""
_CALLED = {"name": "harness"}
"""Parts of paths that are arguments under another name."""
_NOT_ASKED = frozenset({"by", "since"})
"""Options and fields that are no arguments: this server gives them, or has no use for them."""
WINDOW = (
    Argument("path", "only this part of `data`, such as `0/input`"),
    Argument("skip", "so many entries, fields or characters are left out at the beginning", WHOLE),
)
"""What every tool that reads takes."""
STORE = Argument("store", "which store, as `stores` lists it", is_required=True)


def _names(names: str | frozenset[str]) -> frozenset[str]:
    return frozenset(names.split()) if isinstance(names, str) else names


@frozen(kw_only=True)
class Tool:
    """A tool: what a model reads of it, and the paths of the API behind it."""

    name: str
    description: str
    routes: tuple[Route, ...]
    """The first one whose parts are all given is asked."""
    shown: frozenset[str] = field(default=frozenset(), converter=_names)
    """Fields that are metadata, names separated by blanks; see `shown_answers`. None if all that it answers is content."""
    required: frozenset[str] = field(default=frozenset(), converter=_names)
    """Arguments that must be given, besides those that every path needs."""
    shape: Callable[[Any], Any] = shapes.whole
    order: str = ""
    """The word of `--allow-orders` that allows it; empty for what only reads."""
    needs_naming: bool = False
    """Whether it has to be named in `--allow-orders`: it is a person's word, or lifts what holds agents back."""
    is_destructive: bool = False

    @property
    def is_content(self) -> bool:
        """Whether all that it answers is content, so that it is there with `--content` alone."""
        return not self.shown

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """What it takes, in order."""
        found: dict[str, Argument] = {}
        for route in self.routes:
            parts = {**{part: _PARTS[part] for part in route.part_names}, **route.options, **route.body}
            for part, meaning in parts.items():
                name = _CALLED.get(part, part)
                if part not in _NOT_ASKED and name not in found:
                    is_required = name in self.required or all(part in each.part_names for each in self.routes)
                    choices = _CHOICES.get((self.name, name), ())
                    said = _REWORDED.get(part, meaning)
                    found[name] = Argument(name, said, _TYPES.get(name, TEXT), is_required, choices)
        return (*found.values(), *(() if self.order else WINDOW))

    def route_for(self, values: Collection[str]) -> Route:
        """Return the path to ask, by the names of the arguments that are given."""
        return next(route for route in self.routes if all(_CALLED.get(part, part) in values for part in route.part_names))


def _reads(name: str, paths: str, description: str, **more: Any) -> Tool:
    routes = tuple(_ROUTES["GET", path] for path in paths.split())
    return Tool(name=name, description=description, routes=routes, **more)


def _orders(name: str, path: str, description: str, shown: str = "", *, word: str = "", **more: Any) -> Tool:
    route = _ROUTES["POST", path]
    return Tool(
        name=name,
        description=f"{route.summary} {description}".strip(),
        routes=(route,),
        shown=f"harness changed seq {shown}",
        order=word or name,
        **more,
    )


_STATUS = "harness parent status activity attempt current_step timestamp step_began until class owned latched"
_EFFECT = "harness step_number key outcome under_way attempt seq timestamp idempotent keep settled_by"
_APPROVAL = "id harness step_number key category digest standing by timestamp expires seq left_s"
_POOL = "pool limits* spent* reserved* left*"
_TABLES = (
    # Figures alone; what progress says of trading, and of counters in the state, is content.
    "tables harnesses* latency* time* effects* steps* agents* commits* stalls* failures* halts* restarts* storms* stuck* "
    "buckets* trend* gaps* loops passed* features* pools* crashes* approvals* tries_to_pass* burn_up* standing* models* "
    "turns* "
    # Columns that are text.
    "harness status kind period first last begin end outcome most_in key where category pool agent model stop_reason "
    "timestamp what event step steps first_step last_step"
)
READS = (
    _reads(
        "needs",
        "/needs",
        "What needs human action: one entry for each cause, worst first. `kind` is approval, unknown_effect, blocked, failed, "
        "gave_up, halted, hung, interrupted, budget_spent, budget or kill_switch; `orders` are those that help. "
        "An empty list: nothing needs anybody.",
        shown=f"kind orders facts amount {_STATUS} {_EFFECT} {_APPROVAL} pool",
    ),
    _reads(
        "status",
        "/harnesses/{name} /fleet",
        "The status of every harness, the worst first; or more about one: its pace, children and last step. `status` is what "
        "is on record, `activity` what it does now: working, waiting, paused, backing_off, hung, blocked, interrupted … "
        "`owned`: a living program runs it. Call this first for the names of harnesses.",
        shape=shapes.harness_rows,
        shown=f"{_STATUS} approval id is_live kind last_seq children p95_s per_minute",
    ),
    _reads(
        "why",
        "/harnesses/{name}/why",
        "Why a harness is where it is, or with `step` how that step came about: the chain of causes, a sentence each, with "
        "the remedy.",
        shown="harness attempt step timestamp seq kind error",
    ),
    _reads(
        "history",
        "/harnesses/{name}/history",
        "The life of a harness, the newest event first: attempts that started, failed, restarted, blocked or ended, pauses, "
        "and orders with who gave them.",
        shown="seq timestamp attempt step kind error delay_s restarts period_s after_step paused program_ended order by on "
        "change limits* limits_before* "
        "origin origin_step model seconds times",
    ),
    _reads(
        "steps",
        "/harnesses/{name}/steps",
        "Steps of a harness, the newest first: what went in and out, which fields of the state changed, and a line about it. "
        "`before` goes back in time.",
        shown="step_number timestamp harness attempt seq",
    ),
    _reads(
        "step",
        "/harnesses/{name}/steps/{step}",
        "Everything about one step: input, output, the state after it, and what changed in the state.",
        shown="step_number timestamp harness attempt seq",
    ),
    _reads(
        "state",
        "/harnesses/{name}/state",
        "The state of a harness after a step, or after its last one. Large states: name a part with `path`.",
    ),
    _reads(
        "effects",
        "/harnesses/{name}/effects /effects",
        "Acts on the world that happen once. Without `harness` those whose outcome nobody knows, in all harnesses, or with "
        "`all` every one; with `harness` its newest 500.",
        shape=shapes.newest_first,
        shown=_EFFECT,
    ),
    _reads(
        "approvals",
        "/approvals",
        "Requests for human approval that wait for an answer, with the seconds that are left; or with `all` every one.",
        shape=shapes.newest_first,
        shown=_APPROVAL,
    ),
    _reads("budgets", "/budgets", "Every budget: its limits, what is spent, reserved and left.", shown=_POOL),
    _reads(
        "messages",
        "/harnesses/{name}/messages",
        "The newest messages to a harness, newest first, and whether each still waits in its mailbox.",
        shape=shapes.letters,
        shown="seq timestamp from kind id is_waiting deadline_us",
    ),
    _reads(
        "timeline",
        "/timeline",
        "What harnesses were doing when: spans of time, the newest first. `kind` is running, held, waiting, backing_off, "
        "blocked or gone (no program); an `open` one goes on.",
        shape=shapes.newest_spans,
        shown="harness attempt kind begin end first_step last_step open",
    ),
    _reads(
        "failures",
        "/failures",
        "Failures of all harnesses, grouped by error and message, the most frequent first: how often, where, what came next, "
        "and the last traceback.",
        shown="error count harnesses harness_count first last last_step then* where",
    ),
    _reads(
        "transcripts",
        "/harnesses/{name}/transcripts",
        "The newest turns of a harness's agents, newest first: model, stop reason, tokens and cost of each model call, and "
        "what was said and done. The messages of the newest: `path` 0/transcript/messages.",
        shape=shapes.newest_first,
        shown="step_number timestamp is_recorded transcript agent model scope turn stop_reason rounds usage* cost "
        "attempts is_repeated",
    ),
    _reads(
        "output",
        "/harnesses/{name}/output",
        "The newest lines that a harness or its agents wrote while they worked, the newest first.",
        shape=shapes.newest_first,
    ),
    _reads(
        "search",
        "/search",
        "The newest records that have a text, with a piece of each. Where the last entry is a `before`, a call with it "
        "goes on with older ones.",
        shape=shapes.found_records,
        required="text",
    ),
    Tool(
        name="analyze",
        description="Answer a question about the whole run: sentences and tables. `path` tables/NAME has all rows of one.",
        routes=(ANALYZE,),
        shown=_TABLES,
        required="question",
    ),
)
_REPLY = "status attempt current_step done"
_LIVE = "It returns when the order is carried out, or after 5 s with `done`: false. Repeating it changes nothing."
ORDERS = (
    _orders("pause", "/harnesses/{name}/pause", _LIVE, _REPLY),
    _orders("resume", "/harnesses/{name}/resume", _LIVE, _REPLY),
    _orders("stop", "/harnesses/{name}/stop", _LIVE, _REPLY, is_destructive=True),
    _orders("start", "/harnesses/{name}/start", "A program must run on the store.", _REPLY),
    _orders("restart", "/harnesses/{name}/restart", _LIVE, _REPLY, is_destructive=True),
    _orders(
        "send", "/harnesses/{name}/send", "It is read at a later step, also of a program that starts later.",
        "running checked", required="message",
    ),
    _orders("ask", "/harnesses/{name}/ask", "The harness must run.", required="message"),
    _orders(
        "fork", "/harnesses/{name}/fork", "The new one begins when a program starts it.", "origin step_number",
        required="step as",
    ),
    _orders(
        "set_budget", "/budgets", "It takes effect at the next reservation.", f"{_POOL} by", word="budgets",
        required="pool limits", needs_naming=True,
    ),
    _orders(
        "set_limits", "/harnesses/{name}/limits", "", f"{_REPLY} limits* held*", word="limits", required="limits",
    ),
    _orders(
        "kill_switch", "/kill-switch", "While it is on, no effect begins.", "on by timestamp", word="kill-switch",
        required="on", needs_naming=True, is_destructive=True,
    ),
    _orders("approve", "/approvals/{id}/approve", "", "id verdict", needs_naming=True, is_destructive=True),
    _orders("deny", "/approvals/{id}/deny", "", "id verdict", needs_naming=True, is_destructive=True),
    _orders("reopen", "/approvals/{id}/reopen", "", "id verdict", needs_naming=True),
    _orders(
        "settle", "/effects/settle", "Find out first what became of it: a wrong word has it done twice, or never.",
        "key outcome", required="harness key as reason", needs_naming=True, is_destructive=True,
    ),
)  # fmt: skip
WORDS = tuple(tool.order for tool in ORDERS)
FOR_ALL = tuple(tool.order for tool in ORDERS if not tool.needs_naming)
"""What `all` allows."""


def allowed_orders(words: Iterable[str]) -> tuple[Tool, ...]:
    """Return the orders that are allowed by name; `all` are those that need no naming.

    Raises:
        UsageError: there is no such order.
    """
    wanted = set(words)
    for word in sorted(wanted - {*WORDS, ALL}):
        raise UsageError(f"--allow-orders: {one_of((ALL, *WORDS), '')}, got {word!r:.100}{near(word, (ALL, *WORDS))}")
    return tuple(tool for tool in ORDERS if tool.order in wanted or (ALL in wanted and not tool.needs_naming))
