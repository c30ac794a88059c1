"""What is done to databases: SQL that destroys, and the commands of their programs that do. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from harnesses.governance.actions.nouns import UNKNOWN, Call, Category, Changes, Found, Sayings, Shell, Word, Write, unclear
from harnesses.governance.actions.options import names, options

DESTROYS = Category.DB_DESTROY
Rule = Callable[[Call], Sayings]
_MUTATES = re.compile(
    r"(?i)^\s*(with\b.*?\)\s*)?(insert|update|delete|merge|replace|upsert|create|alter|drop|"
    r"truncate|rename|grant|revoke|vacuum|reindex|"
    r"cluster|refresh|copy|load|import|call|do|lock|set\s+global|attach|detach|comment|analyze|optimize|begin|commit)\b",
    re.DOTALL,
)

_UPDATES = re.compile(r"(^|\s)update ")


def sql(text: str) -> Sayings:
    """Say what SQL does; what is in quotes is data."""
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
            yield Found(DESTROYS, "it drops what is in the database")
        elif re.search(r"(^|\s)truncate( table| only|\s+[\w\"`.\[\]']+)", words):
            yield Found(DESTROYS, "it empties tables")
        elif re.search(r"\bdelete (low_priority |quick |ignore )*from\b", words) and not _restricted(words):
            yield Found(DESTROYS, "it deletes all rows")
        elif words.startswith(("update ", "with ")) and _UPDATES.search(words) and " set " in words and not _restricted(words):
            yield Found(DESTROYS, "it changes all rows")
        elif re.search(r"\balter table .*\bdrop\b", words):
            yield Found(DESTROYS, "it drops columns")
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


def _redis(call: Call) -> Sayings:
    given = options(call.args, "hpsanurEXdDix", ("user", "pass", "eval", "cacert", "cert", "key", "tls", "sni", "pattern"))
    words = [word.text for word in given.operands]
    lines: Iterable[str] = (
        [" ".join(words)] if words else call.input.word.text.splitlines() if call.input.kind == "text" else ()
    )
    for line in lines:
        command = line.split()
        verb = command[0].upper() if command else ""
        if verb in _REDIS_DESTROYS or (
            verb in ("CONFIG", "SCRIPT", "ACL", "CLUSTER", "FUNCTION")
            and {"SET", "FLUSH", "RESET", "SETUSER", "DELUSER"} & {word.upper() for word in command}
        ):
            yield Found(DESTROYS, f"{verb} destroys or replaces what is in the database")
        if verb not in _REDIS_READS:
            yield Changes("sql-mutation", "it changes the database")
        if verb in ("EVAL", "EVALSHA", "FCALL") and re.search(r"(?i)flush|\bdel\b|unlink", line):
            yield Found(DESTROYS, "its script deletes")
        if UNKNOWN in verb or (verb in ("DEL", "UNLINK") and (UNKNOWN in line or "*" in line)):
            yield unclear("it is not known what it deletes")
    if given.has("eval"):
        yield unclear("its script is not seen")
    if not words and call.input.kind in ("unknown", "net"):
        yield unclear("it is not known what it is told to do")


_REDIS_DESTROYS = frozenset(
    {"FLUSHALL", "FLUSHDB", "SHUTDOWN", "SWAPDB", "DEBUG", "REPLICAOF", "SLAVEOF", "MIGRATE", "RESTORE", "FAILOVER"}
)
_REDIS_READS = names(
    "GET MGET KEYS SCAN TTL PTTL TYPE EXISTS STRLEN HGET HGETALL HKEYS HVALS HLEN LRANGE LLEN LINDEX SMEMBERS SCARD "
    "SISMEMBER ZRANGE ZCARD ZSCORE INFO PING DBSIZE ECHO TIME MEMORY OBJECT CLIENT COMMAND MONITOR XRANGE XLEN "
    "XINFO DUMP"
)


def _mongo(call: Call) -> Sayings:
    given = options(call.args, "up", ("eval", "host", "port", "username", "password"))
    texts = [text.text for text in given.of("eval")]
    if call.input.kind == "text":
        texts.append(call.input.word.text)
    for text in texts:
        yield from mongo(text)
    if not texts and call.input.kind in ("unknown", "net"):
        yield unclear("it is not known what it is told to do")


def mongo(text: str) -> Sayings:
    """Say what the JavaScript of a mongo shell does."""
    if re.search(
        r"\.\s*(dropDatabase|drop|dropIndexes?|dropUser|dropAllUsers|dropRole|remove|"
        r"shutdownServer)\s*\(|\[\s*['\"]drop|['\"]?dropDatabase['\"]?\s*:|renameCollection",
        text,
    ):
        yield Found(DESTROYS, "it drops or removes what is in the database")
    elif re.search(r"\.\s*(deleteMany|updateMany)\s*\(\s*(\{\s*\}|\)|[^{\s])", text):
        yield Found(DESTROYS, "it deletes or changes everything in a collection")
    if not re.fullmatch(
        r"(?s)\s*(db\.(getCollection\(.*?\)|\w+)\.(find|findOne|count|countDocuments|distinct|"
        r"aggregate|stats)\(.*\)[\w().]*|show \w+|db\.(stats|version|serverStatus|"
        r"getCollectionNames)\(\));?\s*",
        text,
    ):
        yield Changes("sql-mutation", "it may change the database")
    if UNKNOWN in text:
        yield unclear("part of the script is not known")


def _verbs(call: Call, *, words: str, why: str = "it destroys what is in the database") -> Sayings:
    """Programs of which some words destroy."""
    said = " ".join(word.text for word in call.args)
    if re.search(rf"(?i)(^|\s)({words})(\s|=|$)", said) and "--help" not in said:
        yield Changes("sql-mutation", why)
        yield Found(DESTROYS, why)
    elif call.args and call.args[0].may_be_option:
        yield unclear("it is not known what it is told to do")


def _always(call: Call) -> Sayings:
    if not any(word.text in ("--help", "--version") for word in call.args):
        yield Changes("sql-mutation", "it destroys a database")
        yield Found(DESTROYS, "it destroys a database")


def _migrations(call: Call) -> Sayings:
    verb = next((word.text for word in call.args if not word.text.startswith("-")), "")
    if verb not in ("current", "history", "heads", "show", "check", "branches", "status", "info", "validate", ""):
        yield Changes("sql-mutation", "it changes the database")
    yield from _verbs(
        call,
        words=r"downgrade base|downgrade|clean|reset|drop|drop-all|dropall|rollback|down|undo|"
        r"migrate:(fresh|reset|refresh|rollback)|db:wipe",
    )


def _bare(call: Call) -> Sayings:
    """SQL where a command is expected, as some tools take it."""
    yield from sql(" ".join([call.program, *(word.text for word in call.args)]))


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
    "redis-cli": _redis,
    "valkey-cli": _redis,
    "mongo": _mongo,
    "mongosh": _mongo,
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
    "drop": _bare,
    "alter": _bare,
    "delete": _bare,
    "update": _bare,
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
