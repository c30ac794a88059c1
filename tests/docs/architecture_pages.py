"""The pages of `docs/architecture/`: above the mark they are written by hand, below it they are read from the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path

from tests import ROOT
from tests.docs.drawing import AMBER, AMBER_LINE, BLUE, BLUE_LINE, FAINT, GREEN, GREEN_LINE, arrow, box, picture, text
from tests.docs.import_picture import draw
from tests.docs.package_graph import CHAPTERS, Chapter, project
from tests.test_layers import FORBIDDEN, KNOW_READY_MADE, READY_MADE, SPINES

PLACE = ROOT / "docs" / "architecture"
MARK = "<!-- What follows is written by `python -m tests.docs`: change the code, not this. -->\n"
PAGES = ("index", *(chapter.name for chapter in CHAPTERS))


def sentence(module: str) -> str:
    """Return the first sentence of a module's docstring, fit for a cell of a table."""
    paragraph = (ast.get_docstring(project().trees[module]) or "").split("\n\n")[0]
    first = re.split(r"(?<=[.!?]) (?=[A-Z`])", " ".join(paragraph.split()))[0]
    return first.rstrip(":").replace("|", "\\|").replace("<", "&lt;")


def page(name: str) -> str:
    """Return a page as it should be: what is written by hand, and below the mark what is read from the code."""
    by_hand = (PLACE / f"{name}.md").read_text(encoding="utf-8").partition(MARK)[0]
    if name == "index":
        return by_hand + MARK + _packages()
    chapter = next(chapter for chapter in CHAPTERS if chapter.name == name)
    return by_hand + MARK + "\n".join(_below(chapter))


def write_architecture() -> list[Path]:
    """Write every page anew below its mark, and return their paths."""
    for name in PAGES:
        (PLACE / f"{name}.md").write_text(page(name), encoding="utf-8")
    return [PLACE / f"{name}.md" for name in PAGES]


def import_picture(chapter: Chapter) -> str:
    edges = chapter.edges()
    folders = [node for node in edges if node.endswith("/")]
    title = f"Which module of {', '.join(chapter.packages)} imports which"
    return draw(edges, title, folders=folders, begin=[node for node in chapter.begin if node in edges])


def _below(chapter: Chapter) -> Iterable[str]:
    several = "The modules" if chapter.own_only or len(chapter.folders()) == 1 else "The modules, folder by folder"
    yield f"\n![{several} and their imports](../pictures/{chapter.name}.svg)\n"
    yield "## Modules"
    for folder, modules in chapter.folders().items():
        if len(chapter.folders()) > 1:
            yield f"\n### `{folder.replace('.', '/')}`\n\n{sentence(f'{folder}.__init__')}"
        named = [module for module in modules if not module.endswith(".__init__")]
        if named:
            yield "\n| module | content |\n|---|---|"
            for module in named:
                path = f"{module.replace('.', '/')}.py"
                yield f"| [`{module.rpartition('.')[2]}`](../../{path}) | {sentence(module)} |"
    yield "\n## Imports\n"
    yield f"* Imports {_named({other for _, other in chapter.imports()}) or 'nothing else of this project'}."
    yield f"* Imported by {_named({module for module, _ in chapter.importers()}) or 'nothing else of this project'}."
    yield from _rules(chapter)
    yield ""


def _named(modules: Iterable[str]) -> str:
    """Return the packages of some modules; of the two cores, the modules."""
    found: dict[str, set[str]] = {}
    for module in modules:
        folder, _, last = module.rpartition(".")
        top = ".".join(folder.split(".")[:2])
        found.setdefault(top, set()).add(last if folder in SPINES else "")
    parts = []
    for package in sorted(found):
        inside = ", ".join(f"`{last}`" for last in sorted(found[package] - {"", "__init__"}))
        parts.append(f"`{package}` ({inside})" if inside else f"`{package}`")
    return ", ".join(parts)


def _rules(chapter: Chapter) -> Iterable[str]:
    for package in chapter.packages:
        if forbidden := FORBIDDEN.get(package):
            yield f"* May not import {_code(forbidden)}."
        by = [other for other, names in FORBIDDEN.items() if package in names]
        if by:
            yield f"* May not be imported by {_code(by)}."
        if package in READY_MADE:
            yield f"* A ready-made harness: known only within {_code(KNOW_READY_MADE)}, and to no other package of them."


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def _packages() -> str:
    rows = ["\n## Packages\n", "| package | content |", "|---|---|"]
    for chapter in CHAPTERS:
        for package in chapter.packages:
            rows.append(f"| [`{package.replace('.', '/')}`]({chapter.name}.md) | {sentence(f'{package}.__init__')} |")
    return "\n".join(rows) + "\n"


def flow_picture() -> str:
    """Return the picture of what moves where: steps to the right, failures up, orders down."""
    boxes = (
        (20, "harness", "execute()", BLUE, BLUE_LINE),
        (180, "actor", "one attempt", BLUE, BLUE_LINE),
        (340, "recorder", "one writer", BLUE, BLUE_LINE),
        (500, "STORE", "the authority", GREEN, GREEN_LINE),
        (680, "readers", "log, command,", AMBER, AMBER_LINE),
    )
    parts = [box(170, 16, 420, 50, fill=BLUE, line=BLUE_LINE)]
    parts += [text(186, 38, "child, supervisor", extra=' font-weight="bold"')]
    parts += [text(186, 56, "decide about restarts; each decision is an event in the store", size=12, fill=FAINT)]
    for x, name, below, fill, line in boxes:
        width = 150 if name == "readers" else 120
        parts += [box(x, 140, width, 64, fill=fill, line=line), text(x + 12, 164, name, extra=' font-weight="bold"')]
        parts += [text(x + 12, 182, below, size=12, fill=FAINT)]
    parts += [text(692, 195, "analysis", size=12, fill=FAINT)]
    for x, end in ((140, 178), (300, 338), (460, 498), (620, 678)):
        parts.append(arrow([(x, 170), (end, 170)]))
    parts += [arrow([(220, 140), (220, 70)]), text(120, 108, "failures up", size=12, fill=FAINT)]
    parts += [text(120, 122, "(nurseries)", size=12, fill=FAINT)]
    parts += [arrow([(270, 66), (270, 137)]), text(280, 108, "orders down", size=12, fill=FAINT)]
    parts += [text(280, 122, "(cancel scopes, events)", size=12, fill=FAINT)]
    parts += [arrow([(442, 66), (442, 137)]), text(452, 108, "events to record", size=12, fill=FAINT)]
    parts += [text(20, 226, "steps to the right (memory channel, one slot for each harness)", size=12, fill=FAINT)]
    parts += [text(680, 226, "cannot disturb a run", size=12, fill=FAINT)]
    return picture(850, 244, parts, "Steps go right, failures go up, orders go down")
