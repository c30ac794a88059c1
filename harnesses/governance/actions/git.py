"""What git commands do: publish, rewrite, discard, configure. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from harnesses.governance.actions.git_verbs import FORCE, MUTATION, RUNNING_SETTINGS, VERBS
from harnesses.governance.actions.nouns import Call, Category, Changes, Found, Run, Sayings, Shell, Word, Write, unclear
from harnesses.governance.actions.options import names, options

_READS = names(
    "annotate blame bugreport cat-file check-attr check-ignore check-mailmap check-ref-format cherry column "
    "count-objects describe diagnose diff diff-files diff-index diff-tree difftool for-each-ref for-each-repo "
    "format-patch fsck get-tar-commit-id grep gui gitk help interpret-trailers log ls-files ls-remote ls-tree "
    "mailinfo mailsplit merge-base merge-tree name-rev patch-id range-diff rev-list rev-parse shortlog show "
    "show-branch show-index show-ref status stripspace var verify-commit verify-pack verify-tag version whatchanged "
    "archive"
)
_CHANGES = names(
    "add am apply bundle cherry-pick clone commit commit-graph commit-tree fast-import fetch hash-object index-pack "
    "init maintenance merge merge-file merge-index merge-one-file mktag mktree multi-pack-index mv notes "
    "pack-objects pack-refs pull quiltimport rebase remote repack rerere revert sparse-checkout stage submodule "
    "subtree switch symbolic-ref update-index unpack-file unpack-objects update-server-info write-tree lfs"
)
_LOADING_SETTINGS = re.compile(r"(?i)^(core\.(hookspath|fsmonitor)|include|init\.templatedir|filter\.)")


def git(call: Call) -> Sayings:
    """Say what a git command does."""
    given = options(call.args, "Cc", ("git-dir", "work-tree", "namespace", "exec-path", "config-env"), first=True)
    for name, setting in given.values:
        key, _, value = setting.text.partition("=")
        if name in ("exec-path", "config-env"):
            yield unclear("it may run any program in the place of git's own")
        elif name == "c" and _LOADING_SETTINGS.match(key):
            yield unclear(f"{key} has it run what is elsewhere")
        elif name == "c" and RUNNING_SETTINGS.match(key):
            if key.lower().startswith("alias.") and not value.startswith("!"):
                yield Run((Word("git"), *(Word(text) for text in value.split())))
            elif value.lstrip("!"):
                yield Shell(Word(value.lstrip("!"), setting.splits))
        elif name == "c" and not setting.known and "=" not in setting.text.split("\0")[0]:
            yield unclear("it is not known what it sets")
    if not given.operands:
        return
    verb, *rest = given.operands
    args = tuple(rest)
    if not verb.known:
        yield unclear("it is not known which git command it is")
        return
    rule = VERBS.get(verb.text)
    if rule is not None:
        if not _only_shows(args):
            yield from rule(Call(verb.text, args, call.input))
    elif verb.text in _CHANGES:
        yield Changes(MUTATION, f"git {verb.text} changes the repository or its files")
        yield from _of_change(verb.text, args)
    elif verb.text in _READS:
        yield from _of_read(verb.text, args)
    elif any(setting.text.startswith("alias.") for setting in given.of("c")) or given.long & {"version", "help"}:
        return
    else:
        yield unclear(f"git {verb.text} is no command of git's own: an alias may stand for anything")


def _only_shows(args: tuple[Word, ...]) -> bool:
    return bool(args) and args[0].text in ("-h", "--help")


def _of_change(verb: str, args: tuple[Word, ...]) -> Sayings:
    """Say what is to be said of a command that is harmless without certain options."""
    given = options(args, "bcCmxX", ("message", "exec"))
    for command in given.of("x", "exec") if verb == "rebase" else ():
        yield Shell(command)
    if verb in ("fetch", "pull", "clone", "ls-remote"):
        for name, value in given.values:
            if name in ("upload-pack", "u"):
                yield Found(Category.REMOTE_EXEC, f"it runs {value} in the place of git's own program")
        for word in args:
            if word.text.startswith("ext::"):
                yield Found(Category.REMOTE_EXEC, "the address is a command")
    if verb in ("lfs", "subtree") and args and args[0].text == "push":
        yield Found(Category.PUBLISH, "it publishes")
    if verb == "mv":
        for word in given.operands:
            yield Write(word, "moves")
    if verb == "notes" and args and args[0].text in ("remove", "prune"):
        yield Found(FORCE, "it deletes notes")


def _of_read(verb: str, args: tuple[Word, ...]) -> Sayings:
    given = options(args, "xoO", ("extcmd", "output", "open-files-in-pager"))
    if verb == "difftool":
        for command in given.of("x", "extcmd"):
            yield Shell(command)
    if verb == "grep":
        for command in given.of("O", "open-files-in-pager"):
            yield Shell(command)
    else:
        for path in given.of("o", "output"):
            yield Write(path)


RULES: Mapping[str, Callable[[Call], Sayings]] = {"git": git}
