"""Classifies shell commands: those known to be harmless may run without asking, all others need an approval or a sandbox.

    classify("git diff HEAD~1 | head")     nothing: it may run
    classify("git push --force")           findings: publish, git-force
    classify("pytest -q")                  a finding: run-code, unless it is allowed
    classify("gdb -batch -ex run")         a finding: unknown; the program is not in the table

Its purpose is to let everyday commands pass without asking. It is not a security boundary; a sandbox is. A command passes only
if all of its text is parsed and each program, verb, option and operand is in a table (`harmless.txt`). Categories:

    unknown                  not in the table
    unreadable               cannot be parsed, or depends on values known only at run time
    run-code                 runs code or configuration of the workspace: tests, builds, scripts, linters, installs
    network                  communicates with another machine
    secret-read              shows secrets, or files below the home directory
    broad-delete, git-force, publish, deploy, secret-write, protected-config-write, db-destroy, remote-exec, perm-destroy
                             well-known dangers (`Category`), to inform the person who decides; without one of them a
                             command still needs to be in the table

Not examined: programs and settings outside the workspace, and bash itself; they are trusted.
"""

from harnesses.guard.allowed_paths import protected_path
from harnesses.guard.command_findings import classify, commands_of, read_only_violations
from harnesses.guard.command_model import NETWORK, RUN_CODE, SECRET_READ, UNKNOWN, UNREADABLE, Category, Finding

__all__ = [
    "NETWORK",
    "RUN_CODE",
    "SECRET_READ",
    "UNKNOWN",
    "UNREADABLE",
    "Category",
    "Finding",
    "classify",
    "commands_of",
    "protected_path",
    "read_only_violations",
]
