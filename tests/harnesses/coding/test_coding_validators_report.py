"""Only what carries the judge's seal counts, and only a test with all its phases passed has passed."""

from __future__ import annotations

import hmac
import json

from harnesses.coding.validators.pytest_report import SessionReport, answering, read_report

KEY, CANARY = "key", "judge-1"


def sealed(key: str = KEY, **line: object) -> bytes:
    text = json.dumps(line).encode()
    return hmac.new(key.encode(), text, "sha256").hexdigest().encode() + b" " + text + b"\n"


def phase(id: str, when: str, outcome: str = "passed", *, expected: bool = False) -> bytes:
    return sealed(kind="report", id=id, when=when, outcome=outcome, expected=expected, text="why")


def test(id: str) -> bytes:
    return phase(id, "setup") + phase(id, "call") + phase(id, "teardown")


test.__test__ = False  # type: ignore[attr-defined]
ALARM = phase(CANARY, "setup") + phase(CANARY, "call", "failed") + phase(CANARY, "teardown")
COLLECTED = sealed(kind="collected", ids=["a.py::test_a"])
END = sealed(kind="end", code=0)


def read(*lines: bytes) -> SessionReport:
    return read_report(b"".join(lines), KEY, CANARY)


def test_a_session_that_passed_is_read() -> None:
    report = read(COLLECTED, test("a.py::test_a"), ALARM, END)

    assert (report.ended, report.bent, report.collected) == (True, (), ("a.py::test_a",))
    assert report.nodes["a.py::test_a"].passed


def test_a_line_with_another_seal_makes_all_of_it_worthless() -> None:
    forged = sealed("guessed", kind="report", id="a.py::test_a", when="call", outcome="passed", expected=False, text="")

    assert read(forged, END).bent == ("something other than the judge wrote into its report",)
    assert read(b"rubbish\n", END).bent


def test_a_test_of_which_a_phase_is_missing_was_cut_short() -> None:
    report = read(phase("a.py::test_a", "setup"), phase("a.py::test_a", "call"))

    assert report.nodes["a.py::test_a"].outcome == "cut short"
    assert not report.ended


def test_skipped_xfailed_and_xpassed_have_not_passed() -> None:
    report = read(
        phase("a", "setup", "skipped") + phase("a", "teardown"),
        phase("b", "setup") + phase("b", "call", "skipped", expected=True) + phase("b", "teardown"),
        phase("c", "setup") + phase("c", "call", expected=True) + phase("c", "teardown"),
    )

    assert [node.outcome for node in report.nodes.values()] == ["skipped", "xfailed", "xpassed"]
    assert not any(node.passed for node in report.nodes.values())


def test_a_failed_teardown_fails_the_test() -> None:
    report = read(phase("a", "setup"), phase("a", "call"), phase("a", "teardown", "failed"))

    assert not report.nodes["a"].passed


def test_a_pass_beside_a_failure_is_no_pass() -> None:
    report = read(phase("a", "call", "failed"), test("a"))

    assert not report.nodes["a"].passed


def test_if_the_judges_own_failing_test_passes_nothing_is_believed() -> None:
    assert read(COLLECTED, test("a.py::test_a"), test(CANARY), END).bent
    assert read(COLLECTED, test("a.py::test_a"), END).bent


def test_a_node_answers_for_its_parameters_and_what_is_in_it() -> None:
    report = read(test("a.py::test_a[1]"), test("a.py::test_ab"), test("a.py::TestB::test_c"))

    assert [node.id for node in answering(report.nodes, "a.py::test_a")] == ["a.py::test_a[1]"]
    assert [node.id for node in answering(report.nodes, "a.py::TestB")] == ["a.py::TestB::test_c"]
    assert len(answering(report.nodes, "a.py")) == 3


def test_what_could_not_be_collected_is_told_apart_from_its_reason() -> None:
    report = read(sealed(kind="collect", id="a: b.py", outcome="failed", text="x: y"), END)

    assert report.broken == (("a: b.py", "x: y"),)
