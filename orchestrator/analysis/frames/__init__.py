"""Frames: the tables that questions are answered from, one query for each."""

from orchestrator.analysis.frames.frame_queries import FRAMES, VERSION

__all__ = ["FRAMES", "VERSION"]
