"""Ids of stages and tasks, as two types: the stage `07-code` is not the task `07-code`. No I/O.

Invariant: an id is valid as a file name and cannot lead to another directory. An invalid id, like any other invalid
description, raises `PipelineInvalid`, because it is the caller's mistake.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypeVar

from attrs import Attribute, field, frozen

from harnesses.errors import NoRestart


class PipelineInvalid(NoRestart):
    """Stages, tasks or paths are invalid, which is the caller's mistake. Nothing was changed."""


MAX_ID = 80
"""Maximum characters of an id."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
IdT = TypeVar("IdT", bound="_Id")


def is_id(text: object) -> bool:
    """Return whether a text is valid as an id, and so as the name of a directory."""
    return isinstance(text, str) and len(text) <= MAX_ID and _ID.fullmatch(text) is not None and not text.endswith(".")


def _checked(self: _Id, _: Attribute[Any], text: object) -> None:
    if not is_id(text):
        kind = type(self).__name__
        hint = f"; it is a {type(text).__name__}, not a {kind}" if isinstance(text, _Id) else "; choose another"
        raise PipelineInvalid(f"{kind}: expected letters, digits, '.', '_' and '-', at most {MAX_ID}, was {text!r:.120}{hint}")


@frozen(order=True)
class _Id:
    text: str = field(validator=_checked)

    def __str__(self) -> str:
        return self.text


@frozen(order=True)
class StageId(_Id):
    """The id of a stage."""


@frozen(order=True)
class TaskId(_Id):
    """The id of a task."""


def stage_id(value: StageId | str) -> StageId:
    """Return the id of a stage; refuse the id of a task."""
    return value if isinstance(value, StageId) else StageId(value)


def stage_ids(values: Iterable[StageId | str] | StageId | str) -> tuple[StageId, ...]:
    """Return the ids of stages; a single id gives a tuple of one."""
    return tuple(map(stage_id, (values,) if isinstance(values, str | StageId) else values))


def task_id(value: TaskId | str) -> TaskId:
    """Return the id of a task; refuse the id of a stage."""
    return value if isinstance(value, TaskId) else TaskId(value)


def task_ids(values: Iterable[TaskId | str] | TaskId | str) -> tuple[TaskId, ...]:
    """Return the ids of tasks; a single id gives a tuple of one."""
    return tuple(map(task_id, (values,) if isinstance(values, str | TaskId) else values))


def texts(values: Iterable[str]) -> tuple[str, ...]:
    """Return a tuple of texts; a single text gives a tuple of one."""
    return (values,) if isinstance(values, str) else tuple(values)
