"""What can be wrong with a pipeline.

HarnessError
└── NoRestart
    └── PipelineInvalid     stages or tasks that can not be worked, a place that can not be used: the caller's mistake
"""

from __future__ import annotations

from harnesses.errors import NoRestart


class PipelineInvalid(NoRestart):
    """A pipeline can not be as it was described. Nothing was changed."""
