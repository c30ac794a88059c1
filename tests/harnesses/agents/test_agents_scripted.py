"""A scripted agent does what is written down, try by try, and nothing elsewhere."""

from __future__ import annotations

import json

import pytest
import trio

from harnesses.agents import ScriptedAgent, ScriptedAttempt, read_attempts, recording
from harnesses.errors import HarnessMisuse
from tests.harnesses.agents.turns import assigned, take_turn


def saying(*messages: str) -> list[ScriptedAttempt]:
    return [ScriptedAttempt(message=message) for message in messages]


@pytest.mark.parametrize(("turn", "message"), [(1, "one"), (2, "two"), (3, "two"), (9, "two")])
async def test_every_try_has_its_attempt_and_the_last_one_repeats(turn, message):
    agent = ScriptedAgent({"sign-in": saying("one", "two")})

    result = await take_turn(agent, assigned(None, turn=turn))

    assert result.message == message


async def test_files_are_written_replaced_and_deleted(tmp_path):
    (tmp_path / "old.py").write_text("old")
    agent = ScriptedAgent(
        {"sign-in": ScriptedAttempt(files={"a/b.py": "x = 1\r\n", "old.py": None, "c.bin": b"\xff", "no": None})}
    )

    await take_turn(agent, assigned(tmp_path))

    found = {path.relative_to(tmp_path).as_posix(): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {"a/b.py": b"x = 1\r\n", "c.bin": b"\xff"}


@pytest.mark.parametrize("path", ["../out.py", "/out.py", "a/../../out.py", "link/out.py", "linked.py", ".", ""])
async def test_a_path_that_leads_out_of_the_directory_is_refused_before_anything_is_written(tmp_path, path):
    place = tmp_path / "work"
    place.mkdir()
    (tmp_path / "there").write_text("kept")
    (place / "link").symlink_to(tmp_path)
    (place / "linked.py").symlink_to(tmp_path / "there")
    agent = ScriptedAgent({"sign-in": ScriptedAttempt(files={"good.py": "x", path: "x"})})

    with pytest.raises(HarnessMisuse, match="expected a path below"):
        await take_turn(agent, assigned(place))

    assert not (place / "good.py").exists()
    assert (tmp_path / "there").read_text() == "kept"
    assert not (tmp_path / "out.py").exists()


async def test_what_is_handed_in_is_what_is_written_down(autojump_clock):
    attempt = ScriptedAttempt(message="done", artifact="x = 1", tokens=7, session="s-1", says=("one", "two"), pause_s=60)
    log: list[str] = []
    began = trio.current_time()

    result = await take_turn(ScriptedAgent({"sign-in": attempt}), assigned(None), log)

    assert (result.message, result.artifact, result.tokens, result.session) == ("done", "x = 1", 7, "s-1")
    assert log == ["one", "two"]
    assert trio.current_time() - began == pytest.approx(60)


async def test_an_attempt_may_do_whatever_else_and_then_fail(tmp_path):
    seen: list[str | None] = []

    async def look(assignment):
        seen.append(assignment.directory)

    agent = ScriptedAgent({"sign-in": ScriptedAttempt(run=look, raises=ConnectionError("the model is gone"))})

    with pytest.raises(ConnectionError, match="the model is gone"):
        await take_turn(agent, assigned(tmp_path))

    assert seen == [str(tmp_path)]


async def test_a_feature_that_nobody_wrote_attempts_for_is_an_error_unless_there_is_one_for_all_others():
    with pytest.raises(HarnessMisuse, match="'sign-in' has no attempts"):
        await take_turn(ScriptedAgent({"other": saying("x")}), assigned(None))

    rest = ScriptedAgent({}, otherwise=ScriptedAttempt(message="rest"))
    assert (await take_turn(rest, assigned(None))).message == "rest"


async def test_files_need_a_directory():
    agent = ScriptedAgent({"sign-in": ScriptedAttempt(files={"a": "b"})})

    with pytest.raises(HarnessMisuse, match="expected an assignment with a directory"):
        await take_turn(agent, assigned(None))


def test_no_attempts_at_all_are_refused():
    with pytest.raises(HarnessMisuse, match="expected at least one"):
        ScriptedAgent({"sign-in": []})


TOML = """
[["sign-in"]]
raises = "not today"

[["sign-in"]]
message = "done"
tokens = 5
deletes = ["old.py"]
files."app.py" = "x = 1\\n"
"""


async def test_attempts_are_read_from_toml(tmp_path):
    (tmp_path / "attempts.toml").write_text(TOML)

    first, second = read_attempts(tmp_path / "attempts.toml")["sign-in"]

    assert str(first.raises) == "not today"
    assert (second.message, second.tokens, dict(second.files)) == ("done", 5, {"app.py": "x = 1\n", "old.py": None})


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.json", "{", "Expecting property name"),
        ("a.json", '{"x": [{"message": 1}]}', r"Expected `str`, got `int` - at `\$\[...\]\[0\].message`"),
        ("a.json", '{"x": [{"massage": "y"}]}', "massage"),
        ("a.toml", "=", "Invalid statement"),
        ("a.yaml", "x", "expected a name that ends with .json or .toml, was 'a.yaml'"),
    ],
)
async def test_a_file_that_is_not_understood_is_told_where(tmp_path, name, text, says):
    (tmp_path / name).write_text(text)

    with pytest.raises(HarnessMisuse, match=says):
        read_attempts(tmp_path / name)


async def test_what_an_agent_does_can_be_recorded_and_played_again(tmp_path):
    tape, once, again = tmp_path / "tape.json", tmp_path / "once", tmp_path / "again"
    for place in (once, again):
        place.mkdir()
        (place / "old.py").write_text("old")
    said = ScriptedAttempt(files={"a/b.py": "x", "old.py": None}, message="done", tokens=3)
    agent = recording(ScriptedAgent({"sign-in": [ScriptedAttempt(raises=ValueError("no")), said]}), tape)

    with pytest.raises(ValueError, match="no"):
        await take_turn(agent, assigned(once))
    await take_turn(agent, assigned(once, turn=2))
    result = await take_turn(ScriptedAgent(read_attempts(tape)), assigned(again, turn=2))

    assert (result.message, result.tokens) == ("done", 3)
    assert [path.relative_to(again).as_posix() for path in again.rglob("*.py")] == ["a/b.py"]
    assert json.loads(tape.read_text())["sign-in"][0] == {"raises": "ValueError: no"}


async def test_a_try_that_is_cut_off_is_made_again_in_the_same_way(autojump_clock, tmp_path):
    agent = ScriptedAgent({"sign-in": ScriptedAttempt(pause_s=60, files={"a": "b"}, message="done")})

    with trio.move_on_after(10) as cut:
        await take_turn(agent, assigned(tmp_path))
    result = await take_turn(agent, assigned(tmp_path))

    assert cut.cancelled_caught
    assert (result.message, (tmp_path / "a").read_text()) == ("done", "b")
