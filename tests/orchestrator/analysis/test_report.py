"""A report is one page that needs nothing but a browser, is bounded, and holds what agents wrote as text alone."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytest.importorskip("vl_convert")

from orchestrator.analysis import Answer, Table
from orchestrator.analysis.analysis_report import MOST_ROWS, html
from orchestrator.analysis.pictures import pictures
from tests.orchestrator.analysis.picturing import Diary, crashing

EVIL = "</td><script>alert(1)</script><img src=x onerror=alert(2)>\u202e\x1b[2J sk-ant-api03-" + "A" * 90


class Seen(HTMLParser):
    """What a browser would see: tags, with what they would load or run; and the text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.ids: list[str] = []
        self.risky: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.risky += [(name, value) for name, value in attrs if name.startswith("on") or name in ("src", "srcset", "action")]
        self.risky += [
            (name, value) for name, value in attrs if name.endswith("href") and not (value or "").startswith(("#", "data:,"))
        ]

    def handle_data(self, data: str) -> None:
        self.text += data


def evil(question: str = "why") -> Answer:
    return Answer(question, [Table(EVIL, ("harness", EVIL), [(EVIL, {"a": EVIL})], note=EVIL)], [EVIL])


@pytest.fixture
def whole(tmp_path: Path) -> str:
    diary = Diary(tmp_path / "steps.jsonl")
    diary.life("calm", 30)
    crashing(diary, "<b>shaky</b>", 3)
    drawn = pictures(diary.open(), "report")
    return html([Answer("summary", []), Answer("timeline", []), Answer("restarts", [])], drawn, title="<i>run.db</i>")


def test_what_agents_wrote_is_text_and_holds_neither_secrets_nor_control_characters() -> None:
    page = html([evil()], title=EVIL)

    seen = Seen(page)
    assert not {"script", "img"} & set(seen.tags)
    assert not seen.risky
    assert "<script>alert(1)</script>" in seen.text
    assert not re.search("\u202e|\x1b|AAAAAAAA", page)


def test_a_page_loads_nothing_and_runs_nothing(whole: str) -> None:
    seen = Seen(whole)

    assert not {"script", "img", "iframe", "object", "embed"} & set(seen.tags)
    assert seen.tags.count("link") == 1
    assert not seen.risky
    assert not re.search(r"@import|url\((?!#)", whole)
    assert set(re.findall(r'https?://[^"\s<)]*', whole)) <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


def test_a_page_says_to_the_browser_that_it_needs_nothing_from_elsewhere(whole: str) -> None:
    assert "Content-Security-Policy\" content=\"default-src 'none'" in whole


def test_each_picture_is_shown_once_and_no_two_things_have_the_same_id(whole: str) -> None:
    seen = Seen(whole)

    assert seen.tags.count("figure") == 7
    assert len(seen.ids) == len(set(seen.ids))
    used = set(re.findall(r"url\(#([^)]+)\)", whole))
    assert used <= set(seen.ids)


def test_a_page_is_made_for_light_dark_and_paper(whole: str) -> None:
    assert "prefers-color-scheme: dark" in whole
    assert "@media print" in whole


def test_a_long_table_is_cut_and_says_so() -> None:
    rows = [(f"h{number}", number) for number in range(5_000)]

    page = html([Answer("slow", [Table("steps", ("harness", "steps"), rows)])])

    assert page.count("<tr>") == MOST_ROWS + 1
    assert "4,800 rows more are left out" in page


def test_figures_are_written_as_people_read_them() -> None:
    page = html([Answer("slow", [Table("steps", ("harness", "took_s", "idle_share"), [(None, 0.0312, 0.25)])])])

    seen = Seen(page)
    assert "31.2 ms" in seen.text
    assert "25 %" in seen.text
