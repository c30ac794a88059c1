"""The commands of PowerShell and of cmd.exe that delete or write. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from harnesses.governance.actions.nouns import Call, Category, Changes, Found, Rule, Sayings, Shell, Word, Write, unclear
from harnesses.governance.actions.running import from_input


def _power_shell_delete(call: Call) -> Sayings:
    """`Remove-Item` and what cmd.exe has."""
    texts = [word.text.lower() for word in call.args]
    yield Changes("powershell", "it deletes files")
    if any(re.match(r"-r(ec|ecu|ecur|ecurs|ecurse)?$|/s$", text) for text in texts):
        yield Found(Category.BROAD_DELETE, "it deletes folders with all that is in them")
    for word in call.args:
        if not word.text.startswith("-"):
            yield Write(word, "deletes")


def _power_shell_write(call: Call) -> Sayings:
    yield Changes("powershell", "it changes files")
    for word in call.args:
        if not word.text.startswith("-"):
            yield Write(word)


def _power_shell(call: Call) -> Sayings:
    texts = [word.text.lower() for word in call.args]
    for place, text in enumerate(texts):
        if re.match(r"[-/]e(nc|ncodedcommand|c)?$", text):
            yield unclear("its command is encoded")
        elif re.match(r"[-/](c|command|k)$", text):
            yield Shell(Word(" ".join(word.text for word in call.args[place + 1 :])))
            yield Changes("powershell", "it runs PowerShell")
            return
    if not texts:
        yield from from_input(call, "shell")


RULES: Mapping[str, Rule] = {
    "remove-item": _power_shell_delete,
    "ri": _power_shell_delete,
    "del": _power_shell_delete,
    "erase": _power_shell_delete,
    "rd": _power_shell_delete,
    "set-content": _power_shell_write,
    "add-content": _power_shell_write,
    "out-file": _power_shell_write,
    "new-item": _power_shell_write,
    "copy-item": _power_shell_write,
    "move-item": _power_shell_write,
    "rename-item": _power_shell_write,
    "clear-content": _power_shell_write,
    "powershell": _power_shell,
    "pwsh": _power_shell,
    "cmd": _power_shell,
}
