"""Pictures of which module imports which, drawn in layers: an arrow leads from a module to one that it imports.

Arrows that follow from others are left out: a picture has the fewest from which every import follows. What a module imports
is below it. An arrow that passes layers has a place of its own in each of them, so no arrow crosses a box.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attrs import field, frozen

from tests.docs.drawing import BLUE, BLUE_LINE, FAINT, GREEN, GREEN_LINE, GREY_LINE, LINE, MONO, PAPER, box, picture, text

Edges = Mapping[str, frozenset[str]]
HEIGHT, GAP_X, GAP_Y, MARGIN = 28, 18, 34, 14
MOST_IN_A_ROW = 5
"""Of modules without an arrow."""
SWEEPS = 24


def fewest(edges: Edges) -> Edges:
    """Return the edges from which all others follow."""
    below: dict[str, set[str]] = {}

    def reached(node: str) -> set[str]:
        if node not in below:
            below[node] = set(edges[node]).union(*map(reached, edges[node]))
        return below[node]

    return {
        node: frozenset(to for to in tos if not any(to in reached(other) for other in tos - {to}))
        for node, tos in edges.items()
    }


def layers_of(edges: Edges) -> dict[str, int]:
    """Return the layer of each node, 0 at the bottom: above all that it imports, and near those that import it."""
    layer: dict[str, int] = {}

    def place(node: str) -> int:
        if node not in layer:
            layer[node] = 1 + max(map(place, sorted(edges[node])), default=-1)
        return layer[node]

    importers: dict[str, list[str]] = {node: [] for node in edges}
    for node in edges:
        place(node)
        for to in edges[node]:
            importers[to].append(node)
    for node in sorted(edges, key=lambda node: (-layer[node], node)):
        if importers[node] and len(edges[node]) <= len(importers[node]):
            layer[node] = min(layer[above] for above in importers[node]) - 1
    return layer


@frozen
class Spot:
    """A node in its layer, or the place in it through which an arrow passes."""

    layer: int
    name: str
    to: str = ""
    """Where the arrow leads that passes here, if it is no node."""

    @property
    def width(self) -> float:
        return 6 if self.to else 18 + 7.9 * len(self.name)


@frozen
class Layout:
    """Where everything is: the spots of each layer from the left, and the middle of each spot."""

    edges: Edges
    rows: list[list[Spot]] = field(factory=list)
    links: list[tuple[Spot, Spot]] = field(factory=list)
    """Of neighbouring layers, the upper one first."""
    x: dict[Spot, float] = field(factory=dict)

    def arrange(self) -> None:
        """Find the order within the layers, and the places."""
        layer = layers_of(self.edges)
        nodes = {node: Spot(layer[node], node) for node in sorted(self.edges)}
        rows: list[list[Spot]] = [[] for _ in range(1 + max(layer.values(), default=-1))]
        for spot in nodes.values():
            rows[spot.layer].append(spot)
        for node in sorted(self.edges):
            for to in sorted(self.edges[node]):
                above = nodes[node]
                for level in range(layer[node] - 1, layer[to], -1):
                    passing = Spot(level, node, to)
                    rows[level].append(passing)
                    self.links.append((above, passing))
                    above = passing
                self.links.append((above, nodes[to]))
        self.rows.extend(rows)
        for row in rows:
            self._spread(row, dict.fromkeys(row, 0.0))
        for sweep in range(SWEEPS):
            for row in rows if sweep % 2 else reversed(rows):
                wanted = {spot: self._middle(spot) for spot in row}
                if sweep < SWEEPS * 3 // 4:
                    row.sort(key=lambda spot: (wanted[spot], spot.name, spot.to))
                self._spread(row, wanted)
        left = min((self.x[spot] - spot.width / 2 for spot in self.x), default=0)
        self.x.update({spot: x - left + MARGIN for spot, x in self.x.items()})

    def _middle(self, spot: Spot) -> float:
        """Return the mean of what is linked to a spot; an arrow that passes is kept straight."""
        weights = [
            (self.x[other], 4 if spot.to and other.to else 1)
            for above, below in self.links
            for one, other in ((above, below), (below, above))
            if one == spot
        ]
        return sum(x * weight for x, weight in weights) / sum(w for _, w in weights) if weights else self.x[spot]

    def _spread(self, row: Sequence[Spot], wanted: Mapping[Spot, float]) -> None:
        """Place a row, in its order and without overlaps, as near to what is wanted as can be."""
        offset, offsets = 0.0, list[float]()
        for before, spot in zip((None, *row), row, strict=False):
            offset += 0 if before is None else (before.width + spot.width) / 2 + GAP_X
            offsets.append(offset)
        blocks: list[tuple[float, int]] = []
        for spot, off in zip(row, offsets, strict=True):
            mean, count = wanted[spot] - off, 1
            while blocks and blocks[-1][0] > mean:
                other, size = blocks.pop()
                mean, count = (other * size + mean * count) / (size + count), size + count
            blocks.append((mean, count))
        places = [mean for mean, count in blocks for _ in range(count)]
        self.x.update({spot: mean + off for spot, mean, off in zip(row, places, offsets, strict=True)})

    def top(self, level: int) -> float:
        return MARGIN + (len(self.rows) - 1 - level) * (HEIGHT + GAP_Y)


def _curve(layout: Layout, above: Spot, below: Spot) -> str:
    x1, y1 = layout.x[above], layout.top(above.layer) + HEIGHT
    x2, y2 = layout.x[below], layout.top(below.layer)
    middle = (y1 + y2) / 2
    head = "" if below.to else ' marker-end="url(#head)"'
    through = f" V{y2 + HEIGHT:.0f}" if below.to else ""
    path = f"M{x1:.0f},{y1:.0f} C{x1:.0f},{middle:.0f} {x2:.0f},{middle:.0f} {x2:.0f},{y2:.0f}{through}"
    return f'<path d="{path}" fill="none" stroke="{LINE}" stroke-width="1.2"{head}/>'


def _node(x: float, y: float, spot: Spot, folders: Iterable[str], begin: Iterable[str]) -> list[str]:
    fill, line = (BLUE, BLUE_LINE) if spot.name in folders else (PAPER, GREY_LINE)
    fill, line = (GREEN, GREEN_LINE) if spot.name in begin else (fill, line)
    label = text(round(x), y + 18, spot.name, size=13, font=MONO, extra=' text-anchor="middle"')
    return [box(round(x - spot.width / 2), y, round(spot.width), HEIGHT, fill=fill, line=line), label]


def draw(edges: Edges, title: str, *, folders: Iterable[str] = (), begin: Iterable[str] = ()) -> str:
    """Return a picture of modules and what they import of each other.

    Args:
        folders: the nodes that stand for a folder.
        begin: where to begin reading.
    """
    edges = fewest(edges)
    imported = frozenset[str]().union(*edges.values())
    lone = sorted(node for node in edges if not edges[node] and node not in imported)
    layout = Layout({node: tos for node, tos in edges.items() if node not in lone})
    layout.arrange()
    parts = [_curve(layout, above, below) for above, below in layout.links]
    for spot, x in layout.x.items():
        if not spot.to:
            parts.extend(_node(x, layout.top(spot.layer), spot, folders, begin))
    width = max((x + spot.width / 2 for spot, x in layout.x.items()), default=0)
    y = layout.top(-1)
    if lone and layout.rows:
        parts.append(text(MARGIN, y + 4, "neither imports nor is imported here:", size=12, fill=FAINT))
        y += 14
    for first in range(0, len(lone), MOST_IN_A_ROW):
        x = float(MARGIN)
        for name in lone[first : first + MOST_IN_A_ROW]:
            spot = Spot(0, name)
            parts.extend(_node(x + spot.width / 2, y, spot, folders, begin))
            x += spot.width + GAP_X
        width, y = max(width, x - GAP_X), y + HEIGHT + 10
    legend = [(GREEN, GREEN_LINE, "begin here")] * bool(begin) + [(BLUE, BLUE_LINE, "a folder")] * bool(folders)
    x = float(MARGIN)
    for fill, line, words in legend:
        parts += [box(x, y + 2, 14, 12, fill=fill, line=line), text(x + 20, y + 13, words, size=12, fill=FAINT)]
        x += 110
    parts.append(text(x, y + 13, "an arrow: imports", size=12, fill=FAINT))
    return picture(max(round(width), round(x) + 120, 290 if lone else 0) + MARGIN, round(y) + 26, parts, title)
