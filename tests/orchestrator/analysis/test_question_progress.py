"""How far it has come: the figures are those of the report to the last digit, and what is not known is not told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from harnesses.trading import PaperBroker, ReplayFeed, SharedAccount, TradingHarness, cross_strategy
from harnesses.trading.report.report_figures import account_of
from harnesses.trading.report.trading_report import steps
from orchestrator import Orchestrator, analysis
from orchestrator.analysis.answers.answer import Answer
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.presets.trading_questions import Account, Drawdown, Values, accounts
from orchestrator.analysis.questions import progress_question as progress
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from tests import ROOT
from tests.orchestrator.analysis.figured import SOURCES, record, record_all
from tests.orchestrator.analysis.picturing import Diary


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_all(tmp_path_factory.getbasetemp())


@pytest.fixture(params=SOURCES)
def run(request: pytest.FixtureRequest, recorded: Path) -> Iterator[Run]:
    with analysis.open(recorded / request.param) as opened:
        yield opened


def table(answer: Answer, name: str) -> list[dict[str, Any]]:
    return next((one.dicts() for one in answer.tables if one.name == name), [])


def test_the_figures_of_trading_are_those_of_the_report_to_the_last_digit(run: Run, recorded: Path) -> None:
    told = account_of(steps(SqliteReader(recorded / "run.db"), "trading"))

    [mine] = accounts(run)

    figures = told.figures
    assert (mine.steps, mine.begin, mine.end) == (figures.steps, figures.begin, figures.end)
    assert (mine.first, mine.last, mine.gain) == (figures.first_equity, figures.last_equity, figures.gain)
    assert (mine.yearly_gain, mine.turns) == (figures.yearly_gain, figures.turns)
    assert mine.deepest is not None
    assert mine.deepest.depth == figures.max_drawdown
    assert (mine.turnover, mine.fees, mine.fills, mine.refused, mine.expired) == (
        figures.turnover,
        figures.fees,
        figures.trades,
        figures.refused,
        figures.expired,
    )
    assert sum(one.gain for one in mine.symbols.values()) == sum(row.gain for row in told.trades)
    assert mine.hits == (figures.won, figures.sales)


def test_features_tasks_accounts_and_whatever_else_are_told_apart(run: Run) -> None:
    told = progress.answer(run)

    kinds = {row["harness"]: (row["what"], row["status"]) for row in table(told, "harnesses")}
    assert kinds == {
        "features": ("features", "blocked"),
        "pipe": ("tasks", "completed"),
        "trading": ("trading", "completed"),
        "spender": ("steps", "completed"),
    }
    assert len(told.sentences) == 4


def test_a_list_is_told_by_what_passed_was_set_back_and_is_blocked(run: Run) -> None:
    told = progress.answer(run, harness="features")

    [row] = table(told, "features")
    assert (row["listed"], row["passed"], row["blocked"], row["pending"], row["regressed"], row["tries"]) == (3, 2, 1, 0, 1, 8)
    assert [(row["tries"], row["features"]) for row in table(told, "tries_to_pass")] == [(2, 2)]
    assert told.sentences == (
        "features: 2 of 3 features passed; 0 at the first try, one after 2; blocked: c; set back after they had passed: a.",
    )


def test_the_burn_up_goes_down_when_a_feature_is_set_back(run: Run) -> None:
    told = progress.answer(run, harness="features")

    rows = [(row["step"], row["feature"], row["event"], row["passing"], row["listed"]) for row in table(told, "burn_up")]
    assert rows == [(3, "a", "passed", 1, 3), (5, "b", "passed", 2, 3), (6, "a", "set_back", 1, 3), (7, "a", "passed", 2, 3)]


def features_log(diary: Diary, *, passed: int, listed: int) -> None:
    """Write a log in which a feature passes every ten seconds."""
    diary.say("started", "f", 0)
    names = [{"id": f"f{number}"} for number in range(listed)]
    diary.say(
        "step", "f", 0, step=1, input={"kind": "initialize"}, output={"status": "done"}, delta={"set": {"features": names}}
    )
    for number in range(passed):
        given = {"kind": "turn", "feature_id": f"f{number}", "turn": 1}
        diary.say("step", "f", 10 * (number + 1), step=number + 2, input=given, output={"status": "passed"}, delta={})


def test_what_is_left_is_projected_from_the_pace_so_far(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "log")
    features_log(diary, passed=6, listed=9)

    with diary.open() as run:
        told = progress.answer(run)

    [row] = table(told, "features")
    assert (row["pending"], row["left_low_s"], row["left_high_s"]) == (3, 30.0, 30.0)
    assert "the 3 that are left take 30 s to 30 s" in told.sentences[0]


def test_of_too_few_passes_there_is_no_projection(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "log")
    features_log(diary, passed=4, listed=9)

    with diary.open() as run:
        told = progress.answer(run)

    assert table(told, "features")[0]["left_low_s"] is None
    assert "too few have passed yet" in told.sentences[0]


def test_what_has_ended_is_not_projected(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "log")
    features_log(diary, passed=6, listed=9)
    diary.say("finished", "f", 100, step=7)

    with diary.open() as run:
        assert table(progress.answer(run), "features")[0]["left_low_s"] is None


def test_the_counters_of_other_harnesses_are_told(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "log")
    for step, changed in enumerate(({"done": 1, "name": "x"}, {"done": 2}, {"rest": 0.5}), 1):
        diary.say("step", "h", step, step=step, input=None, output=None, delta={"set": changed})

    with diary.open() as run:
        rows = table(progress.answer(run), "counters")

    assert [(row["counter"], row["value"], row["step"]) for row in rows] == [("done", "2", 2), ("rest", "0.5", 3)]


def test_a_run_without_a_step_has_come_nowhere(tmp_path: Path) -> None:
    record(tmp_path, lambda orchestrator: None)

    with analysis.open(tmp_path / "run.db") as run:
        told = progress.answer(run)

    assert told.sentences == ("Nothing is recorded yet.",)


def test_what_agents_wrote_is_shown_inert(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "log")
    given = {"kind": "turn", "feature_id": "\x1b[2Jwipe", "turn": 1}
    verdict = {"evidence": "key ghp_0123456789abcdefghijklmnopqrstuvwxyz\x1b[2J"}
    diary.say("step", "f", 1, step=1, input=given, output={"status": "not_validated", "verdict": verdict}, delta={})

    with diary.open() as run:
        told = str(progress.answer(run))

    assert "\x1b" not in told
    assert "ghp_0123" not in told


def account_after(worth: Sequence[float]) -> Account:
    """Return an account that was worth these amounts, day after day."""
    time = np.datetime64("2000-01-01", "us") + np.arange(len(worth)).astype("timedelta64[D]")
    account = Account("t")
    nothing = np.zeros(len(worth), int)
    account.read(Values(time, np.array(worth, float), np.zeros(len(worth)), refused=nothing, expired=nothing))
    return account


def test_a_drawdown_lasts_from_the_height_until_it_is_reached_again() -> None:
    account = account_after((100, 110, 99, 104, 110, 120, 118))

    assert account.deepest is not None
    spell = account.deepest
    assert (spell.depth, spell.begin.day, spell.low.day, spell.end.day, spell.is_over) == (1 - 99 / 110, 2, 3, 5, True)
    assert account.returns.count == 6


Spell = tuple[float, int, int, int, bool]


def spells(worth: Sequence[float]) -> list[Spell]:
    """Return the times below the highest value so far, step by step: depth, days of begin, low, end, is_over."""
    found: list[Spell] = []
    peak, high, low = worth[0], 0, None
    for day, value in enumerate(worth):
        if value >= peak:
            if low is not None:
                found.append((1 - worth[low] / peak, high, low, day, True))
            peak, high, low = value, day, None
        elif low is None or value < worth[low]:
            low = day
    return found if low is None else [*found, (1 - worth[low] / peak, high, low, len(worth) - 1, False)]


def as_days(spell: Drawdown | None) -> Spell | None:
    if spell is None:
        return None
    begin, low, end = ((at - datetime(2000, 1, 1, tzinfo=UTC)).days for at in (spell.begin, spell.low, spell.end))
    return spell.depth, begin, low, end, spell.is_over


@pytest.mark.parametrize("seed", range(60))
def test_the_deepest_and_the_longest_drawdown_are_the_first_of_those_found_step_by_step(seed: int) -> None:
    random = Random(seed)
    worth = [float(random.randint(1, random.choice((3, 20)))) for _ in range(random.randint(1, 25))]
    account, every = account_after(worth), spells(worth)
    assert as_days(account.deepest) == max(every, key=lambda one: one[0], default=None)
    assert as_days(account.longest) == max(every, key=lambda one: one[3] - one[1], default=None)
    assert (account.total, account.steps) == (sum(worth), len(worth))


def test_harnesses_that_share_an_account_are_told_one_by_one_and_together(tmp_path: Path) -> None:
    account = SharedAccount("main", PaperBroker(Decimal(10_000)))
    feed = {"AAPL": ROOT / "examples" / "data" / "aapl.csv"}

    def start(orchestrator: Orchestrator) -> None:
        for name, cash in (("alpha", 6000), ("beta", 3000)):
            share = account.share(name, Decimal(cash))
            harness = TradingHarness(ReplayFeed.read(feed, limit=90), share, cross_strategy(3, 8), period_s=1)
            orchestrator.start(harness, name=name)

    with analysis.open(record(tmp_path, start) / "run.db") as opened:
        told = progress.answer(opened)

    each = {row["harness"]: row for row in table(told, "trading")}
    (both,) = table(told, "accounts")
    assert (both["account"], both["harnesses"], both["first_equity"]) == ("main", "alpha, beta", "9000")
    assert [one["first_equity"] for one in each.values()] == ["6000", "3000"]
    assert Decimal(both["last_equity"]) == sum(Decimal(one["last_equity"]) for one in each.values())
    assert both["trades"] == sum(one["trades"] for one in each.values()) > 0
    units = sum(book.units("AAPL") for book in account.books().members.values())
    assert both["positions"] == (f"AAPL {units:f}" if units else "")
