"""A hook of MkDocs: what a page links to outside `docs/` becomes a page of the site, so that no link leaves it.

Pages link to `../../examples/counting.py` or `../CONTRIBUTING.md`, as a code host shows them. The site shows Markdown as a
page, pictures as they are, and everything else as highlighted source.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
ALWAYS = [path for path in ("CONTRIBUTING.md", "CHANGELOG.md") if (ROOT / path).exists()]
_FENCED = re.compile(r"^```.*?^```[^\n]*$", flags=re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
_PICTURES = (".svg", ".png")


def _outside(base: str, link: str) -> str | None:
    """Return the path, from the root of the repository, of a linked file outside `docs/`; None for any other link."""
    if ":" in link or link.startswith("/"):
        return None
    path = posixpath.normpath(posixpath.join(posixpath.dirname(base), link))
    return None if path.startswith(("docs/", "../")) or not (ROOT / path).is_file() else path


def _place(path: str) -> str:
    """Return where in the site a file is shown; pages of `docs/` stay where they are."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"source/{path}" if path.endswith((".md", *_PICTURES)) else f"source/{path}.md"


def _links(text: str) -> list[str]:
    return [link for _, link, _ in _LINK.findall(_FENCED.sub("", text))]


def _source(path: str) -> str:
    """Return the page that shows a file."""
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.endswith(".md"):
        return text
    fence = "~" * (3 + max((len(run) for run in re.findall(r"~+", text)), default=0))
    kind = {"py": "python", "ipynb": "json", "": "text"}.get(path.rpartition(".")[2], path.rpartition(".")[2])
    return f"---\nsearch: {{exclude: true}}\nhide: [navigation]\n---\n\n# {path}\n\n{fence}{kind}\n{text}\n{fence}\n"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file that is linked to, and for those that the linked Markdown links to in turn."""
    todo = [(f"docs/{file.src_uri}", file.content_string) for file in files.documentation_pages()]
    todo += [("README.md", f"[]({path})") for path in ALWAYS]
    added: set[str] = set()
    while todo:
        base, text = todo.pop()
        for path in {path for link in _links(text) if (path := _outside(base, link))} - added:
            added.add(path)
            if path.endswith(_PICTURES):
                files.append(File.generated(config, _place(path), abs_src_path=str(ROOT / path)))
                continue
            shown = _source(path)
            inclusion = InclusionLevel.UNDEFINED if path in ALWAYS else InclusionLevel.NOT_IN_NAV
            files.append(File.generated(config, _place(path), content=shown, inclusion=inclusion))
            if path.endswith(".md"):
                todo.append((path, shown))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links to files outside `docs/` into links to their pages, and links of such files too."""
    here = page.file.src_uri
    base = here.removeprefix("source/") if here.startswith("source/") else f"docs/{here}"

    def turned(match: re.Match[str]) -> str:
        link = match[2]
        path = _outside(base, link)
        if path is None and base == f"docs/{here}":
            return match[0]
        if path is None:  # a page of `source/` links into `docs/`
            path = posixpath.normpath(posixpath.join(posixpath.dirname(base), link))
            if ":" in link or not path.startswith("docs/"):
                return match[0]
        return f"{match[1]}{posixpath.relpath(_place(path), posixpath.dirname(here) or '.')}{match[3]}"

    parts = re.split(f"({_FENCED.pattern})", markdown, flags=_FENCED.flags)
    return "".join(part if number % 2 else _LINK.sub(turned, part) for number, part in enumerate(parts))
