"""Searches files for a regular expression: the program of the `search` tool where ripgrep is not installed.

    python -I search_program.py PATTERN GLOB FLAGS < paths of files, each ended by a NUL

Paths are relative to the working directory. Without paths, all files below it are searched, apart from `.git`. It runs as a
process of its own, because nothing else ends a pattern that takes for ever. Links are not followed.
"""

import os
import re
import sys
from collections.abc import Iterator
from fnmatch import fnmatch

_MOST_BYTES = 10 * 1024 * 1024
_WIDTH = 300


def open_file(path: str) -> int:
    """Open a file below the working directory, with no link on the way."""
    folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    *folders, name = path.split("/")
    try:
        for part in folders:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    finally:
        os.close(folder)


def walk() -> Iterator[str]:
    for folder, folders, names, _ in os.fwalk(".", follow_symlinks=False):
        folders[:] = sorted(name for name in folders if name != ".git")
        yield from (os.path.normpath(os.path.join(folder, name)) for name in sorted(names))


def search(pattern: re.Pattern[str], path: str) -> None:
    try:
        with open(open_file(path), "rb") as file:
            data = file.read(_MOST_BYTES)
    except OSError:
        return
    if b"\0" in data[:8_000]:
        return
    for number, line in enumerate(data.decode(errors="replace").split("\n"), 1):
        if pattern.search(line):
            print(f"{path}:{number}:{line.rstrip()[:_WIDTH]}")


def main(text: str, glob: str, flags: str) -> int:
    try:
        pattern = re.compile(text, re.IGNORECASE if "i" in flags else 0)
    except re.error as error:
        print(f"the pattern is not a regular expression: {error}")
        return 2
    listed = os.fsdecode(sys.stdin.buffer.read())
    for path in filter(None, listed.split("\0")) if listed else walk():
        if not glob or fnmatch(path, glob) or fnmatch(os.path.basename(path), glob):
            search(pattern, path)
    return 0


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    sys.exit(main(*sys.argv[1:]))
