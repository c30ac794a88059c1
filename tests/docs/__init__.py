"""The pages in `docs/` that are made of a run: `python -m tests.docs` writes them anew, a test compares them."""
