"""The hand-off files of an attempt, and its end.

The law: what is shown of the work cannot stop it, and neither hides an error nor outlasts a cancellation by long.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import trio
from attrs import define, field

from harnesses.control import Control, Ending
from harnesses.diagnostics.program_log import get_logger
from harnesses.errors import ScopeError
from harnesses.features.feature_record import FeatureState
from harnesses.features.handoff.handoff_files import HandoffFiles
from harnesses.features.loop.feature_workplace import Workplace
from harnesses.features.loop.observers import ObserverThread, Phases
from harnesses.features.turn_results import describe_error

_LEAVING_S = 2.0
"""For the hand-off files when the harness is cancelled."""


@define
class FeatureShutdown:
    """Shows where the work stands after each step, and closes what an attempt has opened."""

    name: str
    workplace: Workplace
    phases: Phases
    observers: ObserverThread
    how: str = ""
    """How the attempt ends, if something has ended it."""
    _files: HandoffFiles | None = field(default=None, init=False)
    _directory: Path | None = field(default=None, init=False)
    _claims: ExitStack = field(factory=ExitStack, init=False)

    def claim(self, directory: Path | None) -> None:
        """Take the directory of the hand-off files.

        Raises:
            InvalidRequest: it is that of another harness.
        """
        if directory is not None:
            self._files, self._directory = self._claims.enter_context(HandoffFiles(directory, self.name)), directory

    async def show(self, state: FeatureState, working: str | None, *, at_once: bool) -> None:
        """Write the hand-off files. They are views: that they cannot be written is no reason to stop."""
        if self._files is None:
            return
        try:
            await self._files.show(state, cut_off=working, ended=self.how, at_once=at_once)
        except Exception:
            get_logger(__name__).warning(
                "harness %r could not write its hand-off to %s", self.name, self._directory, exc_info=True
            )

    async def close(self, state: FeatureState, working: str | None) -> None:
        """Do what is to be done at the end, however it came.

        Args:
            working: the feature that was being worked.
        """
        self.phases.fail(self.how or "ended")
        with trio.move_on_after(_LEAVING_S, shield=True):
            await self.show(state, working, at_once=True)
        self._claims.close()
        self.observers.close()
        try:
            await self.workplace.close()
        except Exception:
            get_logger(__name__).warning("harness %r could not tidy up", self.name, exc_info=True)


def how_ended(error: BaseException, control: Control) -> str:
    """Return how an attempt ends that an error has ended, in a few words; an empty text if it came to its end."""
    if isinstance(error, Exception):
        return describe_error(error)
    if isinstance(error, GeneratorExit) and control.failure is None:
        return "stopped" if control.ending is Ending.STOPPED else ""
    why = control.failure or control.why_cancelled()
    if why is None:
        return "cancelled" if control.aborted else "stopped"
    # Who cancels it from outside may not have said so yet.
    return "cancelled" if isinstance(why, ScopeError) else describe_error(why)
