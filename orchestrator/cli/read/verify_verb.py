"""The verb `verify`: prove that nobody has changed a store, or name what was changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.verb_options import USUAL, Common, print_all
from orchestrator.errors import StoreUnusable, UsageError
from orchestrator.store.file.schema import APPLICATION_ID
from orchestrator.store.file.server_copy import server_of, shown_place
from orchestrator.store.integrity.chain_head import head_path
from orchestrator.store.integrity.proof import HASH_LENGTH, Finding, Proof, is_unmade, prove
from orchestrator.store.places.server_proof import prove_server
from orchestrator.store.places.store_location import place_of
from orchestrator.text.command_hints import command
from orchestrator.text.terminal_text import one_line
from orchestrator.text.value_lines import json_line, stamp_us

_TRIES = 3
"""Times that the head may change under a look at the store."""
_FIELDS = ("where", "seq", "harness", "step", "kind", "text")
MOST = 100
"""Findings that are reported one by one: the later ones are mostly consequences of the first."""


def verify(
    *, head: Annotated[str | None, Parameter(metavar="FILE|HASH")] = None, deep: bool = False, common: Common = USUAL
) -> int:
    """Prove that nobody has changed what is recorded.

    Reports what was changed, dropped, inserted, reordered or truncated, starting with the first finding.

    Exit codes: 0 nothing was changed, 5 something was.

    Args:
        head: a head that was noted elsewhere (default: the one beside the store)
        deep: also derive every state anew; takes longer
    """
    store = place_of(common.location)
    server = server_of(store)
    if server is None:
        proof = verified(str(store), head, deep=deep)
    else:
        proof = prove_server(server, store.parent, None if head is None else given_head(head), deep=deep)
    print_all(verify_lines(shown_place(store), proof, as_json=common.json))
    return ExitCode.INTEGRITY if proof.findings else ExitCode.OK


def verified(store: str, head: str | None, *, deep: bool) -> Proof:
    """Return what is wrong with a store.

    Args:
        head: a file or a hash; without one, the head beside the store counts.

    Raises:
        StoreUnusable: there is no store that was ever sealed.
        UsageError: the head that was given is none.
    """
    path = Path(store)
    beside = head_path(path.resolve())
    if not path.is_file():
        raise StoreUnusable(f"{store} is not there: expected a store; check --store, or run something first")
    if is_unmade(path, _text(None, beside)):
        raise StoreUnusable(
            f"{store} is empty: it is just being made, or was when its program was killed, and nothing is recorded in it; "
            "run something on it, or remove it"
        )
    if not beside.exists():
        _look(path, store)
    text = _text(head, beside)
    proof = prove(path, text, deep=deep)
    for _ in range(_TRIES):
        # A prune meanwhile may have moved the beginning of the chain beyond the head that was read before it.
        # It may also have removed files after the records that named them.
        is_pruned = text != _text(head, beside) and any(finding.where == "head" for finding in proof.findings)
        if not is_pruned and not any((one.what, one.where) == ("dropped", "value") for one in proof.findings):
            break
        text = _text(head, beside)
        proof = prove(path, text, deep=deep)
    return proof


def verify_lines(store: str, proof: Proof, *, as_json: bool) -> Iterator[str]:
    """Yield what is wrong, the first record first, and what there is."""
    told = proof.findings[:MOST]
    if as_json:
        yield from (json_line(_fields(finding)) for finding in told)
        yield json_line(
            {
                "untouched": not proof.findings,
                "findings": len(proof.findings),
                "seals": proof.seals,
                "sealed_records": proof.records,
                "unsealed_records": proof.unsealed,
                "head": proof.head,
                "pruned": _pruned_fields(proof),
                "notices": list(proof.notices),
            }
        )
        return
    yield from (_line(finding) for finding in told)
    if len(proof.findings) > MOST:
        yield f"and {len(proof.findings) - MOST} more"
    verdict = f"changed: {len(proof.findings)} findings" if proof.findings else "untouched"
    yield f"{store} {verdict}: {proof.records} records under {proof.seals} seals, {proof.unsealed} not sealed yet"
    yield from (f"note: {one_line(notice, 500)}" for notice in proof.notices)
    if not proof.findings:
        yield f"keep its head elsewhere, and give it to --head next time: {proof.head}"


def _pruned_fields(proof: Proof) -> dict[str, object] | None:
    base = proof.pruned
    if not base.position:
        return None
    return {"up_to_seq": base.last_seq, "seal": base.position, "by": base.by, "timestamp": stamp_us(base.time_us)}


def _fields(finding: Finding) -> dict[str, object]:
    return {"finding": finding.what, **{name: getattr(finding, name) for name in _FIELDS}}


def _line(finding: Finding) -> str:
    whose = f"{finding.kind} of {finding.harness!r}, step {finding.step}" if finding.harness else finding.kind
    return one_line(f"{finding.what}: {finding.text}{f' ({whose})' if whose else ''}", 500)


def _text(head: str | None, beside: Path) -> str | None:
    """Return the text of a head."""
    if head is None:
        return beside.read_text("utf-8", "replace") if beside.exists() else None
    return given_head(head)


def given_head(head: str) -> str:
    """Return the text of a head that is a file or a hash.

    Raises:
        UsageError: it is neither.
    """
    if len(head) == HASH_LENGTH and not head.strip("0123456789abcdefABCDEF"):
        return head.lower()
    try:
        return Path(head).read_text("utf-8", "replace")
    except OSError as error:
        raise UsageError(
            f"--head {head!r} cannot be read: {error.strerror}: expected a file, or {HASH_LENGTH} digits"
        ) from error


def _look(path: Path, store: str) -> None:
    """Make sure that a file is a store that was sealed. One with a head beside it is, whatever has become of it."""
    unusable = f"{store} is not a store of ours: expected a file that this program has made"
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as db:
            (application,) = db.execute("PRAGMA application_id").fetchone()
            (version,) = db.execute("PRAGMA user_version").fetchone()
            sealed = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'seals'").fetchone()
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_NOTADB:
            raise StoreUnusable(unusable) from error
        return
    if application != APPLICATION_ID:
        raise StoreUnusable(unusable)
    if sealed is None:
        raise StoreUnusable(
            f"{store} has schema version {version}, from before there were seals: `{command(store, 'doctor', '--repair')}` "
            "brings it up to date, and seals it as it is then"
        )
