"""Tool policy: which tool calls are made, need human approval, or are denied.

    deny > ask > allow > command guard > default of the tool's effect            the first that applies decides

    "read"  "git_*"              a tool by its name, a glob pattern
    "run(pytest*)"               and the value of its first argument
    "write(path=docs/*)"         and the value of an argument
    "search(pattern=/[a-z]+/)"   the whole value matches a regular expression

Invariants: in `deny` and `ask` a pattern applies if any form of the value matches it, and without a name any argument's value
does; in `allow`, only if every form does. So a path is judged as written, relative to the working directory, and with links
resolved (`path_forms`); and a command is allowed only if each of its parts matches and nothing is redirected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Protocol, cast

import msgspec
from attrs import evolve, field, frozen

from harnesses.agents.argument_checks import SECONDS, Rule, check, validator
from harnesses.agents.tools.path_forms import PathForms, forms_below, forms_of_path
from harnesses.agents.tools.tool import Tool, ToolEffect, ToolSetting
from harnesses.effects.approval import DAY_S, MAX_SUMMARY, Action
from harnesses.errors import HarnessMisuse
from harnesses.guard.allowed_paths import may_hold_secrets
from harnesses.guard.command_findings import commands_of
from harnesses.guard.command_model import Finding, cut
from harnesses.redaction.redactor import redact_text

_PATTERN = re.compile(r"([\w*?.\[\]!:-]+)(?:\((?:(\w+)=)?(.*)\))?", re.DOTALL)
_COMMANDS = ("command", "cmd", "script")
"""Arguments that are commands."""


class Verdict(StrEnum):
    """Whether a tool call is made."""

    ALLOW = "allow"
    """It is made."""
    ASK = "ask"
    """It needs human approval."""
    DENY = "deny"
    """It is not made, and the model gets the reason."""


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
    """What happens to the call."""
    why: str = ""
    """The rule, finding or effect that decided it; empty for a default."""
    action: Action | None = None
    """What a person is asked to approve, for `ASK`."""


@frozen
class _Value:
    """A value of an argument, with the forms in which it is judged."""

    argument: str
    forms: PathForms


@frozen
class _Call:
    """A call, as patterns see it."""

    name: str
    values: tuple[_Value, ...]
    leading: str
    """Name of the argument that a pattern in `allow` means if it names none."""


@frozen
class _Pattern:
    text: str
    tool: str
    argument: str = ""
    value: str | None = None

    def applies(self, call: _Call, *, every: bool) -> bool:
        """Return whether the pattern applies to a call.

        Args:
            every: whether every form of the values must match; else any does.
        """
        if not fnmatchcase(call.name, self.tool):
            return False
        if self.value is None:
            return True
        wanted = self.argument or (call.leading if every else "")
        values = [one.forms for one in call.values if one.argument == wanted or not (wanted or every)]
        if every:
            return bool(values) and all(map(self._fits, values))
        return any(self._matches(text, ignores_case=one.ignores_case) for one in values for text in one.every)

    def _fits(self, forms: PathForms) -> bool:
        return bool(forms.needed) and all(any(map(self._matches, group)) for group in forms.needed)

    def _matches(self, text: str, *, ignores_case: bool = False) -> bool:
        wanted = self.value or ""
        if len(wanted) > 2 and wanted.startswith("/") and wanted.endswith("/"):
            flags = re.DOTALL | (re.IGNORECASE if ignores_case else 0)
            return re.fullmatch(wanted[1:-1], text, flags) is not None
        return fnmatchcase(text, wanted) or (ignores_case and fnmatchcase(text.casefold(), wanted.casefold()))


def paths_of(tool: Tool, arguments: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the paths that a call names, as its tool declares them; None if the tool does not say."""
    declared: Callable[[Mapping[str, Any]], Iterable[str] | None] | None = getattr(tool, "paths", None)
    found = None if declared is None else declared(arguments)
    return None if found is None else tuple(found)


def _read_call(tool: Tool, name: str, arguments: Mapping[str, Any], setting: ToolSetting) -> _Call:
    """Return a call with the forms of its values. Without a declaration of the tool, any value may be a path."""
    paths, root = paths_of(tool, arguments), setting.directory
    texts = list(_texts(arguments))
    values = [_Value(key, _forms(key, text, paths, root)) for key, text in texts]
    inner = [path for path in paths or () if path not in {text for _, text in texts}]
    # A path within an argument, or by default, is judged as an argument called `path`.
    named = [path for path in paths or () if path in inner or ("path", path) not in texts]
    values += [_Value("path", forms_of_path(path, root)) for path in named]
    leading = next(iter(_properties(tool.definition.input_schema)), "") or next(iter(arguments), "")
    return _Call(name, tuple(values), "path" if inner else leading)


def _properties(schema: str) -> Collection[str]:
    """Return the names of a tool's arguments in its own order: a model may write them in any."""
    try:
        return msgspec.json.decode(schema, type=dict[str, Any]).get("properties") or ()
    except msgspec.MsgspecError:
        return ()


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


def _forms(key: str, value: str, paths: tuple[str, ...] | None, root: Path | None) -> PathForms:
    """Return the forms of a value: those of a path; as written; or as written and the parts of a command."""
    if key in _COMMANDS:
        parts = commands_of(value)
        is_redirected = any(sign in value for sign in "<>")
        return PathForms((value, *parts), () if is_redirected else tuple((part,) for part in parts))
    if paths is None or value in paths:
        forms = forms_of_path(value, root)
        # It may be no path at all.
        return forms if paths is not None else evolve(forms, needed=((value,), *forms.needed))
    return PathForms((value,), ((value,),))


def _read_patterns(texts: str | Iterable[str]) -> tuple[_Pattern, ...]:
    given = (texts,) if isinstance(texts, str) else texts
    check("tool policy", "patterns", given, Rule("a list of them", lambda value: isinstance(value, Iterable)))
    return tuple(map(_read_pattern, given))


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
    expires_s: float = field(default=DAY_S, validator=validator("tool policy", SECONDS))
    """Seconds until a requested approval expires."""

    def judge(self, tool: Tool, name: str, arguments: Mapping[str, Any], setting: ToolSetting) -> Ruling:
        """Return the verdict on a call.

        Args:
            name: what the model calls the tool.
        """
        if self.deny or self.ask or self.allow:
            listed = self._find(_read_call(tool, name, arguments, setting))
            if listed is not None:
                verdict, pattern = listed
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

    def hides(self, tool: Tool, name: str, arguments: Mapping[str, Any], setting: ToolSetting) -> Callable[[str], bool]:
        """Return what decides whether a path is left out of the result of a call that finds it; see `ToolSetting.hides`.

        What is denied is left out, and what needs approval, unless the call itself names a path that does: then it was asked
        for.
        """
        paths, root = paths_of(tool, arguments), setting.directory
        names = {"path", *(key for key, text in _texts(arguments) if text in (paths or ()))}

        def judge_path(forms: PathForms) -> Verdict:
            listed = self._find(_Call(name, tuple(_Value(key, forms) for key in names), "path"), by_value=True)
            if listed is not None:
                return listed[0]
            return Verdict.ASK if any(map(may_hold_secrets, forms.every)) else Verdict.ALLOW

        is_asked = bool(paths) and all(judge_path(forms_of_path(path, root)) is Verdict.ASK for path in paths or ())
        hidden = (Verdict.DENY,) if is_asked else (Verdict.DENY, Verdict.ASK)
        return lambda path: root is not None and judge_path(forms_below(path, root)) in hidden

    def _find(self, call: _Call, *, by_value: bool = False) -> tuple[Verdict, _Pattern] | None:
        """Return the first pattern that applies to a call, with its verdict.

        Args:
            by_value: whether to leave out patterns in `deny` and `ask` that name no value: the call itself was judged by them.
        """
        for patterns, verdict in ((self.deny, Verdict.DENY), (self.ask, Verdict.ASK), (self.allow, Verdict.ALLOW)):
            for pattern in patterns:
                is_left_out = by_value and pattern.value is None and verdict is not Verdict.ALLOW
                if not is_left_out and pattern.applies(call, every=verdict is Verdict.ALLOW):
                    return verdict, pattern
        return None

    def _rule(
        self, verdict: Verdict, why: str, tool: Tool, name: str, arguments: Mapping[str, Any], category: str = "tool"
    ) -> Ruling:
        if verdict is not Verdict.ASK:
            return Ruling(verdict, why)
        shown = ", ".join(f"{key}={str(value)!r:.60}" for key, value in list(arguments.items())[:4])
        summary = cut(redact_text(f"{name}({cut(shown, 180)}) ({why})"), MAX_SUMMARY)
        return Ruling(verdict, why, Action(category, summary, None, self.expires_s))
