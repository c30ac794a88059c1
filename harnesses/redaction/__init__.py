"""Redaction: finds secrets in text and plain data and replaces them."""

from harnesses.redaction.redactor import redact, redact_text

__all__ = ["redact", "redact_text"]
