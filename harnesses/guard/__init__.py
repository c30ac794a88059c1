"""Which commands may run without asking: those known to be harmless. Everything else needs an approval or a sandbox.

    classify("git diff HEAD~1 | head")     nothing: it may run
    classify("git push --force")           findings: publish, git-force
    classify("pytest -q")                  a finding: run-code, unless it is allowed
    classify("gdb -batch -ex run")         a finding: unknown; the program is not in the table

It lets everyday commands pass without asking. It is not a security boundary: a sandbox is. A command passes if each program,
verb, option and operand of it is in a table (`harmless.txt`), and all its text is read; nothing else passes. Categories:

    unknown                  not in the table
    unreadable               cannot be read, or is known only when it runs
    run-code                 runs code or configuration of the workspace: tests, builds, scripts, linters, installs
    network                  speaks with another machine
    secret-read              shows secrets, or files below the home directory
    broad-delete, git-force, publish, deploy, secret-write, protected-config-write, db-destroy, remote-exec, perm-destroy
                             well-known dangers (`Category`): words for the person who decides; nothing passes by their absence

What it does not see: programs and settings outside the workspace are trusted as they are, and so is bash itself.
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
