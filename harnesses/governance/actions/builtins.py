"""What a shell does itself that has something else run: eval, traps, aliases, variables. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from harnesses.governance.actions.nouns import Call, Category, Found, Rule, Sayings, Shell, Word, unclear
from harnesses.governance.actions.options import names, options
from harnesses.governance.actions.running import REMOTE_WHY, downloads, script
from harnesses.governance.actions.wrappers import joined


def _eval(call: Call) -> Sayings:
    if any(downloads(word.inner) for word in call.args):
        yield Found(Category.REMOTE_EXEC, REMOTE_WHY)
    yield from joined(call)


def _source(call: Call) -> Sayings:
    if call.args:
        yield from script(call.args[0], "shell")


def _alias(call: Call) -> Sayings:
    for word in call.args:
        _, equals, value = word.text.partition("=")
        if equals:
            # What follows the alias where it is used is not known here.
            yield Shell(Word(f'{value} "$@"', word.splits))


def _trap(call: Call) -> Sayings:
    if len(call.args) > 1 and call.args[0].text not in ("-", "-p", "-l"):
        yield Shell(call.args[0])


def _exports(call: Call) -> Sayings:
    for word in call.args:
        name, equals, value = word.text.partition("=")
        if equals:
            yield from variable(name, Word(value, word.splits))


_RUNNING = names(
    "GIT_SSH_COMMAND GIT_SSH GIT_EDITOR GIT_SEQUENCE_EDITOR EDITOR VISUAL PAGER GIT_PAGER MANPAGER "
    "GIT_EXTERNAL_DIFF GIT_ASKPASS SSH_ASKPASS PROMPT_COMMAND BROWSER LESSOPEN GIT_PROXY_COMMAND RSYNC_RSH "
    "MAKEFLAGS"
)
_LOADING = names(
    "LD_PRELOAD LD_AUDIT DYLD_INSERT_LIBRARIES BASH_ENV ENV PYTHONSTARTUP NODE_OPTIONS PERL5OPT RUBYOPT "
    "GIT_CONFIG_COUNT GIT_CONFIG_PARAMETERS GIT_EXEC_PATH GIT_TEMPLATE_DIR BASH_FUNC PYTHONINSPECT IFS"
)


def variable(name: str, value: Word) -> Sayings:
    """Say what it means that a variable is set."""
    if name in _RUNNING and value.text not in ("", "true", "false", "cat", "less", ":"):
        yield Shell(value)
    elif (
        name in _LOADING
        and value.text
        and not (name == "NODE_OPTIONS" and re.fullmatch(r"--max[-_]old[-_]space[-_]size=\d+", value.text))
    ):
        yield unclear(f"{name} has other programs do something else")


def _unclear_with(call: Call, *, letters: str, why: str) -> Sayings:
    if options(call.args).has(*letters):
        yield unclear(why)


RULES: Mapping[str, Rule] = {
    "eval": _eval,
    "source": _source,
    ".": _source,
    "alias": _alias,
    "trap": _trap,
    "export": _exports,
    "declare": _exports,
    "typeset": _exports,
    "readonly": _exports,
    "local": _exports,
    "hash": partial(_unclear_with, letters="p", why="it has a name stand for another program"),
    "bind": partial(_unclear_with, letters="x", why="it has keys run a command"),
    "enable": partial(_unclear_with, letters="fnd", why="it changes what the shell's own commands are"),
}
