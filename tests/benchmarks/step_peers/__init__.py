"""What a durable step costs in other systems, beside this package: `python -m tests.benchmarks.step_peers`."""
