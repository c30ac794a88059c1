"""Tools that build packages, and publish them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from attrs import evolve

from harnesses.governance.actions.leaving import asks_help, deploys, publisher, says, verbs_of, when
from harnesses.governance.actions.nouns import Call, Category, Changes, Rule, Run, Sayings, Word
from harnesses.governance.actions.tasks import task

_NPM: Mapping[str, tuple[str, str]] = {
    "publish": (Category.PUBLISH, "it publishes a package"),
    "unpublish": (Category.PUBLISH, "it takes a package back"),
    "deprecate": (Category.PUBLISH, "it changes what is published"),
    "dist-tag add": (Category.PUBLISH, "it changes what is published"),
    "dist-tag rm": (Category.PUBLISH, "it changes what is published"),
    "npm publish": (Category.PUBLISH, "it publishes a package"),
    "owner add": (Category.PUBLISH, "it changes who may publish"),
    "owner rm": (Category.PUBLISH, "it changes who may publish"),
    "access": (Category.PUBLISH, "it changes who may see a package"),
    "login": (Category.SECRET_WRITE, "it writes a token"),
    "adduser": (Category.SECRET_WRITE, "it writes a token"),
    "token create": (Category.SECRET_WRITE, "it makes a token"),
    "config set": (Category.PROTECTED_CONFIG_WRITE, "it changes settings, where tokens are kept"),
    "set": (Category.PROTECTED_CONFIG_WRITE, "it changes settings, where tokens are kept"),
}


def _npm(call: Call) -> Sayings:
    verbs = verbs_of(call)
    yield from when(call, table=_NPM)
    first = verbs[0] if verbs else ""
    if (len(first) > 2 and first != "publish" and "publish".startswith(first)) or (
        "publish" in verbs[1:] and call.program != "npm"
    ):
        yield from says(Category.PUBLISH, "it publishes a package")
    if first in ("run", "run-script", "rum", "urn") and len(verbs) > 1:
        yield from task(verbs[1])
    elif first in ("exec", "x", "dlx"):
        yield Run(_after(call.args, first))
    elif first in ("install", "i", "ci", "add", "update", "uninstall", "remove"):
        yield Changes("install", "it changes what is installed")
    elif call.program in ("yarn", "pnpm", "bun") and first and first not in _NPM:
        yield from task(first)


def _after(words: tuple[Word, ...], verb: str) -> tuple[Word, ...]:
    """Return what follows a word, without the options that come first."""
    texts = [word.text for word in words]
    rest = words[texts.index(verb) + 1 :] if verb in texts else words
    while rest and rest[0].text.startswith("-"):
        rest = rest[1:]
    return rest


def _uploads(call: Call) -> Sayings:
    if not asks_help(call) and not (verbs_of(call) and verbs_of(call)[0] in ("check", "register")):
        yield from says(Category.PUBLISH, "it publishes packages")


def _cargo(call: Call) -> Sayings:
    call = evolve(call, args=tuple(word for word in call.args if not word.text.startswith("+")))
    verbs = verbs_of(call)
    yield from when(
        call,
        table={
            "publish": (Category.PUBLISH, "it publishes a package"),
            "yank": (Category.PUBLISH, "it takes a package back"),
            "owner": (Category.PUBLISH, "it changes who may publish"),
            "release": (Category.PUBLISH, "it publishes a package"),
            "login": (Category.SECRET_WRITE, "it writes a token"),
        },
    )
    if verbs[:1] == ("make",):
        for verb in verbs[1:]:
            yield from task(verb)


def _gradle(call: Call) -> Sayings:
    for verb in verbs_of(call):
        if re.search(r"(?i)publish|upload|deploy|release(?!Unit)|promote", verb.rpartition(":")[2]) and not re.search(
            r"(?i)(assemble|bundle|test|compile|build)\w*release|publishToMavenLocal", verb
        ):
            yield from says(Category.PUBLISH, f"it is called {verb!r}")


def _maven(call: Call) -> Sayings:
    for verb in verbs_of(call):
        if re.search(r"^(deploy|site-deploy|release:(perform|prepare))$|deploy:deploy", verb):
            yield from says(Category.PUBLISH, "it publishes a package")


RULES: Mapping[str, Rule] = {
    "npm": _npm,
    "pnpm": _npm,
    "yarn": _npm,
    "bun": _npm,
    "lerna": publisher("publish", "version"),
    "changeset": publisher("publish"),
    "semantic-release": partial(deploys, bare=True),
    "np": partial(deploys, bare=True),
    "release-it": partial(deploys, bare=True),
    "standard-version": partial(deploys, bare=True),
    "goreleaser": publisher("release", "publish"),
    "twine": _uploads,
    "flit": publisher("publish"),
    "poetry": publisher("publish"),
    "uv": publisher("publish"),
    "hatch": publisher("publish"),
    "pdm": publisher("publish"),
    "rye": publisher("publish"),
    "maturin": publisher("publish", "upload"),
    "cargo": _cargo,
    "gem": publisher("push", "yank", "owner"),
    "jsr": publisher("publish"),
    "deno": publisher("publish", "deploy"),
    "dart": publisher("pub publish"),
    "flutter": publisher("pub publish"),
    "mix": publisher("hex.publish"),
    "cabal": publisher("upload"),
    "pod": publisher("trunk push"),
    "dotnet": publisher("nuget push"),
    "nuget": publisher("push"),
    "conda": publisher("upload"),
    "anaconda": publisher("upload"),
    "luarocks": publisher("upload"),
    "vsce": publisher("publish"),
    "ovsx": publisher("publish"),
    "huggingface-cli": publisher("upload", "delete-cache", "repo create", "repo delete"),
    "hf": publisher("upload", "repo create", "repo delete"),
    "mvn": _maven,
    "mvnw": _maven,
    "gradle": _gradle,
    "gradlew": _gradle,
    "sbt": _gradle,
}
