"""What changes the machine itself: services, timetables, settings, and whether it runs. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from harnesses.governance.actions.leaving import asks_help, deploys, says, verbs_of
from harnesses.governance.actions.nouns import Call, Category, Changes, Found, Rule, Sayings, Shell, unclear
from harnesses.governance.actions.options import names, options


def _services(call: Call) -> Sayings:
    given = options(call.args, "HMtpn", ("host", "machine", "type", "state", "property", "lines"))
    reads = names(
        "status show cat list-units list-unit-files list-timers list-sockets list-dependencies is-active is-enabled "
        "is-failed get-default help show-environment"
    )
    if given.has("H", "host"):
        yield Found(Category.REMOTE_EXEC, "it works on another machine")
    verbs = tuple(word.text for word in given.operands)
    if verbs and verbs[0] not in reads:
        yield from says(Category.DEPLOY, "it changes what services run")


def _service(call: Call) -> Sayings:
    verbs = verbs_of(call)
    if len(verbs) > 1 and verbs[-1] != "status":
        yield from says(Category.DEPLOY, "it changes what services run")


def _crontab(call: Call) -> Sayings:
    given = options(call.args, "u")
    if given.has("l") and not given.has("r", "e"):
        return
    yield Changes("destructive-shell", "it changes what runs by the clock")
    yield Found(Category.PROTECTED_CONFIG_WRITE, "it changes what runs by the clock")
    if given.has("r"):
        yield Found(Category.BROAD_DELETE, "it deletes all that runs by the clock")


def _machine(call: Call) -> Sayings:
    if any(word.text in ("--help", "--version", "-c") for word in call.args):
        return
    if call.program not in ("init", "telinit") or any(re.fullmatch(r"[0-6sS]", word.text) for word in call.args):
        yield from says(Category.DEPLOY, "it takes the machine down")


def _kills(call: Call) -> Sayings:
    texts = [word.text for word in call.args]
    yield Changes("destructive-shell", "it ends processes")
    if texts and texts[-1] in ("-1", "1") and len(texts) > 1:
        yield Found(Category.DEPLOY, "it ends every process")


def _settings(call: Call, *, reads: str = "", why: str = "it changes how the machine is set up") -> Sayings:
    if asks_help(call) or (call.args and call.args[0].text in reads.split()):
        return
    if call.args:
        yield Found(Category.PROTECTED_CONFIG_WRITE, why)


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


RULES: Mapping[str, Rule] = {
    "systemctl": _services,
    "service": _service,
    "launchctl": partial(deploys, reads="list print"),
    "supervisorctl": partial(deploys, reads="status tail avail"),
    "pm2": partial(deploys, reads="list ls status logs show describe"),
    "crontab": _crontab,
    "at": _at,
    "batch": _at,
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
    "orchestrator": _orchestrator,
}
