"""Programs that run another, as the words after their own options name it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from harnesses.governance.actions.nouns import Call, Rule, Run, Sayings, Shell, Word, Write, unclear
from harnesses.governance.actions.options import names, options
from harnesses.governance.actions.running import from_input


def _wrapper(call: Call, *, takes: str = "", long: str = "", skip: int = 0, assigns: bool = False) -> Sayings:
    """Programs that run the command which follows their own options."""
    given = options(call.args, takes, long.split(), first=True)
    words = given.operands[skip:]
    if any(word.splits for word in given.operands[:skip]):
        yield unclear("it is not known which program it runs")
    while assigns and words and re.match(r"[A-Za-z_]\w*=", words[0].text):
        words = words[1:]
    for text in given.of("S", "split-string") if call.program == "env" else ():
        yield Shell(Word(" ".join([text.text, *(word.text for word in words)]), text.splits))
        return
    if words:
        yield Run(words)


def _sudo(call: Call) -> Sayings:
    given = options(
        call.args, "ugpChRrDTU", names("user group host prompt chdir chroot role type other-user command-timeout"), first=True
    )
    words = given.operands
    while words and re.match(r"[A-Za-z_]\w*=", words[0].text):
        words = words[1:]
    if given.has("e", "edit"):
        yield from (Write(path) for path in words)
    elif words:
        yield Run(words)
    elif given.has("s", "i", "shell", "login"):
        yield from from_input(call, "shell")


def _command(call: Call) -> Sayings:
    given = options(call.args, first=True)
    if not given.has("v", "V") and given.operands:
        yield Run(given.operands)


def _su(call: Call) -> Sayings:
    given = options(call.args, "csguG", ("command", "shell", "group", "session-command"))
    texts = [*given.of("c", "command", "session-command")]
    for text in texts:
        yield Shell(text)
    if not texts:
        yield from from_input(call, "shell")


def joined(call: Call, *, takes: str = "", skip: int = 0, texts: str = "") -> Sayings:
    """Programs that hand their words to a shell."""
    given = options(call.args, takes, ("command", "interval"), first=True)
    for text in given.of(*texts, "command") if texts else ():
        yield Shell(text)
    words = given.operands[skip:]
    if words:
        yield Shell(Word(" ".join(word.text for word in words), any(word.splits for word in words)))


def _multi_call(call: Call) -> Sayings:
    if call.args:
        yield Run(call.args)


def _screen(call: Call) -> Sayings:
    given = options(call.args, "SchpestTX", first=True)
    if given.has("X"):
        yield unclear("it is not known what reads this")
    elif given.operands:
        yield Run(given.operands)


def _nix(call: Call) -> Sayings:
    given = options(call.args, "pc", ("run", "command"))
    for text in given.of("run", "command"):
        yield Shell(text)
    texts = [word.text for word in call.args]
    for mark in ("-c", "--command"):
        if mark in texts and call.program == "nix":
            yield Run(call.args[texts.index(mark) + 1 :])
    if "--" in texts:
        yield Run(call.args[texts.index("--") + 1 :], guessed=True)


def _tmux(call: Call) -> Sayings:
    texts = [word.text for word in call.args]
    if "send-keys" in texts or "send" in texts:
        yield unclear("it is not known what reads these keys")
    for word in call.args:
        if " " in word.text:
            yield Shell(word)


RULES: Mapping[str, Rule] = {
    "sudo": _sudo,
    "doas": partial(_wrapper, takes="uC"),
    "env": partial(_wrapper, takes="uSC", long="unset chdir split-string", assigns=True),
    "nohup": _wrapper,
    "setsid": _wrapper,
    "nice": partial(_wrapper, takes="n", long="adjustment"),
    "ionice": partial(_wrapper, takes="cnp", long="class classdata"),
    "chrt": partial(_wrapper, takes="TPD", skip=1),
    "taskset": partial(_wrapper, skip=1),
    "timeout": partial(_wrapper, takes="ks", long="kill-after signal", skip=1),
    "gtimeout": partial(_wrapper, takes="ks", long="kill-after signal", skip=1),
    "time": partial(_wrapper, takes="fo", long="format output"),
    "stdbuf": partial(_wrapper, takes="ioe", long="input output error"),
    "unbuffer": _wrapper,
    "command": _command,
    "builtin": _wrapper,
    "exec": partial(_wrapper, takes="a"),
    "busybox": _multi_call,
    "toybox": _multi_call,
    "rtk": _multi_call,
    "caffeinate": partial(_wrapper, takes="tw"),
    "chronic": _wrapper,
    "ts": lambda _: iter(()),
    "flock": partial(joined, takes="wEc", skip=1, texts="c"),
    "watch": partial(joined, takes="n"),
    "script": partial(joined, takes="cEIOoT", skip=1, texts="c"),
    "su": _su,
    "runuser": _su,
    "tmux": _tmux,
    "screen": _screen,
    "nix-shell": _nix,
    "nix": _nix,
    **dict.fromkeys(("npx", "bunx", "pnpx", "uvx"), _wrapper),
}
