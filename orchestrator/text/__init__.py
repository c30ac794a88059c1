"""Text for terminals and messages: on one line, without secrets or control characters."""

from typing import TYPE_CHECKING

from harnesses.lazy_exports import lazy as _lazy

if TYPE_CHECKING:
    from orchestrator.text.terminal_text import inert
else:
    __getattr__, __dir__ = _lazy(
        __name__,
        {
            "orchestrator.text.terminal_text": "inert",
        },
    )

__all__ = ["inert"]
