"""Tasks of make and the like: what they do is written elsewhere, but their names may tell. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from harnesses.governance.actions.leaving import says
from harnesses.governance.actions.nouns import Call, Category, Found, Rule, Sayings, unclear
from harnesses.governance.actions.options import options

_TASK = re.compile(
    r"(?i)(^|[-_:./ ])(deploy(ment)?|publish|release|rollout|rollback|ship|upload|undeploy|promote|go-live)($|[-_:./ ])"
)


def task(name: str) -> Sayings:
    """Say what a task is for that has a telling name: what it does is written elsewhere."""
    found = _TASK.search(name)
    if found:
        word = found.group(2).lower()
        category = Category.DEPLOY if word not in ("publish", "release", "upload") else Category.PUBLISH
        yield from says(category, f"it is called {name!r}, and what it does is not seen")
    if re.search(r"(?i)(^|[-_:./])(db|database)?[-_:.]?(drop|destroy|nuke|wipe|reset-db|db-reset|flush)($|[-_:./])", name):
        yield Found(Category.DB_DESTROY, f"it is called {name!r}, and what it does is not seen")


def _tasks(call: Call, *, takes: str = "") -> Sayings:
    """`make`, `just` and the like: every word names a task."""
    given = options(call.args, takes)
    if given.has("n", "dry-run", "just-print", "recon", "list", "l", "help", "version"):
        return
    for word in given.operands:
        if "=" not in word.text:
            yield from task(word.text)
            if "upload" not in word.text and word.text in ("dist-upload", "uninstall"):
                yield Found(Category.DEPLOY, f"it is called {word.text!r}, and what it does is not seen")


def _make(call: Call) -> Sayings:
    given = options(call.args, "CfIoW", ("directory", "file", "makefile", "eval"))
    if any(path.text == "-" for path in given.of("f", "file", "makefile")) or given.has("eval", "E"):
        yield unclear("its rules are given to it, and not seen")
    if any(
        re.match(r"(SHELL|\.SHELLFLAGS|MAKEFLAGS|CC|CXX|LD|AR)\W*=.*\s", word.text) or word.text.startswith("SHELL=")
        for word in call.args
    ):
        yield unclear("it runs another program in the place of its own")
    yield from _tasks(call, takes="CfIoW")


RULES: Mapping[str, Rule] = {
    "make": _make,
    "gmake": _make,
    "just": _tasks,
    "task": _tasks,
    "rake": _tasks,
    "invoke": _tasks,
    "inv": _tasks,
    "nox": partial(_tasks, takes="f"),
    "tox": _tasks,
    "grunt": _tasks,
    "gulp": _tasks,
    "doit": _tasks,
    "ant": _tasks,
}
