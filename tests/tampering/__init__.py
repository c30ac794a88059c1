"""Random tamperings with real stores, each to be found by both verifiers: `python -m tests.tampering --count 10000`."""
