"""`ToolBox`: the tools of one turn, and how a call of one is made.

    call ──find──► policy, guard ──► budget ──► once: approval ─► intent ─► tool within its time limit ─► outcome
              └─ unknown ──┴─ denied, or asked ► once: outcome                                   with the tree of the files
                              for what cannot be made

Invariants: each call ends in a result for the model, which is on record; a recorded call is never made again. What ends or
blocks the harness (budget, kill switch, a missing program, an expired approval) is raised. Calls that change something run one
at a time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from traceback import format_exception
from typing import Any, Protocol, cast

import msgspec
import trio
from attrs import evolve, field, frozen

from harnesses.agent_bill import current_bill, current_counter
from harnesses.agents.model.messages import ToolCall, ToolDefinition, ToolResult
from harnesses.agents.tools.function_tool import read_object
from harnesses.agents.tools.tool import (
    Tool,
    ToolDenied,
    ToolEffect,
    ToolError,
    ToolNotFound,
    ToolSetting,
    ToolSource,
)
from harnesses.agents.tools.tool_policy import Ruling, ToolPolicy, Verdict
from harnesses.agents.tools.working_tree import NoTree, WorkingTree
from harnesses.diagnostics.error_groups import leaves
from harnesses.effects.charged_intent import IntentCharge
from harnesses.effects.effect import OPEN, Effect, EffectOutcome, NotDone
from harnesses.errors import (
    ApprovalDenied,
    BudgetExhausted,
    EffectFailed,
    EffectInterrupted,
    HarnessMisuse,
    NoRestart,
    Waiting,
)

CALL_TIMEOUT_S = 300.0
"""Default time limit of one call, in seconds."""
MAX_RESULT = 40_000
"""Characters of a result; the middle of a longer one is cut."""
_MOST_LOGGED = 30
"""Last lines of a traceback that are logged."""
_ENDS = (Waiting, BudgetExhausted, NoRestart)
"""Errors that end or block the harness; they are raised instead of being sent to the model."""
_ARGUMENTS = 3
"""Recorded arguments of a call that is made: name, arguments, tree of the files before it. One that is refused has two."""
_REFUSED_THEN = "the call was refused when it was first made, and cut off; make it again if it is still wanted"
_INTERRUPTED = "the call was interrupted and may have happened; find out before you repeat it"


@frozen(kw_only=True)
class ToolOutcome:
    """The recorded outcome of a call."""

    text: str
    """The result, or the error, as the model reads it."""
    is_error: bool = False
    """Whether the call failed, or was not made."""
    tree: str = ""
    """Git tree of the working files after the call; empty if none is kept."""


class Tree(Protocol):
    """Keeps the working files with the outcome of each call."""

    @property
    def problem(self) -> str:
        """Why the files are not kept, for the model; empty if they are, or need not be."""
        ...

    async def current(self) -> str:
        """Return the tree that the files had after the last call, storing it if there was none."""
        ...

    async def save(self) -> str:
        """Store the working files; return the id of their tree, empty if none is kept."""
        ...

    async def restore(self, tree: str) -> None:
        """Replace the working files by those of a tree."""
        ...


class Checked(Protocol):
    """A tool that knows calls which could not be made."""

    def check(self, arguments: Mapping[str, Any], setting: ToolSetting) -> None:
        """Raise `ToolError` for a call that could not be made."""
        ...


@frozen
class _Named:
    """A tool under the name that the model uses."""

    name: str
    tool: Tool

    @property
    def definition(self) -> ToolDefinition:
        given = self.tool.definition
        return ToolDefinition(name=self.name, description=given.description, input_schema=given.input_schema)


@frozen(eq=False)
class ToolBox:
    """The tools of one turn; see `open_tools`."""

    _groups: Sequence[Sequence[Tool]]
    _setting: ToolSetting
    _policy: ToolPolicy
    _tree: Tree
    _timeout_s: float
    _lock: trio.Lock = field(factory=trio.Lock, init=False)
    _settling: trio.Lock = field(factory=trio.Lock, init=False)
    _wanted: list[str] = field(factory=list[str], init=False)
    """The tree of the last recorded call, while it has to be restored before the next one."""

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """The definitions of the tools for the model, as servers list them now."""
        return tuple(one.definition for one in named(self._groups))

    def is_parallel(self, name: str) -> bool:
        """Return whether calls of a tool may run beside others: they change nothing. Start all others in order, one by one."""
        tool = self._find(name)
        return tool is None or tool.effect is ToolEffect.READS

    async def run(self, call: ToolCall, key: str) -> ToolResult:
        """Make a call, unless it is on record; return its result, which may be an error.

        Args:
            key: identity of the call within the turn.

        Raises:
            Waiting, BudgetExhausted, NoRestart, AgentFailed: the turn cannot go on. Do not catch it.
        """
        known = self._setting.run.recorded(key)
        outcome = None if known is None else _recorded(known)
        if outcome is not None:
            if outcome.tree:
                self._wanted[:] = [outcome.tree]
        elif self.is_parallel(call.name):
            outcome = await self._make(call, key, known)
        else:
            async with self._lock:
                outcome = await self._make(call, key, known)
        return ToolResult(call_id=call.id, name=call.name, text=outcome.text, is_error=outcome.is_error)

    async def settle(self) -> None:
        """Restore the files of the last recorded call, if no later call has done so."""
        async with self._settling:
            while self._wanted:
                await self._tree.restore(self._wanted[-1])
                self._wanted.clear()

    # one call

    async def _make(self, call: ToolCall, key: str, known: Effect | None) -> ToolOutcome:
        await self.settle()
        if known is not None:
            return await self._make_charged(call, key, known, None)
        async with _counted(call.name) as charge:
            return await self._make_charged(call, key, known, charge)

    async def _make_charged(self, call: ToolCall, key: str, known: Effect | None, charge: IntentCharge | None) -> ToolOutcome:
        try:
            arguments = read_object(call.arguments)
            tool, ruling = self._judge(call.name, arguments)
            if ruling.verdict is Verdict.ASK and (known is None or known.outcome not in OPEN) and hasattr(tool, "check"):
                cast(Checked, tool).check(arguments, self._setting)
        except ToolError as error:
            return await self._note(call, key, known, str(error), charge)
        if known is not None and known.outcome in OPEN and len(known.arguments) != _ARGUMENTS:
            return await self._note(call, key, known, _REFUSED_THEN, None)
        return await self._act(_Attempt(self, tool, call, key), known, arguments, ruling, charge)

    def _judge(self, name: str, arguments: dict[str, Any]) -> tuple[Tool, Ruling]:
        """Return the tool of a call and the verdict on it.

        Raises:
            ToolError: there is no such tool, or the call is denied.
        """
        tool = self._find(name)
        if tool is None:
            known = ", ".join(one.name for one in named(self._groups)) or "none"
            raise ToolNotFound(f"there is no tool {name!r:.100}: expected one of {known}")
        ruling = self._policy.judge(tool, name, arguments, self._setting)
        if ruling.verdict is Verdict.DENY:
            raise ToolDenied(f"the call of {name} is denied: {ruling.why}; do without it")
        return tool, ruling

    async def _note(
        self, call: ToolCall, key: str, known: Effect | None, error: str, charge: IntentCharge | None
    ) -> ToolOutcome:
        """Record a call that is not made. One that was begun before, and cut off, is settled as that."""

        async def refuse(*arguments: Any) -> ToolOutcome:
            return ToolOutcome(text=_bounded(error), is_error=True)

        run = self._setting.run
        if known is None or known.outcome not in OPEN:
            return await run.once(key, refuse, call.name, call.arguments, idempotent=True, charge=charge)
        begun, is_dangerous = known.arguments, not (known.keep or known.idempotent)
        try:
            return await run.once(key, refuse, *begun, idempotent=known.idempotent, errors="keep", dangerous=is_dangerous)
        except EffectFailed as failed:
            if begun[2]:
                await self._tree.restore(str(begun[2]))
            return _kept(failed)

    async def _act(
        self,
        attempt: _Attempt,
        known: Effect | None,
        arguments: dict[str, Any],
        ruling: Ruling,
        charge: IntentCharge | None,
    ) -> ToolOutcome:
        effect, name = attempt.tool.effect, attempt.call.name
        before = "" if effect is ToolEffect.READS else await self._tree_before(known)
        undo = _Undo(self._tree, before).reconcile if effect is ToolEffect.CHANGES_FILES and before else None
        try:
            return await self._setting.run.once(
                attempt.key,
                attempt.perform,
                name,
                arguments,
                before,
                reconcile=undo,
                idempotent=effect is ToolEffect.READS,
                approval=ruling.action,
                errors="keep",
                dangerous=effect is ToolEffect.DANGEROUS,
                charge=charge,
            )
        except EffectFailed as error:
            if isinstance(error, EffectInterrupted) and before:
                await self._tree.restore(before)
            return _kept(error)
        except ApprovalDenied as error:
            return ToolOutcome(text=_bounded(f"a person denied the call of {name}: {error}; do without it"), is_error=True)

    async def _tree_before(self, known: Effect | None) -> str:
        """Return the tree of the working files before a call: the recorded one, if an earlier attempt has begun it."""
        if known is not None and known.outcome is not EffectOutcome.NOT_DONE:
            return str(known.arguments[2])
        return await self._tree.current()

    async def perform(self, tool: Tool, call: ToolCall, key: str) -> ToolOutcome:
        """Make a call within its time limit; return its outcome with the tree of the files."""
        hides = self._policy.hides(tool, call.name, read_object(call.arguments), self._setting)
        text, is_error = await self._invoke(tool, call, evolve(self._setting, call_key=key, hides=hides))
        tree = "" if tool.effect is ToolEffect.READS else await self._tree.save()
        if tool.effect is not ToolEffect.READS and self._tree.problem:
            text = f"{_bounded(text)}\n[{self._tree.problem}]"
        return ToolOutcome(text=_bounded(text), is_error=is_error, tree=tree)

    async def _invoke(self, tool: Tool, call: ToolCall, setting: ToolSetting) -> tuple[str, bool]:
        limit_s = self._timeout_s if tool.timeout_s is None else tool.timeout_s
        try:
            with trio.move_on_after(limit_s) as limit:
                return await tool.invoke(call.arguments, setting), False
        except ToolError as error:
            return str(error), True
        except Exception as error:
            ending = next((leaf for leaf in leaves(error) if isinstance(leaf, _ENDS)), None)
            if ending is not None:
                raise ending from error
            for line in "".join(format_exception(error)).splitlines()[-_MOST_LOGGED:]:
                setting.run.log(f"[{call.name}] {line}")
            told = (f"{type(leaf).__name__}: {leaf}" for leaf, _ in zip(leaves(error), range(3), strict=False))
            return f"{call.name} has failed: {'; '.join(told)}", True
        assert limit.cancelled_caught
        return f"{call.name} took longer than {limit_s:g} s and was ended; it may have happened in part", True

    def _find(self, name: str) -> Tool | None:
        return next((one.tool for one in named(self._groups) if one.name == name), None)


@frozen
class _Attempt:
    """A call of a known tool, as a function of what is recorded of it."""

    box: ToolBox
    tool: Tool
    call: ToolCall
    key: str

    async def perform(self, name: str, arguments: dict[str, Any], before: str) -> ToolOutcome:
        return await self.box.perform(self.tool, self.call, self.key)


@frozen
class _Undo:
    """Undoes a call that was cut off and changes nothing but files."""

    tree: Tree
    before: str

    async def reconcile(self, key: str, *args: Any) -> NotDone:
        await self.tree.restore(self.before)
        return NotDone()


@asynccontextmanager
async def open_tools(
    tools: Iterable[Tool | ToolSource],
    setting: ToolSetting,
    policy: ToolPolicy | None = None,
    *,
    timeout_s: float = CALL_TIMEOUT_S,
) -> AsyncGenerator[ToolBox, None]:
    """Open all tools and sources for a turn.

    Args:
        timeout_s: time limit of one call, for tools without one of their own.

    Raises:
        HarnessMisuse: two tools have the same name.
        NotReady: a program or package that a source needs is not installed.
        ToolError: a source cannot be opened.
    """
    async with AsyncExitStack() as stack:
        groups: list[Sequence[Tool]] = []
        for one in tools:
            source: Any = one
            is_source = hasattr(source, "open")
            groups.append(await stack.enter_async_context(source.open(setting)) if is_source else (source,))
        check_names(groups)
        if (test_sandbox := getattr(setting.sandbox, "in_force", None)) is not None:
            await trio.to_thread.run_sync(test_sandbox)  # The first test takes 0.1 s; the command guard asks for its result.
        tree = NoTree() if setting.directory is None else await WorkingTree.of(setting.directory, setting.run.log)
        async with tree:
            box = ToolBox(groups, setting, policy or ToolPolicy(), tree, timeout_s)
            yield box
            await box.settle()


# names


def named(groups: Sequence[Sequence[Tool]]) -> Iterator[_Named]:
    """Yield the tools with the names that the model uses: a server's tool whose name another tool has too is prefixed."""
    tools = [tool for group in groups for tool in group]
    names = [tool.definition.name for tool in tools]
    counts, taken = Counter(names), set[str]()
    for tool, name in zip(tools, names, strict=True):
        server = getattr(tool, "server", "")
        if server and counts[name] > 1:
            name = re.sub(r"[^A-Za-z0-9_-]", "_", f"{server}__{name}")[:64]
        number, wanted = 2, name
        while name in taken:
            name, number = f"{wanted[:60]}_{number}", number + 1
        taken.add(name)
        yield _Named(name, tool)


def check_names(groups: Sequence[Sequence[Tool]]) -> None:
    """Check that no two tools of the program itself have the same name.

    Raises:
        HarnessMisuse: two have.
    """
    own = [tool.definition.name for group in groups for tool in group if not getattr(tool, "server", "")]
    if double := next((name for name in own if own.count(name) > 1), ""):
        raise HarnessMisuse(f"tools: expected a name for each, got two called {double!r}; leave one out, or set its `name`")


# results


def _recorded(known: Effect) -> ToolOutcome | None:
    """Return the outcome of a call that is on record; None if it has to be made, or settled."""
    if known.outcome is EffectOutcome.CONFIRMED:
        try:
            return msgspec.convert(known.result, ToolOutcome)
        except msgspec.ValidationError:
            return ToolOutcome(text=f"a person has settled the call as done: {known.result}")
    if known.outcome is EffectOutcome.FAILED:
        return ToolOutcome(text=_bounded(known.reason), is_error=True)
    return ToolOutcome(text=_INTERRUPTED, is_error=True) if known.outcome is EffectOutcome.INTERRUPTED else None


def _kept(error: EffectFailed) -> ToolOutcome:
    return ToolOutcome(text=_INTERRUPTED if isinstance(error, EffectInterrupted) else _bounded(error.reason), is_error=True)


def _bounded(text: str) -> str:
    """Return a text that can be stored, with the middle cut if it is too long."""
    text = text.encode(errors="replace").decode()
    if len(text) <= MAX_RESULT:
        return text
    head, tail = text[: MAX_RESULT * 2 // 3], text[-MAX_RESULT // 3 :]
    return f"{head}\n[… {len(text) - len(head) - len(tail)} of {len(text)} characters are cut …]\n{tail}"


@asynccontextmanager
async def _counted(name: str) -> AsyncGenerator[IntentCharge | None]:
    """Count a call that is about to be made; yield its charge, None if nothing is charged.

    Raises:
        AgentFailed, BudgetExhausted: a limit is reached.
    """
    if (count := current_counter()) is not None:
        count(name)
    if (bill := current_bill()) is None:
        yield None
        return
    async with bill.call() as charge:
        yield charge
