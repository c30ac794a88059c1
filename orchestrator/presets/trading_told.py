"""A trading account as plain values for pages and programs: amounts are exact decimal numbers, written as text. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from attrs import asdict

from harnesses.trading.account_model import Cancelled, OpenOrder
from harnesses.trading.market.orders import Fill, Order, PlacedOrder
from harnesses.trading.order_screening import Refusal
from harnesses.trading.report.report_figures import Interval
from orchestrator.presets.trading_course import FillRow, Now, OrderRow, TradingCourse

_TEXT = 500


def told_now(now: Now) -> dict[str, Any]:
    """Return where an account stands."""
    output = now.output
    return {
        "step": now.step,
        "time": output.time.isoformat(),
        "equity": _exact(output.equity),
        "cash": _exact(output.cash),
        "risk": output.risk.value,
        "why": output.why[:_TEXT],
        "latched": output.latched[:_TEXT],
        "positions": [
            {
                "symbol": one.symbol,
                "units": _exact(one.units),
                "cost": _exact(one.cost),
                "price": _exact(one.price),
                "value": _exact(one.value),
                "gain": _exact(one.gain),
            }
            for one in now.positions
        ],
        "open": [_open(one) for one in now.open],
    }


def told_account(course: TradingCourse) -> dict[str, Any]:
    """Return the course of an account, the newest of everything first."""
    figures = course.figures()
    amounts = {name: _plain(value) for name, value in asdict(figures).items()}
    return {
        "read": course.step,
        "figures": amounts,
        "symbols": [*course.curve.symbols],
        "fills": [_fill(one) for one in reversed(course.fills)],
        "orders": [_order(one) for one in reversed(course.orders.values())],
        "refused": [_refusal(step, one) for step, one in reversed(course.refused)],
        "restrictions": _intervals(course.restrictions()),
    }


def _intervals(intervals: Iterable[Interval]) -> list[dict[str, Any]]:
    return [
        {
            "kind": one.kind,
            "begin": one.begin.isoformat(),
            "end": one.end.isoformat() if one.is_over else None,
            "why": one.why[:_TEXT],
        }
        for one in reversed([*intervals])
    ]


def _fill(one: FillRow) -> dict[str, Any]:
    fill: Fill = one.row.fill
    return {
        "step": one.step,
        "time": fill.time.isoformat(),
        "symbol": fill.symbol,
        "side": fill.side.value,
        "units": _exact(fill.units),
        "price": _exact(fill.price),
        "fee": _exact(fill.fee),
        "gain": _exact(one.row.gain),
        "wanted_by": one.row.wanted_by.value if one.row.wanted_by else None,
        "reason": one.row.reason[:_TEXT],
        "client_id": fill.client_id,
    }


def _order(one: OrderRow) -> dict[str, Any]:
    report = one.report
    return {
        "step": one.step,
        **_placed(one.placed),
        "filled": _exact(report.filled) if report else None,
        "status": report.status.value if report else None,
        "why": report.reason[:_TEXT] if report else "",
    }


def _refusal(step: int, one: Refusal | Cancelled) -> dict[str, Any]:
    wanted_by = one.source.value
    if isinstance(one, Refusal):
        order, by, why = _wanted(one.order), one.by.value, one.reason
    else:
        prices = dict.fromkeys(("units", "limit_price", "stop_price"))
        order = {
            "symbol": one.symbol,
            "side": "",
            **prices,
            "kind": f"cancel {one.client_id}"[:_TEXT],
            "reason": one.reason[:_TEXT],
        }
        by, why = "", one.refused
    return {"step": step, **order, "wanted_by": wanted_by, "by": by, "why": why[:_TEXT]}


def _open(one: OpenOrder) -> dict[str, Any]:
    report = one.report
    return {**_placed(one.placed), "filled": _exact(report.filled), "status": report.status.value}


def _placed(placed: PlacedOrder) -> dict[str, Any]:
    return {
        "client_id": placed.client_id,
        "decided": placed.decided.isoformat(),
        **_wanted(placed.order),
        "wanted_by": placed.source.value,
    }


def _wanted(order: Order) -> dict[str, Any]:
    return {
        "symbol": order.symbol,
        "side": order.side.value,
        "units": _exact(order.units),
        "kind": order.kind.value,
        "limit_price": _exact(order.limit_price),
        "stop_price": _exact(order.stop_price),
        "reason": order.reason[:_TEXT],
    }


def _exact(number: Decimal | None) -> str | None:
    return None if number is None else f"{number:f}"


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return _exact(value)
    return value.isoformat() if hasattr(value, "isoformat") else value
