"""The agents of Inspect AI and of the OpenAI Agents SDK beside a `ModelAgent`: `python -m tests.benchmarks.peers`."""
