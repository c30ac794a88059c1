"""SQL that changes, and SQL that destroys. Pure."""

from __future__ import annotations

import re

from harnesses.governance.actions.nouns import UNKNOWN, Call, Category, Changes, Found, Sayings, Shell, Word, Write, unclear

_MAX_SQL = 10_000
_MUTATES = re.compile(
    r"(?i)^\s*(with\b.*?\)\s*)?(insert|update|delete|merge|replace|upsert|create|alter|drop|"
    r"truncate|rename|grant|revoke|vacuum|reindex|"
    r"cluster|refresh|copy|load|import|call|do|lock|set\s+global|attach|detach|comment|analyze|optimize|begin|commit)\b",
    re.DOTALL,
)
_UPDATES = re.compile(r"(^|\s)update ")


def sql(text: str) -> Sayings:
    """Say what SQL does; what is in quotes is data."""
    if len(text) > _MAX_SQL:
        yield unclear(f"its SQL is longer than {_MAX_SQL} characters")
        return
    bare = _without_comments(text)
    for statement in bare.split(";"):
        words = re.sub(r"\s+", " ", statement).strip().lower()
        if _MUTATES.match(statement):
            yield Changes("sql-mutation", "it changes the database")
        if re.search(
            r"\bdrop (table|database|schema|view|index|user|role|collection|keyspace|column|sequence|"
            r"type|function|owned|tablespace|materialized|extension|trigger|procedure|foreign|"
            r"publication|subscription|constraint|partition|if exists)\b",
            words,
        ):
            yield Found(Category.DB_DESTROY, "it drops what is in the database")
        elif re.search(r"(^|\s)truncate( table| only|\s+[\w\"`.\[\]']+)", words):
            yield Found(Category.DB_DESTROY, "it empties tables")
        elif re.search(r"\bdelete (low_priority |quick |ignore )*from\b", words) and not _restricted(words):
            yield Found(Category.DB_DESTROY, "it deletes all rows")
        elif words.startswith(("update ", "with ")) and _UPDATES.search(words) and " set " in words and not _restricted(words):
            yield Found(Category.DB_DESTROY, "it changes all rows")
        elif re.search(r"\balter table .*\bdrop\b", words):
            yield Found(Category.DB_DESTROY, "it drops columns")
        elif re.search(r"\b(grant all|revoke )\b", words):
            yield Found(Category.PERM_DESTROY, "it changes who may do what")
        elif re.search(
            r"\bcopy .* (to|from) program\b|\bxp_cmdshell\b|\binto (outfile|dumpfile)\b|\bload_extension\b|\blo_export\b",
            words,
        ):
            yield unclear("it has the database run a program or write a file")
    for command in re.findall(r"(?m)^\s*\\!\s*(.*)$", text) + re.findall(r"(?m)^\s*\.(?:shell|system)\s+(.*)$", text):
        yield Shell(Word(command or UNKNOWN))
    for path in re.findall(r"(?m)^\s*(?:\\o|\\g|\.output|\.once|\.save|\.backup|\.dump)\s+(\S+)", text):
        yield Write(Word(path))
    if re.search(r"(?m)^\s*\\(i|ir|include|copy)\b|^\s*\.read\b|^\s*source\b", text):
        yield Changes("sql-mutation", "it runs a file")
    if UNKNOWN in bare and not re.match(r"(?i)\s*(select|show|explain|describe|pragma|\\d)", bare):
        yield unclear("part of the SQL is not known")


def sql_of(word: Word) -> Sayings:
    """Say what SQL does that may be known in part only."""
    if UNKNOWN in word.text and not re.match(r"(?i)\s*(select|insert|pragma|show|explain)", word.text):
        yield unclear("the SQL is not known")
    yield from sql(word.text)


def _restricted(words: str) -> bool:
    where = words.partition(" where ")[2].strip()
    return bool(where) and not re.match(
        r"\(*\s*(true|1|1 ?= ?1|'?(\w*)'? ?= ?'?\2'?|not false)\s*\)*($| limit| returning)", where
    )


def _without_comments(text: str) -> str:
    """Return SQL without comments and without what stands in single quotes; `/*! … */` is run by MySQL, and stays."""
    text = re.sub(r"/\*!\d*(.*?)\*/", r" \1 ", text, flags=re.DOTALL)
    out: list[str] = []
    for piece in re.finditer(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|.", text, re.DOTALL):
        found = piece.group()
        if found.startswith(("--", "/*")):
            out.append(" ")
        elif found.startswith("'") and len(found) > 1:
            # A value may hold anything; that it is one and what it compares with has to stay.
            out.append(f"'{re.sub(r'[^A-Za-z0-9]', '_', found[1:-1])[:20]}'" if UNKNOWN not in found else "'_'")
        else:
            out.append(found)
    return "".join(out)


def sql_as_command(call: Call) -> Sayings:
    """SQL where a command is expected, as some tools take it."""
    yield from sql(" ".join([call.program, *(word.text for word in call.args)]))
