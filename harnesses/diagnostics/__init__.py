"""Diagnostics: recognising common mistakes and naming the place in the author's code."""
