"""Redaction: finding secrets in text and plain data and replacing them."""

from harnesses.redaction.redactor import redact, redact_text

__all__ = ["redact", "redact_text"]
