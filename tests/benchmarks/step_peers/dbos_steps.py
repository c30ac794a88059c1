"""The work with DBOS on SQLite: a workflow for each, in DBOS's own threads; each step is recorded when it is done."""

from typing import Any

from dbos import DBOS
from given_work import FIRST_STATE, change, given, tell

DBOS(config={"name": "steps", "system_database_url": "sqlite:///run.db", "run_admin_server": False, "log_level": "ERROR"})


@DBOS.step()
def step(number: int, state: dict[str, Any]) -> dict[str, Any]:
    changed, taken, put = change(WORK[number][state["count"]], state)
    return {**changed, "taken": taken, "put": put}


@DBOS.workflow()
def work(number: int) -> None:
    state = dict(FIRST_STATE)
    for _ in WORK[number]:
        state.update(step(number, state))


def main() -> None:
    DBOS.launch()
    for handle in [DBOS.start_workflow(work, number) for number in range(len(WORK))]:
        handle.get_result()


WORK = given()
tell(main)
DBOS.destroy()
