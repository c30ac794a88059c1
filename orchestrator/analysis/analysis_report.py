"""A report of a run: answers and pictures on one HTML page without scripts, network access or fonts.

Invariant: text by agents is never interpreted as markup; the size of the page is bounded, however long the run was.
"""

from __future__ import annotations

import html as markup
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from orchestrator.analysis.answers.answer import Answer, Table, cell, is_figure
from orchestrator.analysis.pictures import PICTURES
from orchestrator.analysis.pictures.chart_layers import Picture
from orchestrator.text.terminal_text import inert

MOST_ROWS = 200
"""Limit on the rows of a table."""
MOST_SENTENCES = 200
_MOST_CHARACTERS, _LONG = 300, 40
"""Limit on the shown characters of a cell; and the length from which on it may be broken anywhere."""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Content security policy: nothing is loaded or executed, whatever the page contains."""
_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --faint: #57606a; --rule: #d8dee4; --paper: #fff; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --faint: #9aa5b1; --rule: #3a424b; --paper: #14171a; } }
body { font: 15px/1.5 Helvetica, Arial, "Liberation Sans", sans-serif; color: var(--ink); background: var(--paper);
  max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .6rem; border-top: 1px solid var(--rule); padding-top: 1rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .3rem; } p, li { overflow-wrap: anywhere; }
nav a { margin-right: 1rem; } a { color: inherit; } .note, nav { color: var(--faint); font-size: .87rem; }
figure { margin: 1rem 0; overflow-x: auto; }
figure svg { max-width: 100%; height: auto; background: #fff; border-radius: 4px; }
.table { overflow-x: auto; } table { border-collapse: collapse; font-size: .87rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--rule); vertical-align: top;
  min-width: 2.5rem; }
td { white-space: nowrap; }
td.long { white-space: normal; overflow-wrap: anywhere; min-width: 16rem; }
th { color: var(--faint); font-weight: normal; } .figure { text-align: right; white-space: nowrap; }
@media screen and (prefers-color-scheme: dark) { figure svg { filter: invert(.91) hue-rotate(180deg); } }
@media print { body { margin: 0; max-width: none; font-size: 10pt; } nav { display: none; }
  td { white-space: normal; }
  figure, tr, h2, h3 { break-inside: avoid; } h2, h3 { break-after: avoid; } .table, figure { overflow: visible; } }
"""
_IDS = re.compile(r"""(\bid="|url\(#|href="#)(?=[A-Za-z])""")


def html(
    answers: Sequence[Answer],
    pictures: Sequence[Picture] = (),
    *,
    title: str = "A run",
    draw: Callable[[Picture], str] = Picture.svg,
    homes: Mapping[str, Sequence[str]] = PICTURES,
) -> str:
    """Return a page with the answers, each with its pictures above its tables; a picture is shown once.

    Args:
        draw: returns a picture as SVG.
        homes: names of the pictures of each question.
    """
    names = [answer.question for answer in answers]
    homed = [(_home(picture.name, names, homes), picture) for picture in pictures]
    bodies = [_told(answer) for answer in answers]
    if any(home is None for home, _ in homed):
        names, bodies = [*names, "pictures"], [*bodies, ""]
    sections: list[str] = []
    for place, (name, body) in enumerate(zip(names, bodies, strict=True)):
        own = [picture for home, picture in homed if (len(answers) if home is None else home) == place]
        head = f"<h2>{_text(name.capitalize())}</h2>"
        sections.append(f'<section id="q{place}">\n{head}\n{_figures(own, place, draw)}{body}</section>\n')
    links = " ".join(f'<a href="#q{place}">{_text(name)}</a>' for place, name in enumerate(names))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<link rel="icon" href="data:,">\n'
        f"<title>{_text(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{_text(title)}</h1>\n"
        f"{f'<nav>{links}</nav>' if len(names) > 1 else ''}\n{''.join(sections)}"
        '<p class="note">Times are UTC.</p>\n</body>\n</html>\n'
    )


def _home(picture: str, questions: Sequence[str], homes: Mapping[str, Sequence[str]]) -> int | None:
    """Return the position of the question that a picture belongs to most: it is the first of its pictures, or comes early."""
    found = [(homes[asked].index(picture), place) for place, asked in enumerate(questions) if picture in homes.get(asked, ())]
    return min(found)[1] if found else None


def _figures(pictures: Iterable[Picture], place: int, draw: Callable[[Picture], str]) -> str:
    return "".join(f"<figure>{_own_ids(draw(one), f'p{place}-{one.name}-')}</figure>\n" for one in pictures)


def _own_ids(svg: str, prefix: str) -> str:
    """Return SVG with unique ids, since several pictures on a page would otherwise share ids."""
    parts = re.split(r"(<[^>]*>)", svg)
    return "".join(_IDS.sub(rf"\g<1>{prefix}", part) if part.startswith("<") else part for part in parts)


def _told(answer: Answer) -> str:
    said = answer.sentences[:MOST_SENTENCES]
    more = len(answer.sentences) - len(said)
    lines = [f"<li>{_text(sentence)}</li>" for sentence in said]
    if more:
        lines.append(f'<li class="note">{more:,} sentences more are left out</li>')
    told = f"<ul>\n{''.join(lines)}\n</ul>\n" if lines else ""
    return told + "".join("".join(_table(table)) for table in answer.tables)


def _table(table: Table) -> Iterator[str]:
    yield f"<h3>{_text(table.name.replace('_', ' ').capitalize())}</h3>\n"
    if table.note:
        yield f'<p class="note">{_text(table.note)}</p>\n'
    if not table.rows:
        yield '<p class="note">none</p>\n'
        return
    right = [any(is_figure(row[at]) for row in table.rows[:MOST_ROWS]) for at in range(len(table.columns))]
    kind = [' class="figure"' if is_right else "" for is_right in right]
    heads = "".join(f'<th scope="col"{kind[at]}>{_text(_head(name))}</th>' for at, name in enumerate(table.columns))
    yield f'<div class="table"><table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n'
    for row in table.rows[:MOST_ROWS]:
        cells = [cell(name, value, _MOST_CHARACTERS) for name, value in zip(table.columns, row, strict=True)]
        written = (f"<td{_kind(text, how)}>{_text(text)}</td>" for text, how in zip(cells, kind, strict=True))
        yield f"<tr>{''.join(written)}</tr>\n"
    yield "</tbody>\n</table></div>\n"
    if (more := len(table.rows) - MOST_ROWS) > 0:
        yield f'<p class="note">{more:,} rows more are left out</p>\n'


def _kind(text: str, how: str) -> str:
    return ' class="long"' if len(text) > _LONG else how


def _head(column: str) -> str:
    """Return the heading of a column; its cells include their units."""
    return re.sub(r"_(per_s|s|share|bytes)$", lambda end: " a second" if end[1] == "per_s" else "", column).replace("_", " ")


def _text(text: str) -> str:
    return markup.escape(inert(text))
