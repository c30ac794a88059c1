"""Effects: acts on the world that happen at most once, with their approvals and their journal."""

from harnesses.effects.effect import Effect, EffectOutcome

__all__ = ["Effect", "EffectOutcome"]
