"""For every test: the `seed` marker, Hypothesis without chance, time limits or files, and a model server."""

from __future__ import annotations

import compileall
import gc
import multiprocessing
import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from _pytest.assertion import rewrite
from hypothesis import HealthCheck, settings

from tests import ROOT
from tests.case_loop import loop_over_cases
from tests.model_server import ModelServer

settings.register_profile(
    "steady",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],  # it measures the machine's load
)
settings.load_profile("steady")

# Before anybody imports it: failed assertions of the conformance suite show their values.
pytest.register_assert_rewrite("orchestrator.store.conformance")


_LONGEST = (
    "inert/test_inert.py",
    "test_pages.py",
    "venue/test_trading.py",
    "test_types.py",
    "examples/test_coding_repository.py",
    "orchestrator/alerts/test_notify.py",
    "orchestrator/web/test_accessibility.py",
    "docs/test_architecture_pages.py",
)
"""Files with a test of ten seconds or more, the longest first."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--each-case", action="store_true", help="make a test of each case, also where one test goes through all")


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Module | pytest.Class, name: str, obj: object) -> pytest.Function | None:
    if not name.startswith("test_") or collector.config.getoption("each_case"):
        return None
    loop = loop_over_cases(collector, obj)
    return None if loop is None else pytest.Function.from_parent(collector, name=name, callobj=loop)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Have each worker begin with the longest tests: at the end of a run the others would wait for them.

    xdist gives each an equal part of the list, from the first on, and has those that are done take over the rest of others.
    """
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    files = [str(ROOT / "tests" / name) for name in _LONGEST]
    long = {file: [item for item in items if str(item.path) == file] for file in files}
    others = iter([item for item in items if str(item.path) not in long])
    total, dealt = len(items), list[pytest.Item]()
    for number in range(workers):
        first = [item for file in files[number::workers] for item in long[file]]
        size = max(len(first), (total - len(dealt)) // (workers - number))
        dealt += [*first, *islice(others, size - len(first))]
    items[:] = [*dealt, *others]


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        _compile_sources()
        if getattr(config.option, "numprocesses", None):
            _compile_asserts(config)
    config.addinivalue_line("markers", "seed: one of the 44 cases that any harness of this model must pass")


def pytest_collection() -> None:
    """Collect no garbage while tests are collected: they are many, and stay. It would take a third of that time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Have the collector pass over the millions of objects that were made so far: where memory is slow, they take it seconds.

    Older versions of Hypothesis ask the collector who refers to an object, and fail if it does not know.
    """
    if hypothesis.__version_info__ >= (6, 170):
        gc.freeze()
    gc.enable()


def _compile_sources() -> None:
    """Write the bytecode of all sources, once.

    The suite starts more than a thousand programs, many of them where Python writes none: each would spend 0.5 s on compiling.
    """
    for folder in ("harnesses", "orchestrator", "examples", "tests"):
        compileall.compile_dir(ROOT / folder, quiet=2, workers=0)


def _compile_asserts(config: pytest.Config) -> None:
    """Write the bytecode of tests as pytest rewrites their assertions, once.

    Each worker would spend 10 s on it, all of them at the same time, and again in each run where Python writes no bytecode.
    """
    paths = sorted((ROOT / "tests").rglob("test_*.py"))
    shares = os.cpu_count() or 1
    forked = multiprocessing.get_context("fork")
    compilers = [forked.Process(target=_compile_asserts_of, args=(config, paths[n::shares])) for n in range(shares)]
    for compiler in compilers:
        compiler.start()
    for compiler in compilers:
        compiler.join()


def _compile_asserts_of(config: pytest.Config, paths: list[Path]) -> None:
    for path in paths:
        folder = rewrite.get_cache_dir(path)
        kept = folder / f"{path.stem}{rewrite.PYC_TAIL}"
        if rewrite._read_pyc(path, kept) is None and rewrite.try_makedirs(folder):  # pyright: ignore[reportPrivateUsage]
            with suppress(SyntaxError):  # told when it is collected
                mark, code = rewrite._rewrite_test(path, config)  # pyright: ignore[reportPrivateUsage]
                state = config.stash[rewrite.assertstate_key]
                rewrite._write_pyc(state, code, mark, kept)  # pyright: ignore[reportPrivateUsage]


@pytest.fixture(scope="session")
def _running_model_server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def model_server(_running_model_server: ModelServer) -> ModelServer:
    """Return the model server of this test process, without replies."""
    _running_model_server.reset()
    return _running_model_server


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One browser for all tests of a process: a second one cannot be started while the first one is open."""
    from tests.orchestrator.web.conftest import open_browser

    with open_browser() as opened:
        yield opened
