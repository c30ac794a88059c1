"""A limit on the work of judging one command, in steps: it is the same on every machine. Pure.

A step is about a character that is looked at. Who has none left gives up, and what is judged is unreadable.
"""

from __future__ import annotations

from attrs import define

from harnesses.governance.actions.nouns import Call, Unreadable, Word

MAX_STEPS = 400_000
"""Steps for one command: about a second, measured with the inputs of `test_actions_work.py`."""
CALL, WRITE, UNCERTAIN = 20, 10, 400
"""Steps that a call, a path and a path that is known in part cost apart from their characters."""


class Exhausted(Unreadable):
    """Judging a command has taken all the steps that there are for one."""


@define
class Work:
    """The steps that are left for one command."""

    left: int = MAX_STEPS

    def spend(self, steps: int) -> None:
        """Take steps before they are gone.

        Raises:
            Exhausted: there are not so many left; and there are none from now on.
        """
        if steps > self.left:
            self.left = 0
            raise Exhausted(f"judging it takes more than {MAX_STEPS} steps")

    def on_call(self, call: Call) -> None:
        """Take the steps of looking at a program's words."""
        self.spend(CALL + sum(len(word.text) + 2 for word in call.args) + (len(call.args) ** 2 >> 12))
        self.spend(max((len(word.text) ** 2 >> 9 for word in call.args), default=0))

    def on_path(self, path: Word) -> None:
        """Take the steps of judging a path: one that is known in part is compared with many."""
        self.spend(WRITE + len(path.text) * (1 if path.known and not path.glob else 20))
        if not path.known or path.glob:
            self.spend(UNCERTAIN)

    def on_code(self, text: str, language: str) -> None:
        """Take the steps of looking at code: patterns are looked for from every place in it to its end."""
        self.spend(len(text) * 3 if language == "python" else len(text) + (len(text) ** 2 >> 10))
