"""What each command of git does that throws away, publishes or configures. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial

from harnesses.governance.actions.nouns import Call, Category, Changes, Found, Run, Sayings, Shell, Word, Write, unclear
from harnesses.governance.actions.options import Options, options
from harnesses.governance.actions.paths import is_everything

FORCE = Category.GIT_FORCE
MUTATION = "git-mutation"
RUNNING_SETTINGS = re.compile(
    r"(?i)^(alias\.|core\.(sshcommand|pager|editor|hookspath|fsmonitor|askpass|gitproxy)|"
    r"credential\.|diff\..*\.(command|textconv)"
    r"|diff\.external|merge\..*\.driver|filter\.|gpg\..*program|gpg\.program|sequence\.editor|"
    r"pager\.|browser\.|include\.|includeif\."
    r"|protocol\.|uploadpack\.|remote\..*\.(receivepack|uploadpack|vcs)|http\.proxy|url\.|"
    r"submodule\..*\.update|man\.|web\.|init\.templatedir)"
)
_SAFE_SETTINGS = (
    "user.",
    "init.",
    "advice.",
    "color.",
    "pull.rebase",
    "push.default",
    "push.autosetupremote",
    "merge.conflictstyle",
)


def _push(call: Call) -> Sayings:
    given = options(call.args, "o", ("push-option", "receive-pack", "exec", "repo", "recurse-submodules"))
    if given.has("n") or any(len(name) > 1 and "dry-run".startswith(name) for name in given.long):
        return
    yield Changes("publish-deploy", "it publishes")
    yield Found(Category.PUBLISH, "it publishes commits")
    refs = given.operands
    forces = {name for name in given.long if len(name) > 1 and any(full.startswith(name) for full in _FORCING)}
    if given.has("f") or forces or any(name.startswith("force") for name in given.long):
        yield Found(FORCE, "it may replace what others have published")
    elif given.has("d", "delete") or any(word.text.startswith(":") for word in refs):
        yield Found(FORCE, "it deletes what is published")
    elif any(word.text.startswith("+") for word in refs):
        yield Found(FORCE, "a + before a branch replaces what is published")
    elif given.loose:
        yield Found(FORCE, "it is not known whether it forces")
    for _, value in (pair for pair in given.values if pair[0] in ("receive-pack", "exec")):
        yield Found(Category.REMOTE_EXEC, f"it runs {value} on another machine")


_FORCING = ("force", "force-with-lease", "force-if-includes", "mirror", "prune", "delete")


def _reset(call: Call) -> Sayings:
    given = options(call.args)
    yield Changes(MUTATION, "git reset changes the repository")
    if any(len(name) > 1 and "hard".startswith(name) for name in given.long) or given.has("hard"):
        yield Found(FORCE, "it throws away changes that are not committed")
    elif any(word.may_be_option for word in call.args):
        yield unclear("it is not known whether it throws changes away")


def _clean(call: Call) -> Sayings:
    given = options(call.args, "e", ("exclude",))
    if given.has("n") or any(len(name) > 1 and "dry-run".startswith(name) for name in given.long):
        return
    yield Changes(MUTATION, "git clean deletes files")
    yield Found(Category.BROAD_DELETE, "it deletes all that git does not know")


def _checkout(call: Call) -> Sayings:
    given = options(call.args, "bB", ("conflict", "orphan"))
    texts = [word.text for word in call.args]
    yield Changes(MUTATION, "git checkout changes the files")
    if given.has("f", "force") or given.has("discard-changes"):
        yield Found(FORCE, "it throws away changes that are not committed")
    if given.has("B", "C") or given.has("force-create"):
        yield Found(FORCE, "it moves a branch that may be there already")
    paths = call.args[texts.index("--") + 1 :] if "--" in texts else given.operands
    if any(_all(word) for word in paths):
        yield Found(FORCE, "it throws away all changes that are not committed")
    elif given.loose:
        yield unclear("it is not known whether it throws changes away")
    for path in paths if "--" in texts else ():
        yield Write(path, "replaces")


def _all(word: Word) -> bool:
    """Return whether git takes a path for everything: it knows patterns of its own, also those that were quoted."""
    return word.text in (":/", ":", ":/*") or is_everything(Word(word.text.removeprefix(":/"), word.splits, "*" in word.text))


def _restore(call: Call) -> Sayings:
    given = options(call.args, "s", ("source",))
    yield Changes(MUTATION, "git restore changes the files")
    if given.has("S", "staged") and not given.has("W", "worktree"):
        return
    if any(_all(word) for word in given.operands) or given.loose:
        yield Found(FORCE, "it throws away all changes that are not committed")
    for path in given.operands:
        yield Write(path, "replaces")


def _branch(call: Call) -> Sayings:
    given = options(call.args, "u", ("set-upstream-to", "contains", "format", "sort"))
    if not given.operands or given.has("l", "list", "show-current", "contains", "merged", "no-merged"):
        return
    yield Changes(MUTATION, "git branch changes branches")
    if given.has("D", "M", "C", "f", "force"):
        yield Found(FORCE, "it deletes or moves a branch, whatever is on it")
    elif given.loose:
        yield unclear("it is not known whether it forces")


def _tag(call: Call) -> Sayings:
    given = options(call.args, "mFu", ("message", "file", "format", "sort", "contains"))
    if not given.operands or given.has("l", "list"):
        return
    yield Changes(MUTATION, "git tag changes tags")
    if given.has("d", "delete", "f", "force") or given.loose:
        yield Found(FORCE, "it deletes or moves a tag")


def _config(call: Call) -> Sayings:
    given = options(call.args, "f", ("file", "type", "default", "blob"))
    words = given.operands
    if given.has("get", "get-all", "get-regexp", "list", "l", "get-urlmatch", "get-color", "show-origin"):
        return
    if words and words[0].text in ("get", "list"):
        return
    if words and words[0].text in ("set", "unset", "rename-section", "remove-section", "edit"):
        words = words[1:]
        writing = True
    else:
        writing = len(words) > 1 or given.has(
            "unset", "unset-all", "add", "replace-all", "edit", "e", "remove-section", "rename-section"
        )
    if not writing:
        return
    yield Changes(MUTATION, "it changes settings")
    key = words[0].text.lower() if words else ""
    if not key.startswith(_SAFE_SETTINGS) or RUNNING_SETTINGS.match(key) or given.has("system"):
        yield Found(Category.PROTECTED_CONFIG_WRITE, f"it changes git's setting {key or '…'}")


def _stash(call: Call) -> Sayings:
    verb = next((word.text for word in call.args if not word.text.startswith("-")), "push")
    if verb in ("list", "show"):
        return
    yield Changes(MUTATION, "git stash changes the files")
    if verb in ("drop", "clear") or any(word.may_be_option for word in call.args):
        yield Found(FORCE, "it throws away what was put aside")


def _worktree(call: Call) -> Sayings:
    given = options(call.args, "bB")
    verb = given.operands[0].text if given.operands else ""
    if verb in ("list", ""):
        return
    yield Changes(MUTATION, "git worktree changes the repository")
    if given.has("f", "force", "B") or given.loose:
        yield Found(FORCE, "it removes a work tree, or moves a branch, whatever is in it")


def _remove(call: Call) -> Sayings:
    given = options(call.args)
    if given.has("n", "dry-run"):
        return
    yield Changes(MUTATION, "git rm deletes files")
    if given.has("cached"):
        return
    if given.has("r") or given.loose or any(is_everything(word) for word in given.operands):
        yield Found(Category.BROAD_DELETE, "it deletes folders with all that is in them")
    for path in given.operands:
        yield Write(path, "deletes")


def _submodule(call: Call) -> Sayings:
    given = options(call.args, "b")
    verb = given.operands[0].text if given.operands else ""
    if verb in ("status", "summary", ""):
        return
    yield Changes(MUTATION, "git submodule changes the repository")
    if verb == "foreach":
        yield Shell(Word(" ".join(word.text for word in given.operands[1:])))
    elif verb == "deinit" and given.has("f", "force", "all"):
        yield Found(FORCE, "it throws away changes in submodules")


def _reflog(call: Call) -> Sayings:
    verb = call.args[0].text if call.args else "show"
    if verb in ("expire", "delete", "drop"):
        yield Changes(MUTATION, "git reflog forgets")
        yield Found(FORCE, "it forgets what a mistake could be mended from")


def _gc(call: Call) -> Sayings:
    yield Changes(MUTATION, "git gc changes the repository")
    given = options(call.args)
    if any(word.text.startswith("--prune") and word.text != "--prune" for word in call.args) or given.has("aggressive"):
        yield Found(FORCE, "it forgets what a mistake could be mended from")


def _forces(call: Call, *, why: str) -> Sayings:
    yield Changes(MUTATION, why)
    yield Found(FORCE, why)


def _publishes(call: Call) -> Sayings:
    yield Changes("publish-deploy", "it publishes")
    yield Found(Category.PUBLISH, "it publishes commits")


def _bisect(call: Call) -> Sayings:
    yield Changes(MUTATION, "git bisect changes the files")
    if call.args and call.args[0].text == "run":
        yield Run(call.args[1:])


def _replaces(call: Call) -> Sayings:
    given: Options = options(call.args)
    if given.operands and not given.has("l", "list"):
        yield Changes(MUTATION, "git replace changes history")
        yield Found(FORCE, "it replaces commits by others")


VERBS: Mapping[str, Callable[[Call], Sayings]] = {
    "push": _push,
    "send-pack": _push,
    "reset": _reset,
    "clean": _clean,
    "checkout": _checkout,
    "switch": _checkout,
    "restore": _restore,
    "branch": _branch,
    "tag": _tag,
    "config": _config,
    "stash": _stash,
    "worktree": _worktree,
    "rm": _remove,
    "submodule": _submodule,
    "reflog": _reflog,
    "gc": _gc,
    "bisect": _bisect,
    "replace": _replaces,
    "prune": partial(_forces, why="it forgets what a mistake could be mended from"),
    "filter-branch": partial(_forces, why="it rewrites history"),
    "filter-repo": partial(_forces, why="it rewrites history"),
    "update-ref": partial(_forces, why="it moves or deletes a branch, whatever is on it"),
    "checkout-index": partial(_forces, why="it may replace files that are changed"),
    "read-tree": partial(_forces, why="it may replace files that are changed"),
    "svn": _publishes,
    "p4": _publishes,
    "send-email": _publishes,
    "request-pull": _publishes,
    "cvsexportcommit": _publishes,
    "imap-send": _publishes,
    "http-push": _publishes,
}
