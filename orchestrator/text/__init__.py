"""Text for terminals and messages: on one line, without secrets or control characters."""

from orchestrator.text.terminal_text import inert

__all__ = ["inert"]
