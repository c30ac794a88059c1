"""What leaves the machine or changes what runs elsewhere: packages, images, clouds, clusters, services, other machines. Pure.

Of a tool that can do many things only the words that are known to look are let through; every other one needs an approval.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial

from attrs import evolve

from harnesses.governance.actions.nouns import Call, Category, Changes, Found, Run, Sayings, Shell, Word, Write, unclear
from harnesses.governance.actions.options import names, options

PUBLISH, DEPLOY, REMOTE, BROAD = Category.PUBLISH, Category.DEPLOY, Category.REMOTE_EXEC, Category.BROAD_DELETE
Rule = Callable[[Call], Sayings]
_HELP = frozenset({"--help", "-h", "--version", "help", "version", "-V"})


def _says(category: str, why: str) -> Sayings:
    yield Changes("publish-deploy", why)
    yield Found(category, why)


def _verbs(call: Call) -> tuple[str, ...]:
    return tuple(word.text for word in call.args if not word.text.startswith("-"))


def _asks_help(call: Call) -> bool:
    return bool({word.text for word in call.args} & {"--help", "--version"}) or (
        bool(call.args) and call.args[0].text in _HELP
    )


def _when(call: Call, *, table: Mapping[str, tuple[str, str]], also: frozenset[str] = frozenset()) -> Sayings:
    """Programs of which some words are dangerous: the first word, or the first two."""
    if _asks_help(call) or {"--dry-run", "--list", "-l"} & {word.text for word in call.args}:
        return
    verbs = [verb for verb in _verbs(call) if verb not in also]
    for count in (1, 2):
        found = table.get(" ".join(verbs[:count]))
        if found is not None and len(verbs) >= count:
            yield from _says(*found)
            return
    if any(word.may_be_option for word in call.args[:1]):
        yield unclear("it is not known what it is told to do")


def _unless(call: Call, *, reads: frozenset[str], category: str, why: str, depth: int = 1) -> Sayings:
    """Programs of which only some words are known to look."""
    if _asks_help(call):
        return
    verbs = _verbs(call)
    if verbs and any(" ".join(verbs[:count]) in reads for count in range(1, depth + 1)):
        return
    if not verbs and not any(word.may_be_option for word in call.args):
        return
    deletes = re.search(r"(^|[ -])(delete|destroy|remove|rm|terminate|purge|drop|uninstall|prune)", " ".join(verbs[:3]))
    yield from _says(BROAD if deletes and category == DEPLOY else category, why)
    if deletes:
        yield Found(category, why)


_NPM: Mapping[str, tuple[str, str]] = {
    "publish": (PUBLISH, "it publishes a package"),
    "unpublish": (PUBLISH, "it takes a package back"),
    "deprecate": (PUBLISH, "it changes what is published"),
    "dist-tag add": (PUBLISH, "it changes what is published"),
    "dist-tag rm": (PUBLISH, "it changes what is published"),
    "npm publish": (PUBLISH, "it publishes a package"),
    "owner add": (PUBLISH, "it changes who may publish"),
    "owner rm": (PUBLISH, "it changes who may publish"),
    "access": (PUBLISH, "it changes who may see a package"),
    "login": (Category.SECRET_WRITE, "it writes a token"),
    "adduser": (Category.SECRET_WRITE, "it writes a token"),
    "token create": (Category.SECRET_WRITE, "it makes a token"),
    "config set": (Category.PROTECTED_CONFIG_WRITE, "it changes settings, where tokens are kept"),
    "set": (Category.PROTECTED_CONFIG_WRITE, "it changes settings, where tokens are kept"),
}
_SCRIPT_RUNNERS = frozenset({"npm", "pnpm", "yarn", "bun"})


def _npm(call: Call) -> Sayings:
    verbs = _verbs(call)
    yield from _when(call, table=_NPM)
    first = verbs[0] if verbs else ""
    if (len(first) > 2 and first != "publish" and "publish".startswith(first)) or (
        "publish" in verbs[1:] and call.program != "npm"
    ):
        yield from _says(PUBLISH, "it publishes a package")
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


_TASK = re.compile(
    r"(?i)(^|[-_:./ ])(deploy(ment)?|publish|release|rollout|rollback|ship|upload|undeploy|promote|go-live)($|[-_:./ ])"
)


def task(name: str) -> Sayings:
    """Say what a task is for that has a telling name: what it does is written elsewhere."""
    found = _TASK.search(name)
    if found:
        word = found.group(2).lower()
        category = DEPLOY if word not in ("publish", "release", "upload") else PUBLISH
        yield from _says(category, f"it is called {name!r}, and what it does is not seen")
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
                yield Found(DEPLOY, f"it is called {word.text!r}, and what it does is not seen")


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


def _uploads(call: Call) -> Sayings:
    if not _asks_help(call) and not (_verbs(call) and _verbs(call)[0] in ("check", "register")):
        yield from _says(PUBLISH, "it publishes packages")


_DOCKER_READS = names(
    "ps images image inspect logs stats top port version info build buildx pull search history events diff create "
    "start stop restart wait tag save load import export run compose network ls context manifest attach pause "
    "unpause rename commit"
)


def _docker(call: Call) -> Sayings:
    given = options(call.args, "HlcD", ("host", "context", "config", "log-level"), first=True)
    words = given.operands
    if not words or _asks_help(call):
        return
    if any(host.text.startswith(("ssh:", "tcp:")) for host in given.of("H", "host")):
        yield Found(REMOTE, "it works on another machine")
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
        yield from _says(PUBLISH, "it publishes an image")
    elif verb in ("login", "logout"):
        yield Found(Category.SECRET_WRITE, "it writes a password to a file")
    elif verb in ("stack", "service", "swarm", "secret", "config", "node") and following not in (
        "ls",
        "ps",
        "inspect",
        "logs",
        "services",
    ):
        yield from _says(DEPLOY, "it changes what runs in a cluster")
    elif verb in ("system", "volume", "container", "image", "builder", "network") and following in ("prune", "rm", "remove"):
        yield Changes("destructive-shell", "it deletes")
        if verb != "image" or following == "prune":
            yield Found(BROAD, f"it deletes {verb}s")
    elif verb in ("rm", "rmi", "kill"):
        yield Changes("destructive-shell", "it deletes")
        if given.loose or any(word.inner or word.may_be_option for word in rest):
            yield Found(BROAD, "it is not known what it deletes")
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
        yield from _says(PUBLISH, "it publishes images")
    elif (verb == "down" and options(rest).has("v", "volumes", "rmi")) or (verb == "rm" and options(rest).has("v")):
        yield Found(Category.DB_DESTROY, "it deletes the volumes, with the databases in them")
    elif verb in ("exec", "run"):
        inner = options(rest, "euwT", ("env", "user", "workdir", "index"), first=True).operands
        yield Run(inner[1:])


_GH_READS = frozenset(
    "status browse search help version completion auth|status pr|view pr|list pr|status pr|diff pr|checks pr|checkout "
    "issue|view issue|list issue|status repo|view repo|list repo|clone run|view run|list run|watch run|download release|view "
    "release|list release|download workflow|view workflow|list gist|view gist|list gist|clone label|list cache|list "
    "variable|list variable|get secret|list ruleset|list ruleset|view ruleset|check org|list project|list project|view "
    "extension|list alias|list config|get config|list ssh-key|list gpg-key|list codespace|list attestation|verify".replace(
        "|", "_"
    ).split()
)


def _gh(call: Call) -> Sayings:
    verbs = _verbs(call)
    if not verbs or _asks_help(call):
        return
    if verbs[0] == "api":
        given = options(call.args, "XfFH", ("method", "field", "raw-field", "input", "header"))
        methods = {method.text.upper() for method in given.of("X", "method")}
        if (methods - {"GET", "HEAD"}) or (not methods and given.has("f", "F", "field", "raw-field", "input")):
            yield from _says(PUBLISH, "it changes something on the server")
        return
    if verbs[0] in _GH_READS or "_".join(verbs[:2]) in _GH_READS:
        return
    if verbs[:1] == ("secret",) or verbs[:2] in (("auth", "login"), ("auth", "refresh"), ("ssh-key", "add")):
        yield Found(Category.SECRET_WRITE, "it writes a secret")
    elif verbs[:1] == ("workflow",) or verbs[:1] == ("run",):
        yield from _says(DEPLOY, "it starts or stops a workflow on the server")
    elif verbs[:2] == ("repo", "delete"):
        yield Found(BROAD, "it deletes a repository")
    elif verbs[:1] in (("alias",), ("extension",), ("config",)):
        yield Found(Category.PROTECTED_CONFIG_WRITE, "it changes what gh does")
    else:
        yield from _says(PUBLISH, "it changes what others see on the server")


_KUBECTL_READS = names(
    "get describe logs diff explain top version cluster-info api-resources api-versions wait auth events kustomize "
    "completion options plugin rollout_status rollout_history config_view config_current-context "
    "config_get-contexts port-forward"
)


def _kubectl(call: Call) -> Sayings:
    given = options(
        call.args,
        "nfolLcs",
        ("namespace", "filename", "output", "selector", "context", "kubeconfig", "container", "cluster", "server"),
    )
    verbs = tuple(word.text for word in given.operands)
    if not verbs or _asks_help(call) or verbs[0] in _KUBECTL_READS or "_".join(verbs[:2]) in _KUBECTL_READS:
        return
    if any(word.text in ("--dry-run=client", "--dry-run=server", "--dry-run") for word in call.args):
        return
    if verbs[0] in ("exec", "cp", "attach", "debug", "run", "proxy"):
        yield Found(REMOTE, "it runs something in a cluster")
        return
    if verbs[0] in ("delete", "drain"):
        yield Found(BROAD, "it deletes what runs in a cluster")
    if verbs[0] == "config":
        yield Found(Category.SECRET_WRITE, "it changes the keys of clusters")
        return
    yield from _says(DEPLOY, "it changes what runs in a cluster")


_CLOUD_READ = re.compile(
    r"^(describe|list|get|head|show|ls|wait|help|filter|lookup|search|scan|query|batch-get|check|validate|estimate|preview|"
    r"presign|tail|version|info|config-helper|print|read|diff|ping|whoami|status|logs|history|open|docs|search-\w+)(-|$)"
)


def _cloud(call: Call) -> Sayings:
    """`aws`, `gcloud`, `az` and the like: there has to be a word for looking, and it comes last."""
    if _asks_help(call) or any(word.text == "--dry-run" or word.text == "--dryrun" for word in call.args):
        return
    verbs = [verb for verb in _verbs(call) if not re.search(r"[:/=.]", verb)]
    text = " ".join(_verbs(call))
    if call.program == "aws" and verbs[:1] == ["s3"]:
        yield from _aws_s3(call)
        return
    if not verbs and not any(word.may_be_option for word in call.args):
        return
    if verbs[:1] in (["configure"], ["config"], ["auth"], ["login"], ["sso"]):
        if not set(verbs[1:2]) & {"list", "get", "print-access-token", "describe"}:
            yield Found(Category.SECRET_WRITE, "it changes the keys and settings of the cloud")
        return
    if any(_CLOUD_READ.match(verb) for verb in verbs[:4]) and not re.search(
        r"\b(delete|create|update|set|run|deploy|terminate|put)\b", text
    ):
        return
    if re.search(r"\b(ssh|send-command|execute-command|run-command|start-session|scp)\b", text):
        yield Found(REMOTE, "it runs something on another machine")
        return
    if re.search(r"(delete|terminate|destroy|remove|purge|drop|\brm\b|\brb\b)", text):
        about_data = re.search(
            r"(?i)rds|sql|db|table|dynamo|bucket|snapshot|backup|redshift|spanner|firestore|redis|cache", text
        )
        yield Found(Category.DB_DESTROY if about_data else BROAD, "it deletes what is in the cloud")
    yield from _says(DEPLOY, "it changes what is in the cloud")


def _aws_s3(call: Call) -> Sayings:
    verbs = _verbs(call)
    verb = verbs[1] if len(verbs) > 1 else ""
    places = verbs[2:4]
    if verb in ("ls", "presign", "", "help"):
        return
    if verb in ("rm", "rb") or any(word.text == "--delete" for word in call.args):
        yield Found(BROAD, "it deletes what is in a bucket")
    elif verb == "mv":
        yield Found(BROAD, "it moves away what is in a bucket")
    elif len(places) == 2 and places[0].startswith("s3:") and not places[1].startswith("s3:"):
        yield Write(next(word for word in reversed(call.args) if word.text == places[1]))
        return
    yield from _says(PUBLISH, "it changes what is in a bucket")


def _terraform(call: Call) -> Sayings:
    reads = names(
        "plan validate fmt init show output providers graph version get console state_list state_show state_pull "
        "workspace_list workspace_show workspace_select refresh test metadata"
    )
    verbs = _verbs(call)
    if not verbs or _asks_help(call) or verbs[0] in reads or "_".join(verbs[:2]) in reads:
        if verbs[:1] == ("plan",) or not verbs:
            return
        return
    if verbs[0] == "destroy" or any(word.text.lstrip("-") == "destroy" for word in call.args) or verbs[:2] == ("state", "rm"):
        yield Found(BROAD, "it destroys what it has set up")
    yield from _says(DEPLOY, "it changes what is set up")


def _services(call: Call) -> Sayings:
    given = options(call.args, "HMtpn", ("host", "machine", "type", "state", "property", "lines"))
    reads = names(
        "status show cat list-units list-unit-files list-timers list-sockets list-dependencies is-active is-enabled "
        "is-failed get-default help show-environment"
    )
    if given.has("H", "host"):
        yield Found(REMOTE, "it works on another machine")
    verbs = tuple(word.text for word in given.operands)
    if verbs and verbs[0] not in reads:
        yield from _says(DEPLOY, "it changes what services run")


def _service(call: Call) -> Sayings:
    verbs = _verbs(call)
    if len(verbs) > 1 and verbs[-1] != "status":
        yield from _says(DEPLOY, "it changes what services run")


def _crontab(call: Call) -> Sayings:
    given = options(call.args, "u")
    if given.has("l") and not given.has("r", "e"):
        return
    yield Changes("destructive-shell", "it changes what runs by the clock")
    yield Found(Category.PROTECTED_CONFIG_WRITE, "it changes what runs by the clock")
    if given.has("r"):
        yield Found(BROAD, "it deletes all that runs by the clock")


def _ssh(call: Call) -> Sayings:
    given = options(call.args, "bcDEeFIiJLlmOopQRSWw", first=True)
    if given.operands:
        yield from _says(REMOTE, "it runs something on another machine")
    elif given.has("o"):
        yield unclear("its options may run a program")


def _scp(call: Call) -> Sayings:
    given = options(call.args, "cFiJloPSDX")
    if not given.operands:
        return
    target = given.operands[-1]
    if given.has("S", "o", "F", "D"):
        yield unclear("its options may run a program")
    if re.match(r"[^/]*:|scp:|sftp:", target.text) or target.may_be_option:
        yield from _says(REMOTE, "it writes to another machine")
    else:
        yield Changes("destructive-shell", "it writes files")
        yield Write(target)


def _remote(call: Call, *, why: str = "it runs something on another machine") -> Sayings:
    if not _asks_help(call) and call.args:
        yield from _says(REMOTE, why)


def _netcat(call: Call) -> Sayings:
    given = options(call.args, "ecpswqixXIO", ("exec", "sh-exec", "lua-exec"))
    if given.has("z") and not given.has("e", "c"):
        return
    if given.has("e", "c", "exec", "sh-exec", "lua-exec", "l", "listen"):
        yield Found(REMOTE, "it lets another machine run something here, or read what is here")
    elif call.input.kind in ("text", "file", "unknown", "net"):
        yield Found(PUBLISH, "it sends what it reads to another machine")


def _deploys(call: Call, *, reads: str = "", bare: bool = False, why: str = "it deploys") -> Sayings:
    verbs = _verbs(call)
    if _asks_help(call) or (verbs and (verbs[0] in reads.split() or "_".join(verbs[:2]) in reads.split())):
        return
    if verbs or bare:
        yield from _says(DEPLOY, why)


def _machine(call: Call) -> Sayings:
    if any(word.text in ("--help", "--version", "-c") for word in call.args):
        return
    if call.program not in ("init", "telinit") or any(re.fullmatch(r"[0-6sS]", word.text) for word in call.args):
        yield from _says(DEPLOY, "it takes the machine down")


def _kills(call: Call) -> Sayings:
    texts = [word.text for word in call.args]
    yield Changes("destructive-shell", "it ends processes")
    if texts and texts[-1] in ("-1", "1") and len(texts) > 1:
        yield Found(DEPLOY, "it ends every process")


def _settings(call: Call, *, reads: str = "", why: str = "it changes how the machine is set up") -> Sayings:
    if _asks_help(call) or (call.args and call.args[0].text in reads.split()):
        return
    if call.args:
        yield Found(Category.PROTECTED_CONFIG_WRITE, why)


def _cargo(call: Call) -> Sayings:
    call = evolve(call, args=tuple(word for word in call.args if not word.text.startswith("+")))
    verbs = _verbs(call)
    yield from _when(
        call,
        table={
            "publish": (PUBLISH, "it publishes a package"),
            "yank": (PUBLISH, "it takes a package back"),
            "owner": (PUBLISH, "it changes who may publish"),
            "release": (PUBLISH, "it publishes a package"),
            "login": (Category.SECRET_WRITE, "it writes a token"),
        },
    )
    if verbs[:1] == ("make",):
        for verb in verbs[1:]:
            yield from task(verb)


def _publisher(*verbs: str, why: str = "it publishes a package") -> Rule:
    return partial(_when, table=dict.fromkeys(verbs, (PUBLISH, why)))


def _gradle(call: Call) -> Sayings:
    for verb in _verbs(call):
        if re.search(r"(?i)publish|upload|deploy|release(?!Unit)|promote", verb.rpartition(":")[2]) and not re.search(
            r"(?i)(assemble|bundle|test|compile|build)\w*release|publishToMavenLocal", verb
        ):
            yield from _says(PUBLISH, f"it is called {verb!r}")


def _maven(call: Call) -> Sayings:
    for verb in _verbs(call):
        if re.search(r"^(deploy|site-deploy|release:(perform|prepare))$|deploy:deploy", verb):
            yield from _says(PUBLISH, "it publishes a package")


def _mail(call: Call) -> Sayings:
    yield from _says(PUBLISH, "it sends a message")


def _at(call: Call) -> Sayings:
    if any(word.text in ("-l", "-c", "-V") for word in call.args) or call.program == "atq":
        return
    if call.input.kind == "text":
        yield Shell(call.input.word)
    else:
        yield unclear("it is not known what it runs later")


def _orchestrator(call: Call) -> Sayings:
    """Our own command: an agent does not answer for a person."""
    verbs = tuple(word.text for word in options(call.args, "", ("store",)).operands)
    shows = verbs == ("latch",)
    if not shows and (verbs[:1] in (("approve",), ("deny",), ("latch",)) or verbs[:2] == ("effects", "settle")):
        yield Found(Category.PROTECTED_CONFIG_WRITE, "it is a person's word, and no agent's to give")


_ANSIBLE = partial(_remote, why="it runs something on other machines")
RULES: Mapping[str, Rule] = {
    "npm": _npm,
    "pnpm": _npm,
    "yarn": _npm,
    "bun": _npm,
    "lerna": _publisher("publish", "version"),
    "changeset": _publisher("publish"),
    "semantic-release": partial(_deploys, bare=True),
    "np": partial(_deploys, bare=True),
    "release-it": partial(_deploys, bare=True),
    "standard-version": partial(_deploys, bare=True),
    "goreleaser": _publisher("release", "publish"),
    "twine": _uploads,
    "flit": _publisher("publish"),
    "poetry": _publisher("publish"),
    "uv": _publisher("publish"),
    "hatch": _publisher("publish"),
    "pdm": _publisher("publish"),
    "rye": _publisher("publish"),
    "maturin": _publisher("publish", "upload"),
    "cargo": _cargo,
    "gem": _publisher("push", "yank", "owner"),
    "jsr": _publisher("publish"),
    "deno": _publisher("publish", "deploy"),
    "dart": _publisher("pub publish"),
    "flutter": _publisher("pub publish"),
    "mix": _publisher("hex.publish"),
    "cabal": _publisher("upload"),
    "pod": _publisher("trunk push"),
    "dotnet": _publisher("nuget push"),
    "nuget": _publisher("push"),
    "conda": _publisher("upload"),
    "anaconda": _publisher("upload"),
    "luarocks": _publisher("upload"),
    "vsce": _publisher("publish"),
    "ovsx": _publisher("publish"),
    "huggingface-cli": _publisher("upload", "delete-cache", "repo create", "repo delete"),
    "hf": _publisher("upload", "repo create", "repo delete"),
    "helm": partial(
        _unless,
        reads=names(
            "template lint list ls status get repo search dependency show history env pull package create verify completion "
            "plugin diff dep"
        ),
        category=DEPLOY,
        why="it changes what runs in a cluster",
    ),
    "mvn": _maven,
    "mvnw": _maven,
    "gradle": _gradle,
    "gradlew": _gradle,
    "sbt": _gradle,
    "docker": _docker,
    "podman": _docker,
    "nerdctl": _docker,
    "docker-compose": _compose,
    "podman-compose": _compose,
    "buildah": _publisher("push", why="it publishes an image"),
    "skopeo": _publisher("copy", "sync", "delete", why="it publishes an image"),
    "crane": _publisher("push", "copy", "delete", why="it publishes an image"),
    "oras": _publisher("push", "copy", why="it publishes"),
    "gh": _gh,
    "hub": _gh,
    "glab": _gh,
    "kubectl": _kubectl,
    "oc": _kubectl,
    "k": _kubectl,
    "terraform": _terraform,
    "tofu": _terraform,
    "terragrunt": _terraform,
    "pulumi": partial(_deploys, reads="preview stack whoami version about config plugin logs"),
    "cdk": partial(_deploys, reads="synth diff ls list doctor init metadata docs"),
    "sam": partial(_deploys, reads="build validate local logs init list"),
    "serverless": partial(_deploys, reads="print info logs package offline"),
    "sls": partial(_deploys, reads="print info logs package offline"),
    "vercel": partial(_deploys, reads="ls list inspect logs whoami dev build pull env", bare=True),
    "netlify": partial(_deploys, reads="status dev build logs sites watch"),
    "fly": partial(_deploys, reads="status logs version info doctor apps_list"),
    "flyctl": partial(_deploys, reads="status logs version info doctor apps_list"),
    "heroku": partial(_deploys, reads="logs ps apps info status version releases"),
    "firebase": partial(_deploys, reads="emulators:start emulators:exec projects:list serve"),
    "wrangler": partial(_deploys, reads="dev tail whoami types init"),
    "surge": partial(_deploys, bare=True),
    "eb": partial(_deploys, reads="status logs health list events"),
    "railway": partial(_deploys, reads="status logs whoami list"),
    "render": partial(_deploys, reads="services logs whoami"),
    "cap": partial(_deploys),
    "kamal": partial(_deploys, reads="config details audit version"),
    "helmfile": partial(_deploys, reads="diff lint list template status build"),
    "argocd": partial(_deploys, reads="version app_get app_list app_diff app_history context"),
    "flux": partial(_deploys, reads="get logs check version diff tree"),
    "skaffold": partial(_deploys, reads="build render diagnose version test"),
    "nomad": partial(_deploys, reads="status plan validate version"),
    "vault": partial(_deploys, reads="read status list version", why="it changes secrets"),
    "aws": _cloud,
    "gcloud": _cloud,
    "gsutil": _cloud,
    "az": _cloud,
    "doctl": _cloud,
    "oci": _cloud,
    "ibmcloud": _cloud,
    "hcloud": _cloud,
    "linode-cli": _cloud,
    "bq": _cloud,
    "rclone": partial(
        _unless,
        reads=names("ls lsl lsd lsf lsjson size check cat version listremotes tree about config_show"),
        category=PUBLISH,
        why="it changes what is on another machine",
    ),
    "systemctl": _services,
    "service": _service,
    "launchctl": partial(_deploys, reads="list print"),
    "supervisorctl": partial(_deploys, reads="status tail avail"),
    "pm2": partial(_deploys, reads="list ls status logs show describe"),
    "crontab": _crontab,
    "at": _at,
    "batch": _at,
    "ssh": _ssh,
    "mosh": _ssh,
    "autossh": _ssh,
    "sshpass": _remote,
    "telnet": _remote,
    "rsh": _remote,
    "rexec": _remote,
    "sftp": _remote,
    "ftp": _remote,
    "lftp": _remote,
    "scp": _scp,
    "pssh": _remote,
    "parallel-ssh": _remote,
    "pdsh": _remote,
    "clush": _remote,
    "ansible": _ANSIBLE,
    "ansible-playbook": _ANSIBLE,
    "salt": _ANSIBLE,
    "fab": _ANSIBLE,
    "winrs": _remote,
    "psexec": _remote,
    "nc": _netcat,
    "ncat": _netcat,
    "netcat": _netcat,
    "socat": _remote,
    "shutdown": _machine,
    "reboot": _machine,
    "halt": _machine,
    "poweroff": _machine,
    "init": _machine,
    "telinit": _machine,
    "kill": _kills,
    "iptables": partial(_settings, reads="-L -S --list --list-rules"),
    "nft": partial(_settings, reads="list"),
    "ufw": partial(_settings, reads="status"),
    "setenforce": _settings,
    "sysctl": partial(_settings, reads="-a -n"),
    "update-alternatives": partial(_settings, reads="--display --list"),
    "mail": _mail,
    "sendmail": _mail,
    "mutt": _mail,
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
    "orchestrator": _orchestrator,
}
