"""Which commands need a person's approval before they run, and which may not run where nothing may change. Pure.

    classify("git push --force origin main")   a finding: git-force; and one: publish
    classify("git checkout main")              none: it may run

A command is read as a shell reads it, and followed through what it runs: wrappers, subshells, pipes, here-documents, code on
the command line. What can not be read, or is known only when it runs, is found `unreadable`, and so needs an approval too.

What this is not: a wall. A script that is on disk already is not looked into, nor what a program does of its own accord; to
keep those in, run them in a sandbox. The categories:

    broad-delete             folders, all that is found, all that git does not know, devices, volumes
    git-force                replaces or throws away what is committed, published or changed
    publish                  packages, images, commits, releases, messages: it can not be called back. A plain `git push` too
    deploy                   what runs elsewhere, or as a service, is another afterwards
    secret-write             keys, tokens, passwords, and the files that they are in
    protected-config-write   what configures and judges the work: .git, CI, containers, hooks; the machine's own settings
    db-destroy               drops, empties, deletes without a condition
    remote-exec              on another machine; or here, what another machine sends
    perm-destroy             rights of whole folders, rights for everybody, of the machine's users
"""

from harnesses.governance.actions.findings import classify, protected_path, read_only_violations
from harnesses.governance.actions.nouns import UNREADABLE, Category, Finding

__all__ = ["UNREADABLE", "Category", "Finding", "classify", "protected_path", "read_only_violations"]
