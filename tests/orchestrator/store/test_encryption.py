"""What an encrypted store holds in the clear, and who can read the rest."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import trio

from harnesses import BaseHarness
from harnesses.effects.approval import Action
from harnesses.errors import UnknownOutcome, Unstorable
from harnesses.files.private_files import concealed_names
from orchestrator import Orchestrator, SqliteStore, StoreUnusable, UsageError
from orchestrator.history.forking import fork
from orchestrator.store import SqliteReader
from orchestrator.store.encryption import KEY_FILE
from orchestrator.store.integrity.proof import prove

KEY = bytes(range(32))
OTHER = bytes(32)
SECRETS = (b"state-secret", b"argument-secret", b"result-secret", b"approved-secret")


class Trading(BaseHarness[dict[str, str], str, str]):
    """Keeps, passes and is given something that nobody else may read."""

    def __init__(self, until: int) -> None:
        super().__init__({"held": "state-secret"})
        self.until = until

    async def execute(self) -> AsyncIterator[tuple[str, str]]:
        while self.current_step < self.until:
            step = self.current_step + 1
            await self.once("order", _order, "argument-secret", approval=Action("order", "buy", "approved-secret"))
            self.update_state(lambda state: {**state, f"key{step}": "state-secret"})  # noqa: B023
            yield "in the clear", "also"


def _order(account: str) -> str:
    return f"result-secret for {account}"


async def run(path: Path, until: int = 2, key: bytes | None = KEY) -> Any:
    async with Orchestrator(SqliteStore(path, key=key)) as orchestrator:
        handle = orchestrator.start(Trading(until), name="trader")
        for _ in range(handle.current_step, until):
            answered: set[str] = set()
            with trio.move_on_after(5):
                while handle.outcome is None:
                    for asked in orchestrator.store.approvals():
                        if asked.id not in answered:
                            answered.add(asked.id)
                            await orchestrator.approve(asked.id, by="ann")
                    await trio.sleep(0.02)
        return await handle.wait()


def stored(path: Path) -> bytes:
    """Return all bytes of the store and of what lies beside it."""
    return b"".join(file.read_bytes() for file in path.parent.iterdir() if file.name.startswith(path.name))


async def test_an_encrypted_store_holds_no_state_argument_or_result_in_the_clear(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    assert (await run(path)).step == 2
    found = stored(path)
    assert [secret for secret in SECRETS if secret in found] == []
    assert b"in the clear" in found
    plain = tmp_path / "plain.db"
    await run(plain, key=None)
    assert all(secret in stored(plain) for secret in SECRETS)


async def test_with_the_key_a_run_is_resumed_and_everything_read(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    await run(path)
    assert (await run(path, 4)).step == 4
    with closing(SqliteReader(path, key=KEY)) as reader:
        assert "state-secret" in reader.state_at("trader", 3)
        assert "key4" in str(reader.steps("trader")[-1].state_delta.modified)
        effects = reader.effects("trader")
        assert [effect.arguments for effect in effects] == [["argument-secret"]] * 4
        assert effects[0].result == "result-secret for argument-secret"
        assert len(reader.approvals()) == 4


async def test_without_the_key_nothing_is_run_and_states_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    await run(path)
    for key in (None, OTHER):
        with pytest.raises(StoreUnusable, match=r"expected its key|expected the key"):
            SqliteStore(path, key=key)
        with closing(SqliteReader(path, key=key)) as reader, pytest.raises(StoreUnusable, match="encrypted"):
            reader.state_at("trader", 1)
    with closing(SqliteReader(path)) as reader:
        assert [step.output for step in reader.steps("trader")] == ["also", "also"]
        assert reader.effects("trader")[0].arguments.startswith("encrypted:v1:")


async def test_seals_are_proven_without_the_key(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    await run(path)
    assert prove(path, path.with_name("run.db-head").read_text()).findings == []


async def test_states_are_derived_anew_with_the_key_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.db"
    await run(path)
    head = path.with_name("run.db-head").read_text()
    without = prove(path, head, deep=True)
    assert (without.findings, "without the key" in str(without.notices)) == ([], True)
    for key, found in ((KEY, 0), (OTHER, 1)):
        (tmp_path / "key").write_text(key.hex())
        monkeypatch.setenv(KEY_FILE, str(tmp_path / "key"))
        assert len(prove(path, head, deep=True).findings) == found


async def test_a_fork_into_another_store_is_encrypted_with_the_key_of_that_one(tmp_path: Path) -> None:
    path, other = tmp_path / "run.db", tmp_path / "other.db"
    await run(path)
    with closing(SqliteReader(path, key=KEY)) as source, closing(SqliteStore(other, key=OTHER)) as into:
        fork(source, "trader", 2, to="again", into=into)
        assert into.state_at("again", 2) == source.state_at("trader", 2)
    assert b"state-secret" not in stored(other)


async def test_a_store_that_got_its_key_later_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    await run(path, key=None)
    assert (await run(path, 4)).step == 4
    with closing(SqliteReader(path)) as reader:
        results = [effect.result[:13] for effect in reader.effects()]
        assert results == ["result-secret", "result-secret", "encrypted:v1:", "encrypted:v1:"]
    with closing(SqliteReader(path, key=KEY)) as reader:
        assert {effect.result for effect in reader.effects()} == {"result-secret for argument-secret"}


async def test_another_key_is_refused_also_if_the_harnesses_are_older_than_the_first(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    await run(path, key=None)
    await run(path, 4)

    with pytest.raises(StoreUnusable, match="cannot be decrypted"):
        SqliteStore(path, key=OTHER)


async def test_nothing_can_be_recorded_that_looks_as_if_it_were_encrypted(tmp_path: Path) -> None:
    class Forging(BaseHarness[int, str, str]):
        async def execute(self) -> AsyncIterator[tuple[str, str]]:
            with pytest.raises(Unstorable, match="does not begin with 'encrypted:v1:'"):
                await self.approval("k", Action("order", "buy", "encrypted:v1:hello"))
            with pytest.raises(UnknownOutcome, match="does not begin with 'encrypted:v1:'"):
                await self.once("act", lambda: "encrypted:v1:hello")
            yield "never", "made"

    async with Orchestrator(tmp_path / "run.db") as orchestrator:
        assert (await orchestrator.start(Forging(0), name="forger").wait()).ok

    with closing(SqliteReader(tmp_path / "run.db", key=KEY)) as reader:
        assert reader.approvals() == []
        assert [effect.result for effect in reader.effects()] == [None]


def test_the_file_of_a_key_is_concealed_and_a_key_given_as_text_is_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(KEY.hex())
    SqliteStore(tmp_path / "run.db", key=file).close()

    assert "key" in concealed_names()[os.path.realpath(tmp_path)]
    with pytest.raises(UsageError, match=r"the key file that key= names cannot be read: .*bytes.fromhex") as caught:
        SqliteStore(tmp_path / "other.db", key=KEY.hex())
    assert KEY.hex() not in str(caught.value)


def test_the_key_may_be_in_a_file_that_the_environment_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "key"
    file.write_text(KEY.hex())
    monkeypatch.setenv(KEY_FILE, str(file))
    with closing(SqliteStore(tmp_path / "run.db")) as store:
        assert store._cipher.reveal("state", store._cipher.hide("state", "1")) == "1"


@pytest.mark.parametrize("text", ["", "00", "no digits", "é" * 64])
def test_a_file_without_a_key_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "key"
    file.write_text(text)
    with pytest.raises(UsageError, match="64 hexadecimal digits"):
        SqliteStore(tmp_path / "run.db", key=file)
    with pytest.raises(UsageError, match="expected 32 bytes"):
        SqliteStore(tmp_path / "run.db", key=os.urandom(16))
