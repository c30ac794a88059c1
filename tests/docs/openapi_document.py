"""The OpenAPI document of the page's API, as a file that generators of clients read."""

from __future__ import annotations

import json

from orchestrator.web.api_document import openapi


def document() -> str:
    """Return the document."""
    return f"{json.dumps(json.loads(openapi()), indent=2)}\n"
