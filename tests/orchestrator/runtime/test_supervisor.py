"""Laws of `supervisor.decide_exit`: who is started again, who ends, and how far up the tree a crash goes."""

from __future__ import annotations

import pytest
from attrs import define

from orchestrator.restart import Intensity, Restart, Strategy
from orchestrator.runtime.supervisor import ExitAction, ExitDecision, Node, Supervisor, count_restarts, decide_exit


@define(eq=False)
class Leaf:
    """A harness, as its supervisor sees it."""

    name: str
    parent: Supervisor
    restart: Restart = Restart.TRANSIENT
    restarts: tuple[float, ...] = ()


@define
class Tree:
    """
    root ─┬─ a
          ├─ inner ─┬─ b
          │         ├─ deep ─── c
          │         └─ d
          └─ z
    """

    root: Supervisor
    nodes: dict[str, Node]

    def crash(self, name: str, now: float, *, crashed: bool = True) -> tuple[str, str]:
        decision = decide_exit(self.nodes[name], crashed=crashed, now=now)
        count_restarts(decision)
        return decision.action.value, names(decision)


def names(decision: ExitDecision) -> str:
    return "".join(leaf.name for leaf in decision.harnesses)


def tree(
    strategy: Strategy = Strategy.ONE_FOR_ONE,
    *,
    inner: Strategy = Strategy.ONE_FOR_ONE,
    root_restarts: int = 5,
    inner_restarts: int = 1,
    deep_restarts: int = 1,
    inner_restart: Restart = Restart.TRANSIENT,
) -> Tree:
    root = Supervisor("root", strategy=strategy, intensity=Intensity(root_restarts, 100))
    middle = Supervisor("inner", strategy=inner, intensity=Intensity(inner_restarts, 100), restart=inner_restart, parent=root)
    deep = Supervisor("deep", intensity=Intensity(deep_restarts, 100), parent=middle)
    made = Tree(root, {"inner": middle, "deep": deep})
    for name, parent in (("a", root), ("b", middle), ("c", deep), ("d", middle), ("z", root)):
        made.nodes[name] = Leaf(name, parent)
    root.children = [made.nodes["a"], middle, made.nodes["z"]]
    middle.children = [made.nodes["b"], deep, made.nodes["d"]]
    deep.children = [made.nodes["c"]]
    return made


@pytest.mark.parametrize(
    ("strategy", "crashed", "again"),
    [
        (Strategy.ONE_FOR_ONE, "a", "a"),
        (Strategy.ONE_FOR_ONE, "z", "z"),
        (Strategy.ONE_FOR_ALL, "a", "abcdz"),
        (Strategy.ONE_FOR_ALL, "z", "abcdz"),
        (Strategy.REST_FOR_ONE, "a", "abcdz"),
        (Strategy.REST_FOR_ONE, "z", "z"),
    ],
)
def test_a_crash_concerns_whole_subtrees_in_the_order_of_their_start(strategy: Strategy, crashed: str, again: str) -> None:
    assert tree(strategy).crash(crashed, 0.0) == ("restart", again)


@pytest.mark.parametrize(
    ("strategy", "again"),
    [(Strategy.ONE_FOR_ONE, "b"), (Strategy.ONE_FOR_ALL, "bcd"), (Strategy.REST_FOR_ONE, "bcd")],
)
def test_a_crash_below_a_supervisor_concerns_nobody_outside_it(strategy: Strategy, again: str) -> None:
    assert tree(Strategy.ONE_FOR_ALL, inner=strategy).crash("b", 0.0) == ("restart", again)


def test_a_supervisor_that_gives_up_is_started_again_as_a_whole_by_its_own() -> None:
    made = tree()

    assert [made.crash("b", now) for now in (0.0, 1.0)] == [("restart", "b"), ("restart", "bcd")]


def test_a_supervisor_that_was_started_again_counts_from_none() -> None:
    made = tree()

    decisions = [made.crash("b", float(now))[1] for now in range(6)]

    assert decisions == ["b", "bcd", "b", "bcd", "b", "bcd"]


def test_a_crash_that_is_put_up_with_nowhere_goes_all_the_way_up() -> None:
    made = tree(root_restarts=0, inner_restarts=0, deep_restarts=0)

    assert made.crash("c", 0.0) == ("give up", "bcd")


def test_a_root_that_does_not_count_each_child_ends_everything_when_it_gives_up() -> None:
    made = tree(Strategy.ONE_FOR_ALL, root_restarts=0, inner_restarts=0, deep_restarts=0)

    assert made.crash("c", 0.0) == ("give up", "abcdz")


def test_a_crash_goes_up_floor_by_floor() -> None:
    made = tree(root_restarts=1, inner_restarts=1, deep_restarts=1)

    decisions = [made.crash("c", float(now)) for now in range(8)]

    assert decisions == [("restart", again) for again in ("c", "c", "c", "bcd", "c", "c", "c")] + [("give up", "bcd")]


def test_a_temporary_supervisor_that_gives_up_ends_its_own_children_only() -> None:
    made = tree(inner_restart=Restart.TEMPORARY)

    assert [made.crash("d", now) for now in (0.0, 1.0)] == [("restart", "d"), ("give up", "bcd")]


def test_the_root_counts_each_child_by_itself_under_one_for_one() -> None:
    made = tree(root_restarts=1)

    actions = [made.crash(name, 0.0)[0] for name in ("a", "z", "a", "z")]

    assert actions == ["restart", "restart", "give up", "give up"]


@pytest.mark.parametrize("strategy", [Strategy.ONE_FOR_ALL, Strategy.REST_FOR_ONE])
def test_the_root_counts_all_children_together_otherwise(strategy: Strategy) -> None:
    made = tree(strategy, root_restarts=2)

    actions = [made.crash(name, 0.0)[0] for name in ("a", "z", "a")]

    assert actions == ["restart", "restart", "give up"]


def test_restarts_further_back_than_the_period_do_not_count() -> None:
    made = tree(root_restarts=1)

    assert [made.crash("a", now)[0] for now in (0.0, 101.0, 202.0, 203.0)] == ["restart", "restart", "restart", "give up"]


@pytest.mark.parametrize(
    ("restart", "crashed", "action"),
    [
        (Restart.PERMANENT, True, ExitAction.RESTART),
        (Restart.PERMANENT, False, ExitAction.RESTART),
        (Restart.TRANSIENT, True, ExitAction.RESTART),
        (Restart.TRANSIENT, False, ExitAction.LEAVE),
        (Restart.TEMPORARY, True, ExitAction.LEAVE),
        (Restart.TEMPORARY, False, ExitAction.LEAVE),
    ],
)
def test_a_child_is_started_again_as_its_word_says(restart: Restart, crashed: bool, action: ExitAction) -> None:
    made = tree(Strategy.ONE_FOR_ALL)
    made.nodes["a"].restart = restart

    decision = decide_exit(made.nodes["a"], crashed=crashed, now=0.0)

    assert decision.action is action
    assert names(decision) == ("abcdz" if action is ExitAction.RESTART else "")


def test_a_verdict_tells_the_restarts_that_count() -> None:
    made = tree(root_restarts=2)

    restarts: list[tuple[float, ...]] = []
    for now in (0.0, 1.0, 101.0, 102.0, 103.0):
        decision = decide_exit(made.nodes["a"], crashed=True, now=now)
        count_restarts(decision)
        restarts.append(decision.restarts)

    assert restarts == [(0.0,), (0.0, 1.0), (1.0, 101.0), (101.0, 102.0), (101.0, 102.0)]


def test_leaves_are_in_the_order_of_their_start() -> None:
    assert [leaf.name for leaf in tree().root.leaves()] == ["a", "b", "c", "d", "z"]


def test_restarts_of_an_earlier_program_are_taken_up_by_whoever_counts_them() -> None:
    each, together = tree(root_restarts=1), tree(Strategy.ONE_FOR_ALL, root_restarts=2)
    for made in (each, together):
        for name in ("a", "z"):
            leaf = made.nodes[name]
            assert isinstance(leaf, Leaf)
            made.root.recall(leaf, [0.0])

    assert each.crash("a", 1.0)[0] == "give up"
    assert [together.crash("a", now)[0] for now in (1.0, 2.0)] == ["restart", "give up"]


@pytest.mark.parametrize("name", ["a", "b", "c", "z"])
def test_a_verdict_counts_nothing_until_it_is_told_to(name: str) -> None:
    made = tree(root_restarts=1, inner_restarts=1, deep_restarts=1)
    made.crash(name, 0.0)

    first, second = (decide_exit(made.nodes[name], crashed=True, now=1.0) for _ in range(2))

    assert first == second
