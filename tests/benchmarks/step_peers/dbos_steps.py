"""The work with DBOS: a workflow for each, in DBOS's own threads; each step is recorded when it is done.

It is on SQLite, or on the server that `DBOS_URL` names.
"""

import os
from typing import Any

from dbos import DBOS
from given_work import FIRST_STATE, change, given, tell

URL = os.environ.get("DBOS_URL", "sqlite:///run.db")
DBOS(config={"name": "steps", "system_database_url": URL, "run_admin_server": False, "log_level": "ERROR"})


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
