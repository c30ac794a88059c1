"""A small project, built from nothing by the 15 stages of software development; only evidence counts.

    agents       scripted. The one for `07-code` first reports that all is done and tested, but has written nothing
    validator    a different agent; it gets a read-only copy, and runs the project's tests in it
    publishing   no agent may do it: the pipeline requests approval, and waits for a person in a second terminal
    at the end   the seals of the store are verified, and everything is exported as a run folder

Kill it at any moment, even with `kill -9`, and start it again: it continues where it was. With --by-hand you are the person:
run the commands that it prints in another terminal.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio

from harnesses.agent import Agent, AgentRun
from harnesses.governance import EvidencePolicy, Grade, Guardrails
from harnesses.pipeline import (
    SDLC_STAGES,
    Deed,
    Inspection,
    PipelineHarness,
    PipelineState,
    StageWork,
    each_stage,
)
from orchestrator import Orchestrator

GOAL = "A function that makes a slug of a title"
TESTS = (sys.executable, "-m", "unittest", "discover", "-s", "tests", "-t", ".")

SLUG = """\
def slug(title):
    return "-".join("".join(letter if letter.isalnum() else " " for letter in title.lower()).split())
"""
TEST_SLUG = """\
import unittest

from slug import slug


class Slugs(unittest.TestCase):
    def test_lower_case(self):
        self.assertEqual(slug("Hello"), "hello")

    def test_what_is_no_letter_becomes_one_dash(self):
        self.assertEqual(slug(" 42 is -- the answer! "), "42-is-the-answer")
"""
PUBLISH = """\
import pathlib, shutil

target = pathlib.Path("published")
target.mkdir(exist_ok=True)
print("published", shutil.copy("slug.py", target / "slug-1.0.py"))
"""

# the contents of each stage's artifact

ARTIFACTS: dict[str, Callable[[], dict[str, Any]]] = {
    "00-environment": lambda: {"run_mode": "greenfield", "python": sys.version.split()[0]},
    "01-transcript": lambda: {"transcript": "We need slugs for our titles.", "goals": [GOAL]},
    "02-requirements": lambda: {
        "requirements": [{"id": "R1", "text": "lower case"}, {"id": "R2", "text": "one dash between"}]
    },
    "03-documentation": lambda: {"documented": [{"what": "slug()", "where": "README.md"}]},
    "04-planning": lambda: {"plan": [{"step": 1, "covers": ["R1", "R2"]}]},
    "05-jira": lambda: {"tickets": [{"key": "SLUG-1", "step": 1, "title": "write slug()"}]},
    "06-architecture": lambda: {
        "components": ["slug.py"],
        "interfaces": ["slug(title) -> str"],
        "tradeoffs": ["letters of all scripts are kept: no transliteration"],
        "security_boundaries": ["the title is text, and is never executed"],
    },
    "07-code": lambda: {"files": ["slug.py", "tests/test_slug.py"], "requirements": ["R1", "R2"]},
    "08-testing": lambda: {"totals": {"total": 2, "passed": 2, "failed": 0, "skipped": 0}, "command": " ".join(TESTS[1:])},
    "09-deployment": lambda: {"what": "slug.py", "where": "published/", "undo": "remove published/slug-1.0.py"},
    "10-summary": lambda: {"done": "slug() with two tests, published", "open": "nothing"},
    "11-feedback-loop": lambda: {"keep": "tests that others run", "change": "no claim without a file"},
    "12-security-threat-model": lambda: {
        "threats": [
            {"category": "tampering", "severity": "high", "threat": "path in a slug", "mitigation": "no dots, no slashes"}
        ]
    },
    "13-compliance-checker": lambda: {"frameworks": ["house rules"], "gaps": []},
    "14-cost-estimation": lambda: {"hours": 1, "rests_on": "one function"},
}
FILES = {
    "03-documentation": {"README.md": "# slug\n\n`slug(title)` makes a slug of a title.\n"},
    "07-code": {"slug.py": SLUG, "tests/__init__.py": "# tests\n", "tests/test_slug.py": TEST_SLUG},
    "09-deployment": {"publish.py": PUBLISH},
}
DEEDS = {
    "09-deployment": [
        Deed(
            category="publish", summary="publish slug 1.0 to the directory published/", command=(sys.executable, "publish.py")
        )
    ]
}


# the agents


async def build(run: AgentRun[Any, StageWork]) -> object:
    """Do one task: write its artifact and files, and submit a contract that names them."""
    work = run.input
    stage = str(work.task.id)
    await trio.sleep(0.2)
    if stage == "07-code" and work.claim.attempt == 1:
        return json.dumps(contract(work, [], tests=["all 212 tests pass"]))
    project = Path(work.directory or ".")
    texts = {**FILES.get(stage, {}), work.artifacts[stage]: json.dumps(ARTIFACTS[stage](), indent=2)}
    for path, text in texts.items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(text, encoding="utf-8")
    run.log(f"wrote {', '.join(texts)}")
    return json.dumps(contract(work, list(texts), tests=["read what was written"]))


def contract(work: StageWork, files: list[str], *, tests: list[str]) -> dict[str, Any]:
    """Return the contract of a builder."""
    stage = str(work.task.id)
    said = f"{work.task.title}: {', '.join(files) or 'everything'} is done"
    evidence = files or ["trust me"]
    return {
        "task_id": stage,
        "agent": work.agent,
        "nonce": work.claim.nonce,
        "status": "PASS",
        "summary": said,
        "files_modified": files,
        "tests_run": tests,
        "risks": [],
        "next_steps": [],
        "memory_summary": {"work_done": said, "evidence": evidence},
        "stage_summaries": [{"stage_id": stage, "agent_id": work.agent, "work_done": said, "evidence": evidence}],
    }


async def judge(run: AgentRun[Any, Inspection]) -> object:
    """Read the artifact, and run the tests if there are any, in a read-only copy."""
    inspection = run.input
    stage = str(inspection.task.id)
    checks = [{"name": "artifact", "status": "PASS", "evidence": f"read {inspection.artifacts[stage]}"}]
    if stage in ("07-code", "08-testing"):
        seen = await inspection.project.run(TESTS, expects="^Ran 2 tests")
        checks.append({"name": "tests", "status": "PASS" if seen.good else "FAIL", "evidence": seen.tail.strip()[-300:]})
    good = all(check["status"] == "PASS" for check in checks)
    return {
        "task_id": stage,
        "validator": inspection.validator,
        "status": "PASS" if good else "FAIL",
        "checks": checks,
        "issues": [],
        "retry_recommendation": "none" if good else "retry_builder",
        "nonce": inspection.claim.nonce,
    }


# the program


def pipeline(project: Path) -> PipelineHarness:
    """Return the harness."""
    return PipelineHarness(
        SDLC_STAGES,
        each_stage(SDLC_STAGES, deeds=DEEDS),
        agents=Agent(build, name="builder"),
        validators=Agent(judge, name="validator"),
        workspace=project,
        goal=GOAL,
        run_folder="run",
        # A killed attempt counts, so allow more than the usual two.
        guardrails=Guardrails(max_task_attempts=6),
        # Evidence observed by the pipeline suffices for most stages; for code and tests it must run commands itself.
        evidence_policy=EvidencePolicy(by_stage={"07-code": Grade.RERUN, "08-testing": Grade.RERUN}),
    )


async def work(directory: Path, *, by_hand: bool) -> PipelineState:
    """Work until every stage is proven; return the state."""
    project, store = directory / "project", directory / "run.db"
    project.mkdir(parents=True, exist_ok=True)
    harness = pipeline(project)
    async with Orchestrator(store) as orchestrator, trio.open_nursery() as nursery:
        handle = orchestrator.start(harness, name="pipeline")
        nursery.start_soon(second_terminal, store, by_hand)
        nursery.start_soon(tell, handle)
        await handle.wait()
        nursery.cancel_scope.cancel()
    return harness.state


async def tell(handle: Any) -> None:
    """Print what fails, and what waits."""
    async for step in handle.steps():
        if step.output.status in ("FAIL", "BLOCKED") or "to be done" in step.output.note:
            print(f"  step {step.step_number:>2}  {step.output.note[:150]}", flush=True)


async def second_terminal(store: Path, by_hand: bool) -> None:
    """Answer approval requests with the command in a separate process, as a person would in another terminal."""
    told: set[str] = set()
    while True:
        shown = await command("approvals", "--json", "--store", str(store))
        for request in map(json.loads, shown.splitlines()):
            answer = ["approve", request["id"], "--by", "ada", "--reason", "seen the tests"]
            if request["id"] in told:
                continue
            told.add(request["id"])
            print(f"  waits for {request['category']}: {request['summary']}", flush=True)
            if by_hand:
                print(f"  in another terminal: orchestrator {' '.join(answer[:2])} --store {store}", flush=True)
            else:
                await command(*answer, "--store", str(store))
        await trio.sleep(0.3)


async def command(*arguments: str) -> str:
    """Run the `orchestrator` command in a separate process; return its output."""
    done = await trio.run_process(
        [sys.executable, "-m", "orchestrator", *arguments], capture_stdout=True, capture_stderr=True, check=False
    )
    return done.stdout.decode()


def table(state: PipelineState) -> str:
    """Return a table with one line for each task."""
    lines = [f"{'task':<26} {'status':<8} {'attempts':>8}  evidence"]
    for task in state.tasks:
        grades = [f"{grade.word} {count}" for grade in Grade if (count := sum(one.grade is grade for one in task.proof))]
        lines.append(f"{task.id!s:<26} {task.status:<8} {task.attempts:>8}  {', '.join(grades)}")
    return "\n".join(lines)


def finish(directory: Path) -> bool:
    """Verify the record, and export it as a run folder; return whether nothing was tampered with."""
    base = [sys.executable, "-m", "orchestrator"]
    store = ["--store", str(directory / "run.db")]
    folder = directory / "exported"
    verified = subprocess.run([*base, "verify", *store], capture_output=True, text=True, check=False)
    export = ["export", "pipeline", "--layout", "run-folder", "--output", str(folder)]
    exported = subprocess.run([*base, *export, *store], capture_output=True, text=True, check=False)
    print("verify:", (verified.stdout or verified.stderr).splitlines()[0])
    print("export:", (exported.stderr or exported.stdout).splitlines()[-1])
    return verified.returncode == 0 and exported.returncode == 0


def main() -> None:
    """Run the pipeline, and show the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--directory", default="pipeline_example", type=Path, metavar="DIR", help="where everything is")
    parser.add_argument(
        "--by-hand", action="store_true", help="wait for your word instead of starting a second process for it"
    )
    options = parser.parse_args()
    directory: Path = options.directory.absolute()
    state = trio.run(lambda: work(directory, by_hand=options.by_hand))
    print(table(state))
    print("published:", ", ".join(path.name for path in sorted((directory / "project/published").glob("*"))) or "nothing")
    store = directory / "run.db"
    left = [str(task.id) for task in state.tasks if task.status != "PASS"]
    for id in left:
        print(f'{id} waits for you: orchestrator send pipeline \'{{"unblock": "{id}"}}\' --store {store}; start this again')
    sys.exit(1 if not finish(directory) else 4 if left else 0)


if __name__ == "__main__":
    main()
