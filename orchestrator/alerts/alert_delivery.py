"""Delivery: addresses of `apprise`, the text of a message, and the ping that says that all is well."""

from __future__ import annotations

import logging
import re
import socket
import urllib.request
import warnings
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from shlex import quote
from typing import Any

from attrs import define, field

from harnesses.data.environment_variables import from_environment
from harnesses.diagnostics.extras import load_extra
from orchestrator.alerts.alert_book import Alert
from orchestrator.errors import OrchestratorError, UsageError
from orchestrator.text.terminal_text import one_line

MOST = 20
"""Alerts that are listed in one message."""
_WIDTH = 300
_PING_S = 10.0
_MARKUP = str.maketrans({"<": "(", ">": ")", "[": "(", "]": ")", "@": "(at)", "`": "'", "*": "·"})
"""Characters that chat programs read as a mention, a link or a format, and what is written instead."""


class NotDelivered(OrchestratorError):
    """A target has not taken a message."""


@define(eq=False)
class Target:
    """Who is told: an address of `apprise`, such as mailto://, slack://, tgram://, ntfy:// or json://.

    Args:
        written: the address; `${NAME}` stands for an environment variable.

    Raises:
        UsageError: `apprise` does not know such an address, or a variable is not set.
        NotReady: `apprise` is not installed.
    """

    written: str
    identity: str = field(init=False)
    shown: str = field(init=False)
    _service: Any = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        apprise = load_extra("apprise", "alerts", "[[alert]]")
        try:
            address = from_environment(self.written)
        except OrchestratorError as error:
            raise UsageError(f"alert: to: {self.written}: {error}") from error
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of what some of its services import
            self._service = apprise.Apprise.instantiate(address)
        if self._service is None:
            shown = self.written.partition("://")[0]
            raise UsageError(
                f"alert: to: {shown}://…: expected an address of apprise such as mailto://user:password@example.org; "
                "see https://appriseit.com"
            )
        self.identity = sha256(address.encode()).hexdigest()[:16]
        self.shown = one_line(self._service.url(privacy=True).partition("?")[0])

    def send(self, title: str, body: str) -> None:
        """Send a message, and wait until it is taken.

        Raises:
            NotDelivered: it was not; with the reason, if there is one.
        """
        reasons = _Reasons()
        logger = logging.getLogger("apprise")
        logger.addHandler(reasons)
        try:
            taken = self._service.notify(body=body, title=title)
        except Exception as error:
            raise NotDelivered(one_line(f"{type(error).__name__}: {error}")) from error
        finally:
            logger.removeHandler(reasons)
        if not taken:
            raise NotDelivered(one_line(" ".join(reasons.texts)) or "the service refused it")


class _Reasons(logging.Handler):
    """Keeps what `apprise` logs while a message is sent."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def message(alerts: Sequence[Alert], store: Path, more: int = 0) -> tuple[str, str]:
    """Return title and body of the message about some alerts. What agents wrote cannot act in it.

    Args:
        more: further alerts that are not listed.
    """
    first = alerts[0]
    count = len(alerts) + more
    title = f"{first.kind}: {plain(first.harness or first.what)}" if count == 1 else f"{count} alerts, first {first.kind}"
    lines = [_line(alert) for alert in alerts[:MOST]]
    if count > len(lines):
        lines.append(f"and {count - len(lines)} more")
    return one_line(title), "\n".join([*lines, "", f"{socket.gethostname()}: orchestrator status --store {quote(str(store))}"])


def _line(alert: Alert) -> str:
    cause = f": {alert.cause}" if alert.cause else ""
    whose = f"{alert.harness} " if alert.harness else ""
    return plain(one_line(f"{whose}{alert.what}{cause}", _WIDTH))


def plain(text: str) -> str:
    """Return a text that no mail or chat program reads as a mention, a link, a format or markup. Addresses are broken."""
    # Also within a word: who reads it decides where an address begins.
    return re.sub(r"(?i)(www)\.", r"\1(.)", text.translate(_MARKUP).replace(":/", "(:)/"))


def ping(url: str) -> None:
    """Get an address, which tells an outside monitor that all is well.

    Raises:
        NotDelivered: there was no good answer.
    """
    try:
        with urllib.request.urlopen(url, timeout=_PING_S) as reply:  # `check_ping` has seen that it is HTTP
            reply.read(1)
    except (OSError, ValueError) as error:
        raise NotDelivered(one_line(f"{type(error).__name__}: {error}")) from error
