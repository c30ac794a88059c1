"""Writes the files of a run folder. They are views: the store has the record, and they show only recorded data.

Invariants: a reader sees a complete file, old or new, never a part; a file that somebody else has changed is written again;
nothing is written through a link, or outside of the folder.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from tempfile import mkstemp

from attrs import evolve, frozen

from harnesses.diagnostics.program_log import get_logger
from harnesses.pipeline.pipeline_state import PipelineOutput, PipelineState
from harnesses.pipeline.plan.ids import PipelineInvalid
from harnesses.pipeline.run_folder.folder_text import Folder, render_folder

_DRAFT = ".draft-"


def write_folder(root: Path, folder: Folder, *, below: str = "", clear: bool = False) -> int:
    """Write the files that differ; return how many were written.

    Args:
        below: path of the folder, below `root`; links on that path are refused too.
        clear: whether to remove a file or a link that is in the way of a directory. The target of a link is not touched.

    Raises:
        PipelineInvalid: a path leads out of the folder, or through a link.
        OSError: it cannot be written.
    """
    root.mkdir(parents=True, exist_ok=True)
    for name in folder.directories:
        _made(root, os.path.join(below, name), clear=clear)
    return sum(_written(root, os.path.join(below, path), text, clear=clear) for path, text in folder.files.items())


def _written(root: Path, path: str, text: str, *, clear: bool) -> bool:
    content = text.encode("utf-8", errors="backslashreplace")
    target = _place(root, path, clear=clear)
    if _holds(target, content):
        return False
    if clear and target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    write_lines(root, path, (text,))
    return True


def _place(root: Path, path: str, *, clear: bool = False) -> Path:
    name = os.path.basename(path)
    if not name or name in (".", ".."):
        raise PipelineInvalid(f"run folder {str(root)!r}: expected the path of a file, was {path!r:.200}")
    return _made(root, os.path.dirname(path), clear=clear) / name


def write_lines(root: Path, path: str, lines: Iterable[str]) -> int:
    """Write a file below a folder piece by piece; it gets its name when complete. Return the number of pieces.

    Raises:
        PipelineInvalid: the path leads out of the folder, or through a link.
        OSError: it cannot be written.
    """
    target, written = _place(root, path), 0
    handle, draft = mkstemp(prefix=_DRAFT, dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            for line in lines:
                file.write(line.encode("utf-8", errors="backslashreplace"))
                written += 1
            file.flush()
            os.fsync(file.fileno())
        # Not the 0600 of a temporary file, because other users must be able to read it.
        os.chmod(draft, 0o644)
        os.replace(draft, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise
    return written


def _holds(target: Path, content: bytes) -> bool:
    """Return whether a regular file with this content exists already."""
    try:
        handle = os.open(target, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            return os.fstat(handle).st_size == len(content) and file.read(len(content) + 1) == content
    except OSError:
        return False


def _made(root: Path, below: str, *, clear: bool = False) -> Path:
    """Return a directory below a folder, created if missing; links on its path are refused."""
    place = root
    for part in Path(below).parts:
        if part in ("..", "/") or "\0" in part:
            raise PipelineInvalid(f"run folder {str(root)!r}: expected a path below it, was {below!r:.200}")
        place = place / part
        in_the_way = place.is_symlink() or (place.exists() and not place.is_dir())
        if in_the_way and clear:
            place.unlink()
        elif in_the_way:
            raise PipelineInvalid(f"run folder {str(root)!r}: {str(place)!r} is not a plain directory: remove it")
        place.mkdir(exist_ok=True)
    return place


def sweep_drafts(root: Path) -> None:
    """Remove incomplete files left by a program that was killed."""
    for directory, _, files in os.walk(root):
        for name in files:
            if name.startswith(_DRAFT):
                with suppress(OSError):
                    os.unlink(os.path.join(directory, name))


def remove_file(root: Path, path: str) -> None:
    """Remove a file below a folder; a link in its place is removed, not followed."""
    place = _place(root, path, clear=True)
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
        return
    with suppress(FileNotFoundError):
        os.unlink(place)


@frozen
class FolderView:
    """The data that the run folder shows."""

    harness: str
    """Name of the harness, for warnings."""
    workspace: Path
    state: PipelineState
    outputs: tuple[PipelineOutput, ...]
    """Outputs of all steps, in order."""

    def after(self, state: PipelineState, output: PipelineOutput) -> FolderView:
        """Return the view after one more step."""
        return evolve(self, state=state, outputs=(*self.outputs, output))

    def write(self) -> None:
        """Write the run folder, if there is one yet. A failure is only logged, because the folder is a view."""
        if not self.state.run_id:
            return
        events = (event for one in self.outputs for event in one.events)
        evidence = (entry for one in self.outputs for entry in one.evidence)
        try:
            write_folder(self.workspace, render_folder(self.state, events, evidence), below=self.state.run_folder, clear=True)
        except Exception:
            get_logger(__name__).warning(
                "harness %r could not write its run folder %s", self.harness, self.state.run_folder, exc_info=True
            )
