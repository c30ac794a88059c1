"""Steps of ready-made harnesses as one readable line; any other step as its input and output."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from harnesses.features.feature import Verdict
from harnesses.features.feature_record import Iteration, IterationKind, IterationResult, IterationStatus
from harnesses.pipeline.pipeline_state import MoveKind, PipelineInput, PipelineOutput
from harnesses.step import StateDelta
from harnesses.trading.account_model import Cancelled, Command, Execution, TradingOutput
from harnesses.trading.market.orders import Fill, Order, OrderKind, OrderReport, OrderStatus, PlacedOrder, Side, Source
from harnesses.trading.order_screening import Refusal
from harnesses.trading.risk import RiskState
from orchestrator.codec import decode, encode
from orchestrator.records import StepRecord
from orchestrator.text.step_lines import describe, output_line, step_line
from tests.orchestrator.commanded import HOSTILE

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
BUY = Order("A", Side.BUY, Decimal(10))

EXPIRED = OrderReport(
    "c", "1", "A", Side.BUY, OrderKind.LIMIT, Decimal(10), Decimal(0), OrderStatus.EXPIRED, "its time is over"
)


def fill(number: int, side: Side = Side.BUY) -> Execution:
    made = Fill(str(number), "c", "A", side, Decimal(number), Decimal("10.50"), Decimal(0), NOON)
    return Execution(made, Source.VENUE, Source.STRATEGY)


def traded(**more: object) -> TradingOutput:
    usual = {"time": NOON, "cash": Decimal(5), "equity": Decimal("10250.5"), "positions": {}, "drawdown": Decimal(0)}
    return TradingOutput(**{**usual, "risk": RiskState.ACTIVE, **more})  # type: ignore[arg-type]


TRADING = [
    ({}, "no trade; equity 10,250.50; risk active"),
    ({"fills": (fill(10),)}, "bought 10 A at 10.5; equity 10,250.50; risk active"),
    (
        {"fills": (fill(1, Side.SELL), *map(fill, (2, 3, 4)))},
        "sold 1 A at 10.5, bought 2 A at 10.5, bought 3 A at 10.5 and 1",
    ),
    ({"placed": (PlacedOrder("c", BUY, Source.STRATEGY, NOON),)}, "placed buy 10 A; equity"),
    ({"refused": (Refusal(BUY, Source.STRATEGY, Source.RISK, "too large"),)}, "refused buy 10 A: too large; equity"),
    ({"cancelled": (Cancelled("c", "A", Source.RISK, "halted"),)}, "cancelled A: halted; equity"),
    ({"cancelled": (Cancelled("x", "", Source.STRATEGY, "why", refused="unknown"),)}, "refused to cancel x: unknown; equity"),
    ({"reports": (EXPIRED,)}, "expired A: its time is over; equity"),
    ({"commands": (Command("flatten"),)}, "order flatten by the operator; equity"),
    ({"commands": (Command("adopt", refused="no account"),)}, "order adopt refused: no account; equity"),
    ({"drawdown": Decimal("0.125"), "risk": RiskState.HALTED, "why": "loss"}, "(12.5% below its highest); risk halted (loss)"),
    ({"latched": "storm"}, "risk active; kill switch: storm"),
]


@pytest.mark.parametrize(("more", "said"), TRADING)
def test_a_step_of_a_trading_harness_says_what_was_done_and_where_the_account_is(more, said):
    assert said in describe(None, decode(encode(traded(**more))))


VERDICT = Verdict(passed=True, evidence="3 passed", validator="tests")
FEATURES = [
    (
        {"kind": IterationKind.TURN, "feature_id": "a", "turn": 2},
        {"status": IterationStatus.PASSED, "note": "feature a: validated (try 2); all done", "verdict": VERDICT},
        "feature a, try 2: passed; accepted by tests: 3 passed; all done",
    ),
    (
        {"kind": IterationKind.TURN, "feature_id": "a", "turn": 1},
        {"status": IterationStatus.CHAT_FAILED, "note": "feature a: the agent is away"},
        "feature a, try 1: chat failed; the agent is away",
    ),
    (
        {"kind": IterationKind.INITIALIZE},
        {"status": IterationStatus.DONE, "note": "3 features for: it"},
        "initialize: done; 3 features for: it",
    ),
]


@pytest.mark.parametrize(("given", "made", "said"), FEATURES)
def test_a_step_of_a_feature_harness_says_which_feature_which_try_and_the_verdict(given, made, said):
    step = Iteration(run=1, **given), IterationResult(**made)

    assert describe(*decode(encode(step))) == said


def test_a_step_of_a_pipeline_says_which_task_which_attempt_and_the_verdict():
    step = PipelineInput(kind=MoveKind.JUDGE, task="t1", attempt=2), PipelineOutput(status="pass", note="all checks passed")

    assert describe(*decode(encode(step))) == "task t1, judge, attempt 2: pass; all checks passed"


@pytest.mark.parametrize(("given", "made"), [(1, "x"), ({"kind": 1}, {}), (None, {"equity": 1, "cash": 2}), ([], [])])
def test_any_other_step_is_shown_as_it_is(given, made):
    assert describe(given, made) == ""

    record = StepRecord("h", 1, 9, 4, NOON, given, made, StateDelta(("total",), "said"))
    assert " → " in step_line(record)
    assert step_line(record).endswith("[total]  said")


@pytest.mark.parametrize("broken", [None, 1, "x", [1], {"fill": 3}])
def test_what_only_looks_like_a_trade_is_shown_all_the_same(broken):
    output = dict.fromkeys(("equity", "cash", "positions", "fills", "placed", "refused", "risk", "drawdown"), broken)

    assert describe(None, output).startswith("no trade") or broken == [1]


def test_text_of_agents_and_markets_is_inert():
    output = decode(encode(traded(fills=(fill(1),), latched=HOSTILE)))
    record = StepRecord("h", 1, 9, 4, NOON, None, output, StateDelta((), HOSTILE))

    assert step_line(record).isprintable()
    assert output_line(record, 200).isprintable()
    assert len(output_line(record, 50)) <= 50
