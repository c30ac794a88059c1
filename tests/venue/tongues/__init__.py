"""The other dialects of the venue: Kraken's, OKX's, Bybit's and Coinbase's, over the same books and the same hostility."""

from __future__ import annotations

from . import bybit, coinbase, kraken, okx
from .speaking import Tongue

TONGUES: tuple[Tongue, ...] = (kraken.TONGUE, okx.TONGUE, bybit.TONGUE, coinbase.TONGUE)


def tongue_of(path: str) -> Tongue | None:
    """Return the dialect that a path belongs to; None for Binance's."""
    return next((tongue for tongue in TONGUES if path.startswith(tongue.prefixes)), None)
