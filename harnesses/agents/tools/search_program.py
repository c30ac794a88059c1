"""Searches files for a regular expression: the program of the `search` tool where ripgrep is not installed.

    python -I search_program.py PATTERN FLAGS < paths of files, each ended by a NUL

Paths are relative to the working directory. Each line found is written as path, NUL, number and text. It runs as a process of
its own, because nothing else ends a pattern that takes for ever. Links are not followed.
"""

import os
import re
import sys

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
            print(f"{path}\0{number}:{line.rstrip()[:_WIDTH]}")


def main(text: str, flags: str) -> int:
    try:
        pattern = re.compile(text, re.IGNORECASE if "i" in flags else 0)
    except re.error as error:
        print(f"the pattern is not a regular expression: {error}")
        return 2
    for path in filter(None, os.fsdecode(sys.stdin.buffer.read()).split("\0")):
        search(pattern, path)
    return 0


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    sys.exit(main(*sys.argv[1:]))
