"""What whoever may only look can not run: everything that changes anything, by the kind of command that does it."""

from __future__ import annotations

import pytest

from harnesses.governance.actions import classify, read_only_violations
from tests.harnesses.governance.action_cases import BLOCK

CHANGES = (
    ("rm", "rm notes.txt", "destructive-shell"),
    ("cp", "cp a b", "destructive-shell"),
    ("mv", "mv a b", "destructive-shell"),
    ("ln", "ln -s a b", "destructive-shell"),
    ("chmod", "chmod +x run.sh", "destructive-shell"),
    ("mkdir", "mkdir x", "destructive-shell"),
    ("touch", "touch x", "destructive-shell"),
    ("truncate", "truncate -s 0 x", "destructive-shell"),
    ("install", "install -m 755 a b", "destructive-shell"),
    ("in-wrapper", "env A=1 sh -c 'mv a b'", "destructive-shell"),
    ("download", "curl -o x https://example.org", "destructive-shell"),
    ("wget", "wget https://example.org/x", "destructive-shell"),
    ("unpack", "tar xf a.tar", "destructive-shell"),
    ("unzip", "unzip a.zip", "destructive-shell"),
    ("rsync", "rsync -a a b", "destructive-shell"),
    ("kill", "kill 123", "destructive-shell"),
    ("python-write", "python -c \"open('x', 'w').write('y')\"", "destructive-shell"),
    ("python-unlink", "python -c \"import os; os.remove('x')\"", "destructive-shell"),
    ("sed", "sed -i s/a/b/ src/a.py", "in-place-edit"),
    ("perl", "perl -pi -e 's/a/b/' src/a.py", "in-place-edit"),
    ("tee", "ls | tee out.txt", "in-place-edit"),
    ("patch", "patch -p1 < a.diff", "in-place-edit"),
    ("editor", "vim src/a.py", "in-place-edit"),
    ("git-add", "git add -A", "git-mutation"),
    ("git-commit", "git commit -m x", "git-mutation"),
    ("git-checkout", "git checkout main", "git-mutation"),
    ("git-stash", "git stash", "git-mutation"),
    ("git-merge", "git merge x", "git-mutation"),
    ("git-fetch", "git fetch", "git-mutation"),
    ("git-tag", "git tag v1", "git-mutation"),
    ("git-branch", "git branch x", "git-mutation"),
    ("git-config", "git config user.name x", "git-mutation"),
    ("git-elsewhere", "git -C /work add -A", "git-mutation"),
    ("push", "git push", "publish"),
    ("npm-publish", "npm publish", "publish-deploy"),
    ("kubectl", "kubectl apply -f x", "publish-deploy"),
    ("insert", "psql -c 'insert into a values (1)'", "sql-mutation"),
    ("update-one", "psql -c 'update a set b = 1 where id = 2'", "sql-mutation"),
    ("create", "sqlite3 a.sqlite 'create table x (y)'", "sql-mutation"),
    ("with-insert", "psql -c 'with x as (select 1) insert into a select * from x'", "sql-mutation"),
    ("sql-file", "psql -f migrate.sql", "sql-mutation"),
    ("redis-set", "redis-cli SET a 1", "sql-mutation"),
    ("mongo-insert", "mongosh --eval 'db.a.insertOne({})'", "sql-mutation"),
    ("redirect", "ls > out.txt", "workspace-redirect"),
    ("append", "echo x >> notes.md", "workspace-redirect"),
    ("both", "make test &> log.txt", "workspace-redirect"),
    ("clobber", "ls >| out.txt", "workspace-redirect"),
    ("temporary-roundabout", "ls > /tmp/../work/out.txt", "workspace-redirect"),
    ("unknown-target", 'ls > "$OUT"', "workspace-redirect"),
    ("secret", "echo x > .env", "secret-redirect"),
    ("secret-temporary", "echo x > /tmp/a/.env", "secret-redirect"),
    ("powershell", "powershell -Command Set-Content a.txt b", "powershell"),
    ("pip", "pip install x", "install"),
    ("npm", "npm ci", "install"),
    ("apt", "sudo apt-get install -y x", "install"),
)
LOOKS = (
    "ls -la",
    "cat src/a.py | head",
    "grep -rn TODO src",
    "git status && git diff HEAD~1",
    "git log --oneline",
    "git branch -a",
    "git stash list",
    "git tag --list",
    "git config --get user.name",
    "pytest -q > /dev/null 2>&1",
    "pytest -q > /tmp/out.txt; cat /tmp/out.txt",
    "python -m pytest",
    "python -c 'print(open(\"a\").read())'",
    "find . -name '*.py' | xargs wc -l",
    "sed -n 1,20p a.py",
    "awk '{print $1}' a",
    "curl -s https://example.org | jq .",
    "psql -c 'select * from a'",
    "psql -c 'explain select 1'",
    "redis-cli GET a",
    "mongosh --eval 'db.a.find({})'",
    "kubectl get pods",
    "docker ps",
    "gh pr view 1",
    "npm ls",
    "pip list",
    'for f in *.py; do head -1 "$f"; done',
    "tar tf a.tar",
    "unzip -l a.zip",
)


@pytest.mark.parametrize(("text", "kind"), [pytest.param(text, kind, id=id) for id, text, kind in CHANGES])
def test_what_changes_anything_is_told_with_its_kind(text: str, kind: str) -> None:
    assert kind in {finding.category for finding in read_only_violations(text)}


@pytest.mark.parametrize("text", LOOKS)
def test_what_only_looks_may_run(text: str) -> None:
    assert read_only_violations(text) == ()


@pytest.mark.parametrize("text", [pytest.param(text, id=id) for id, text, _ in BLOCK])
def test_what_needs_an_approval_is_no_looking(text: str) -> None:
    assert classify(text)
    assert read_only_violations(text)
