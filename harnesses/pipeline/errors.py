"""What can be wrong with a pipeline.

HarnessError
└── NoRestart
    └── PipelineInvalid     stages or tasks that cannot be worked, a place that cannot be used: the caller's mistake
"""

from __future__ import annotations

from harnesses.errors import NoRestart


class PipelineInvalid(NoRestart):
    """A pipeline cannot be as it was described. Nothing was changed."""
