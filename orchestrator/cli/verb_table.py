"""The verbs of the `orchestrator` command, in the groups and the order of its help. Pure.

A verb's module is imported when the verb is asked for; its summary is the first line of its function's docstring.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen


@frozen
class Verb:
    """A verb of the command."""

    name: str
    """One word, or two: `approvals reopen`."""
    place: str
    """Where its function is, or the app of all verbs that begin with its word: `module:attribute` below `orchestrator.cli`."""
    summary: str
    group: str

    @property
    def is_nested(self) -> bool:
        return " " in self.name


RUN, WATCH, ACT, LOOK_BACK, KEEP = "Run", "Watch", "Act", "Look back", "Keep"
GROUPS = (RUN, WATCH, ACT, LOOK_BACK, KEEP)
ALIASES: Mapping[str, str] = {"latch": "kill-switch"}
"""Earlier names of verbs, which are not shown."""
VERBS = (
    Verb("run", "run.run_verb:run", "Run a run file (.toml), a supervisor script or a program (.py).", RUN),
    Verb("node", "nodes.node_verb:node", "Take a share of the harnesses of a fleet, as one of several machines.", RUN),
    Verb(
        "backtest",
        "backtest.backtest_verb:backtest",
        "Run a trading harness of a run file over its recording, with one or many sets of options.",
        RUN,
    ),
    Verb("init", "run.init_verb:init", "Write a commented run file to start from, and a harness for it.", RUN),
    Verb("doctor", "doctor.doctor_verb:doctor", "Check the set-up, the store and a run file.", RUN),
    Verb("guard", "operate.guard_verb:guard", "Tell whether a command needs human approval.", RUN),
    Verb("contract", "read.contract_verb:contract", "Check a builder's contract before it is handed in.", RUN),
    Verb("schema", "run.init_verb:schema", "Print the JSON Schema of run files, for editors.", RUN),
    Verb("completion", "completion_verb:completion", "Print a script that completes this command in a shell.", RUN),
    Verb("status", "read.status_verbs:status", "Show the status and progress of each harness.", WATCH),
    Verb("nodes", "nodes.nodes_verb:nodes", "Show the nodes of a store on PostgreSQL, and what no node can run.", WATCH),
    Verb("watch", "read.watch_verb:watch", "Follow a running program, and give it orders.", WATCH),
    Verb("serve", "run.serve_verb:serve", "Show a page with everything that is recorded, and with buttons for orders.", WATCH),
    Verb(
        "mcp",
        "run.mcp_verb:mcp",
        "Let agents supervise runs: serve the Model Context Protocol over standard input and output.",
        WATCH,
    ),
    Verb("notify", "run.notify_verb:notify", "Send alerts, as the [[alert]] tables of a file configure them.", WATCH),
    Verb("alerts", "read.alerts_verb:alerts", "Show alerts: those sent, and those still to be sent.", WATCH),
    Verb("steps", "read.status_verbs:steps", "Show the recorded steps of a harness.", WATCH),
    Verb("show", "read.status_verbs:show", "Show everything about one step.", WATCH),
    Verb("logs", "read.logs_verb:logs", "Print the structured log of a run.", WATCH),
    Verb("budgets", "operate.budget_verbs:budgets", "Show budgets: limits, what is spent, and what is left.", WATCH),
    Verb("limits", "operate.limit_verbs:limits", "Show the time limits of a running harness.", WATCH),
    Verb("approvals", "operate.approval_verbs:approvals", "Show what waits for human approval.", WATCH),
    Verb("effects", "operate.effect_verbs:effects", "Show effects of unknown outcome.", WATCH),
    Verb("metrics", "operate.live_verbs:metrics", "Print the metrics of a run in the Prometheus text format.", WATCH),
    Verb("query", "operate.live_verbs:query", "Call a query of a harness in a running program.", WATCH),
    Verb("approve", "operate.approval_verbs:approve", "Approve what a harness has asked for.", ACT),
    Verb("deny", "operate.approval_verbs:deny", "Deny what a harness has asked for.", ACT),
    Verb("approvals reopen", "operate.approval_verbs:approvals", "Have a denied or expired request asked again.", ACT),
    Verb("effects settle", "operate.effect_verbs:effects", "Record the outcome of an effect whose outcome is unknown.", ACT),
    Verb("budgets set", "operate.budget_verbs:budgets", "Raise or lower limits of a budget.", ACT),
    Verb("limits set", "operate.limit_verbs:limits", "Set time limits of a running harness.", ACT),
    Verb("pause", "operate.live_verbs:pause", "Hold a harness at its next step boundary.", ACT),
    Verb("resume", "operate.live_verbs:resume", "Let a paused harness continue.", ACT),
    Verb("stop", "operate.live_verbs:stop", "Stop a harness at its next step boundary.", ACT),
    Verb("start", "operate.live_verbs:start", "Start an ended harness again, in the running program.", ACT),
    Verb("restart", "operate.live_verbs:restart", "Stop a harness and start it again, in the running program.", ACT),
    Verb("kill-switch", "operate.kill_switch_verb:kill_switch", "Stop all effects, let them begin again, or show both.", ACT),
    Verb("send", "operate.message_verbs:send", "Put a message into the mailbox of a harness.", ACT),
    Verb("ask", "operate.live_verbs:ask", "Send a message to a running harness and print its reply.", ACT),
    Verb("trading", "operate.message_verbs:trading", "Tell a trading harness what to do.", ACT),
    Verb("transcript", "read.transcript_verb:transcript", "Show the transcripts of agents' turns.", LOOK_BACK),
    Verb("state", "read.history_verbs:state", "Show the state of a harness after any of its steps.", LOOK_BACK),
    Verb("diff", "read.history_verbs:diff", "Show what changed in a harness's state between two steps.", LOOK_BACK),
    Verb("replay", "read.history_verbs:replay", "Print the records of a run again, at any speed.", LOOK_BACK),
    Verb("fork", "read.history_verbs:fork", "Make a new harness from another one, up to a step.", LOOK_BACK),
    Verb(
        "rejudge", "read.history_verbs:rejudge", "Judge recorded steps by today's rules, without running anything.", LOOK_BACK
    ),
    Verb("analyze", "query.analyze_verb:analyze", "Answer a question about what was recorded.", LOOK_BACK),
    Verb("sql", "query.sql_verb:sql", "Run a read-only SQL query over what was recorded.", LOOK_BACK),
    Verb("memory", "read.memory_verbs:memory", "List what agents have learned.", LOOK_BACK),
    Verb("memory list", "read.memory_verbs:memory", "List what a memory holds.", LOOK_BACK),
    Verb(
        "memory show", "read.memory_verbs:memory", "Show one episode or fact, and the harnesses that recalled it.", LOOK_BACK
    ),
    Verb("memory check", "read.memory_verbs:memory", "Check that a memory is in order.", LOOK_BACK),
    Verb("memory export", "read.memory_verbs:memory", "Write everything in a memory, one JSON object a line.", KEEP),
    Verb("memory retract", "read.memory_verbs:memory", "Retract an episode or a fact, and what was derived from it.", KEEP),
    Verb("export", "export.export_verb:export", "Write what is recorded to a file, or to a folder of parts.", KEEP),
    Verb("traces", "export.traces_verb:traces", "Export traces, to standard output, a file or a collector.", KEEP),
    Verb(
        "copy",
        "export.copy_verb:copy",
        "Copy a store on PostgreSQL into a new file, or a file into an empty schema on PostgreSQL.",
        KEEP,
    ),
    Verb("prune", "export.prune_verb:prune", "Delete old steps and records.", KEEP),
    Verb("verify", "read.verify_verb:verify", "Prove that nobody has changed what is recorded.", KEEP),
)
NAMES = {verb.name: verb for verb in VERBS}
