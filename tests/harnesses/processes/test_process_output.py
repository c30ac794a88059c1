"""Output is taken in as it comes: its end is kept, its lines handed on, and a flood costs no memory."""

from __future__ import annotations

import resource
import sys

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from harnesses.processes.bounded_command import MAX_LINE, Lines, Tail, run_bounded


@given(st.lists(st.binary(max_size=40)), st.integers(min_value=1, max_value=30))
def test_however_output_is_cut_up_its_tail_is_the_same(chunks, limit):
    tail = Tail(limit)
    for chunk in chunks:
        tail.add(chunk)

    assert str(tail) == b"".join(chunks)[-limit:].decode(errors="replace")


@given(st.lists(st.binary(max_size=40)))
def test_however_output_is_cut_up_its_lines_are_the_same(chunks):
    found: list[str] = []
    lines = Lines(found.append)
    for chunk in chunks:
        lines.add(chunk)
    lines.close()

    *whole, rest = b"".join(chunks).split(b"\n")
    expected = [*whole, rest] if rest else whole
    assert found == [line.decode(errors="replace").removesuffix("\r") for line in expected]


def test_a_line_that_is_too_long_is_handed_on_once_without_its_end():
    found: list[str] = []
    lines = Lines(found.append, limit=5)
    for chunk in (b"123", b"456", b"789\nab", b"c\n"):
        lines.add(chunk)

    assert found == ["12345", "abc"]


async def test_lines_are_handed_on_while_the_command_runs():
    first = trio.Event()
    found: list[str] = []

    def hear(line: str) -> None:
        found.append(line)
        first.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: run_bounded(["sh", "-c", "echo one; sleep 300"], limit_s=60, on_line=hear))
        with trio.fail_after(20):
            await first.wait()
        nursery.cancel_scope.cancel()

    assert found == ["one"]


async def test_the_last_line_is_handed_on_although_it_is_not_terminated():
    found: list[str] = []

    ran = await run_bounded(["printf", r"a\r\n\n\377b"], limit_s=30, on_line=found.append)

    assert found == ["a", "", "\N{REPLACEMENT CHARACTER}b"]
    assert ran.tail == "a\r\n\n\N{REPLACEMENT CHARACTER}b"


async def test_standard_error_can_be_heard_apart():
    out: list[str] = []
    err: list[str] = []

    ran = await run_bounded(["sh", "-c", "echo o; echo e >&2"], limit_s=30, on_line=out.append, on_error_line=err.append)

    assert (out, err) == (["o"], ["e"])
    assert sorted(ran.tail.split()) == ["e", "o"]


@pytest.mark.parametrize("text", ["one", "one\n", "one\ntwo\n"])
async def test_an_error_of_who_hears_ends_the_command_and_is_raised(text):
    def deaf(line: str) -> None:
        raise ValueError(line)

    with pytest.raises(ValueError, match="one"):
        await run_bounded(["sh", "-c", f"printf '{text}'; exec sleep 0.5"], limit_s=30, on_line=deaf)


async def test_a_flood_does_not_grow_memory_nor_outlast_the_limit():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    longest = [0]

    def measure(line: str) -> None:
        longest[0] = max(longest[0], len(line))

    ran = await run_bounded([sys.executable, "-S", "-c", "while True: print('x' * 10**7, end='')"], limit_s=1, on_line=measure)

    assert (ran.code, len(ran.tail)) == (None, 4_000)
    assert longest == [MAX_LINE]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40_000  # kilobytes


async def test_input_is_read_whole_or_left():
    whole = await run_bounded(["wc", "-c"], limit_s=30, input=b"x" * 3_000_000)
    left = await run_bounded(["true"], limit_s=30, input=b"x" * 3_000_000)
    slow = await run_bounded(["sleep", "60"], limit_s=0.3, input=b"x" * 3_000_000)
    nothing = await run_bounded(["cat"], limit_s=30, input=b"")

    assert (whole.tail, left.code, slow.code, nothing.code) == ("3000000\n", 0, None, 0)
