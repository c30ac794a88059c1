"""Parses feature lists written as Markdown check lists. No I/O.

    syntax                                     meaning
    - [ ] text   * [ ]   + [ ]   1. [ ]        a feature, unless it is nested in another open item
    items nested in it (two columns deeper)    its steps, with or without a box, at any depth; if there are none, its text
    more paragraphs nested in it               the rest of its description
    - [x] text   [X]   [✓]                     done, so not a feature; an open item nested in it is one
    - [ ] ~~text~~                             struck out, so not a feature
    - text                                     not a feature; an open item nested in it is one
    # Heading   or   Heading                   the category of the following items, unchanged
                     =======
    ```code```   ~~~   <!-- -->   > quoted     ignored; so are indented code and `---` metadata at the top

    marks, in the text of a feature
    (id: parse)   {#parse}   #parse at the end its id; otherwise one is derived from its text
    (after: a, b)   depends, depends on,       worked only when these pass; items that are done count as passing
      needs, requires
    !urgent 2   !high 1   !normal 0   !low -1  its priority
    (priority: 7)   (priority: high)           its priority
    (optional)                                 the list is complete without it

A derived id depends only on the text: marks, markup and ticks elsewhere in the file do not change it. If two items have the
same text, the first keeps the id, and the second is prefixed with its heading.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from attrs import evolve, frozen

from harnesses.coding.sources.feature_entries import Entry, FeatureList, check_order
from harnesses.coding.sources.markdown_items import Box, Item, items_of
from harnesses.coding.sources.markdown_marks import Marked, read_marks, slug
from harnesses.coding.sources.problems import Problems
from harnesses.features.feature import Feature
from harnesses.features.planning.feature_list import MAX_ID, is_id

MAX_TEXT = 4_000
"""Maximum characters of the text of an item, including its marks."""


def parse_markdown(text: str, where: str) -> FeatureList:
    """Return the feature list in a Markdown text.

    Raises:
        InvalidRequest: there is no open item, or something in it is invalid.
    """
    problems = Problems(where)
    top = list(_topmost(items_of(text.replace("\0", "\N{REPLACEMENT CHARACTER}"), problems)))
    tasks = [task for item in top if (task := _task(item, problems)) is not None]
    ids = _ids(tasks, problems)
    entries = [_entry(task, one) for task, one in zip(tasks, ids, strict=True) if task.is_open]
    done = frozenset(one for task, one in zip(tasks, ids, strict=True) if not task.is_open)
    was = f"was {len(done)} that are done" if done else "was none"
    check_order(entries, problems, done)
    problems.found.sort(key=_line)
    problems.check(nothing="" if entries else f"expected at least one open item (- [ ] text), {was}; add one")
    features = (entry.feature for entry in entries)
    # Dependencies that are done count as passing.
    return FeatureList(tuple(evolve(one, depends_on=[id for id in one.depends_on if id not in done]) for one in features))


@frozen
class _Task:
    item: Item
    marked: Marked
    late: bool
    """Whether it is nested in a done item: then it never takes a derived id before another feature."""

    @property
    def is_open(self) -> bool:
        return self.item.box is Box.OPEN

    @property
    def place(self) -> str:
        return f"line {self.item.line} {self.marked.text!r:.50}"


def _topmost(items: Iterable[Item], late: bool = False) -> Iterator[tuple[Item, bool]]:
    """Yield the items with a box that are not nested in an open one, including open items nested in done ones."""
    for item in items:
        if item.box is Box.OPEN or (item.box is Box.DONE and not late):
            yield item, late
        if item.box is not Box.OPEN:
            yield from _topmost(item.items, late or item.box is Box.DONE)


def _task(found: tuple[Item, bool], problems: Problems) -> _Task | None:
    item, late = found
    if _struck(item.text) or not (item.text or item.items):
        return None
    if len(item.text) > MAX_TEXT:
        was = f"was {len(item.text)}; put the details into paragraphs or steps below it"
        problems.add(f"line {item.line}", f"expected a text of at most {MAX_TEXT} characters, {was}")
        return None
    marked = read_marks(item.text, lambda problem: problems.add(f"line {item.line}", problem))
    if not marked.text:
        problems.add(f"line {item.line}", "expected a text after the box, was none; say what is to be done")
    return _Task(item, marked, late)


def _struck(text: str) -> bool:
    return len(text) > 4 and text.startswith("~~") and text.endswith("~~") and "~~" not in text[2:-2]


def _ids(tasks: list[_Task], problems: Problems) -> list[str]:
    """Return the id of each feature: explicit ids first, then those of outermost items, then the others."""
    given = {task.marked.id: task for task in reversed(tasks) if task.marked.id is not None}
    taken = set[str](given)
    made: dict[int, str] = {}
    numbers = Counter[str]()
    for task in sorted(tasks, key=lambda task: task.late):
        one = task.marked.id
        if one is None:
            one = _free(task, taken, numbers)
            taken.add(one)
        elif given[one] is not task:
            problems.add(task.place, f"id {one!r} is also used by {given[one].place}: expected a unique id; rename one")
        elif not is_id(one):
            problems.add(task.place, f"id: expected a text of at most {MAX_ID} characters, was {one!r:.60}; shorten it")
        made[id(task)] = one
    return [made[id(task)] for task in tasks]


def _free(task: _Task, taken: set[str], numbers: Counter[str]) -> str:
    """Return an unused id; `numbers` counts the suffixes used for each text."""
    plain = slug(task.marked.text)
    one = plain if plain not in taken else slug(f"{task.item.heading} {plain}")
    while one in taken:
        numbers[plain] += 1
        one = f"{plain}-{numbers[plain] + 1}"
    return one


def _entry(task: _Task, one: str) -> Entry:
    marked = task.marked
    feature = Feature(
        one,
        "\n\n".join([marked.text, *task.item.rest]),
        category=task.item.heading or "functional",
        steps=tuple(_steps(task.item.items)) or (marked.text,),
        priority=marked.priority,
        depends_on=tuple(dict.fromkeys(marked.after)),
        required=marked.required,
    )
    return Entry(task.place, feature)


def _steps(items: Iterable[Item]) -> Iterator[str]:
    for item in items:
        text = " ".join([item.text, *item.rest]).strip()
        if text and not _struck(text):
            yield text
        if not _struck(text):
            yield from _steps(item.items)


def _line(problem: str) -> int:
    """Return the line number of a problem; 0 for the whole file."""
    match = re.match(r"line (\d+)", problem)
    return int(match[1]) if match else 0
