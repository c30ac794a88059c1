"""The preset for software development: 15 stages, and two ways to group them into tasks. Validated when it is imported.

00 environment ─ 01 transcript ─ 02 requirements ─┬─ 03 documentation ──────────────┐
                                                  ├─ 04 planning ─┬─ 05 jira ─┐     │
                                                  │               └─ 06 architecture ┬─ 07 code ─ 08 testing ─┐
                                                  │                                  ├─ 12 threat model ──────┤
                                                  │                                  ├─ 13 compliance ────────┤
                                                  │                                  └─ 14 cost estimation ─┐ │
                                                  └───────────────  09 deployment ─ 10 summary ─ 11 feedback ┘
"""

from __future__ import annotations

from typing import TypeAlias

from harnesses.pipeline.plan.stage import Stage, StageCheck, check_sequence
from harnesses.pipeline.plan.stage_checks import architecture, code, compliance, environment, testing, threats, transcript
from harnesses.pipeline.plan.task import Task, check_tasks, each_stage

_StageRow: TypeAlias = tuple[str, str, str, tuple[str, ...], StageCheck | None, str, str]
"""Id, title, artifact, earlier stages, checks, goal, criterion."""
_TaskRow: TypeAlias = tuple[str, str, tuple[str, ...], str, tuple[str, ...], str, str, str]
"""Id, title, stages, artifact, earlier tasks, goal, acceptance criterion, gate."""

# fmt: off
STAGE_IDS = (
    "00-environment", "01-transcript", "02-requirements", "03-documentation", "04-planning", "05-jira", "06-architecture",
    "07-code", "08-testing", "09-deployment", "10-summary", "11-feedback-loop", "12-security-threat-model",
    "13-compliance-checker", "14-cost-estimation",
)
"""Ids of the 15 stages. Their order is fixed."""
_STAGES: tuple[_StageRow, ...] = (
    ("00-environment", "Environment", "environment_report.json", (), environment, "What there is to work with is known.",
     "run_mode is greenfield, brownfield or feature."),
    ("01-transcript", "Transcript", "transcript.json", ("00-environment",), transcript,
     "What is wanted is written down as it was said.", "It has the transcript, and the goals found in it."),
    ("02-requirements", "Requirements", "requirements.json", ("01-transcript",), None,
     "What has to hold is written so that it can be tested.", "Every requirement can be tested."),
    ("03-documentation", "Documentation", "documentation.json", ("02-requirements",), None,
     "Whoever comes next finds out how to use it.", "It names what was documented, and where."),
    ("04-planning", "Planning", "plan.json", ("02-requirements",), None, "What is done in which order is settled.",
     "Every requirement has a place in the plan."),
    ("05-jira", "Tickets", "jira_tickets.json", ("04-planning",), None, "The plan is cut into tickets.",
     "Every part of the plan has a ticket."),
    ("06-architecture", "Architecture", "system_design.json", ("04-planning",), architecture,
     "The parts and the borders between them are settled.",
     "It has components, interfaces, tradeoffs and security_boundaries."),
    ("07-code", "Code", "code_report.json", ("05-jira", "06-architecture"), code, "The program does what is required.",
     "The files that were changed have content, and no placeholders."),
    ("08-testing", "Testing", "test_report.json", ("07-code",), testing, "It is known what works and what does not.",
     "It has totals, a root_cause for each of the failures, and a reason for each of the skips."),
    ("09-deployment", "Deployment", "deployment_report.json",
     ("08-testing", "12-security-threat-model", "13-compliance-checker"), None, "It can be put to use, and taken back.",
     "It says what goes where, and how it is undone."),
    ("10-summary", "Summary", "summary.json", ("03-documentation", "09-deployment", "14-cost-estimation"), None,
     "What was done is told in short.", "It says what was done, and what was left open."),
    ("11-feedback-loop", "Feedback loop", "feedback.json", ("10-summary",), None,
     "What was learnt is kept for the next time.", "It says what to keep and what to change."),
    ("12-security-threat-model", "Security threat model", "threat_model.json", ("06-architecture",), threats,
     "What can be attacked is known, and what stands against it.",
     "Every one of the threats has a category and a severity, the high and critical ones a mitigation."),
    ("13-compliance-checker", "Compliance", "compliance_report.json", ("06-architecture",), compliance,
     "What has to be complied with is known.", "It has frameworks, and a remediation for each of the gaps."),
    ("14-cost-estimation", "Cost estimation", "cost_estimate.json", ("06-architecture",), None,
     "What it costs is known before it is spent.", "It has figures, and what they rest on."),
)
_TASKS: tuple[_TaskRow, ...] = (
    ("001-product-clarification", "Product clarification", ("00-environment", "01-transcript"), "product-brief.md", (),
     "It is clear who wants what, and with what it is made.", "The brief names the user, the job and what is out of scope.",
     ""),
    ("002-requirements", "Requirements", ("02-requirements", "04-planning", "05-jira"), "requirements.json",
     ("001-product-clarification",), "What has to hold is written down, planned and cut into tickets.",
     "Every requirement can be tested and has a ticket.", ""),
    ("003-architecture", "Architecture", ("06-architecture", "12-security-threat-model", "14-cost-estimation"),
     "architecture.md", ("002-requirements",), "The parts, their borders, their dangers and their price are settled.",
     "Components, interfaces, threats and costs fit each other.",
     "The requirements and the plan (requirements.json) are what is wanted."),
    ("004-implementation", "Implementation", ("07-code",), "implementation-report.json", ("003-architecture",),
     "The program does what is required.", "Its tests run and pass.",
     "The architecture (architecture.md) is what is to be built."),
    ("005-testing", "Testing", ("08-testing",), "qa-report.json", ("004-implementation",),
     "It is known what works and what does not.", "Everything that fails has a root cause.", ""),
    ("006-security-review", "Security review", ("12-security-threat-model", "13-compliance-checker"), "security-review.md",
     ("004-implementation",), "What was built holds against the threats that were foreseen.",
     "Every high or critical threat has a mitigation, every gap a remediation.", ""),
    ("007-documentation", "Documentation", ("03-documentation", "10-summary"), "handoff.md", ("004-implementation",),
     "Whoever comes next finds out how it works.", "The hand-off says how to run it, and what is left open.", ""),
    ("008-release-readiness", "Release readiness", ("09-deployment", "10-summary", "11-feedback-loop"),
     "release-readiness.json", ("005-testing", "006-security-review", "007-documentation"),
     "It is decided whether it can go out.", "What goes where is written down, and how it is undone.", ""),
)
# fmt: on


def _task(row: _TaskRow) -> Task:
    id, title, stages, artifact, after, goal, shows, gate = row
    return Task(
        gate=gate,
        id=id,
        title=title,
        stages=stages,
        artifact=artifact,
        after=after,
        description=f"Work the stages {', '.join(stages)}, and write {artifact} for who comes next.",
        goal=goal,
        acceptance_criteria=(
            f"The artifact of each of its stages is in that stage's directory; {artifact} is among the task's own.",
            shows,
            "What is claimed can be looked up: every claim names a file, a command or its output.",
        ),
        validation_checks=(
            "Every artifact is there, is of the right shape, and satisfies the checks of its stage.",
            "The contract is complete, is of the attempt under way, and every file that it names exists.",
            "Somebody else than the builder has looked, in a copy, and found it good.",
        ),
    )


SDLC_STAGES = check_sequence(
    [
        Stage(id=id, title=title, artifact=file, agent=f"agent.{id}", after=after, goal=goal, criterion=shows, checks=checks)
        for id, title, file, after, checks, goal, shows in _STAGES
    ],
    STAGE_IDS,
)
SDLC_TASKS = check_tasks(each_stage(SDLC_STAGES), SDLC_STAGES)
"""One task for each stage: the default of a pipeline."""
PLAN_TASKS = check_tasks([_task(row) for row in _TASKS], SDLC_STAGES)
"""The same stages in eight tasks; two stages belong to two tasks. In mode `interactive` a person approves the requirements and
the plan, and later the architecture, before the tasks that build on them; in mode `express` nobody is asked."""
