"""A key comes from the environment, a file or the program; it can expire and be replaced, and is shown nowhere."""

from __future__ import annotations

import copy
import os
import pickle
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from harnesses import BaseHarness
from harnesses.agents import ModelAgent
from harnesses.agents.model.errors import AuthenticationFailed
from harnesses.agents.model.providers.anthropic_provider import AnthropicProvider
from harnesses.agents.model.providers.credentials import Credential
from harnesses.agents.sandbox import environment_within
from harnesses.errors import HarnessMisuse, NotReady
from harnesses.files.private_files import concealed_names
from harnesses.redaction import redact, redact_text
from orchestrator import Orchestrator
from orchestrator.outcome import OutcomeKind
from tests.harnesses.agents.model.provider_dialects import REQUEST
from tests.model_server import ModelServer

KEY, OTHER = "plain words of a key", "other words of a key"
"""Nothing about them tells that they are secrets."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "my.key"
    path.write_text(f"{KEY}\n")
    path.chmod(0o600)
    return path


def test_a_key_is_read_from_the_environment_and_follows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    key = Credential.of("MY_API_KEY")
    monkeypatch.setenv("MY_API_KEY", KEY)
    assert key.reveal() == KEY
    before = key.digest
    monkeypatch.setenv("MY_API_KEY", OTHER)
    assert key.reveal() == OTHER
    assert key.digest != before


def test_a_key_is_read_from_the_file_that_the_environment_names(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    monkeypatch.setenv("MY_API_KEY_FILE", str(file))

    assert Credential.of("MY_API_KEY").reveal() == KEY


def test_a_key_file_that_is_replaced_is_read_anew_and_hidden_from_sandboxes(file: Path) -> None:
    key = Credential.in_file(file)
    assert key.reveal() == KEY
    draft = file.with_name("draft")
    draft.write_text(OTHER)
    draft.chmod(0o600)
    draft.rename(file)

    assert key.reveal() == OTHER
    assert "my.key" in concealed_names()[os.path.realpath(file.parent)]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_key_file_that_others_can_read_is_refused(file: Path, mode: int) -> None:
    file.chmod(mode)

    with pytest.raises(AuthenticationFailed, match=f"expected mode 0600, got {mode:04o}; run `chmod 600"):
        Credential.in_file(file).reveal()


@pytest.mark.parametrize("name", ["none", "."])
def test_a_key_file_that_cannot_be_read_says_so(tmp_path: Path, name: str) -> None:
    tmp_path.chmod(0o700)

    with pytest.raises(AuthenticationFailed, match="cannot be read: expected a file with a key"):
        Credential.in_file(tmp_path / name).reveal()


def test_a_missing_key_blocks_the_harness_and_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_API_KEY", raising=False)

    with pytest.raises(NotReady, match="expected the environment variable MY_API_KEY or MY_API_KEY_FILE, got none"):
        Credential.of("MY_API_KEY").reveal()
    assert not Credential.of("MY_API_KEY").is_set


def test_a_key_expires_and_can_be_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    key = Credential(KEY, ttl_s=60)
    later = time.monotonic() + 61
    monkeypatch.setattr(time, "monotonic", lambda: later)
    with pytest.raises(AuthenticationFailed, match="has expired"):
        key.reveal()
    key.rotate(OTHER, ttl_s=60)

    assert key.reveal() == OTHER


@pytest.mark.parametrize("value", ["", "  ", "two\nlines", "schlüssel-mit-umlaut"])
def test_a_key_that_cannot_be_one_is_refused_without_being_shown(value: str) -> None:
    with pytest.raises(HarnessMisuse) as caught:
        Credential(value)
    assert not value.strip() or value not in str(caught.value)


@pytest.mark.parametrize("ttl_s", [0, -1, float("nan")])
def test_a_time_to_live_is_above_zero(ttl_s: float) -> None:
    with pytest.raises(HarnessMisuse, match="ttl_s: expected seconds above 0"):
        Credential(KEY, ttl_s=ttl_s)


def test_a_key_from_outside_is_replaced_outside(file: Path) -> None:
    with pytest.raises(HarnessMisuse, match="change it there"):
        Credential.in_file(file).rotate(OTHER)


def test_a_key_is_shown_nowhere_and_redacted_everywhere() -> None:
    key = Credential(KEY)
    provider = AnthropicProvider(key=key, base_url="http://127.0.0.1:9")

    assert KEY not in f"{key!r} {key} {provider!r} {provider.account} {vars(provider)}"
    for spread in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be pickled or copied"):
            spread(key)
    assert redact_text(f"I found {KEY} in a file") == "I found [REDACTED] in a file"
    assert redact({"note": [f"<{KEY}>"]}) == {"note": ["<[REDACTED]>"]}


async def test_the_key_is_in_no_error(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        await AnthropicProvider(key=Credential(KEY), base_url="http://127.0.0.1:9").complete(REQUEST)

    error: BaseException | None = caught.value
    while error is not None:
        assert KEY not in f"{error} {error!r}"
        error = error.__cause__ or error.__context__
    assert KEY not in caplog.text


def test_the_key_is_in_no_environment_of_a_command_whatever_its_variable_is_called() -> None:
    Credential(KEY)

    assert environment_within({"GREETING": KEY, "ANTHROPIC_API_KEY": "sk-ant-x", "LANG": "C"}) == {"LANG": "C"}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class Telling(BaseHarness[int, str, str]):
    """Asks a model, and tells what it said."""

    def __init__(self, agent: ModelAgent) -> None:
        super().__init__(0)
        self.agent = agent

    async def execute(self) -> AsyncIterator[tuple[str, str]]:
        said = await self.run_agent(self.agent, "hello")
        self.log(said)
        yield "hello", said


async def test_a_key_that_a_model_repeats_is_in_no_record_of_the_run(
    model_server: ModelServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    model_server.answers("hello", f"Your key is {KEY}, and I tell it to everybody.")
    agent = ModelAgent("anthropic:some-model", base_url=model_server.anthropic_url)
    with (tmp_path / "run.log").open("w") as log:
        async with Orchestrator(tmp_path / "run.db", log=log, handle_signals=False) as orchestrator:
            outcome = await orchestrator.start(Telling(agent), name="telling").wait()

    assert outcome.kind is OutcomeKind.FINISHED
    written = contents(tmp_path)
    assert b"tell it to everybody" in b"".join(written.values())
    assert [name for name, content in written.items() if KEY.encode() in content] == []
