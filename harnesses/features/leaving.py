"""The end of each step of a feature harness, and of all of them: hand-off files, hooks, tidying up.

The law: what is shown of the work can not stop it, and neither hides an error nor outlasts a cancellation by long.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from pathlib import Path

import trio

from harnesses.control import Ending
from harnesses.errors import ScopeError
from harnesses.features.handoff_files import HandoffFiles
from harnesses.features.steps import FeatureSteps
from harnesses.features.turn import words_of

_LEAVING_S = 2.0
"""For the hand-off files when the harness is cancelled."""
_log = logging.getLogger(__name__)


class FeatureLeaving(FeatureSteps):
    """Goes on after a step, and leaves after the last one."""

    _handoff: Path | None
    _files: HandoffFiles | None = None
    _claims: ExitStack

    def _claim(self) -> None:
        """Take the directory of the hand-off files.

        Raises:
            InvalidRequest: it is that of another harness.
        """
        if self._handoff is not None:
            self._files = self._claims.enter_context(HandoffFiles(self._handoff, self.name))

    async def _recorded(self) -> None:
        """Go on after a step that is on record."""
        self._settle_phase()
        await self._show(at_once=self._at.last.matters)
        if self._at.then is not None:
            raise self._at.then

    async def _leave(self) -> None:
        """Do what is to be done at the end, however it came."""
        self._settle_phase()
        self._phases.fail(self._at.how or "ended")
        with trio.move_on_after(_LEAVING_S, shield=True):
            await self._show(at_once=True)
        self._claims.close()
        self._aside.close()
        try:
            await self._close()
        except Exception:
            _log.warning("harness %r could not tidy up", self.name, exc_info=True)

    async def _show(self, *, at_once: bool) -> None:
        """Write the hand-off files. They are views: that they can not be written is no reason to stop."""
        if self._files is None:
            return
        try:
            await self._files.show(self.state, cut_off=self._at.working, ended=self._at.how, at_once=at_once)
        except Exception:
            _log.warning("harness %r could not write its hand-off to %s", self.name, self._handoff, exc_info=True)

    def _how(self, error: BaseException) -> str:
        """Return how an attempt ends that an error has ended, in a few words; an empty text if it came to its end."""
        if isinstance(error, Exception):
            return words_of(error)
        control = self._surroundings("end").control
        if isinstance(error, GeneratorExit) and control.failure is None:
            return "stopped" if control.ending is Ending.STOPPED else ""
        why = control.failure or control.why_cancelled()
        if why is None:
            return "cancelled" if control.aborted else "stopped"
        # Who cancels it from outside may not have said so yet.
        return "cancelled" if isinstance(why, ScopeError) else words_of(why)
