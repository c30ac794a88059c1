"""What a line of a command-line agent's output says it does: see `harnesses.agents.stream_counts`, where this has moved to."""

from harnesses.agents.stream_counts import Counter, Deed, Deeds, counter_for

__all__ = ["Counter", "Deed", "Deeds", "counter_for"]
