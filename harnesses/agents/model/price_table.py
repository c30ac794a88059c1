"""Prices and sizes of models, from the versioned table of this package and from tables of the user.

The user's rows come first; within a table the first row that matches counts. A name matches a row exactly, with a date at its
end, or by the wildcards `*`, `?` and `[…]`.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias, cast

from attrs import Attribute, evolve, field, fields, frozen

from harnesses.agents.argument_checks import PATH, TEXTS, Rule, check, instance_of, optional, validator, whole_from
from harnesses.agents.model.messages import ModelUsage
from harnesses.errors import HarnessMisuse

_PER = Decimal(1_000_000)
_PLACES = 6
_DATE = re.compile(r"-(?:\d{8}|\d{4}-\d{2}-\d{2}|latest)$")


def _to_money(value: object) -> Decimal:
    try:
        return Decimal(str(value))
    except InvalidOperation:
        return cast(Decimal, value)  # which the validator refuses


def _to_optional_money(value: object) -> Decimal | None:
    return None if value is None else _to_money(value)


def _is_price(value: object) -> bool:
    return isinstance(value, Decimal) and value.is_finite() and value >= 0 and cast(int, value.as_tuple().exponent) >= -_PLACES


_PRICE = Rule(f"US dollars per million tokens, with at most {_PLACES} places", _is_price)
_check_money = validator("ModelPrice", _PRICE)
_check_optional_money = validator("ModelPrice", optional(_PRICE))
_check_size = validator("ModelPrice", optional(whole_from(1)))


def _check_long(owner: Any, attribute: Attribute[Any], value: object) -> None:
    rule = optional(instance_of(ModelPrice, "write long=ModelPrice(input=…, output=…)"))
    check("ModelPrice", attribute.name, value, rule)


@frozen(kw_only=True)
class ModelPrice:
    """What a model costs, in US dollars per million tokens, and how much it takes.

    Raises:
        HarnessMisuse: a price or a size is invalid.
    """

    input: Decimal = field(converter=_to_money, validator=_check_money)
    """For input that no other field prices."""
    output: Decimal = field(converter=_to_money, validator=_check_money)
    """For output."""
    cached: Decimal | None = field(default=None, converter=_to_optional_money, validator=_check_optional_money)
    """For input read from the provider's cache; by default as `input`."""
    cache_write: Decimal | None = field(default=None, converter=_to_optional_money, validator=_check_optional_money)
    """For input written to the provider's cache; by default as `input`."""
    reasoning: Decimal | None = field(default=None, converter=_to_optional_money, validator=_check_optional_money)
    """For reasoning; by default as `output`."""
    context: int | None = field(default=None, validator=_check_size)
    """The most input tokens of a request."""
    max_output: int | None = field(default=None, validator=_check_size)
    """The most output tokens of a response."""
    long_above: int | None = field(default=None, validator=_check_size)
    """Input tokens above which `long` applies to the whole request."""
    long: ModelPrice | None = field(default=None, validator=_check_long)
    """Prices of requests with more than `long_above` input tokens; None if they are the same."""

    def cost(self, usage: ModelUsage) -> Decimal:
        """Return the cost of a call, in US dollars; exact, with at most 12 places."""
        if self.long is not None and self.long_above is not None and usage.input_tokens > self.long_above:
            return self.long.cost(usage)
        cached, written, reasoning = usage.cached_tokens, usage.cache_write_tokens, usage.reasoning_tokens
        amounts = (
            (max(usage.input_tokens - cached - written, 0), self.input),
            (cached, self.input if self.cached is None else self.cached),
            (written, self.input if self.cache_write is None else self.cache_write),
            (max(usage.output_tokens - reasoning, 0), self.output),
            (reasoning, self.output if self.reasoning is None else self.reasoning),
        )
        return sum((tokens * price for tokens, price in amounts), Decimal(0)) / _PER

    def most(self, input_tokens: int, output_tokens: int) -> Decimal:
        """Return the highest cost of a call with so many tokens."""
        usages = (
            ModelUsage(input_tokens=input_tokens, output_tokens=output_tokens, **kind)
            for kind in (
                {},
                {"cache_write_tokens": input_tokens},
                {"reasoning_tokens": output_tokens},
                {"cache_write_tokens": input_tokens, "reasoning_tokens": output_tokens},
            )
        )
        return max(map(self.cost, usages))


FREE = ModelPrice(input=Decimal(0), output=Decimal(0))
"""The price of a model on this machine."""


@frozen
class PriceTable:
    """Prices by `provider:model`, in order of precedence."""

    rows: Mapping[str, ModelPrice]
    """Prices by `provider:model`, which may have wildcards; the first row that matches applies."""
    version: str = ""
    """The date of the table of this package."""

    def find(self, provider: str, model: str) -> ModelPrice | None:
        """Return the row of a model; None if there is none."""
        name = f"{provider}:{model}"
        undated = _DATE.sub("", name)
        for pattern, price in self.rows.items():
            if pattern in (name, undated) or fnmatchcase(name, pattern):
                return price
        return None


Prices: TypeAlias = PriceTable | Mapping[str, Mapping[str, object]] | Path | str | None
"""A table; rows by `provider:model`; a TOML or JSON file of them; or None for the table of the package alone."""


_PRICES = Rule(
    "a dict of rows by provider:model, or the path of a file",
    lambda value: value is None or (TEXTS.holds(value.keys()) if isinstance(value, Mapping) else PATH.holds(value)),
)


def price_table(prices: Prices = None) -> PriceTable:
    """Return the table of this package, with the user's rows before it.

    Raises:
        HarnessMisuse: a file cannot be read, or a row is invalid.
    """
    if isinstance(prices, PriceTable):
        return prices
    check("prices", "table", prices, _PRICES)
    own = _own_table()
    if prices is None:
        return own
    rows = _rows(prices, "prices") if isinstance(prices, Mapping) else _rows(_read(Path(prices)), str(prices))
    rows = {name: _with_sizes(row, own.rows.get(name)) for name, row in rows.items()}
    return PriceTable({**rows, **{name: row for name, row in own.rows.items() if name not in rows}}, own.version)


def _with_sizes(row: ModelPrice, own: ModelPrice | None) -> ModelPrice:
    """Return a user's row, with the sizes that it leaves out."""
    if own is None:
        return row
    return evolve(row, context=row.context or own.context, max_output=row.max_output or own.max_output)


@cache
def _own_table() -> PriceTable:
    text = files("harnesses.agents.model").joinpath("prices.toml").read_text("utf-8")
    data: dict[str, Any] = tomllib.loads(text, parse_float=Decimal)
    return PriceTable(_rows(data["models"], "prices.toml"), str(data["version"]))


def _read(path: Path) -> Mapping[str, Any]:
    try:
        text = path.read_text("utf-8")
        data: Any = json.loads(text) if path.suffix == ".json" else tomllib.loads(text, parse_float=Decimal)
    except (OSError, ValueError) as error:
        raise HarnessMisuse(f"prices {str(path)!r}: {error}: expected a TOML or JSON file of prices; correct it") from error
    rows = cast("dict[str, Any]", data).get("models", data) if isinstance(data, dict) else data
    if not isinstance(rows, dict):
        raise HarnessMisuse(f"prices {str(path)!r}: expected a table `[models]`, got a {type(rows).__name__}; correct it")
    return cast("dict[str, Any]", rows)


def _rows(rows: Mapping[str, Any], where: str) -> dict[str, ModelPrice]:
    return {name: _row(row, f"{where}: {name}") for name, row in rows.items()}


_NAMES = tuple(each.name for each in fields(ModelPrice))
_FORM = "{ input = 1.25, output = 10 }, in US dollars per million tokens"


def _row(row: Any, where: str) -> ModelPrice:
    if isinstance(row, ModelPrice):
        return row
    try:
        known = {str(name).replace("-", "_"): value for name, value in dict(row).items()}
        if unknown := known.keys() - set(_NAMES):
            raise ValueError(f"{min(unknown)!r} is no key of a price: expected some of {', '.join(_NAMES)}")
        long = known.pop("long", None)
        price = ModelPrice(**known)
        return price if long is None else evolve(price, long=_row({**known, "long_above": None, **long}, f"{where}: long"))
    except (TypeError, ValueError, HarnessMisuse) as error:
        raise HarnessMisuse(f"{where}: {error or type(error).__name__}; expected {_FORM}") from error
