"""How often noise is called a difference: `python -m tests.orchestrator.analysis.noise --times 2000`."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from random import Random

from orchestrator.analysis.answers.statistics import LEVEL, batches
from orchestrator.analysis.questions.compare_findings import Finding, between, between_lots, judged_together
from orchestrator.analysis.questions.compare_sides import Books, Side, Standing


def side(random: Random, *, better: float = 1.0) -> Side:
    """Return a harness whose every figure is drawn from one distribution."""
    figures: dict[str, list[float]] = {
        name: [random.lognormvariate(0, 1) / better for _ in range(600)] for name in ("work_s", "commit_s")
    }
    won = [random.random() < 0.5 * better for _ in range(30)]
    return Side(
        "h",
        "completed",
        1,
        600,
        failures=sum(random.random() < 0.02 / better for _ in range(600)),
        means={name: sum(values) / len(values) for name, values in figures.items()},
        batches={name: batches(values) for name, values in figures.items()},
        features={str(at): Standing(passed, random.randint(1, 3) if passed else None, 0) for at, passed in enumerate(won)},
        tries={"try_tokens": [random.lognormvariate(7, 1) / better for _ in range(40)]},
        books=Books(0.1, 0.1, {str(day): random.gauss((better - 1) * 0.01, 0.01) for day in range(200)}),
    )


def false_alarms(seeds: Iterable[int], seeds_of_lots: Iterable[int]) -> tuple[int, int]:
    """Return how many whole answers call noise a difference: of two harnesses, and of two lots of five each."""
    alarms = sum(_is_alarm(list(between(side(random), side(random)))) for random in map(Random, seeds))
    lots = sum(
        _is_alarm(list(between_lots("h*", [side(random) for _ in range(5)], [side(random) for _ in range(5)])))
        for random in map(Random, seeds_of_lots)
    )
    return alarms, lots


def _is_alarm(found: Sequence[Finding]) -> bool:
    return any(one.verdict in ("better", "worse") for one in judged_together(found))


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.orchestrator.analysis.noise", description=__doc__)
    parser.add_argument("--times", type=int, default=2000)
    times: int = parser.parse_args().times
    lots_of = max(1, times // 5)
    alarms, lots = false_alarms(range(times), range(lots_of))
    print(f"of {times} answers {alarms / times:.1%} call noise a difference; the level is {LEVEL:.0%}")
    print(f"of {lots_of} answers about lots {lots / lots_of:.1%}")


if __name__ == "__main__":
    main()
