"""Install the small model where it is missing, run its tests, and print how fast it answers."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
import trio

from harnesses.agents.model.messages import Message, ModelOptions, ModelRequest, Role
from harnesses.agents.model.providers.model_names import provider_for
from tests import ROOT
from tests.small_model.small_model import SmallModel, install


async def measure(url: str) -> None:
    """Print the speed of one answer."""
    provider, model = provider_for("openai-chat:smollm2", base_url=url)
    messages = (Message(role=Role.USER, text="Tell a story."),)
    begun = time.monotonic()
    response = await provider.complete(ModelRequest(model=model, messages=messages, options=ModelOptions(max_tokens=64)))
    tokens, seconds = response.usage.output_tokens, time.monotonic() - begun
    print(f"{tokens} tokens in {seconds:.1f} s: {tokens / seconds:.0f} tokens/s")
    print(response.message.text)


try:
    install()
except pytest.skip.Exception as reason:
    sys.exit(f"the small model cannot be installed: {reason}")
with SmallModel() as small_model:
    trio.run(measure, small_model.url)
sys.exit(subprocess.run([sys.executable, "-m", "pytest", "-q", "tests/small_model"], cwd=ROOT).returncode)
