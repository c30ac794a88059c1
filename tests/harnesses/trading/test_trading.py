"""The front door of trading: everything is there, and nothing that is optional is imported by it."""

from __future__ import annotations

import subprocess
import sys

import harnesses.trading

OPTIONAL = ("ccxt", "httpx2", "altair", "pyarrow", "vl_convert")


def test_the_package_imports_nothing_that_is_optional() -> None:
    script = f"import sys, harnesses.trading; print([name for name in {OPTIONAL!r} if name in sys.modules])"

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_every_name_it_promises_is_there() -> None:
    assert {"CcxtBroker", "CcxtFeed", "CcxtOptions"} <= {*harnesses.trading.__all__}
    assert all(hasattr(harnesses.trading, name) for name in harnesses.trading.__all__)
