"""Errors of an agent's turn.

HarnessError
└── TurnFailed            the turn ended without an answer
    ├── AnswerRefused     the model, or its provider's safety system, refused; the harness is blocked
    ├── AnswerCutOff      the answer is longer than the model may write
    ├── AnswerEmpty       the model said nothing, also when it was asked again
    └── AnswerInvalid     the answer is not of the wanted type, also after it was asked again
"""

from __future__ import annotations

from harnesses.errors import HarnessError, Waiting


class TurnFailed(HarnessError):
    """The turn ended without an answer.

    Args:
        session: the conversation, so that the next turn can go on with it; None if there is none.
    """

    def __init__(self, message: str, *, session: str | None = None) -> None:
        super().__init__(message)
        self.session = session


class AnswerRefused(TurnFailed, Waiting):
    """The model, or its provider's safety system, refused to answer. It is asked anew when the harness is started again."""


class AnswerCutOff(TurnFailed):
    """The answer was cut off because it is longer than the model may write."""


class AnswerEmpty(TurnFailed):
    """The model said nothing and called no tool, also after it was asked again."""


class AnswerInvalid(TurnFailed):
    """The answer is not of the wanted type, also after the model was told what is wrong with it."""
