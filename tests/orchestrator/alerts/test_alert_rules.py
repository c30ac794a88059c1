"""What rules may say, and how what agents wrote is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.alerts.alert_book import Alert
from orchestrator.alerts.alert_delivery import MOST, Target, message, plain
from orchestrator.alerts.alert_rules import Over, Query, Word
from orchestrator.alerts.query_check import query_problems
from orchestrator.cli.doctor.doctor_file import run_file
from orchestrator.cli.doctor.doctor_model import Level
from orchestrator.cli.run.notify_verb import notify
from orchestrator.cli.run.run_file import parse_run_file, read_alert_file, read_run_file
from orchestrator.errors import UsageError

HARNESS = '[[harness]]\nname = "a"\nharness = "m:H"\n'


def rules(text: str) -> str:
    return f"{HARNESS}{text}"


def test_a_condition_is_a_word_a_measure_or_a_query() -> None:
    text = rules('[[alert]]\nwhen = ["halted", "budget > 0.8", "select 1"]\nto = "json://h"\n')
    (rule,) = parse_run_file(text, Path("run.toml")).alerts.rules
    assert [*rule.conditions.values()] == [Word("halted"), Over("budget", 0.8), Query("select 1")]


WRONG = {
    '[[alert]]\nwhen = "blockd"\nto = "a"': "alert number 1: when: expected one of blocked",
    '[[alert]]\nwhen = "equity > 1"\nto = "a"': "alert number 1: when: expected one of blocked",
    '[[alert]]\nto = "a"': "alert number 1 has no when",
    '[[alert]]\nwhen = "halted"': "alert number 1 has no to",
    '[[alert]]\nwhen = "halted"\nto = []': "alert number 1: to: expected at least one text",
    '[[alert]]\nwhen = "halted"\nto = 5': "alert number 1: to: expected",
    '[[alert]]\nwhen = "halted"\nto = "a"\nfor = 5': "unknown key 'for'",
    '[[alert]]\nwhen = "halted"\nto = "a"\nfor_s = -1': "for_s: expected seconds from 0 up",
    '[ping]\nurl = "ftp://x"': "ping: url: expected an address that begins with https://",
    '[ping]\nurl = "https://x"\nevery_s = 0': "ping: every_s: expected seconds from 1 up",
}


def test_a_mistake_is_one_line_that_says_where() -> None:
    for text, expected in WRONG.items():
        with pytest.raises(UsageError) as caught:
            parse_run_file(rules(text), Path("run.toml"))
        assert expected in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_file_of_alerts_needs_no_harness_and_says_something(tmp_path: Path) -> None:
    file = tmp_path / "alerts.toml"
    file.write_text('store = "x.db"\n[[alert]]\nwhen = "halted"\nto = "json://h"\n')
    assert read_alert_file(file).store == tmp_path / "x.db"
    file.write_text('store = "x.db"\n')
    with pytest.raises(UsageError, match="says nothing of alerts"):
        read_alert_file(file)


def test_a_query_that_cannot_be_asked_is_told_before_anything_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.toml").write_text(
        rules(
            '[[alert]]\nwhen = ["SELECT harness FROM stepz", "SELECT harness FROM steps", "blocked"]\nto = "json://127.0.0.1:9"\n'
        )
    )
    (problem,) = query_problems(read_run_file(tmp_path / "run.toml").alerts)
    checks = [check for check in run_file(tmp_path / "run.toml") if check.check == "alerts"]
    code = notify(tmp_path / "run.toml", test=True)

    assert "[[alert]] when = 'SELECT harness FROM stepz': sql: no view 'stepz': expected one of approvals," in problem
    assert [(check.level, problem in check.finding) for check in checks] == [(Level.WARN, True)]
    assert code == 1
    assert f"{problem}; correct the query" in capsys.readouterr().err


def test_an_address_is_checked_and_shown_without_its_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD_OF_DESK", "hunter2hunter2")
    target = Target("mailto://desk:${PASSWORD_OF_DESK}@example.org")
    assert "hunter2" not in target.shown
    assert "hunter2" not in repr(target)
    for wrong in ("nosuch://x", "mailto://desk:${NOT_SET_ANYWHERE}@example.org"):
        with pytest.raises(UsageError, match="alert: to: "):
            Target(wrong)


def test_what_agents_wrote_is_inert() -> None:
    hostile = "<!channel> @everyone [pay](https://evil.example) `x` *b* <b>\x1b[31m\u202e"
    told = message([alert(1, hostile)], Path("/run.db"))[1]
    assert not set("<>@[]`*\x1b\u202e") & set(told)
    assert "https://" not in told
    assert plain("eurusd_1: 5 of 10 steps") == "eurusd_1: 5 of 10 steps"
    for address in ("https://e.example", "tg:/resolve", "www.e.example", "Www.e.example"):
        for before in ("", " ", "step 1", "=1+1", "x_"):
            assert address not in plain(before + address)


def test_ten_thousand_alerts_are_one_message_of_a_page() -> None:
    title, body = message([alert(number, "x" * 10_000) for number in range(MOST)], Path("/run.db"), 9_980)
    assert title == "10000 alerts, first blocked"
    assert "and 9980 more" in body
    assert len(body) < 10_000


def alert(number: int, cause: str) -> Alert:
    return Alert(id=number, condition="blocked", kind="blocked", harness="h", what="is blocked", cause=cause, since_us=1)


def test_the_address_of_a_ping_is_checked_after_its_variable_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run.toml").write_text('store = "run.db"\n[ping]\nurl = "${CHECKS}/abc"\n')
    monkeypatch.setenv("CHECKS", "ftp://example.org")
    with pytest.raises(UsageError, match=r"ping.: url: expected an address that begins with https://"):
        notify(tmp_path / "run.toml")
