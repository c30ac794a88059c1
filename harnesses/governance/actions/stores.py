"""The commands of redis and of mongo that destroy. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from harnesses.governance.actions.nouns import UNKNOWN, Call, Category, Changes, Found, Sayings, unclear
from harnesses.governance.actions.options import names, options


def redis(call: Call) -> Sayings:
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
            yield Found(Category.DB_DESTROY, f"{verb} destroys or replaces what is in the database")
        if verb not in _REDIS_READS:
            yield Changes("sql-mutation", "it changes the database")
        if verb in ("EVAL", "EVALSHA", "FCALL") and re.search(r"(?i)flush|\bdel\b|unlink", line):
            yield Found(Category.DB_DESTROY, "its script deletes")
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


def mongo_shell(call: Call) -> Sayings:
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
        yield Found(Category.DB_DESTROY, "it drops or removes what is in the database")
    elif re.search(r"\.\s*(deleteMany|updateMany)\s*\(\s*(\{\s*\}|\)|[^{\s])", text):
        yield Found(Category.DB_DESTROY, "it deletes or changes everything in a collection")
    if not re.fullmatch(
        r"(?s)\s*(db\.(getCollection\(.*?\)|\w+)\.(find|findOne|count|countDocuments|distinct|"
        r"aggregate|stats)\(.*\)[\w().]*|show \w+|db\.(stats|version|serverStatus|"
        r"getCollectionNames)\(\));?\s*",
        text,
    ):
        yield Changes("sql-mutation", "it may change the database")
    if UNKNOWN in text:
        yield unclear("part of the script is not known")
