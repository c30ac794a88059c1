"""The screen of `orchestrator watch` on a terminal: what needs you, the fleet, a harness, and orders. See `orchestrator.web`.

    Needs you   Fleet            tables, read anew every second by a thread
    a harness                    cause, steps, events, output
    keys                         the orders of the page, asked about first where they end or release something

What agents and markets wrote is shown as plain text without control characters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, cast

from attrs import frozen
from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import DataTable, Footer, Header, Input, Static, TabbedContent, TabPane

from harnesses.timing.clock import now_s
from orchestrator.cli.read.watch_rows import BELOW, tree_rows
from orchestrator.control.control_server import Response
from orchestrator.errors import OrchestratorError
from orchestrator.text.terminal_text import CAUSE_WIDTH, inert, one_line
from orchestrator.text.value_lines import brief
from orchestrator.web import site_orders
from orchestrator.web.needs import Need
from orchestrator.web.site import Site

REFRESH_S = 1.0
_STYLES = {
    **dict.fromkeys(("gave_up", "failed", "blocked", "halted", "hung", "interrupted"), "bold red"),
    **dict.fromkeys(("approval", "waiting_for_approval", "unknown_effect", "budget", "budget_spent", "kill_switch"), "yellow"),
    **dict.fromkeys(("working", "completed", "finished"), "green"),
}
_ASKED = frozenset({"approve", "deny", "stop", "restart"})
"""Orders that are asked about first."""
_STEPS = 50
_MOST_INDENT = 20
MOST_ROWS = 500
"""Rows of the fleet that are shown, worst first."""


def plain(text: object, style: str = "", width: int = 120) -> Text:
    """Return text for a cell: one line, inert, without markup; its indentation stays."""
    said = str(text)
    indent = " " * min(len(said) - len(said.lstrip(" ")), _MOST_INDENT)
    return Text(indent + one_line(said, width), style=style, no_wrap=True)


@frozen
class Look:
    """What the tables show."""

    needs: Sequence[Need]
    rows: Sequence[Mapping[str, Any]]
    supervisors: Sequence[Mapping[str, Any]] = ()


class Question(ModalScreen[bool]):
    """Asks before an order is given."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("y", "answer(True)", "Yes"), Binding("n,escape", "answer(False)", "No")]
    DEFAULT_CSS = "Question { align: center middle; } Question > Vertical { width: 80; height: auto; border: thick $warning; }"

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Text(inert(self._text)))
            yield Static(Text("y: yes    n: no", style="bold"))

    def action_answer(self, said: bool) -> None:
        self.dismiss(said)


class HarnessScreen(Screen[None]):
    """Everything about one harness."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "app.pop_screen", "Back")]
    DEFAULT_CSS = """
    HarnessScreen > TabbedContent { height: 1fr; }
    HarnessScreen DataTable { height: 2fr; }
    HarnessScreen VerticalScroll { height: 1fr; border-top: solid $primary; }
    """

    def __init__(self, site: Site, name: str) -> None:
        super().__init__()
        self._site = site
        self.harness = name

    def _show(self, what: Callable[..., object], *arguments: Any, **options: Any) -> None:
        """Call what draws, in the thread that may."""
        app = cast(App[None], self.app)  # pyright: ignore[reportUnknownMemberType]
        app.call_from_thread(what, *arguments, **options)

    def compose(self) -> ComposeResult:
        yield Header()
        yield Static(id="head")
        with TabbedContent():
            with TabPane("Steps"):
                yield DataTable[Text](id="steps", cursor_type="row")
                yield VerticalScroll(Static(id="step"))
            with TabPane("Events"):
                yield DataTable[Text](id="events", cursor_type="row")
            with TabPane("Output"):
                yield VerticalScroll(Static(id="output"))
        yield Footer()

    def on_mount(self) -> None:
        self.title = one_line(self.harness)
        table_of(self, "#steps").add_columns("STEP", "TIME", "WHAT")
        table_of(self, "#events").add_columns("TIME", "ATTEMPT", "STEP", "EVENT", "FACTS")
        self.read()
        self.set_interval(REFRESH_S, self.read)

    @work(thread=True, exclusive=True, group="harness")
    def read(self) -> None:
        try:
            known = self._site.harness(self.harness)
            steps = self._site.steps(self.harness, before=None, limit=_STEPS)
            told = known, steps, self._site.history(self.harness), self._site.output(self.harness)
        except OrchestratorError as error:
            self._show(self.notify, one_line(str(error)), severity="error", markup=False)
            return
        self._show(self.show_all, *told)

    def show_all(self, known: Mapping[str, Any], steps: Sequence[Any], history: Sequence[Any], output: Sequence[Any]) -> None:
        if not self.query("#head"):
            return  # it is just being opened, or closed
        activity = known.get("activity", "")
        lines = [f"{activity}, step {known.get('current_step')}, attempt {known.get('attempt')}"]
        lines += [known["cause"]] if known.get("cause") else []
        lines += [f"usual step {known['p95_s']} s, {known['per_minute']} a minute"] if known.get("p95_s") else []
        head = self.query_one("#head", Static)
        head.update(Text(inert("\n".join(lines))[:CAUSE_WIDTH], style=_STYLES.get(activity, "")))
        fill(
            table_of(self, "#steps"),
            ((step["step_number"], (step["step_number"], step["timestamp"][:19], step["line"])) for step in steps),
        )
        fill(
            table_of(self, "#events"),
            (
                (one["seq"], (one["timestamp"][:19], one["attempt"], one["step"], one["kind"], brief(_facts(one), 100)))
                for one in history
            ),
        )
        texts = (str(one.get("text", "")) for one in output)
        self.query_one("#output", Static).update(Text(inert("\n".join(texts))))

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        if _id_of(event) == "steps" and event.row_key.value:
            self.read_step(int(event.row_key.value))

    @work(thread=True, exclusive=True, group="step")
    def read_step(self, number: int) -> None:
        try:
            step = self._site.step(self.harness, number)
        except OrchestratorError as error:
            text = str(error)
        else:
            parts = (("input", step["input"]), ("output", step["output"]), ("state", step["state"]))
            text = "\n".join([f"step {number}", *step["changes"], *(f"{name}: {brief(value, 2000)}" for name, value in parts)])
        self._show(self.query_one("#step", Static).update, Text(inert(text)))


class WatchApp(App[None]):
    """The screen."""

    TITLE = "orchestrator watch"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "order('approve')", "Approve"),
        Binding("d", "order('deny')", "Deny"),
        Binding("p", "order('pause')", "Pause"),
        Binding("r", "order('resume')", "Resume"),
        Binding("s", "order('stop')", "Stop"),
        Binding("t", "order('start')", "Start"),
        Binding("R", "order('restart')", "Restart"),
        Binding("slash", "find", "Find"),
        Binding("q", "quit", "Quit"),
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, site: Site) -> None:
        super().__init__()
        self._site = site
        self._look = Look((), ())
        self.shown_needs: Mapping[str, Need] = {}
        """By what tells them apart, so that an order is about what was looked at, however the list has changed since."""
        self.sought = ""

    def compose(self) -> ComposeResult:
        yield Header()
        with TabbedContent(id="tabs"):
            with TabPane("Needs you", id="needs-tab"):
                yield DataTable[Text](id="needs", cursor_type="row")
            with TabPane("Fleet", id="fleet-tab"):
                yield Input(placeholder="name, status or class", id="find")
                yield DataTable[Text](id="fleet", cursor_type="row")
        yield Footer()

    def on_mount(self) -> None:
        table_of(self, "#needs").add_columns("WHAT", "HARNESS", "CAUSE", "ORDERS")
        table_of(self, "#fleet").add_columns("HARNESS", "STATUS", "STEP", "AGE", "ATTEMPT", "CAUSE")
        table_of(self, "#needs").focus()
        self.read()
        self.set_interval(REFRESH_S, self.read)

    @work(thread=True, exclusive=True, group="look")
    def read(self) -> None:
        try:
            rows = sorted(self._site.fleet.rows(), key=lambda row: row["rank"])
            look = Look(self._site.needs(), rows, self._site.supervisors())
        except OrchestratorError as error:
            self.call_from_thread(self.notify, one_line(str(error)), severity="error", markup=False)
            return
        self.call_from_thread(self.show_look, look)

    def show_look(self, look: Look) -> None:
        if not self.screen_stack or not self.screen_stack[0].query("#needs"):
            return  # it is just being opened, or closed
        self._look = look
        self.shown_needs = {_key(need): need for need in look.needs}
        fill(
            table_of(self.screen_stack[0], "#needs"),
            (
                (key, (need["kind"], need["harness"], f"{need['what']} {need['cause']}", ", ".join(need["orders"])))
                for key, need in self.shown_needs.items()
            ),
            style=0,
        )
        sought = self.sought.lower()
        found = [
            row
            for row in look.rows
            if sought in f"{row['harness']} {row['activity']} {row['class']} {row['supervisor'] or ''}".lower()
        ]
        shown = tree_rows(found[:MOST_ROWS], look.supervisors, now_s())
        fill(table_of(self.screen_stack[0], "#fleet"), shown, style=1)
        more = f", the {MOST_ROWS} worst are shown" if len(found) > MOST_ROWS else ""
        self.sub_title = f"{one_line(str(self._site.path))}: {len(found)} harnesses{more}"

    def on_input_changed(self, event: Input.Changed) -> None:
        self.sought = event.value
        self.show_look(self._look)

    def action_find(self) -> None:
        self.query_one(TabbedContent).active = "fleet-tab"
        self.query_one("#find", Input).focus()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        name = self.chosen()[0]
        if name and _id_of(event) in ("needs", "fleet"):
            self.push_screen(HarnessScreen(self._site, name))

    def chosen(self) -> tuple[str, Need | None]:
        """Return the harness that the cursor is at, and what it needs, if the cursor is at that."""
        if isinstance(self.screen, HarnessScreen):
            return self.screen.harness, None
        is_needs = self.query_one(TabbedContent).active == "needs-tab"
        table = table_of(self, "#needs" if is_needs else "#fleet")
        if not table.row_count:
            return "", None
        key = str(table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value)
        if not is_needs:
            return ("" if key.endswith(BELOW) else key), None
        return self.shown_needs[key]["harness"], self.shown_needs[key]

    def action_order(self, verb: str) -> None:
        name, need = self.chosen()
        give = self._order_of(verb, name, need)
        if give is None:
            self.notify(f"{verb}: nothing here takes this order", severity="warning", markup=False)
        elif verb in _ASKED:
            what = need["what"] if need is not None else name
            exact = _action(need["facts"]) if need is not None and need["kind"] == "approval" else ""

            def heed(said: bool | None) -> None:
                if said:
                    self.give(give)

            self.push_screen(Question(f"{verb} {name}: {what}{exact}"), heed)
        else:
            self.give(give)

    def _order_of(self, verb: str, name: str, need: Need | None) -> Callable[[], object] | None:
        if verb in ("approve", "deny"):
            if need is None or need["kind"] != "approval":
                return None
            return lambda: site_orders.answer(self._site, need["facts"]["id"], site_orders.ANSWERS[verb][0], {})
        return (lambda: site_orders.order(self._site, name, verb)) if name else None

    @work(thread=True, group="orders")
    def give(self, order: Callable[[], object]) -> None:
        try:
            said = order()
        except OrchestratorError as error:
            said = Response(400, str(error).encode())
        text = said.body.decode(errors="replace") if isinstance(said, Response) else brief(said, 200)
        is_refused = isinstance(said, Response) and said.status >= 400
        severity = "error" if is_refused else "information"
        self.call_from_thread(self.notify, one_line(text), severity=severity, markup=False)
        self.call_from_thread(self.read)


def table_of(node: App[None] | Screen[Any], place: str) -> DataTable[Text]:
    """Return a table of what is shown."""
    return cast(DataTable[Text], node.query_one(place))


def _id_of(event: DataTable.RowSelected) -> str | None:
    return cast(DataTable[Text], event.data_table).id  # pyright: ignore[reportUnknownMemberType]


def fill(table: DataTable[Text], rows: Iterable[tuple[object, Sequence[object]]], style: int | None = None) -> None:
    """Show rows, by their keys, and leave the cursor at the row that it is at."""
    at = str(table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value) if table.row_count else ""
    table.clear()
    place = 0
    for number, (key, cells) in enumerate(rows):
        colour = _STYLES.get(str(cells[style]), "") if style is not None else ""
        table.add_row(*(plain(cell, colour if column == style else "") for column, cell in enumerate(cells)), key=str(key))
        place = number if str(key) == at else place
    table.move_cursor(row=place)


def _action(asked: Mapping[str, Any]) -> str:
    """Return exactly what is asked for."""
    arguments = brief(asked["arguments"], 2000)
    return f"\n{asked['category']}, {asked['left_s'] / 60:.0f} minutes left, id {asked['id']}\n{arguments}\n"


def _key(need: Need) -> str:
    facts = need["facts"]
    return " ".join(map(str, (need["kind"], need["harness"], facts.get("id") or facts.get("key") or facts.get("pool") or "")))


def _facts(event: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in event.items() if name not in ("seq", "timestamp", "attempt", "step", "kind")}
