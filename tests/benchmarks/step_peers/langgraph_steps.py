"""The work with LangGraph: a thread of one graph for each, with a checkpoint after each node. They take turns."""

import sqlite3
from typing import Any, TypedDict

from given_work import FIRST_STATE, change, given, tell
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph


class Position(TypedDict):
    number: int
    count: int
    price: str
    cash: str
    note: str
    symbol: str
    venue: str
    tokens: int
    limit: int
    is_open: bool
    label: str
    taken: dict[str, Any]
    put: dict[str, Any]


def step(state: Position) -> dict[str, Any]:
    changed, taken, put = change(WORK[state["number"]][state["count"]], dict(state))
    return {**changed, "taken": taken, "put": put}


def following(state: Position) -> str:
    return "step" if state["count"] < len(WORK[state["number"]]) else END


def main() -> None:
    connection = sqlite3.connect("run.db", check_same_thread=False)
    connection.execute("PRAGMA synchronous=FULL")
    graph = StateGraph(Position)
    graph.add_node("step", step)
    graph.add_edge(START, "step")
    graph.add_conditional_edges("step", following)
    app = graph.compile(checkpointer=SqliteSaver(connection))
    running = [
        app.stream(
            {**FIRST_STATE, "number": number},
            {"configurable": {"thread_id": f"h{number}"}, "recursion_limit": len(turns) + 5},
            stream_mode="updates",
            durability="sync",
        )
        for number, turns in enumerate(WORK)
    ]
    while running:
        running = [stream for stream in running if next(stream, None) is not None]
    connection.close()


WORK = given()
tell(main)
