"""What each program does: the rules of all the others in one table, and those of which every word is but data. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from harnesses.governance.actions import (
    archives,
    builtins,
    clouds,
    containers,
    databases,
    editing,
    editors,
    files,
    forges,
    git,
    installing,
    interpreters,
    machine,
    packages,
    power_shell,
    remote,
    rights,
    searching,
    tasks,
    transfers,
    wrappers,
)
from harnesses.governance.actions.nouns import Call, Rule, Sayings
from harnesses.governance.actions.options import names
from harnesses.governance.actions.sql import sql


def _truncate(call: Call) -> Sayings:
    if call.args and call.args[0].text.lower() in ("table", "only"):
        yield from sql(" ".join(["truncate", *(word.text for word in call.args)]))
    else:
        yield from files.RULES["truncate"](call)


RULES: Mapping[str, Rule] = {
    **databases.RULES,
    **archives.RULES,
    **files.RULES,
    **editing.RULES,
    **power_shell.RULES,
    **rights.RULES,
    **searching.RULES,
    **transfers.RULES,
    **clouds.RULES,
    **containers.RULES,
    **forges.RULES,
    **machine.RULES,
    **packages.RULES,
    **remote.RULES,
    **tasks.RULES,
    **git.RULES,
    **editors.RULES,
    **installing.RULES,
    **builtins.RULES,
    **interpreters.RULES,
    **wrappers.RULES,
    "truncate": _truncate,
}
HARMLESS = names(
    "echo printf cat head tail less more grep egrep fgrep zgrep rg ag ack ls ll la dir exa eza tree pwd cd pushd "
    "popd dirs wc cut tr uniq diff cmp comm paste join column nl tac rev fold fmt expand stat file du df date cal "
    "sleep true false test [ : seq yes basename dirname realpath readlink which whereis type man info help whatis "
    "apropos id whoami who groups uname hostname uptime ps top htop free vmstat iostat lsof jobs fg bg wait set "
    "shopt umask ulimit history read return break continue shift exit unset let getopts printenv locale jq yq "
    "md5sum sha1sum sha256sum sha512sum cksum b2sum base64 xxd hexdump od strings gzip gunzip bzip2 xz zstd zcat "
    "pytest py.test mypy ruff black isort flake8 pylint pyright tsc eslint prettier jest vitest mocha go rustc gcc "
    "g++ clang cc cmake ninja bazel javac rustup rustfmt gofmt shellcheck hadolint yamllint markdownlint codespell "
    "coverage sphinx-build mkdocs pre-commit dig nslookup host ping traceroute nvidia-smi bat delta fzf cloc tokei "
    "hyperfine pgrep pidof tput clear reset stty logger spell aspell say notify-send open xdg-open pg_dump "
    "mysqldump mongodump createdb bc dc expr factor shuf numfmt iconv dos2unix pydoc doctest unittest build venv "
    "http.server json.tool timeit cprofile tabnanny ast dis site py_compile compileall"
)
"""Programs, and modules of Python's, of which every word is data."""
