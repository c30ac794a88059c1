"""Running something on another machine, or sending something to it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from harnesses.governance.actions.leaving import asks_help, says
from harnesses.governance.actions.nouns import Call, Category, Changes, Found, Rule, Sayings, Write, unclear
from harnesses.governance.actions.options import options


def _ssh(call: Call) -> Sayings:
    given = options(call.args, "bcDEeFIiJLlmOopQRSWw", first=True)
    if given.operands:
        yield from says(Category.REMOTE_EXEC, "it runs something on another machine")
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
        yield from says(Category.REMOTE_EXEC, "it writes to another machine")
    else:
        yield Changes("destructive-shell", "it writes files")
        yield Write(target)


def _remote(call: Call, *, why: str = "it runs something on another machine") -> Sayings:
    if not asks_help(call) and call.args:
        yield from says(Category.REMOTE_EXEC, why)


def _netcat(call: Call) -> Sayings:
    given = options(call.args, "ecpswqixXIO", ("exec", "sh-exec", "lua-exec"))
    if given.has("z") and not given.has("e", "c"):
        return
    if given.has("e", "c", "exec", "sh-exec", "lua-exec", "l", "listen"):
        yield Found(Category.REMOTE_EXEC, "it lets another machine run something here, or read what is here")
    elif call.input.kind in ("text", "file", "unknown", "net"):
        yield Found(Category.PUBLISH, "it sends what it reads to another machine")


def _mail(call: Call) -> Sayings:
    yield from says(Category.PUBLISH, "it sends a message")


_ANSIBLE = partial(_remote, why="it runs something on other machines")


RULES: Mapping[str, Rule] = {
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
    "mail": _mail,
    "sendmail": _mail,
    "mutt": _mail,
}
