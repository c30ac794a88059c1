"""Managers of packages, and what they run. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from harnesses.governance.actions.nouns import Call, Category, Changes, Found, Rule, Run, Sayings
from harnesses.governance.actions.options import options
from harnesses.governance.actions.packages import RULES as PACKAGES


def _package_manager(call: Call) -> Sayings:
    verbs = [word.text for word in call.args if not word.text.startswith("-")]
    if set(verbs[:2]) & {
        "install",
        "uninstall",
        "remove",
        "purge",
        "add",
        "upgrade",
        "update",
        "sync",
        "autoremove",
        "create",
        "delete",
    }:
        yield Changes("install", "it changes what is installed")
    if verbs[:2] in (["config", "set"], ["config", "edit"]):
        yield Found(Category.PROTECTED_CONFIG_WRITE, "it changes settings")


def _with_runner(call: Call) -> Sayings:
    """`uv run`, `poetry run`, `npx` and the like, and what else these programs do."""
    yield from PACKAGES[call.program](call) if call.program in PACKAGES else _package_manager(call)
    texts = [word.text for word in call.args]
    for word in ("run", "exec", "tool"):
        if word in texts[:3]:
            rest = call.args[texts.index(word) + 1 :]
            if rest[:1] and rest[0].text == "run":
                rest = rest[1:]
            given = options(
                rest,
                "pnw",
                (
                    "python",
                    "with",
                    "package",
                    "project",
                    "directory",
                    "extra",
                    "group",
                    "env",
                    "name",
                    "from",
                    "env-file",
                    "index",
                ),
                first=True,
            )
            if given.operands:
                yield Run(given.operands)
            return


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(
        ("pip", "pipx", "apt", "apt-get", "brew", "yum", "dnf", "apk", "pacman", "snap", "composer", "bundle"),
        _package_manager,
    ),
    **dict.fromkeys(("uv", "poetry", "pdm", "hatch", "pipenv", "rye", "conda", "mise", "asdf", "bundle"), _with_runner),
}
