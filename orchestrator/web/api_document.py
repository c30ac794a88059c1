"""The OpenAPI document of the API, made from its table of paths. Pure."""

from __future__ import annotations

from typing import Any

from orchestrator.text.json_text import json_line
from orchestrator.web.api_route import STORE, Route
from orchestrator.web.site_routes import PREFIX, ROUTES

_STORE = "the store, as `/api/stores` names it, where a folder is served"
_ERROR = {"$ref": "#/components/schemas/Error"}
_SCHEMAS = {
    "Error": {
        "type": "object",
        "properties": {"error": {"type": "string", "description": "what is wrong, what was expected, and what to do"}},
        "required": ["error"],
        "additionalProperties": False,
    }
}


def openapi() -> str:
    """Return the OpenAPI document of the API."""
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        fields = {name: {"description": said} for name, said in route.body.items()}
        schema = {"type": "object", "properties": fields, "additionalProperties": False}
        paths.setdefault(f"/{PREFIX}{route.path}", {})[route.method.lower()] = {
            "summary": route.summary,
            "parameters": _parameters(route),
            **({"requestBody": {"content": {"application/json": {"schema": schema}}}} if route.method == "POST" else {}),
            "responses": _responses(route),
        }
    info = {"title": "orchestrator", "version": "1", "description": "One store of harnesses: what it holds, and orders."}
    components = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}, "schemas": _SCHEMAS}
    needed: list[dict[str, list[str]]] = [{"token": []}]
    return json_line({"openapi": "3.1.0", "info": info, "paths": paths, "components": components, "security": needed})


def _parameters(route: Route) -> list[dict[str, Any]]:
    options = {STORE: _STORE, **route.options} if route.is_of_store else dict(route.options)
    return [
        *({"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in route.part_names),
        *({"name": name, "in": "query", "description": said, "schema": {"type": "string"}} for name, said in options.items()),
    ]


def _responses(route: Route) -> dict[str, Any]:
    """Return the statuses of a path, each with what it means; of refusals by the guard of the server, the body is empty."""
    errors = {"400": "an unknown option or field, or a value that is not as expected"}
    if {"name", "names", "harness"} & {*route.part_names, *route.options, *route.body}:
        errors["404"] = "there is no such harness"
    if route.method == "POST":
        errors["409"] = "it cannot be done now: no program runs the harness, or another one owns it"
    errors["503"] = "the store cannot be read, or the program does not answer"
    refused = {"401": "no token, or not the one of this server", "403": "another host, or a page of another origin"}
    kind = "text/event-stream" if route.path == "/events" else "application/json"
    return {
        "200": {
            "description": "what was asked for",
            "content": {kind: {}},
        },
        **{
            status: {"description": said, "content": {"application/json": {"schema": _ERROR}}}
            for status, said in errors.items()
        },
        **{status: {"description": said} for status, said in refused.items()},
    }
