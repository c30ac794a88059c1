"""The programs of databases, and of those who migrate them: which of their words destroy. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from harnesses.governance.actions.nouns import UNKNOWN, Call, Category, Changes, Found, Rule, Sayings, Word, Write, unclear
from harnesses.governance.actions.options import options
from harnesses.governance.actions.sql import sql, sql_as_command
from harnesses.governance.actions.stores import mongo_shell, redis


def _client(
    call: Call,
    *,
    takes: str,
    text_options: tuple[str, ...],
    long: tuple[str, ...] = (),
    files: tuple[str, ...] = (),
    operand: int | None = None,
) -> Sayings:
    """Programs that are given SQL, by options, after the database's name, or at their input."""
    given = options(call.args, takes, (*long, "host", "port", "user", "username", "dbname", "database"))
    if given.has("help", "version") or (given.has("l", "list") and call.program == "psql"):
        return
    texts = list(given.of(*text_options, *long))
    if operand is not None:
        texts += given.operands[operand:]
    for text in texts:
        for saying in _text(text):
            yield saying
            if operand and isinstance(saying, Changes):
                yield from (Write(path) for path in given.operands[:1])
    for path in given.of("o", "output", "L", "log-file"):
        yield Write(path)
    if any(path.text != "-" for path in given.of(*files)):
        yield Changes("sql-mutation", "it runs a file")
        return
    if not texts or call.input.kind == "text":
        yield from _input(call, bool(texts))
    if given.loose and any(word.splits for word in call.args):
        yield unclear("it is not known what it is told to do")


def _text(text: Word) -> Sayings:
    if text.text.strip(UNKNOWN + " ") == "":
        yield unclear("the SQL is not known")
    else:
        yield from sql(text.text)


def _input(call: Call, has_text: bool) -> Sayings:
    match call.input.kind:
        case "text":
            yield from _text(call.input.word)
        case "file":
            yield Changes("sql-mutation", "it runs a file")
        case "unknown" | "net":
            yield unclear("the SQL is not known")
        case _:
            if not has_text:
                yield Changes("sql-mutation", "it waits for SQL")


def _verbs(call: Call, *, words: str, why: str = "it destroys what is in the database") -> Sayings:
    """Programs of which some words destroy."""
    said = " ".join(word.text for word in call.args)
    if re.search(rf"(?i)(^|\s)({words})(\s|=|$)", said) and "--help" not in said:
        yield Changes("sql-mutation", why)
        yield Found(Category.DB_DESTROY, why)
    elif call.args and call.args[0].may_be_option:
        yield unclear("it is not known what it is told to do")


def _always(call: Call) -> Sayings:
    if not any(word.text in ("--help", "--version") for word in call.args):
        yield Changes("sql-mutation", "it destroys a database")
        yield Found(Category.DB_DESTROY, "it destroys a database")


def _migrations(call: Call) -> Sayings:
    verb = next((word.text for word in call.args if not word.text.startswith("-")), "")
    if verb not in ("current", "history", "heads", "show", "check", "branches", "status", "info", "validate", ""):
        yield Changes("sql-mutation", "it changes the database")
    yield from _verbs(
        call,
        words=r"downgrade base|downgrade|clean|reset|drop|drop-all|dropall|rollback|down|undo|"
        r"migrate:(fresh|reset|refresh|rollback)|db:wipe",
    )


RULES: Mapping[str, Rule] = {
    "psql": partial(_client, takes="cdfhopULvFPRT", text_options=("c",), long=("command",), files=("f", "file")),
    "pgcli": partial(_client, takes="hpUd", text_options=(), operand=1),
    "cockroach": partial(_client, takes="eufd", text_options=("e",), long=("execute",), files=("f", "file")),
    "mysql": partial(_client, takes="ehPuDS", text_options=("e",), long=("execute",)),
    "mariadb": partial(_client, takes="ehPuDS", text_options=("e",), long=("execute",)),
    "sqlite3": partial(_client, takes="", text_options=("cmd",), operand=1),
    "sqlite": partial(_client, takes="", text_options=("cmd",), operand=1),
    "duckdb": partial(_client, takes="cs", text_options=("c", "s", "cmd"), operand=1),
    "sqlcmd": partial(_client, takes="QqSdUPioC", text_options=("Q", "q"), files=("i",)),
    "cqlsh": partial(_client, takes="efkup", text_options=("e",), long=("execute",), files=("f",)),
    "clickhouse-client": partial(_client, takes="qhud", text_options=("q",), long=("query",)),
    "clickhouse": partial(_client, takes="qhud", text_options=("q",), long=("query",)),
    "snowsql": partial(_client, takes="qfauo", text_options=("q",), long=("query",), files=("f",)),
    "trino": partial(_client, takes="", text_options=(), long=("execute",)),
    "hive": partial(_client, takes="ef", text_options=("e",), files=("f",)),
    "beeline": partial(_client, takes="efu", text_options=("e",), files=("f",)),
    "sqlplus": partial(_client, takes="", text_options=()),
    "redis-cli": redis,
    "valkey-cli": redis,
    "mongo": mongo_shell,
    "mongosh": mongo_shell,
    "mongorestore": partial(_verbs, words="--drop"),
    "pg_restore": partial(_verbs, words="--clean|-c|--create"),
    "dropdb": _always,
    "dropuser": _always,
    "mysqladmin": partial(_verbs, words="drop|shutdown|flush-privileges"),
    "etcdctl": partial(_verbs, words="del|rm|rmdir"),
    "influx": partial(_verbs, words="delete|bucket delete|drop.*"),
    "consul": partial(_verbs, words="kv delete"),
    "elasticdump": partial(_verbs, words="--delete"),
    "rails": partial(
        _verbs, words=r"db:(drop|reset|purge|schema:load|migrate:reset|truncate_all|setup|rollback)(:\w+)?|runner|r|destroy"
    ),
    "sequelize": partial(_verbs, words=r"db:(drop|migrate:undo(:all)?|seed:undo(:all)?)"),
    "sequelize-cli": partial(_verbs, words=r"db:(drop|migrate:undo(:all)?|seed:undo(:all)?)"),
    "prisma": partial(
        _verbs,
        words=r"migrate reset|db push --(accept-data-loss|force-reset)|db execute|db push .*--(accept-data-loss|force-reset)",
    ),
    "drizzle-kit": partial(_verbs, words="drop|push"),
    "typeorm": partial(_verbs, words="schema:drop|migration:revert|schema:sync"),
    "knex": partial(_verbs, words="migrate:rollback|migrate:down"),
    "alembic": _migrations,
    "flyway": _migrations,
    "liquibase": _migrations,
    "dbmate": _migrations,
    "goose": _migrations,
    "migrate": _migrations,
    "artisan": _migrations,
    "django-admin": partial(_verbs, words="flush|reset_db|sqlflush|migrate .* zero"),
    "drop": sql_as_command,
    "alter": sql_as_command,
    "delete": sql_as_command,
    "update": sql_as_command,
}


def _setup(call: Call) -> Sayings:
    if any(word.text in ("upload", "register") for word in call.args):
        yield Changes("publish-deploy", "it publishes a package")
        yield Found(Category.PUBLISH, "it publishes a package")


SCRIPTS: Mapping[str, Rule] = {
    "setup.py": _setup,
    "manage.py": partial(_verbs, words="flush|reset_db|sqlflush|migrate .* zero|reset"),
    "artisan": _migrations,
    "rails": RULES["rails"],
    "rake": partial(_verbs, words=r"db:(drop|reset|purge|schema:load|migrate:reset|truncate_all)(:\w+)?"),
    "console": partial(_verbs, words=r"doctrine:(database|schema):drop"),
}
"""Rules for well-known scripts, by their name."""
