"""Feature lists written as Markdown check lists. Pure.

    what is written                            what it means
    - [ ] text   * [ ]   + [ ]   1. [ ]        a feature, if it belongs to no other open item
    what belongs to it (two columns deeper)    its steps, with or without a box, however deep; if none, its text
    more paragraphs that belong to it          the rest of its description
    - [x] text   [X]   [✓]                     done, so no feature; an open item below it is one
    - [ ] ~~text~~                             struck out, so no feature
    - text                                     no feature; an open item below it is one
    # Heading   or   Heading                   the category of what follows, as it is written
                     =======
    ```code```   ~~~   <!-- -->   > quoted     passed over; so are code by indentation and `---` matter at the top

    marks, beside the text of a feature
    (id: parse)   {#parse}   #parse at the end its id; else one is made of its text
    (after: a, b)   depends, depends on,       works only when these pass; one that is done is met
      needs, requires
    !urgent 2   !high 1   !normal 0   !low -1  its priority
    (priority: 7)   (priority: high)           its priority
    (optional)                                 the work is complete without it

An id that is made of a text changes with the text alone: neither marks nor markup nor a tick elsewhere in the file alter it.
If two items have one text, the first keeps the id, and the heading is put before that of the second.
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
"""Characters of the text of an item, with its marks."""


def parse_markdown(text: str, where: str) -> FeatureList:
    """Return the feature list that a Markdown text holds.

    Raises:
        InvalidRequest: it holds nothing that is open, or something in it is not as expected.
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
    # What is done is met: nothing has to wait for it.
    return FeatureList(tuple(evolve(one, depends_on=[id for id in one.depends_on if id not in done]) for one in features))


@frozen
class _Task:
    item: Item
    marked: Marked
    late: bool
    """Whether it belongs to a done item: it is a feature, but not one that takes an id from another."""

    @property
    def is_open(self) -> bool:
        return self.item.box is Box.OPEN

    @property
    def place(self) -> str:
        return f"line {self.item.line} {self.marked.text!r:.50}"


def _topmost(items: Iterable[Item], late: bool = False) -> Iterator[tuple[Item, bool]]:
    """Yield the items with a box that belong to no open one, and of those that belong to a done one the open ones."""
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
    """Return the id of each: first those that were given take theirs, then those that are on top, then the others."""
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
            problems.add(task.place, f"id {one!r} is that of {given[one].place} too: expected one of its own; rename one")
        elif not is_id(one):
            problems.add(task.place, f"id: expected a text of at most {MAX_ID} characters, was {one!r:.60}; shorten it")
        made[id(task)] = one
    return [made[id(task)] for task in tasks]


def _free(task: _Task, taken: set[str], numbers: Counter[str]) -> str:
    """Return an id that nobody has; `numbers` are the last ones that were put after a text."""
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
    """Return the line that a problem is of; 0 for the file as a whole."""
    match = re.match(r"line (\d+)", problem)
    return int(match[1]) if match else 0
