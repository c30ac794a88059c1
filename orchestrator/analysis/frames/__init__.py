"""Frames: the tables that questions are asked of, one query for each."""

from orchestrator.analysis.frames.frame_queries import FRAMES, VERSION

__all__ = ["FRAMES", "VERSION"]
