"""Verification of a store on PostgreSQL: everything is read anew into a file of its own, and proven there as any file is.

The local copy that verbs read would prove nothing: it has what was recorded, also if the server's records were changed since.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from attrs import asdict, evolve

from orchestrator.errors import StoreCorrupt, StoreError
from orchestrator.store.file.server_copy import Server
from orchestrator.store.integrity.chain_head import Head, Noted, head_path, read_head
from orchestrator.store.integrity.proof import Finding, Proof, prove
from orchestrator.store.integrity.residue import Base
from orchestrator.store.places.copy_refresh import CopyRefresh
from orchestrator.store.postgres.machine_head import describe_pruned, path_of
from orchestrator.text.terminal_text import one_line

_NO_HEAD = "this machine has not seen the store before, so that its end was cut off would not show: give a head with --head"

_NAMED = 10
"""Rows that a notice names."""


def prove_server(server: Server, folder: Path, given: str | None, *, deep: bool) -> Proof:
    """Verify a store on a server. Programs may run on it. Its newest seal is noted on this machine, if nothing is wrong.

    A head of this machine that was pruned stays, unless a later one was given.

    Args:
        folder: this machine's folder for the store, with room for a copy.
        given: a head that the chain must contain; None for the one of this machine.

    Raises:
        StoreUnusable: the server does not answer, or has no store there.
    """
    with TemporaryDirectory(dir=folder, prefix="proof-") as made:
        path = Path(made) / "proof.db"
        copy = CopyRefresh(path, server).copy_whole()
        beside, other = _find_head(folder, copy.store, server.location)
        text = beside.read_text("utf-8", "replace") if given is None and beside is not None and beside.exists() else given
        before = _read_pruned(text, copy.base) if given is None else None
        text = None if before is not None else text
        newest = copy.newest
        proof = prove(path, text if newest is None else _known(text, newest), deep=deep)
        named = [evolve(finding, text=finding.text.replace(str(path), server.location)) for finding in proof.findings]
        proof = evolve(proof, findings=[*other, *named])
    if newest is None:
        return proof
    notices = [notice for notice in proof.notices if not notice.startswith(f"the head is that of seal {newest.position} of")]
    if before is not None and beside is not None:
        notices.append(describe_pruned(before, copy.base, beside, server.location))
    elif text is None and beside is not None:
        notices.append(_NO_HEAD)
    if copy.vouched:
        notices.append(_describe_vouched(copy.vouched))
    if not proof.findings and before is None:
        _note(folder / copy.store, newest)
    return evolve(
        proof, seals=newest.position, records=newest.last_seq, unsealed=copy.records, head=newest.hash, notices=notices
    )


def _find_head(folder: Path, store: str, location: str) -> tuple[Path | None, list[Finding]]:
    """Return the path of the store's head on this machine; or what was found if another store was seen at the address."""
    try:
        return head_path(path_of(folder, store, location)), []
    except StoreCorrupt as error:
        return None, [Finding("edited", "meta", str(error))]


def _read_pruned(head: str | None, base: Base) -> Noted | None:
    """Return what a head says if the seal that it names was pruned."""
    try:
        noted = None if head is None else read_head(head)
    except ValueError:
        return None
    return noted if noted is not None and noted.position <= base.position else None


def _describe_vouched(rows: Sequence[str]) -> str:
    more = f" and {len(rows) - _NAMED} more" * (len(rows) > _NAMED)
    return (
        f"no program runs, and that a program changed {len(rows)} rows since the last seal is said by table unsealed alone, "
        f"which is no proof; the next program seals them as they are: {one_line('; '.join(rows[:_NAMED]), 200)}{more}"
    )


def _known(text: str | None, newest: Noted) -> str:
    """Return what the chain must contain: a head, or what is in it. The seal that only the copy has does not count."""
    try:
        noted = newest if text is None else read_head(text)
    except ValueError:
        return str(text)
    return noted.hash if noted.position > newest.position else json.dumps(asdict(noted))


def _note(store: Path, newest: Noted) -> None:
    try:
        head = Head(store)
    except StoreError:
        return  # The proof stands without it.
    try:
        head.write(newest)
    finally:
        head.close()
