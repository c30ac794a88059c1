"""Containers and their images: what is pushed, what is deleted, what is run in them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from harnesses.governance.actions.leaving import asks_help, publisher, says
from harnesses.governance.actions.nouns import Call, Category, Changes, Found, Rule, Run, Sayings, Word, Write, unclear
from harnesses.governance.actions.options import names, options

_DOCKER_READS = names(
    "ps images image inspect logs stats top port version info build buildx pull search history events diff create "
    "start stop restart wait tag save load import export run compose network ls context manifest attach pause "
    "unpause rename commit"
)


def _docker(call: Call) -> Sayings:
    given = options(call.args, "HlcD", ("host", "context", "config", "log-level"), first=True)
    words = given.operands
    if not words or asks_help(call):
        return
    if any(host.text.startswith(("ssh:", "tcp:")) for host in given.of("H", "host")):
        yield Found(Category.REMOTE_EXEC, "it works on another machine")
    verb, rest = words[0].text, words[1:]
    following = next((word.text for word in rest if not word.text.startswith("-")), "")
    if (
        verb == "push"
        or (verb in ("image", "manifest", "compose") and following == "push")
        or (
            verb in ("build", "buildx")
            and any(word.text == "--push" or "push=true" in word.text or "type=registry" in word.text for word in rest)
        )
    ):
        yield from says(Category.PUBLISH, "it publishes an image")
    elif verb in ("login", "logout"):
        yield Found(Category.SECRET_WRITE, "it writes a password to a file")
    elif verb in ("stack", "service", "swarm", "secret", "config", "node") and following not in (
        "ls",
        "ps",
        "inspect",
        "logs",
        "services",
    ):
        yield from says(Category.DEPLOY, "it changes what runs in a cluster")
    elif verb in ("system", "volume", "container", "image", "builder", "network") and following in ("prune", "rm", "remove"):
        yield Changes("destructive-shell", "it deletes")
        if verb != "image" or following == "prune":
            yield Found(Category.BROAD_DELETE, f"it deletes {verb}s")
    elif verb in ("rm", "rmi", "kill"):
        yield Changes("destructive-shell", "it deletes")
        if given.loose or any(word.inner or word.may_be_option for word in rest):
            yield Found(Category.BROAD_DELETE, "it is not known what it deletes")
    elif verb in ("exec", "run"):
        yield from _container(call, verb, rest)
    elif verb in ("compose",):
        yield from _compose(Call("compose", rest, call.input))
    elif verb == "cp":
        for path in rest[-1:]:
            if ":" not in path.text:
                yield Write(path)
    elif verb not in _DOCKER_READS and not words[0].known:
        yield unclear("it is not known what it does")


_MACHINE = re.compile(r"(~|/|/(etc|home|root|var|usr|boot)/?)(:|$)|.*docker\.sock")


def _container(call: Call, verb: str, rest: tuple[Word, ...]) -> Sayings:
    given = options(
        rest,
        "evuwpmlhc",
        names(
            "env env-file volume user workdir publish name network memory cpus label hostname entrypoint mount device "
            "cap-add platform pull restart add-host gpus shm-size ulimit tmpfs security-opt pid ipc detach-keys"
        ),
        first=True,
    )
    if given.has("privileged") or any(value.text == "host" for value in given.of("pid")):
        yield Found(Category.PERM_DESTROY, "it gives a container all rights over this machine")
    for mount in (*given.of("v", "volume"), *given.of("mount")):
        if _MACHINE.match(mount.text) and not re.search(r":ro\b", mount.text):
            yield Found(Category.PERM_DESTROY, f"it gives a container {mount} of this machine")
    if verb == "exec" and len(given.operands) > 1:
        yield Run(given.operands[1:])
    elif len(given.operands) > 1:
        yield Run(given.operands[1:], guessed=True)


def _compose(call: Call) -> Sayings:
    given = options(call.args, "fp", ("file", "project-name", "profile", "env-file", "project-directory"), first=True)
    if not given.operands:
        return
    verb, rest = given.operands[0].text, given.operands[1:]
    if verb == "push":
        yield from says(Category.PUBLISH, "it publishes images")
    elif (verb == "down" and options(rest).has("v", "volumes", "rmi")) or (verb == "rm" and options(rest).has("v")):
        yield Found(Category.DB_DESTROY, "it deletes the volumes, with the databases in them")
    elif verb in ("exec", "run"):
        inner = options(rest, "euwT", ("env", "user", "workdir", "index"), first=True).operands
        yield Run(inner[1:])


RULES: Mapping[str, Rule] = {
    "docker": _docker,
    "podman": _docker,
    "nerdctl": _docker,
    "docker-compose": _compose,
    "podman-compose": _compose,
    "buildah": publisher("push", why="it publishes an image"),
    "skopeo": publisher("copy", "sync", "delete", why="it publishes an image"),
    "crane": publisher("push", "copy", "delete", why="it publishes an image"),
    "oras": publisher("push", "copy", why="it publishes"),
}
