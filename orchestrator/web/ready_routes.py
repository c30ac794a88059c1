"""The paths of the API about ready-made harnesses."""

from __future__ import annotations

from typing import Any

from orchestrator.web.api_route import Asked, Route


def _curve(asked: Asked) -> Any:
    symbol, since = asked.options.get("symbol", ""), asked.number("since", 0) or 0
    return asked.site.views.curve(asked.names["name"], symbol, since=since, revision=asked.number("revision"))


READY_ROUTES = (
    Route(
        "GET",
        "/trading",
        "Every harness that trades, recognised by its records, and where its account stands.",
        lambda asked: asked.site.views.accounts(asked.site.steps_made()),
    ),
    Route(
        "GET",
        "/harnesses/{name}/trading",
        "The account of a harness that trades: figures of the steps up to `read`, positions, and its newest orders.",
        lambda asked: asked.site.views.account(asked.names["name"]),
    ),
    Route(
        "GET",
        "/harnesses/{name}/trading/curve",
        "Its equity and prices in at most 2,000 stretches: time; equity, its highest and lowest; drawdown; 1 if trading was "
        "restricted, 2 if halted; first, highest, lowest and last price; units bought and sold.",
        _curve,
        {
            "symbol": "whose prices (default: the first)",
            "since": "only from this stretch on",
            "revision": "of an earlier answer; if it is another one by now, all stretches are answered",
        },
    ),
    Route(
        "GET",
        "/lists",
        "Every harness that works on a feature list or a pipeline, recognised by its records.",
        lambda asked: asked.site.views.lists(asked.site.steps_made()),
    ),
    Route(
        "GET",
        "/harnesses/{name}/list",
        "Its features or tasks: status, tries, cost, and how they filled up.",
        lambda asked: asked.site.views.progress(asked.names["name"]),
    ),
    Route(
        "GET",
        "/harnesses/{name}/list/{id}",
        "One feature or task: its tries with the evidence on each, and what it changed.",
        lambda asked: asked.site.views.item(asked.names["name"], asked.names["id"]),
    ),
)
