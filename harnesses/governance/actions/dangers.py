"""Words for well-known dangers: what a command that does not pass is called when a person is asked. Pure.

Nothing passes by this table, and nothing is blocked by it: it names what is blocked already. It is looked for anywhere in the text
of a command, so that `sudo sh -c 'rm -rf src'` is told as what it does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from harnesses.governance.actions.nouns import NETWORK, RUN_CODE, Category

_START = r"(?:^|[\s;&|({`'\"/])"
_DANGERS: tuple[tuple[str, str, str], ...] = (
    (Category.BROAD_DELETE, r"rm\s+(?:\S+\s+)*?-(?:-rec|[a-zA-Z]*[rR])", "it deletes folders with all that is in them"),
    (Category.BROAD_DELETE, r"(?:find|fd)\b.*(?:-delete|-exec(?:dir)?\s+rm|-x\s+rm)|xargs\s.*\brm\b", "it deletes all that is found"),
    (Category.BROAD_DELETE, r"(?:dd\s.*\bof=|mkfs|shred|truncate|wipefs|fdisk|parted|srm|unlink)\b", "it overwrites or deletes data"),
    (Category.BROAD_DELETE, r"git\s.*\bclean\b|git\s.*\brm\s+-r|rsync\s.*--del|docker\s.*\b(?:prune|rm|rmi)\b", "it deletes many files or volumes"),
    (Category.BROAD_DELETE, r"(?:aws|gsutil|az|gcloud|mc|rclone)\s.*\b(?:rm|rb|delete|purge|destroy)\b|shutil\W+rmtree|rmtree|fs\.rm|Remove-Item|rm_rf", "it deletes folders or stores"),
    (Category.BROAD_DELETE, r"rm\s+(?:\S+\s+)*?\S*[*?~/$]", "it deletes what is named by a pattern, or a folder"),
    (Category.PUBLISH, r"git\s(?:.*\s)?push\b", "`git push` publishes"),
    (Category.GIT_FORCE, r"git\s(?:.*\s)?push\s.*(?:--forc|--mirror|--del|\s-[a-zA-Z]*[fd]|\s[+:]\S)", "it replaces what is published"),
    (Category.GIT_FORCE, r"git\s(?:.*\s)?(?:reset\s.*--har|checkout\s+(?:.*\s)?(?:-f|--\s|--force|\.)|restore\b|switch\s.*(?:-f|-C|--discard)|branch\s.*-[dDMfmC]|tag\s.*-[df]|stash\s+(?:drop|clear)|filter-|reflog\s+(?:expire|delete)|update-ref|gc\s.*--prune|replace\b|worktree\s+remove|prune\b|rebase\s.*-(?:i|x|-exec))", "it throws away what is committed, published or changed"),
    (Category.PUBLISH, r"(?:npm|yarn|pnpm|bun|cargo|poetry|uv|hatch|flit|gem|lerna|vsce|dotnet\s+nuget)\s(?:.*\s)?(?:publish|push|unpublish|deprecate|release|yank)\b|twine\s+upload|docker\s.*\bpush\b|podman\s.*\bpush\b|mvn\s.*\bdeploy\b", "it publishes a package or an image"),
    (Category.PUBLISH, r"(?:gh|glab|hub)\s+(?:\S+\s+)?(?:create|merge|close|delete|edit|comment|review|upload|release|api|transfer|archive|rename|fork|sync|run|set|rerun)\b|(?:mail|sendmail|mutt|swaks)\b", "it changes what others see"),
    (Category.PUBLISH, r"(?:curl|http|https|xh)\s.*(?:\s-[a-zA-Z]*[dFTX]|--data|--form|--upload|--request|--json|\s(?:POST|PUT|PATCH|DELETE)\b)|wget\s.*--(?:post|body|method)", "it sends data to another machine"),
    (Category.DEPLOY, r"(?:kubectl|oc|helm|kustomize|argocd|flux)\s.*\b(?:apply|create|delete|replace|patch|edit|scale|rollout|install|upgrade|uninstall|rollback|drain|cordon|sync|set|run|expose|annotate|label|taint)\b|(?:terraform|tofu|pulumi|cdk|serverless|sls|fly|flyctl|vercel|netlify|heroku|cap|eb|ansible(?:-\w+)?|nomad|sam|wrangler|firebase|railway|skaffold)\s|(?:systemctl|service|launchctl|crontab|supervisorctl|at|batch)\b|docker(?:-compose|\s+compose|\s+stack|\s+service|\s+swarm)\s.*\b(?:up|down|deploy|rm|update|scale)\b|(?:aws|gcloud|az|doctl)\s", "it changes what runs as a service or elsewhere"),
    (Category.REMOTE_EXEC, r"(?:ssh|scp|sftp|rsh|rexec|mosh|telnet|nc|ncat|netcat|socat|winrs|psexec)\b|rsync\s.*\w:|/dev/(?:tcp|udp)/|kubectl\s+(?:exec|cp|attach|debug)", "it reaches into another machine"),
    (Category.REMOTE_EXEC, r"(?:curl|wget|fetch)\b.*\|\s*(?:sudo\s+)?(?:\w*sh|python\w*|perl|ruby|node|php|tee|source)\b|(?:sh|eval|source|\.)\b.*(?:\$\(|<\(|`)\s*(?:curl|wget)", "it runs what another machine sends"),
    (Category.PERM_DESTROY, r"(?:chmod|chown|chgrp|setfacl|chattr|icacls|usermod|useradd|userdel|adduser|deluser|passwd|chpasswd|visudo|gpasswd|groupadd|setcap|umount|mount)\b", "it changes rights or users"),
    (Category.PERM_DESTROY, r"(?:sudo|su|doas|pkexec|runuser)\b", "it runs as another user"),
    (Category.DB_DESTROY, r"(?i:drop\s+(?:table|database|schema|view|index|user|role)|truncate\s+|delete\s+from|flush(?:all|db)|dropdatabase|\.drop\(|deletemany|dropdb|drop_all)", "it drops or empties a database"),
    (Category.SECRET_WRITE, r"(?:git\s+config\s.*(?:token|credential)|gpg\s.*--(?:gen|import|delete|export)|ssh-keygen|ssh-add|keytool|security\s+\S+-password|(?:vault|pass|op|bw|doppler)\s|aws\s+configure|gh\s+(?:secret|auth)|npm\s+(?:login|token|adduser)|docker\s+login|kubectl\s.*secrets?\b)", "it reads or writes keys, tokens or passwords"),
    (Category.PROTECTED_CONFIG_WRITE, r"git\s.*\bconfig\b|(?:npm|yarn|pip)\s+config\s+set|(?:alias|export|unset|declare|shopt|enable|hash)\b", "it changes settings that decide what runs"),
    (NETWORK, r"(?:curl|wget|aria2c|fetch|lynx|w3m|http|https|xh|ping|dig|nslookup|host|traceroute|nmap|whois|ftp|git\s(?:.*\s)?(?:fetch|pull|clone|ls-remote|submodule|remote\s+(?:update|show))|gh\s|docker\s+pull)\b", "it speaks with another machine"),
    (RUN_CODE, r"(?:pytest|py\.test|tox|nox|make|gmake|ninja|cmake|ctest|meson|bazel|just|task|rake|bundle|gradle|gradlew|mvn|mvnw|ant|sbt|dotnet|npm|npx|yarn|pnpm|bun|deno|node|ts-node|tsx|tsc|jest|vitest|mocha|playwright|cypress|eslint|prettier|biome|vite|webpack|next|python[\d.]*|pypy3?|pip[\d.]*|pipx|uv|uvx|poetry|pdm|hatch|pre-commit|mypy|pyright|pyre|ruff|black|isort|flake8|pylint|bandit|coverage|sphinx-build|mkdocs|alembic|django-admin|flask|uvicorn|gunicorn|cargo|rustc|rustfmt|clippy-driver|go|gofmt|golangci-lint|gcc|g\+\+|clang|cc|java|javac|kotlinc|scala|ruby|rspec|gem|php|composer|perl|lua|Rscript|julia|mix|elixir|stack|cabal|ghc|swift|xcodebuild|flutter|dart|docker|podman|bash|sh|zsh|dash|ipython|jupyter|streamlit|orchestrator)(?:\.exe)?(?=\s|$|['\";&|)`])", "it runs code or configuration of the workspace"),
)  # fmt: skip
_COMPILED = tuple(
    (str(category), re.compile(_START + f"(?:{pattern})", re.DOTALL), why) for category, pattern, why in _DANGERS
)
MAX_SEARCHED = 2_000
"""Characters of a command that are searched: the patterns go back and forth."""


def dangers(text: str) -> Iterator[tuple[str, str]]:
    """Yield the category and the reason of each well-known danger in a text; of `NETWORK` and `RUN_CODE` only if it is alone."""
    line = " ".join(text[:MAX_SEARCHED].split())
    found = [(category, why) for category, pattern, why in _COMPILED if pattern.search(line)]
    certain = [one for one in found if one[0] not in (NETWORK, RUN_CODE)]
    yield from dict(certain or found[:1]).items()
