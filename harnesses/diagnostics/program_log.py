"""Logging of the program itself, through structlog to the standard library, bound to the running harness.

Records of harnesses are separate: they are in the store, and `orchestrator.log` writes a line for each.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from contextvars import ContextVar
from typing import Any, TypeAlias

Processor: TypeAlias = Callable[[Any, str, MutableMapping[str, Any]], Any]
"""A structlog processor: takes a logger, the method name and the fields of a line, and returns the fields."""

processors: ContextVar[Sequence[Processor]] = ContextVar("processors", default=())
"""The processors of the run, from `Orchestrator(processors=…)`."""
at_work: ContextVar[Callable[[], Mapping[str, Any]] | None] = ContextVar("at_work", default=None)
"""Returns the fields of the running harness: `harness`, `attempt` and `step`."""


def get_logger(name: str) -> Any:
    """Return a structlog logger, with harness, attempt and step bound if a harness is running.

    Call it where you log: the binding is that of the caller, and the first call imports structlog (0.1 s).
    """
    import structlog

    of = at_work.get()
    return structlog.wrap_logger(
        logging.getLogger(name),
        processors=[structlog.processors.add_log_level, *processors.get(), _for_logging],
        wrapper_class=structlog.stdlib.BoundLogger,
        **({} if of is None else of()),
    )


def _for_logging(logger: logging.Logger, method: str, fields: MutableMapping[str, Any]) -> Any:
    """Return the arguments for the standard library's method: a message, and the fields in one attribute, `fields`."""
    message = (fields.pop("event"), *fields.pop("positional_args", ()))
    found = {"exc_info": fields.pop("exc_info", None), "stacklevel": 4}
    return message, {**found, "extra": {"fields": dict(fields)}}
