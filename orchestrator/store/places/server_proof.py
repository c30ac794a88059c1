"""Verification of a store on PostgreSQL: everything is read anew into a file of its own, and proven there as any file is.

The local copy that verbs read would prove nothing: it has what was recorded, also if the server's records were changed since.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from attrs import asdict, evolve

from orchestrator.errors import StoreError
from orchestrator.store.file.server_copy import Server
from orchestrator.store.integrity.chain_head import Head, Noted, head_path, read_head
from orchestrator.store.integrity.proof import Proof, prove
from orchestrator.store.integrity.residue import Base
from orchestrator.store.places.copy_refresh import CopyRefresh, WholeCopy

_OLD_HEAD = "the head of this machine is from before the store was pruned: give a later one with --head"
_NO_HEAD = "this machine has not seen the store before, so that its end was cut off would not show: give a head with --head"


def prove_server(server: Server, folder: Path, given: str | None, *, deep: bool) -> Proof:
    """Verify a store on a server. Programs may run on it. Its newest seal is noted on this machine, if nothing is wrong.

    Args:
        folder: this machine's folder for the store, with room for a copy.
        given: a head that the chain must contain; None for the one of this machine.

    Raises:
        StoreUnusable: the server does not answer, or has no store there.
    """
    with TemporaryDirectory(dir=folder, prefix="proof-") as made:
        path = Path(made) / "proof.db"
        copy = CopyRefresh(path, server).copy_whole()
        noted = folder / copy.store
        beside = head_path(noted)
        text = beside.read_text("utf-8", "replace") if given is None and beside.exists() else given
        is_before = given is None and text is not None and _is_pruned(text, copy.base)
        text = None if is_before else text
        newest = copy.newest
        proof = prove(path, None if newest is None else _known(text, newest), deep=deep)
    if newest is None:
        return proof
    notices = [notice for notice in proof.notices if not notice.startswith(f"the head is that of seal {newest.position} of")]
    if text is None:
        notices.append(_OLD_HEAD if is_before else _NO_HEAD)
    if not proof.findings:
        _note(noted, copy)
    return evolve(
        proof, seals=newest.position, records=newest.last_seq, unsealed=copy.records, head=newest.hash, notices=notices
    )


def _is_pruned(head: str, base: Base) -> bool:
    """Return whether the seal that a head names was pruned."""
    try:
        return read_head(head).position <= base.position
    except ValueError:
        return False


def _known(text: str | None, newest: Noted) -> str:
    """Return what the chain must contain: a head, or what is in it. The seal that only the copy has does not count."""
    try:
        noted = newest if text is None else read_head(text)
    except ValueError:
        return str(text)
    return noted.hash if noted.position > newest.position else json.dumps(asdict(noted))


def _note(noted: Path, copy: WholeCopy) -> None:
    if copy.newest is None:
        return
    try:
        head = Head(noted)
    except StoreError:
        return  # The proof stands without it.
    try:
        head.write(copy.newest)
    finally:
        head.close()
