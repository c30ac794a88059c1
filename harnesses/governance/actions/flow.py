"""What a command reads and writes, as far as it is known: pipes, here-documents, echo and printf. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from harnesses.governance.actions.nouns import NO_COMMAND, UNKNOWN, Command, Input, Word
from harnesses.governance.actions.options import options
from harnesses.governance.actions.quotes import ansi_c
from harnesses.governance.actions.running import downloads

_MAX_FEEDERS = 16
"""Commands that only pass on what they read, one after the other."""
NO_INPUT = Input("none", Word(""))


def input_of(command: Command, depth: int = 0) -> Input:
    """Return what a command can read."""
    for redirect in reversed(command.redirects):
        if redirect.body is not None:
            return Input("text", redirect.body)
        if redirect.operator in ("<", "<>"):
            if redirect.target.inner:
                return Input("net" if downloads(redirect.target.inner) else "unknown", redirect.target)
            if redirect.target.text == "/dev/null":
                return Input("text", Word(""))
            return Input("file", redirect.target)
    feeder = command.reads
    if feeder is None:
        return NO_INPUT
    if feeder is NO_COMMAND or not feeder.words or depth > _MAX_FEEDERS:
        return Input("net" if feeder is not NO_COMMAND and downloads((feeder,)) else "unknown")
    return _output(feeder, depth)


def _output(command: Command, depth: int) -> Input:
    """Return what a command writes to a pipe, as far as that is known."""
    words = command.words
    while words and words[0].text in ("command", "builtin", "sudo", "env", "nohup"):
        words = words[1:]
    name = words[0].text.rpartition("/")[2] if words else ""
    args = words[1:]
    if name == "echo":
        return Input("text", _echoed(args))
    if name == "printf" and args:
        return Input("text", _printed(args))
    if name in ("cat", "tee"):
        operands = options(args).operands if name == "cat" else ()
        if not operands or [path.text for path in operands] == ["-"]:
            return input_of(command, depth + 1)
        if len(operands) == 1 and not operands[0].inner:
            return Input("file", operands[0])
    if downloads((command,)) or any(downloads(word.inner) for word in words):
        return Input("net")
    return Input("unknown")


def output_of(command: Command, given: Input) -> Word:
    """Return what a command writes to a file."""
    if not command.words:
        return Word("")
    if command.words[0].text in ("cat", "tee") and len(command.words) == 1:
        return given.word if given.kind == "text" else Word(UNKNOWN)
    output = _output(command, 0)
    return output.word if output.kind == "text" else Word(UNKNOWN)


def _echoed(args: Sequence[Word]) -> Word:
    words = list(args)
    escapes = False
    while words and re.fullmatch(r"-[neE]+", words[0].text):
        escapes = escapes or "e" in words[0].text
        words = words[1:]
    text = " ".join(word.text for word in words)
    inner = tuple(command for word in words for command in word.inner)
    resolved = text if UNKNOWN in text else ansi_c(text)
    if not escapes and resolved != text:
        # Some shells resolve escapes without being asked to: both are judged.
        resolved = f"{text}\n{resolved}"
    return Word(resolved, inner=inner)


def _printed(args: Sequence[Word]) -> Word:
    template, *values = [word.text for word in args]
    inner = tuple(command for word in args for command in word.inner)
    if template.startswith("-v"):
        return Word(UNKNOWN)
    if UNKNOWN not in template:
        template = ansi_c(template)
    pieces: list[str] = []
    for _ in range(max(1, len(values)) if "%" in template else 1):
        rest = template
        while (found := re.search(r"%(%|[-+ #0-9.*]*[a-zA-Z])", rest)) is not None:
            pieces.append(rest[: found.start()])
            if found.group(1) == "%":
                pieces.append("%")
            elif values:
                pieces.append(ansi_c(values.pop(0)) if found.group(1).endswith("b") else values.pop(0))
            rest = rest[found.end() :]
        pieces.append(rest)
        if not values:
            break
    return Word("".join(pieces), inner=inner)
