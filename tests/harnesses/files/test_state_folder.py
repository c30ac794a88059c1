"""The folder of an earlier version is used where there is one, so that no workspace and no history is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from harnesses.files.state_folder import state_folder


def test_a_new_user_gets_a_folder_named_after_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    assert state_folder() == tmp_path / "durable-harnesses"


def test_the_folder_of_an_earlier_version_is_still_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "harness-orchestrator").mkdir()

    assert state_folder() == tmp_path / "harness-orchestrator"


def test_a_relative_path_in_the_environment_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "state")

    assert state_folder() == Path.home() / ".local" / "state" / "durable-harnesses"
