"""The page and the report in a browser: nothing that was written runs, loads, links, asks or becomes an element."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.inert.checkers import hidden
from tests.inert.hostile_store import Hostile
from tests.inert.payloads import ELEMENT, HOST
from tests.inert.surfaces import Shown

_ELEMENTS = (
    "script:not([src]), img, iframe, object, embed, base, video, audio, marquee, template, math, style:not(head style)"
    f", {ELEMENT}"
)
_LOOK = """
(elements) => {
  const wrong = [], texts = [document.title];
  if (window.pwned !== undefined) wrong.push("a script of a text ran");
  for (const node of document.querySelectorAll(elements)) wrong.push("element " + node.outerHTML.slice(0, 80));
  for (const node of document.querySelectorAll("*")) {
    for (const { name, value } of node.attributes) {
      if (name.startsWith("on")) wrong.push("handler " + node.outerHTML.slice(0, 80));
      if (["href", "src", "action", "xlink:href"].includes(name)) {
        const url = new URL(value, location.href);
        const isKnown = url.href.startsWith("https://www.tradingview.com/") || url.href === "data:,";
        if (!isKnown && url.origin !== location.origin) wrong.push("link " + value.slice(0, 80));
      }
      if (["title", "aria-label", "placeholder", "value"].includes(name)) texts.push(value);
    }
    if (["INPUT", "TEXTAREA", "OPTION"].includes(node.tagName)) texts.push(String(node.value));
  }
  texts.push(document.body.textContent);
  return [wrong, texts.join("\\n")];
}
"""
_OPEN = """
() => {
  for (const details of document.querySelectorAll("main details")) details.open = true;
  for (const button of document.querySelectorAll("div.step button[aria-expanded=false]")) button.click();
}
"""
_OPENED = """
() => [...document.querySelectorAll("div.step")].every((one) =>
  one.querySelector("button[aria-expanded=true]") === null || one.querySelector("pre") !== null)
"""
_PATIENCE_MS = 60_000


class Watched:
    """A page of a browser, and what it should not have done."""

    def __init__(self, context: Any, origin: str) -> None:
        self.page, self.problems, self._origin = context.new_page(), list[str](), origin
        self.page.set_default_timeout(_PATIENCE_MS)
        self.page.on("dialog", self._dismiss)
        self.page.on("popup", partial(self._note, "window"))
        self.page.on("pageerror", partial(self._note, "error"))
        self.page.on("console", self._heed)
        self.page.on("request", self._judge)

    def _note(self, what: str, which: object) -> None:
        self.problems.append(f"{what} {which}")

    def _dismiss(self, dialog: Any) -> None:
        self._note("dialog", dialog.message)
        dialog.dismiss()

    def _heed(self, said: Any) -> None:
        if said.type == "error" and "status of 409" not in said.text:  # an order that needs a program
            self._note("console", said.text)

    def _judge(self, request: Any) -> None:
        if not request.url.startswith((self._origin, "data:,")) or HOST in request.url.partition("?")[0]:
            self.problems.append(f"request {request.url}")

    def look(self) -> tuple[list[str], str]:
        """Return what is active on the page, and all that it says."""
        wrong, text = self.page.evaluate(_LOOK, _ELEMENTS)
        found, self.problems[:] = [*self.problems, *wrong, *hidden(text)], []
        return found, text


def views(hostile: Hostile) -> Iterator[tuple[str, str]]:
    """Yield the address of each view, and a place in it that says that it is drawn."""
    yield from (("#/", "section.card"), ("#/fleet", "div.row[data-harness]"), ("#/timeline", ".lanes .bar"))
    yield from (("#/failures", "section.card"), ("#/money", "main h2"), ("#/stores", "section.card"))
    yield from (("#/trading", "tbody tr"), ("#/trading/trades", "[data-part='refused orders'] tbody tr"))
    yield from (("#/coding", "tbody tr"), ("#/coding/builds", "tbody tr"), ("#/coding/builds/f0", "section[data-step]"))
    for name in hostile.talking:
        yield f"#/h/{name}/steps", "div.step"
        yield from (
            (f"#/h/{name}/{tab}", "main pre, main tbody tr") for tab in ("state", "output", "messages", "history", "effects")
        )
    yield from ((f"#/h/{name}/transcript", "main pre") for name in hostile.chatting)
    yield from ((f"#/h/{name}", "ol.chain li") for name in (*hostile.failing[:3], *hostile.losing[:2], *hostile.asking[:1]))


def look(browser: Any, url: str, hostile: Hostile) -> Iterator[tuple[Shown, list[str]]]:
    """Yield what each view says, and what is active in it."""
    origin = url.partition("?")[0]
    # As high as the fleet, so that all of its rows are drawn.
    context = browser.new_context(viewport={"width": 1600, "height": 300 + 40 * (3 * len(hostile.texts) + 20)})
    watched = Watched(context, origin)
    watched.page.goto(url)
    for view, drawn in views(hostile):
        watched.page.goto("about:blank")  # nothing of the view before is left, which looks like this one
        watched.page.goto(f"{origin}{view}")
        watched.page.locator(drawn).first.wait_for(timeout=_PATIENCE_MS, state="attached")
        watched.page.evaluate(_OPEN)
        watched.page.wait_for_function(_OPENED, timeout=_PATIENCE_MS)
        found, text = watched.look()
        yield Shown(f"page {'/'.join(part for part in view.split('/') if '-' not in part)}", "", text), found
    watched.page.goto(f"{origin}#/search")
    watched.page.get_by_label("Search in records").fill("~")
    watched.page.keyboard.press("Enter")
    watched.page.locator("tbody tr").first.wait_for(timeout=_PATIENCE_MS)
    found, text = watched.look()
    yield Shown("page #/search", "", text), found
    context.close()


def report(browser: Any, file: Path) -> tuple[list[str], str]:
    """Return what is active in a report that is opened, and what it says."""
    context = browser.new_context()
    watched = Watched(context, file.as_uri())
    watched.page.goto(file.as_uri())
    found, text = watched.look()
    context.close()
    return found, text
