"""Tool policy: which tool calls are made, need human approval, or are denied.

    deny > ask > allow > command guard > default of the tool's effect            the first that applies decides

    "read"  "git_*"              a tool by its name, a glob pattern
    "run(pytest*)"               and the value of its first argument
    "write(path=docs/*)"         and the value of an argument
    "search(pattern=/[a-z]+/)"   the whole value matches a regular expression

Invariants: in `deny` and `ask` a pattern applies if any form of the value matches it, and without a name any argument's value
does; in `allow`, only if every form does. So a path matches as written and normalised, and a command is allowed only if each
of its parts matches and nothing is redirected.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Protocol, cast

from attrs import field, frozen

from harnesses.agents.tools.tool import Tool, ToolEffect, ToolSetting
from harnesses.effects.approval import DAY_S, MAX_SUMMARY, Action
from harnesses.errors import HarnessMisuse
from harnesses.guard.command_findings import commands_of
from harnesses.guard.command_model import Finding, cut
from harnesses.redaction.redactor import redact_text

_PATTERN = re.compile(r"([\w*?.\[\]!:-]+)(?:\((?:(\w+)=)?(.*)\))?", re.DOTALL)
_COMMANDS = ("command", "cmd", "script")
"""Arguments that are commands."""


class Verdict(StrEnum):
    """What becomes of a tool call."""

    ALLOW = "allow"
    ASK = "ask"
    """It needs human approval."""
    DENY = "deny"
    """It is not made, and the model is told so."""


_BY_EFFECT = {
    ToolEffect.READS: Verdict.ALLOW,
    ToolEffect.CHANGES_FILES: Verdict.ALLOW,
    ToolEffect.ACTS: Verdict.ALLOW,
    ToolEffect.DANGEROUS: Verdict.ASK,
}


class Guarded(Protocol):
    """A tool whose calls are judged by the command guard."""

    def findings(self, arguments: Mapping[str, Any], setting: ToolSetting) -> tuple[Finding, ...]:
        """Return why a call needs approval; empty if it needs none."""
        ...


@frozen
class Ruling:
    """The verdict on a call, and why."""

    verdict: Verdict
    why: str = ""
    action: Action | None = None
    """What a person is asked to approve, for `ASK`."""


@frozen
class _Pattern:
    text: str
    tool: str
    argument: str = ""
    value: str | None = None

    def applies(self, name: str, arguments: Mapping[str, Any], *, every: bool) -> bool:
        """Return whether the pattern applies to a call.

        Args:
            every: whether every form of the value must match; else any does.
        """
        if not fnmatchcase(name, self.tool):
            return False
        if self.value is None:
            return True
        return any(self._fits(key, value, every=every) for key, value in self._values(arguments, first=every))

    def _values(self, arguments: Mapping[str, Any], *, first: bool) -> Iterable[tuple[str, str]]:
        if self.argument:
            return [(key, value) for key, value in _texts(arguments) if key == self.argument]
        if not first:
            return _texts(arguments)
        leading = next(iter(arguments.items()), None)
        return list(_texts(dict([leading]))) if leading is not None else ()

    def _fits(self, key: str, value: str, *, every: bool) -> bool:
        forms = _forms(key, value)
        if every:
            parts = forms[1:] if key in _COMMANDS else forms
            is_redirected = key in _COMMANDS and any(sign in value for sign in "<>")
            return bool(parts) and not is_redirected and all(map(self._matches, parts))
        return any(map(self._matches, forms))

    def _matches(self, text: str) -> bool:
        wanted = self.value or ""
        if len(wanted) > 2 and wanted.startswith("/") and wanted.endswith("/"):
            return re.fullmatch(wanted[1:-1], text, re.DOTALL) is not None
        return fnmatchcase(text, wanted)


def _texts(arguments: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the values of arguments as text, those in lists and objects too, each with the name of its argument."""
    for key, value in arguments.items():
        waiting = [value]
        if key in _COMMANDS and isinstance(value, list):
            waiting = [" ".join(map(str, cast(list[object], value)))]
        while waiting:
            one = waiting.pop()
            if isinstance(one, dict):
                waiting.extend(cast(dict[str, Any], one).values())
            elif isinstance(one, list):
                waiting += one
            else:
                yield key, one if isinstance(one, str) else str(one)


def _forms(key: str, value: str) -> tuple[str, ...]:
    """Return the forms of a value: as written; and the parts of a command, or the normalised path."""
    if key in _COMMANDS:
        return (value, *commands_of(value))
    return (value, posixpath.normpath(value)) if value else (value,)


def _read_patterns(texts: str | Iterable[str]) -> tuple[_Pattern, ...]:
    return tuple(map(_read_pattern, (texts,) if isinstance(texts, str) else texts))


def _read_pattern(text: str | _Pattern) -> _Pattern:
    if isinstance(text, _Pattern):
        return text
    found = _PATTERN.fullmatch(text) if isinstance(text, str) else None  # pyright: ignore[reportUnnecessaryIsInstance]
    if found is None:
        raise HarnessMisuse(
            f"tool policy: expected a pattern such as read, git_* or run(pytest*), got {text!r:.200}; correct it"
        )
    value = found[3]
    try:
        re.compile(value[1:-1] if value and value.startswith("/") and value.endswith("/") else "")
    except re.error as error:
        raise HarnessMisuse(f"tool policy: {text!r:.200} is not a regular expression: {error}; correct it") from error
    return _Pattern(text, found[1], found[2] or "", value)


def _read_verdict(word: Verdict | str | None) -> Verdict | None:
    try:
        return None if word is None else Verdict(word)
    except ValueError:
        raise HarnessMisuse(f"tool policy: otherwise: expected allow, ask or deny, got {word!r:.99}; correct it") from None


@frozen(kw_only=True)
class ToolPolicy:
    """Which tool calls are made, need human approval, or are denied.

    By default a tool's effect decides: what reads, changes files or acts is allowed, what is dangerous is asked for; of a tool
    of an MCP server also what acts.
    """

    allow: tuple[_Pattern, ...] = field(default=(), converter=_read_patterns)
    """Patterns of calls that are made without approval, whatever the command guard finds."""
    ask: tuple[_Pattern, ...] = field(default=(), converter=_read_patterns)
    """Patterns of calls that need human approval."""
    deny: tuple[_Pattern, ...] = field(default=(), converter=_read_patterns)
    """Patterns of calls that are not made."""
    otherwise: Verdict | None = field(default=None, converter=_read_verdict)
    """Verdict on calls that no pattern matches; None for the command guard and the tool's effect."""
    expires_s: float = DAY_S
    """Seconds until a requested approval expires."""

    def judge(self, tool: Tool, name: str, arguments: Mapping[str, Any], setting: ToolSetting) -> Ruling:
        """Return the verdict on a call.

        Args:
            name: what the model calls the tool.
        """
        for patterns, verdict in ((self.deny, Verdict.DENY), (self.ask, Verdict.ASK), (self.allow, Verdict.ALLOW)):
            for pattern in patterns:
                if pattern.applies(name, arguments, every=verdict is Verdict.ALLOW):
                    return self._rule(verdict, f"the policy says {verdict.value} for {pattern.text!r}", tool, name, arguments)
        if self.otherwise is not None:
            why = f"the policy says {self.otherwise.value} for what it does not list"
            return self._rule(self.otherwise, why, tool, name, arguments)
        found = cast(Guarded, tool).findings(arguments, setting) if hasattr(tool, "findings") else ()
        if found:
            why = "; ".join(dict.fromkeys(f"{one.category}: {one.why}" for one in found[:4]))
            return self._rule(Verdict.ASK, why, tool, name, arguments, found[0].category)
        is_foreign = tool.effect is ToolEffect.ACTS and bool(getattr(tool, "server", ""))
        verdict = Verdict.ASK if is_foreign else _BY_EFFECT[tool.effect]
        return self._rule(verdict, f"its effect is {tool.effect.value!r}", tool, name, arguments)

    def _rule(
        self, verdict: Verdict, why: str, tool: Tool, name: str, arguments: Mapping[str, Any], category: str = "tool"
    ) -> Ruling:
        if verdict is not Verdict.ASK:
            return Ruling(verdict, why)
        shown = ", ".join(f"{key}={str(value)!r:.60}" for key, value in list(arguments.items())[:4])
        summary = cut(redact_text(f"{name}({cut(shown, 180)}) ({why})"), MAX_SUMMARY)
        return Ruling(verdict, why, Action(category, summary, None, self.expires_s))
