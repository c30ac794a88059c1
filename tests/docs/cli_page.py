"""`docs/reference/cli.md`: every verb of the command, from the parser."""

from __future__ import annotations

from orchestrator.cli.command_help import common_rows
from orchestrator.cli.reference import markdown
from tests.docs.tables import rows

_HEAD = """\
# The command

The extra `cli` (`python -m pip install '.[cli]'` in a checkout) installs `orchestrator`.
`orchestrator -h` and `orchestrator VERB -h` are short,
`--help` is long. Standard output is data, standard error is everything else. See also [exit codes](exit-codes.md).

Common options, accepted before or after the verb:

"""


def page() -> str:
    """Return the page."""
    common = rows(("option", "meaning"), ((f"`{row.name}`", row.help) for row in common_rows()))
    return _HEAD + "\n".join([*common, "", markdown()])
