"""Prices: the package's own table, the user's rows before it, and what a call costs."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnesses.agents.model.messages import ModelUsage
from harnesses.agents.model.price_table import ModelPrice, price_table
from harnesses.errors import HarnessMisuse

MILLION = 1_000_000


def test_every_row_of_the_package_has_prices_and_sizes() -> None:
    table = price_table()
    assert len(table.rows) > 40
    assert table.version >= "2026-11-24"
    for name, price in table.rows.items():
        assert price.output > price.input > 0, name
        assert price.cached is None or price.cached < price.input, name
        assert price.cache_write is None or price.cache_write > price.input, name
        assert price.context, name
        assert price.max_output, name
        assert (price.long is None) is (price.long_above is None), name


@pytest.mark.parametrize(
    ("provider", "model", "price"),
    [
        ("anthropic", "claude-opus-5-5", 4),
        ("anthropic", "claude-opus-4-5-20251101", 5),
        ("anthropic", "claude-sonnet-5-5-latest", 2),
        ("openai", "gpt-5.4-2026-03-05", Decimal("2.5")),
        ("openai", "gpt-5.4-mini", Decimal("0.75")),
        ("openai", "gpt-5.9", None),
        ("openai", "gpt-5.4-ultra", None),
        ("anthropic", "gpt-5.4", None),
    ],
)
def test_a_model_is_found_by_its_name_with_or_without_a_date(provider: str, model: str, price: Decimal | None) -> None:
    found = price_table().find(provider, model)
    assert (found and found.input) == price


def test_each_kind_of_token_has_its_price() -> None:
    price = ModelPrice(input=10, output=50, cached=1, cache_write=12.5, reasoning=60)
    usage = ModelUsage(
        input_tokens=6 * MILLION,
        cached_tokens=2 * MILLION,
        cache_write_tokens=MILLION,
        output_tokens=3 * MILLION,
        reasoning_tokens=MILLION,
    )
    assert price.cost(usage) == 3 * 10 + 2 * 1 + Decimal("12.5") + 2 * 50 + 60


def test_kinds_without_a_price_cost_as_input_and_output() -> None:
    usage = ModelUsage(input_tokens=MILLION, cached_tokens=MILLION, output_tokens=MILLION, reasoning_tokens=MILLION)
    assert ModelPrice(input=10, output=50).cost(usage) == 60


def test_a_long_request_costs_more_as_a_whole() -> None:
    price = price_table().find("anthropic", "claude-haiku-5-5")
    assert price is not None
    assert price.cost(ModelUsage(input_tokens=100_000, output_tokens=1_000)) == Decimal("0.0105")
    assert price.cost(ModelUsage(input_tokens=100_001, output_tokens=1_000)) == Decimal("0.0525005")


counts = st.integers(0, 300_000)


@given(
    model=st.sampled_from(sorted(price_table().rows)), read=counts, cached=counts, written=counts, out=counts, thought=counts
)
def test_no_call_costs_more_than_the_bound_of_its_tokens(
    model: str, read: int, cached: int, written: int, out: int, thought: int
) -> None:
    price = price_table().rows[model]
    cached, written, thought = min(cached, read), min(written, max(read - cached, 0)), min(thought, out)
    usage = ModelUsage(
        input_tokens=read,
        cached_tokens=cached,
        cache_write_tokens=written,
        output_tokens=out,
        reasoning_tokens=thought,
    )
    assert price.cost(usage) <= price.most(read, out)
    assert price.cost(usage) <= price.most(read + 70_000, out + 1)


@pytest.mark.parametrize("form", ["mapping", "toml", "json", "bare json"])
def test_the_users_rows_come_before_those_of_the_package(form: str, tmp_path: Path) -> None:
    rows = {"anthropic:claude-opus-5-5": {"input": 1.1, "output": 2}, "local:*": {"input": 0, "output": 0}}
    path = tmp_path / f"prices.{form.split()[-1]}"
    if form == "toml":
        lines = (f'"{name}" = {{ input = {row["input"]}, output = {row["output"]} }}' for name, row in rows.items())
        path.write_text("[models]\n" + "\n".join(lines))
    elif form != "mapping":
        path.write_text(json.dumps({"models": rows} if form == "json" else rows))
    table = price_table(rows if form == "mapping" else path)
    found = [table.find(*name) for name in (("anthropic", "claude-opus-5-5"), ("openai", "gpt-4o"), ("local", "llama"))]
    assert [price and price.input for price in found] == [Decimal("1.1"), Decimal("2.5"), 0]
    assert [price and price.context for price in found] == [1_000_000, 128_000, None]


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ({"input": 1}, "output"),
        ({"input": -1, "output": 1}, "input"),
        ({"input": "much", "output": 1}, "expected"),
        ({"input": 1, "output": 1, "outptu": 1}, "outptu"),
        ({"input": "0.0000001", "output": 1}, "input"),
        ({"input": 1, "output": 1, "context": 0}, "context"),
        ({"input": "NaN", "output": 1}, "input"),
        (3, "expected"),
    ],
)
def test_an_invalid_row_is_named(row: object, named: str) -> None:
    with pytest.raises(HarnessMisuse, match=f"prices: mine:one: .*{named}"):
        price_table({"mine:one": row})  # type: ignore[dict-item]


@pytest.mark.parametrize(("name", "text"), [("no.toml", None), ("bad.toml", "[models"), ("bad.json", "[]")])
def test_an_unreadable_file_is_named(name: str, text: str | None, tmp_path: Path) -> None:
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    with pytest.raises(HarnessMisuse, match=name):
        price_table(path)
