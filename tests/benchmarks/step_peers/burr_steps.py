"""The work with Burr: an application for each, whose persister saves the state after each action. They take turns."""

from typing import Any

from burr.core import ApplicationBuilder, State, action
from burr.core.persistence import SQLitePersister
from given_work import FIRST_STATE, change, given, tell


def application(number: int, turns: list[list[Any]], persister: SQLitePersister) -> Any:
    @action(reads=["count", "tokens"], writes=["count", "price", "cash", "note", "tokens", "taken", "put"])
    def step(state: State) -> State:
        changed, taken, put = change(turns[state["count"]], state)
        return state.update(**changed, taken=taken, put=put)

    return (
        ApplicationBuilder()
        .with_actions(step)
        .with_transitions(("step", "step"))
        .with_entrypoint("step")
        .with_state(**FIRST_STATE)
        .with_identifiers(app_id=f"h{number}")
        .with_state_persister(persister)
        .build()
    )


def main() -> None:
    persister = SQLitePersister("run.db")
    persister.connection.execute("PRAGMA journal_mode=WAL")
    persister.connection.execute("PRAGMA synchronous=FULL")
    persister.initialize()
    running = [(application(number, turns, persister), len(turns)) for number, turns in enumerate(WORK)]
    for number in range(max(steps for _, steps in running)):
        for app, steps in running:
            if number < steps:
                app.step()
    persister.connection.close()


WORK = given()
tell(main)
