"""What stages and tasks are known by. Two types: `07-code` as a stage and `07-code` as a task are not the same. Pure.

The law: an id can be the name of a file, and of nothing else: no way up, no way out. Whatever cannot be worked as it was
described, an id among it, is `PipelineInvalid`, a mistake of the caller.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypeVar

from attrs import Attribute, field, frozen

from harnesses.errors import NoRestart


class PipelineInvalid(NoRestart):
    """Stages or tasks cannot be worked, or a place cannot be used: the caller's mistake. Nothing was changed."""


MAX_ID = 80
"""Characters."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
IdT = TypeVar("IdT", bound="_Id")


def is_id(text: object) -> bool:
    """Return whether a text can be an id, and with it the name of a directory."""
    return isinstance(text, str) and len(text) <= MAX_ID and _ID.fullmatch(text) is not None and not text.endswith(".")


def _checked(self: _Id, _: Attribute[Any], text: object) -> None:
    if not is_id(text):
        kind = type(self).__name__
        hint = f"; it is a {type(text).__name__}, which is another thing" if isinstance(text, _Id) else "; choose another"
        raise PipelineInvalid(f"{kind}: expected letters, digits, '.', '_' and '-', at most {MAX_ID}, was {text!r:.120}{hint}")


@frozen(order=True)
class _Id:
    text: str = field(validator=_checked)

    def __str__(self) -> str:
        return self.text


@frozen(order=True)
class StageId(_Id):
    """What a stage is known by."""


@frozen(order=True)
class TaskId(_Id):
    """What a task is known by."""


def stage_id(value: StageId | str) -> StageId:
    """Return the id of a stage; that of a task is none."""
    return value if isinstance(value, StageId) else StageId(value)


def stage_ids(values: Iterable[StageId | str] | StageId | str) -> tuple[StageId, ...]:
    """Return the ids of stages; one by itself is one of one."""
    return tuple(map(stage_id, (values,) if isinstance(values, str | StageId) else values))


def task_id(value: TaskId | str) -> TaskId:
    """Return the id of a task; that of a stage is none."""
    return value if isinstance(value, TaskId) else TaskId(value)


def task_ids(values: Iterable[TaskId | str] | TaskId | str) -> tuple[TaskId, ...]:
    """Return the ids of tasks, likewise."""
    return tuple(map(task_id, (values,) if isinstance(values, str | TaskId) else values))


def texts(values: Iterable[str]) -> tuple[str, ...]:
    """Return texts; one by itself is one of one."""
    return (values,) if isinstance(values, str) else tuple(values)
