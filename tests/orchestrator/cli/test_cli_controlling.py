"""The verbs that reach a running program, each in a process of its own."""

from __future__ import annotations

import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from orchestrator.control.socket_places import sockets
from tests.orchestrator.commanding import Command, ended, harnesses, heads, wait_until


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    with Command(tmp_path) as command:
        yield command


def numbers(text: str) -> dict[tuple[str, ...], float]:
    """Return each number by its name and the values of its labels."""
    families = text_string_to_metric_families(text)
    return {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}


def started(command: Command, *names: str, top: str = "") -> subprocess.Popen[str]:
    """Start a run and wait until each harness has recorded a step."""
    process = command.start("run", command.run_file(*names, top=top))
    wait_until(lambda: len(found := heads(command.folder / "run.db")) == len(names) and all(found.values()))
    wait_until(lambda: sockets(command.folder / "run.db"))
    return process


def statuses(command: Command) -> dict[str, str]:
    return {one.name: one.status for one in harnesses(command.folder / "run.db")}


def test_a_harness_is_paused_resumed_and_stopped_from_outside(command: Command) -> None:
    process = started(command, "Ticking")

    paused, again, shown = command.each(["pause", "ticking"], ["pause", "ticking"], ["status", "--json"])
    resumed, stopped = command.each(["resume", "ticking", "--json"], ["stop", "ticking"])

    done = ended(process)
    assert [one.code for one in (paused, again, resumed, stopped)] == [0, 0, 0, 0]
    assert paused.err.startswith("ticking is paused after step ")
    assert shown.objects[0]["status"] == "paused"
    assert (resumed.objects[0]["status"], resumed.objects[0]["done"]) == ("running", True)
    assert stopped.err == f"ticking is stopped at step {heads(command.folder / 'run.db')['ticking']}\n"
    assert (done.code, statuses(command)) == (3, {"ticking": "stopped"})


def test_the_metrics_of_a_run_are_those_of_its_program_and_then_of_its_store(command: Command) -> None:
    process = started(command, "Ticking")

    live, as_json, _ = command.each(["metrics"], ["metrics", "--json"], ["stop", "ticking"])
    ended(process)
    dead = command("metrics")

    of_live, of_dead = numbers(live.out), numbers(dead.out)
    last = heads(command.folder / "run.db")["ticking"]
    assert 0 < of_live["orchestrator_steps_total", "ticking"] <= last
    assert of_live["orchestrator_commit_seconds_count",] > 0
    assert of_live["orchestrator_status", "ticking", "running"] == 1
    assert of_dead["orchestrator_steps_total", "ticking"] == of_dead["orchestrator_harness_step", "ticking"] == last
    assert ("orchestrator_commit_seconds_count",) not in of_dead
    assert dead.err == "no program runs on run.db: this is what its records tell\n"
    assert {"name", "labels", "value", "type"} == set(as_json.objects[0])


def test_the_time_limits_of_a_running_harness_are_set_and_hold_over_a_restart_of_the_program(command: Command) -> None:
    process = started(command, "Ticking")

    first, shown, wrong, other, unit, unreal = command.each(
        ["limits", "set", "ticking", "step_timeout=30", "period_s=1.5m", "--by", "ann", "--reason", "slow", "--json"],
        ["limits", "ticking"],
        ["limits", "set", "ticking", "grace_s=3"],
        ["limits", "set", "ticking", "period_s=none"],
        ["limits", "set", "ticking", "deadline_s=soon"],
        ["limits", "set", "ticking", "step_timeout_s=nan"],
    )
    command("stop", "ticking")
    ended(process)
    dead = command("limits", "set", "ticking", "step_timeout=10")
    process = started(command, "Ticking")
    again, _ = command.each(["limits", "ticking", "--json"], ["stop", "ticking"])
    ended(process)

    in_force = {"step_timeout_s": 30.0, "deadline_s": None, "period_s": 90.0}
    assert (first.code, first.objects[0]["limits"], first.objects[0]["changed"]) == (0, in_force, True)
    assert shown.out.splitlines() == ["step_timeout_s  30 s", "deadline_s      none", "period_s        90 s"]
    assert [one.code for one in (wrong, other, unit, unreal)] == [2, 2, 2, 2]
    assert "expected step_timeout_s, deadline_s or period_s" in wrong.err
    assert "to hold it, pause the harness" in other.err
    assert (dead.code, "did not get the order to set limits" in dead.err) == (1, True)
    assert again.objects[0]["limits"] == in_force
    (record,) = [one for one in command("logs", "--json").objects if one["event"] == "harness.limits_set"]
    assert record["message"] == "ticking: step_timeout_s none -> 30 s, period_s 0.02 s -> 90 s, by ann: slow"


def test_who_does_not_run_is_told_so(command: Command) -> None:
    command.run_file("Three")
    command("run", "run.toml", "--quiet")

    pause, stop, unknown, wrong, missing, several = command.each(
        ["pause", "three"],
        ["stop", "three"],
        ["pause", "nobody"],
        ["stop", "a/b"],
        ["metrics", "--store", "none.db"],
        ["stop", "thre", "three", "thre", "--json"],
    )

    assert (several.code, [one["harness"] for one in several.objects]) == (2, ["thre", "three"])
    assert "did you mean 'three'?" in several.objects[0]["error"]
    assert several.objects[1]["status"] == "completed"
    assert several.err.splitlines()[1] == "no program runs on run.db: three is completed at step 3 already"

    assert [one.code for one in (pause, stop, unknown, wrong, missing)] == [1, 0, 2, 2, 2]
    assert "no program runs on run.db, so 'three' (completed) did not get the order to pause" in pause.err
    assert stop.err == "no program runs on run.db: three is completed at step 3 already\n"
    assert "expected one of three" in unknown.err
    assert all(one.err.count("\n") == 1 for one in (pause, unknown, wrong, missing))


def test_the_socket_of_a_killed_program_is_replaced_and_that_of_a_living_one_is_not(command: Command) -> None:
    store = command.folder / "run.db"
    first = started(command, "Ticking")
    (left,) = sockets(store)
    first.kill()
    first.wait()
    assert sockets(store) == [left]
    dead = command("pause", "ticking")

    second = started(command, "Ticking")
    wait_until(lambda: left not in sockets(store))
    (living,) = sockets(store)
    third = command.start("run", command.run_file("Three", name="other.toml"), "--store", "run.db")
    assert (dead.code, ended(third).code) == (1, 0)

    assert sockets(store) == [living]
    assert stat.S_IMODE(living.stat().st_mode) == 0o600
    assert command("stop", "ticking").code == 0
    assert ended(second).code == 3
    assert sockets(store) == []


def test_each_of_two_programs_on_a_store_has_its_own_socket(command: Command) -> None:
    one = started(command, "Ticking")
    file = command.run_file("Acting", name="other.toml").read_text().replace("commanded", "operated")
    other = command.start("run", command.write("other.toml", file), "--store", "run.db")
    wait_until(lambda: len(sockets(command.folder / "run.db")) == 2 and heads(command.folder / "run.db").get("acting"))

    stops = command.each(["stop", "acting"], ["stop", "ticking"])

    assert [stop.code for stop in stops] == [0, 0]
    assert (ended(one).code, ended(other).code) == (3, 3)


def test_a_store_in_a_long_folder_has_a_socket_all_the_same(command: Command) -> None:
    folder = command.folder / ("long" * 30) / ("longer" * 20)
    folder.mkdir(parents=True)
    store = folder / f"{'s' * 100}.db"
    process = command.start("run", command.run_file("Ticking"), "--store", store)
    wait_until(lambda: heads(store).get("ticking"))

    stopped = command("stop", "ticking", "--store", store)

    assert (stopped.code, ended(process).code) == (0, 3)


def test_a_run_that_has_no_control_is_told_apart_from_one_that_is_gone(command: Command) -> None:
    process = command.start("run", command.run_file("Ticking", top="control = false"))
    wait_until(lambda: heads(command.folder / "run.db").get("ticking"))

    refused = command("stop", "ticking")

    assert sockets(command.folder / "run.db") == []
    assert refused.code == 1
    assert "its program takes no orders" in refused.err
    process.terminate()
    assert ended(process).code == 143


@pytest.mark.parametrize("word", ["here", "127.0.0.1:", ":9464", "::1:9464", "localhost:70000", "localhost:-1"])
def test_an_address_that_is_none_is_a_mistake_of_one_line(command: Command, word: str) -> None:
    command.run_file("Three")

    done = command("run", "run.toml", f"--metrics={word}")

    assert done.code == 2
    assert "expected HOST:PORT or PORT" in done.err
    assert done.err.count("\n") <= 2
