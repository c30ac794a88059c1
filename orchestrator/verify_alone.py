"""Verify that a store is unchanged since it was written, or name what was changed: `python verify_alone.py run.db [HEAD]`.

Needs only the standard library. HEAD is a head that was kept elsewhere, a file or a hash; default: the file beside the store.
Exit code 0: unchanged; 5: changed. `seals.py` in `orchestrator/store/integrity` describes seals, `residue.py` what is left of
a pruned store. The chain has no key: only a HEAD kept elsewhere detects someone who rewrites all seals and the head file.
"""

# pyright: basic, reportUnusedExpression=false
# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="var-annotated,type-arg"
import json
import os
import sqlite3
import sys
from hashlib import sha256
from pathlib import Path
from zlib import crc32

SAVED = "kind = 'step' AND state IS NOT NULL"
INDEXES = {"step_index": "kind = 'step'", "effect_index": "kind IN ('intent', 'outcome')", "snapshots": SAVED}
WATCHED = {"harnesses", "claims", "mailbox", "meta", "pools", "open_reservations", "approval_index", "state_versions"}
# Every allowed row of `sqlite_master`, in order, each with a hash; SHAPES says which of them each version has.
OBJECTS = """
table/records/290fc3457bd59bf8 table/step_index/01bcbea22226713e table/snapshots/4854d2abafe2d18c
table/harnesses/73f2c0613431a0da index/sqlite_autoindex_harnesses_1/d1cdbadb994b2f7f table/claims/e7b91d43ee144cf8
table/mailbox/09a4d0f4d0ec952c index/mailbox_waiting/0582cf31495af565 table/meta/d9e0f00b60947770 view/steps/591ff72077e85472
view/harness_status/780e4dd5771d3c31 view/messages/d6090f8073b35f95 table/effect_index/c3f7f0399ecc4ff6
view/effects/5e09abb6b81d2db0 view/events/6b364628ae1101c2 table/pools/58eb01afbd6d03d6
table/open_reservations/39bc12a7855fa41b index/open_reservations_of/14ff8272e7c6209f view/budgets/9416765b7e448a12
view/reservations/82247be1ff548223 table/seals/5377dd9267c1e6e7 table/approval_index/c423099bedaa90a6
index/approval_index_of/cc54a08d2c409a6a index/approval_index_for/7ff46a810b4d40e8 index/approval_records/fcf2fdb96f58fe96
view/approvals/957a0f2c489b6af1 table/state_versions/e7ec7639085f893a index/child_records/a23060315102d044
view/children/039259ea6333c2d3 table/harnesses/d84e6b5f72cae5a7 table/mailbox/c586f65519224d6e
index/mailbox_ids/c9811b125f4370ae index/mailbox_replies/3b9dc1c1de3ff3ae view/messages/06ab5f8474f2bdb3
view/events/903182b30690e2ba index/transcript_records/523f92b9bdb172a1 index/forked_records/65841b4224c0ad86
view/transcripts/c35e5cd3b95223b3 index/event_records/cba2eefa66d8069b index/approval_records/f9a9a205aab30b15
"""
SHAPE = OBJECTS.split()
SHAPES = {5: SHAPE[:21], 6: SHAPE[:26], 7: SHAPE[:27], 8: SHAPE[:29]}
SHAPES[9] = [*SHAPE[:3], SHAPE[29], *SHAPE[4:6], SHAPE[30], *SHAPE[7:11], *SHAPE[12:29], *SHAPE[31:34]]
SHAPES[10] = [*(one for one in SHAPES[9] if one != SHAPE[14]), SHAPE[34]]
SHAPES[11] = [*SHAPES[10], *SHAPE[35:38]]
SHAPES[12] = [*(one for one in SHAPES[11] if one != SHAPE[24]), *SHAPE[38:40]]
SCHEMA = "SELECT type, name, tbl_name, sql, rootpage FROM sqlite_master ORDER BY rowid"
SMALL = "CASE WHEN typeof({0}) = 'text' AND length(CAST({0} AS BLOB)) > 8000000 THEN 0 ELSE {0} END"  # 0: large value
RECORDS = f"""SELECT seq, harness, epoch, attempt, step, time_us, kind, {SMALL.format("body")}, {SMALL.format("state")}
FROM records WHERE seq > ? AND seq <= ? ORDER BY seq"""
STEPS = """SELECT seq FROM (SELECT seq, step, lag(step, 1, CASE WHEN ? THEN step - 1 ELSE 0 END) OVER (PARTITION BY harness
ORDER BY seq) AS was FROM records WHERE kind = 'step') WHERE step <> was + 1 ORDER BY seq LIMIT 1"""
ASIDE = {"outcome": "result", "transcript": "messages"}  # the field that may be in a file, by the kind of record
NAMING = """SELECT seq, kind, body FROM records WHERE kind IN ('outcome', 'transcript') AND instr(body, '"file":{"sha256"')"""
SEALS = "SELECT position, first_seq, last_seq, notes, marks, hash FROM seals WHERE position {} ? ORDER BY position"
BASE = """SELECT notes FROM seals WHERE substr(notes, 1, 15) = '[["",["pruned",' ORDER BY position DESC LIMIT 1"""


def connect(path):
    """Open a file for reading. Where nothing can be written beside it, its write-ahead log is read into memory."""
    uri, log = f"{path.as_uri()}?mode=ro", Path(f"{path}-wal")
    db = sqlite3.connect(uri, uri=True, isolation_level=None)
    try:
        db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        if os.access(path.parent, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            raise
        has_log = log.exists() and log.stat().st_size
        db = sqlite3.connect(uri + ("&vfs=unix-none" if has_log else "&immutable=1"), uri=True, isolation_level=None)
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
    return db


def utf8(value):
    return (value if isinstance(value, str) else ascii(value)).encode("utf-8", "surrogateescape")


def mark_of(db, row, *digests):
    """Feed the bytes of a record to the digests, a large one a megabyte at a time; return its mark."""
    body, state = (
        b"" if value is None else utf8(value) if value != 0 else db.blobopen("records", name, row[0], readonly=True)
        for name, value in (("body", row[7]), ("state", row[8]))
    )
    fields, mark = [*row[1:7], len(body), None if row[8] is None else len(state)], 0
    for part in (utf8(json.dumps(fields, separators=(",", ":"), ensure_ascii=False, default=ascii)), body, state):
        for at in range(0, len(part), 1 << 20):
            mark = crc32(piece := part[at : at + (1 << 20)], mark)
            [digest.update(piece) for digest in digests]
    return mark


def read_seal(first, last, text, marks):
    try:  # values that no program can have written are None
        numbers = {first + at // 4: int.from_bytes(marks[at : at + 4], "little") for at in range(0, len(marks), 4)}
        notes = [(table, tuple(key), hash) for table, key, hash in json.loads(text)]
        sound = len(marks) == 4 * (last - first + 1) and all((table or "_").isidentifier() for table, _, _ in {*notes})
        return (notes, numbers) if sound else None  # noqa: TRY300
    except Exception:
        return None


def read_residue(first, last, marks):
    try:  # what remains under pruned seals: their numbers and marks
        pairs = [marks[at : at + 12] for at in range(0, len(marks), 12)]
        numbers = {int.from_bytes(pair[:8], "little"): int.from_bytes(pair[8:], "little") for pair in pairs}
        return ([], numbers) if len(marks) % 12 == 0 and isinstance(first, int) and isinstance(last, int) else None
    except Exception:
        return None


def look_at_schema(db, found):
    """Compare every row of the schema with the expected one; return whether tables can be read."""
    (version,), (application,) = (db.execute(f"PRAGMA {name}").fetchone() for name in ("user_version", "application_id"))
    rows, due = db.execute(SCHEMA).fetchall(), SHAPES.get(version, [])
    there = [f"{row[0]}/{row[1]}/{sha256(ascii(row[:4]).encode()).hexdigest()[:16]}" for row in rows]
    missing = {one.rpartition("/")[0] for one in due if one not in there}
    wrong: list[tuple] = []
    for place, (one, row) in enumerate(zip(there, rows, strict=True)):
        if one not in due or one in there[:place]:
            wrong.append(("edited" if one.rpartition("/")[0] in missing else "inserted", row[0], row[1]))
    wrong += [("dropped", *name.split("/")) for name in missing - {f"{row[0]}/{row[1]}" for row in rows}]
    if wrong and any(sorted(there) == sorted(shape) for shape in SHAPES.values()):
        wrong = [("edited", "pragma", "user_version")]
    for kind in () if wrong else ("table", "index", "view"):
        ours = ([one for one in some if one.startswith(kind) and "/sqlite_" not in one] for some in (there, due))
        wrong += [("reordered", kind, "s")] * (next(ours) != next(ours))
    wrong += [("edited", "pragma", "application_id")] * (application != 0x4861726E and bool(rows))
    pages = [row[4] for row in rows if row[0] not in ("view", "trigger")]
    sound = len({*pages}) == len(pages) and all(isinstance(page, int) and page > 1 for page in pages)
    wrong += [("edited", "page", "of a table or index")] * (not sound)
    wrong += [("edited", "page", "of a view")] * any(row[4] != 0 for row in rows if row[0] in ("view", "trigger"))
    found += [(None, what, f"schema: {kind} {name!a}") for what, kind, name in wrong]
    return all(kind in ("view", "trigger") for _, kind, _ in wrong)


def read_base(db):
    """Return position, hash and last record of the last pruned seal, who pruned it and when, from the chain."""
    nothing = (0, "", 0, "", 0)
    try:
        _, *base = json.loads(db.execute(BASE).fetchone()[0])[0][1]
        return base if [*map(type, base)] == [int, str, int, str, int] and 0 <= base[0] <= 1 << 62 else nothing
    except (ValueError, TypeError, LookupError, RecursionError):
        return nothing


def walk(db, base, found):
    """Compare the records with the seals; return the noted hashes of other rows, the seals, and the unsealed count."""
    noted, seals, expected, actual, tail, before, sealed, position = {}, {}, {}, {}, {}, "", 0, 0
    for seal in [*db.execute(SEALS.format("<="), base[:1]), None, *db.execute(SEALS.format(">"), base[:1])]:
        if seal is None:  # From here on the chain is complete; before it, only what a residue covers may exist.
            rest = db.execute(RECORDS, (sealed or -(1 << 63), base[2])) if base[0] else ()
            actual.update((row[0], mark_of(db, row)) for row in rest)
            (position, before, sealed), seals = base[:3], {base[0]: base[1:3]} if base[0] else {}
            continue
        pruned = seal[0] <= base[0]
        found += [(sealed + 1, "dropped", f"seal {position + 1}")] * (seal[0] != position + 1 and not pruned)
        position, first, last, text, marks, hash = seal
        read = read_residue(first, last, marks) if pruned else read_seal(first, last, text, marks)
        digest, seen, before = sha256(utf8("" if pruned else before)), {}, hash
        if read is None:
            found.append((None, "edited", f"seal {position}"))
            continue
        for row in db.execute(RECORDS, (sealed or -(1 << 63), last)):
            seen[row[0]] = mark_of(db, row, digest)
            digest.update(b"\x1e")
        digest.update(utf8(f"\n{position} {first} {last}\n{text}"))
        if (digest.hexdigest() == hash) != (seen == read[1]):
            found.append((None, "edited", f"seal {position}"))
        if seen != read[1]:
            expected.update(read[1])
            actual.update(seen)
        found += [(sealed + 1, "dropped", "record")] * (first > sealed + 1 and not pruned)
        if any((table, *key[:1]) == ("", "anew") for table, key, _ in read[0]):
            noted = {place: of_row for place, of_row in noted.items() if place[0] == "seals"}
        noted.update(((table, key), of_row) for table, key, of_row in read[0] if table)
        sealed, seals[position] = last, (hash, last)
    held = set(db.execute("SELECT id, epoch FROM harnesses WHERE owner IS NOT NULL"))
    for row in db.execute(RECORDS, (sealed or -(1 << 63), (1 << 63) - 1)):  # records that are not sealed yet
        found += [(sealed + len(tail) + 1, "dropped", "record")] * (row[0] != sealed + len(tail) + 1)
        if row[6] not in ("step", "intent", "outcome", "output") or row[1:3] not in held:
            found.append((row[0], "inserted", "record"))
        tail[row[0]] = mark_of(db, row)
    compare(expected, actual, tail, found)
    return noted, seals, len(tail)


def compare(expected, actual, tail, found):
    """Report what happened to a record: whether its mark is found elsewhere, and whether another record is in its place."""
    wrong = sorted(seq for seq in expected.keys() | actual.keys() if expected.get(seq) != actual.get(seq))
    gone, come = {expected.get(seq) for seq in wrong}, {*(actual.get(seq) for seq in wrong), *tail.values()}
    last = max([*actual, *tail], default=0)
    for seq in wrong:
        was, now = expected.get(seq), actual.get(seq)
        what = ("edited", "dropped", "inserted", "reordered")[2 * (was in come) + (now in gone)]
        if was is None or now is None:
            what = "inserted" if was is None else "cut off" if seq > last else "dropped"
            what = "reordered" if (now in gone if was is None else was in come) else what
        found.append((seq, what, "record"))


def look_beside(db, base, noted, found):
    """Compare other rows with their last noted hashes, and the indexes with the records."""
    for table in sorted({table for table, _ in noted} | WATCHED):
        kept = {key: of_row for (of, key), of_row in noted.items() if of == table and of_row is not None}
        rows, key = [("user_version", *db.execute("PRAGMA user_version").fetchone())], ["name"]
        if table == "sqlite_master":  # Schema objects are compared with the expected ones, whatever was noted of them.
            kept = {at: of_row for at, of_row in kept.items() if at == ("user_version",)}
        else:
            key = [name for _, name in sorted((row[5], row[1]) for row in db.execute(f"PRAGMA table_info({table})") if row[5])]
            some = f" WHERE position <= {base[0]}" if table == "seals" else ""
            rows = db.execute(f"SELECT {', '.join(key)}, * FROM {table}{some}").fetchall() if key else []
        there = {row[: len(key)]: sha256(ascii(row[len(key) :]).encode()).hexdigest()[:32] for row in rows}
        found += [(None, "edited" if at in there else "dropped", f"{table} {at}") for at in kept if there.get(at) != kept[at]]
        new = {row[: len(key)] for row in rows if table != "sqlite_master"} - kept.keys()
        found += [(None, "inserted", f"{table} {at}") for at in new]
    for index, which in INDEXES.items():
        one = f"SELECT harness, step, seq FROM {index}"
        other = f"SELECT harness, step, seq FROM records WHERE seq <= (SELECT indexed_seq FROM meta) AND {which}"
        for row in [*db.execute(f"{one} EXCEPT {other}"), *db.execute(f"{other} EXCEPT {one}")]:
            found.append((row[2] if isinstance(row[2], int) else None, "edited", index))
    found += [(seq, "edited", "step number") for (seq,) in db.execute(STEPS, base[:1])]
    found += [(None, "damaged", text) for (text,) in db.execute("PRAGMA integrity_check(1)") if text != "ok"]


def look_at_files(db, path, found):
    """Compare the files with large values with the records that name them."""
    for seq, kind, body in db.execute(NAMING):
        try:
            field, name, size = map(json.loads(body)["file"].__getitem__, ("field", "sha256", "bytes"))
            ours = len(name) == 64 and not name.strip("0123456789abcdef") and ASIDE[kind] == field and size >= 0
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            continue  # If a program has written something else, the seals show it.
        if not ours:
            continue
        places = [Path(f"{path}-files", name + end) for end in ("", ".new")]
        content = next((place.read_bytes() for place in places if place.is_file() and not place.is_symlink()), None)
        if content is None or len(content) < size:
            found.append((seq, "dropped" if content is None else "cut off", "value"))
        elif len(content) > size or sha256(content).hexdigest() != name:
            found.append((seq, "edited", "value"))


def look_at_head(head, seals, found):
    try:
        hash, *said = [head] if len(head) == 64 else map(json.loads(head).__getitem__, ("hash", "position", "last_seq"))
        place = next((place for place, seal in seals.items() if seal[0] == hash), None)
        if place is None and (not said or ([*map(type, (hash, *said))] == [str, int, int] and said[0] > max(seals or [0]))):
            found.append((seals[max(seals)][1] + 1 if seals else 1, "cut off", "head"))
        elif place is None or repr(said) not in ("[]", repr([place, seals[place][1]])):
            found.append((None, "edited", "head"))
    except Exception:
        found.append((None, "edited", "head"))


def verify(path, head):
    """Return what is wrong, as (number of the record or None, what, where) in order of records, and a summary."""
    found, seals, unsealed, base = [(None, "dropped", "head")] * (head is None), {}, 0, (0, "", 0, "", 0)
    try:
        db = connect(Path(path).resolve())
        db.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
        db.execute("PRAGMA trusted_schema = OFF")
        db.execute("BEGIN")
        if db.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
            db.close()  # Its lock would make a writer wait.
            is_first = not head or [json.loads(head).get(name) for name in ("position", "last_seq")] == [1, 0]
            found = [(None, "cut off", "file")] * (not is_first)
            return found, "nothing is recorded: the store is just being made, or was when its program was killed"
        if look_at_schema(db, found):
            base = read_base(db)
            noted, seals, unsealed = walk(db, base, found)
            look_beside(db, base, noted, found)
            look_at_files(db, Path(path).resolve(), found)
            look_at_head(head, seals, found) if head is not None else None
    except (sqlite3.Error, UnicodeError, ValueError) as error:
        found.append((None, "damaged", str(error)))
    newest, (hash, last) = max(seals.items(), default=(0, ("", 0)))
    pruned = f"pruned up to record {base[2]} by {base[3]!a} at {base[4] / 1e6:.0f} s of 1970; " if base[0] else ""
    summary = f"{pruned}{last} records under {newest} seals, {unsealed} not sealed yet; keep its head elsewhere: {hash}"
    return sorted(found, key=lambda finding: (finding[0] is None, finding[0] or 0)), summary


if __name__ == "__main__":
    len(sys.argv) > 1 or sys.exit(__doc__)
    beside = Path(sys.argv[2] if len(sys.argv) > 2 else f"{sys.argv[1]}-head")
    head = beside.read_text("utf-8", "replace") if beside.is_file() else "".join(sys.argv[2:]) or None
    wrong, summary = verify(sys.argv[1], head)
    print(*(f"{what}: {where}{'' if seq is None else f' {seq}'}" for seq, what, where in wrong[:20]), summary, sep="\n")
    sys.exit(5 if wrong else 0)
