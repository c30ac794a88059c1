"""Diagnostics: recognising common mistakes and locating them in the author's code."""
