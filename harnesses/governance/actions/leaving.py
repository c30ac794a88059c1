"""What is said of programs with which something leaves the machine, or changes what runs elsewhere. Pure.

Of a tool that can do many things only the words that are known to look are let through; every other one needs an approval.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from harnesses.governance.actions.nouns import Call, Category, Changes, Found, Rule, Sayings, unclear

_HELP = frozenset({"--help", "-h", "--version", "help", "version", "-V"})


def says(category: str, why: str) -> Sayings:
    yield Changes("publish-deploy", why)
    yield Found(category, why)


def verbs_of(call: Call) -> tuple[str, ...]:
    return tuple(word.text for word in call.args if not word.text.startswith("-"))


def asks_help(call: Call) -> bool:
    return bool({word.text for word in call.args} & {"--help", "--version"}) or (
        bool(call.args) and call.args[0].text in _HELP
    )


def when(call: Call, *, table: Mapping[str, tuple[str, str]], also: frozenset[str] = frozenset()) -> Sayings:
    """Programs of which some words are dangerous: the first word, or the first two."""
    if asks_help(call) or {"--dry-run", "--list", "-l"} & {word.text for word in call.args}:
        return
    verbs = [verb for verb in verbs_of(call) if verb not in also]
    for count in (1, 2):
        found = table.get(" ".join(verbs[:count]))
        if found is not None and len(verbs) >= count:
            yield from says(*found)
            return
    if any(word.may_be_option for word in call.args[:1]):
        yield unclear("it is not known what it is told to do")


def unless(call: Call, *, reads: frozenset[str], category: str, why: str, depth: int = 1) -> Sayings:
    """Programs of which only some words are known to look."""
    if asks_help(call):
        return
    verbs = verbs_of(call)
    if verbs and any(" ".join(verbs[:count]) in reads for count in range(1, depth + 1)):
        return
    if not verbs and not any(word.may_be_option for word in call.args):
        return
    deletes = re.search(r"(^|[ -])(delete|destroy|remove|rm|terminate|purge|drop|uninstall|prune)", " ".join(verbs[:3]))
    yield from says(Category.BROAD_DELETE if deletes and category == Category.DEPLOY else category, why)
    if deletes:
        yield Found(category, why)


def deploys(call: Call, *, reads: str = "", bare: bool = False, why: str = "it deploys") -> Sayings:
    verbs = verbs_of(call)
    if asks_help(call) or (verbs and (verbs[0] in reads.split() or "_".join(verbs[:2]) in reads.split())):
        return
    if verbs or bare:
        yield from says(Category.DEPLOY, why)


def publisher(*verbs: str, why: str = "it publishes a package") -> Rule:
    return partial(when, table=dict.fromkeys(verbs, (Category.PUBLISH, why)))
