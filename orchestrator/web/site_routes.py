"""The paths of the API: a table, from which requests are answered and the OpenAPI document is made.

    GET   what is told of a store: read in a thread, so that one slow answer holds up no other
    POST  orders: to the program that runs on the store, or, where that needs none, into the store

An error is an object with the message that the command prints.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from orchestrator.control.control_server import JSON, Request, Response, answered, refusal
from orchestrator.errors import OrchestratorError, OwnedElsewhere, StoreError, UnknownHarness, UsageError
from orchestrator.text.json_text import json_line
from orchestrator.web import site_orders as orders
from orchestrator.web.api_route import Asked, Route
from orchestrator.web.ready_routes import READY_ROUTES
from orchestrator.web.site import Site

PREFIX = "api"
_MOST_NAMES = 200


def _steps(asked: Asked) -> Any:
    limit = asked.number("limit", 50) or 50
    return asked.site.steps(asked.names["name"], before=asked.number("before"), limit=limit)


def _step(asked: Asked) -> Any:
    return asked.site.step(asked.names["name"], asked.number("step") or 0)


def _paces(asked: Asked) -> Any:
    return asked.site.paces(asked.options.get("names", "").split(",")[:_MOST_NAMES])


def _order(verb: str, asked: Asked) -> Any:
    return orders.order(asked.site, asked.names["name"], verb)


def _answer(verdict: str, asked: Asked) -> Any:
    return orders.answer(asked.site, asked.names["id"], verdict, asked.body)


_REASON = {"reason": "why; kept with it"}
ROUTES = (
    Route("GET", "/run", "The store, its newest record, and whether a program runs on it.", lambda asked: asked.site.run()),
    Route("GET", "/needs", "What needs a person, with the orders that help.", lambda asked: asked.site.needs()),
    Route(
        "GET",
        "/fleet",
        "A row for each harness that has changed since a version.",
        lambda asked: asked.site.fleet.changed(asked.number("since", 0) or 0),
        {"since": "a `version` of an earlier answer"},
    ),
    Route("GET", "/paces", "Pace and last step of some harnesses.", _paces, {"names": "names, separated by commas"}),
    Route("GET", "/harnesses/{name}", "What is known of one harness.", lambda asked: asked.site.harness(asked.names["name"])),
    Route(
        "GET",
        "/harnesses/{name}/history",
        "Its lifecycle events, newest first: how it came to where it is.",
        lambda asked: asked.site.history(asked.names["name"]),
    ),
    Route(
        "GET",
        "/harnesses/{name}/steps",
        "Its steps, newest first.",
        _steps,
        {"before": "only steps with smaller numbers", "limit": "at most so many (default: 50)"},
    ),
    Route("GET", "/harnesses/{name}/steps/{step}", "One step, the state after it and what changed in the state.", _step),
    Route(
        "GET",
        "/harnesses/{name}/transcripts",
        "What its agents and models said.",
        lambda asked: asked.site.transcripts(asked.names["name"], asked.number("step")),
        {"step": "only turns of this step"},
    ),
    Route(
        "GET", "/harnesses/{name}/output", "The newest lines of output.", lambda asked: asked.site.output(asked.names["name"])
    ),
    Route(
        "GET",
        "/harnesses/{name}/effects",
        "Its effects.",
        lambda asked: asked.site.effects(every=True, name=asked.names["name"])[-500:],
    ),
    Route(
        "GET",
        "/approvals",
        "Requests for approval that wait for an answer.",
        lambda asked: asked.site.approvals(every=asked.is_all),
        {"all": "1: also those that are answered"},
    ),
    Route(
        "GET",
        "/effects",
        "Effects of unknown outcome.",
        lambda asked: asked.site.effects(every=asked.is_all),
        {"all": "1: every effect"},
    ),
    *READY_ROUTES,
    Route("GET", "/budgets", "Limits, what is spent and what is left.", lambda asked: asked.site.budgets()),
    *(
        Route(
            "POST",
            f"/harnesses/{{name}}/{verb}",
            summary,
            partial(_order, verb),
        )
        for verb, summary in orders.ORDERS.items()
    ),
    Route(
        "POST",
        "/harnesses/{name}/send",
        "Put a message into its mailbox.",
        lambda asked: orders.send(asked.site, asked.names["name"], asked.body),
        body={"message": "any JSON value"},
    ),
    *(
        Route(
            "POST",
            f"/approvals/{{id}}/{verb}",
            summary,
            partial(_answer, verdict),
            body=_REASON,
        )
        for verb, (verdict, summary) in orders.ANSWERS.items()
    ),
    Route(
        "POST",
        "/effects/settle",
        "Record the outcome of an effect of unknown outcome.",
        lambda asked: orders.settle_effect(asked.site, asked.body),
        body={"harness": "its name", "key": "of the effect", "as": "done or not-done", "reason": "how you know"},
    ),
    Route(
        "POST",
        "/kill-switch",
        "Stop all effects, or let them begin again.",
        lambda asked: orders.turn_switch(asked.site, asked.body),
        body={"on": "true or false", "harness": "only this one (default: all)", **_REASON},
    ),
)


def find(method: str, parts: tuple[str, ...]) -> tuple[Route, dict[str, str]] | Response:
    """Return the route of a request with the named parts of its path, or the answer that there is none."""
    allowed: list[str] = []
    for route in ROUTES:
        names = route.match(parts)
        if names is not None and route.method == method:
            return route, names
        if names is not None:
            allowed.append(route.method)
    path = "/".join(parts)
    if allowed:
        return refusal(405, f"{method} is not allowed on /{path}: expected {allowed[0]}", Allow=", ".join(allowed))
    return refusal(404, f"/{path} does not exist: expected a path of /{PREFIX}/openapi.json")


def respond_to(site: Site, request: Request, route: Route, names: Mapping[str, str]) -> Response:
    """Return the answer to a request; called in a thread."""
    try:
        body = msgspec.json.decode(request.body, type=dict[str, Any]) if request.body else {}
        value = route.answer(Asked(site, names, request.options, body))
    except msgspec.MsgspecError as error:
        return refusal(400, f"the body is not valid: expected a JSON object: {error}; correct it")
    except UnknownHarness as error:
        return refusal(404, str(error))
    except OwnedElsewhere as error:
        return refusal(409, str(error))
    except UsageError as error:
        return refusal(400, str(error))
    except (StoreError, OrchestratorError) as error:
        return refusal(503, str(error))
    if isinstance(value, Response):
        return value
    return Response(200, value.encode(), JSON) if isinstance(value, str) else answered(200, value)


def openapi() -> str:
    """Return the OpenAPI document of the API."""
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        names = re.findall(r"\{(\w+)\}", route.path)
        parameters = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
        parameters += [
            {"name": name, "in": "query", "description": said, "schema": {"type": "string"}}
            for name, said in route.options.items()
        ]
        fields = {name: {"description": said} for name, said in route.body.items()}
        content = {"application/json": {"schema": {"type": "object", "properties": fields}}}
        paths.setdefault(f"/{PREFIX}{route.path}", {})[route.method.lower()] = {
            "summary": route.summary,
            "parameters": parameters,
            **({"requestBody": {"content": content}} if fields else {}),
            "responses": {"200": {"description": "what was asked for, as JSON"}, "4XX": {"description": '{"error": …}'}},
        }
    info = {"title": "orchestrator", "version": "1", "description": "One store of harnesses: what it holds, and orders."}
    security = {"token": {"type": "http", "scheme": "bearer"}}
    components = {"securitySchemes": security}
    needed: list[dict[str, list[str]]] = [{"token": []}]
    return json_line({"openapi": "3.1.0", "info": info, "paths": paths, "components": components, "security": needed})
