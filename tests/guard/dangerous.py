"""Dangerous commands, made from what is known of programs, expansions, variables and paths. None of them may pass."""

from __future__ import annotations

import shlex
from itertools import product
from pathlib import Path

from harnesses.guard.command_model import names

_LINES = (
    "cat <<EOF\n$(id2)\nEOF",
    "cat <<EOF\n`id2`\nEOF",
    "bash <<'EOF'\nid2\nEOF",
    "cat <<'EOF' | sh\nid2\nEOF",
    "cat <<EOF \\\n; id2\nEOF",
    "cat <<A <<B\nx\nA",
    'cat << "EOF" ; id2\nx\nEOF',
    "cat <<EOF'X'\nEOF\nid2\nEOFX",
    "<<EOF'\nid2\nEOF",
)
_GIT_OPTIONS = (
    "-c core.fsmonitor=./x {}",
    "-c core.pager=id -p {}",
    "-c alias.x=!id x",
    "--exec-path=. {}",
    "--git-dir=x {}",
    "--work-tree=/ {}",
    "--config-env=core.pager=X {}",
    "-p {}",
    "--paginate {}",
    "--namespace=x {}",
    "--bare {}",
    "--super-prefix=x {}",
    "--attr-source=x {}",
    "--list-cmds=x",
    "{} --output=x",
    "{} --outp=x",
    "{} --ext-diff",
    "{} --textconv",
    "{} --upload-pack=id",
    "{} --upload-pack id",
    "{} --receive-pack=id",
    "{} --exec=id",
    "{} -O id",
    "{} --open-files-in-pager=id",
    "{} --show-signature",
    "{} --no-index ~/.ssh/id_rsa /dev/null",
    "{} -- ~/.ssh/id_rsa",
    "{} HEAD:.env",
    "{} $x",
    "{} *",
    "{} $(cat x)",
    "{} --contents ~/.x",
)
_GIT_VERBS = ("status", "diff", "log", "show", "blame", "grep x", "commit -m x", "add .", "branch")
_NAMES = sorted(
    names("""
    PATH LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT BASH_ENV ENV GIT_SSH GIT_SSH_COMMAND GIT_PAGER GIT_EDITOR
    GIT_EXTERNAL_DIFF GIT_DIR GIT_WORK_TREE GIT_CONFIG GIT_CONFIG_COUNT GIT_CONFIG_GLOBAL GIT_CONFIG_PARAMETERS
    GIT_EXEC_PATH GIT_PROXY_COMMAND GIT_ASKPASS GIT_TEMPLATE_DIR GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_TRACE
    GIT_OBJECT_DIRECTORY GIT_INDEX_FILE PAGER MANPAGER LESSOPEN LESS EDITOR VISUAL BROWSER MAKEFLAGS MAKEFILES SHELL
    PYTHONPATH PYTHONSTARTUP PYTHONHOME PYTEST_ADDOPTS PYTEST_PLUGINS NODE_OPTIONS NODE_PATH PERL5OPT PERL5LIB RUBYOPT
    RUBYLIB JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS GREP_OPTIONS GREP_COLORS RIPGREP_CONFIG_PATH AWKPATH AWKLIBPATH HOME
    IFS CDPATH GLOBIGNORE BASHOPTS SHELLOPTS PS4 PROMPT_COMMAND TMPDIR XDG_CONFIG_HOME LOCPATH NLSPATH GCONV_PATH
    MALLOC_CHECK_ TAR_OPTIONS ZIPOPT UNZIP GZIP JQ_LIBRARY_PATH LS_COLORS TERMINFO TERMCAP HOSTALIASES RES_OPTIONS
    http_proxy https_proxy ALL_PROXY SSH_ASKPASS DOCKER_HOST DOCKER_CONFIG KUBECONFIG GH_HOST GH_PAGER GH_BROWSER
    FPATH path fpath cdpath POSIXLY_CORRECT EXECIGNORE FUNCNEST TIMEFORMAT HISTFILE
""")
)
_TARGETS = sorted(
    names("""
    /etc/passwd ~/.bashrc ../x .git/config .git/hooks/pre-commit .git/info/attributes .gitattributes .gitmodules .env
    .envrc conftest.py Makefile GNUmakefile package.json setup.py setup.cfg pyproject.toml tox.ini pytest.ini .npmrc
    .pypirc sitecustomize.py x.pth rules.mk .github/workflows/ci.yml .gitlab-ci.yml Dockerfile docker-compose.yml
    .pre-commit-config.yaml .vscode/tasks.json .claude/settings.json Cargo.toml build.rs rust-toolchain.toml
    .cargo/config.toml Gemfile Rakefile webpack.config.js jest.config.ts .eslintrc.js .babelrc .mocharc.json
    node_modules/x/index.js .venv/bin/python x/HEAD run.db run.db-latch/x /dev/sda $HOME/.profile ~root/x /tmp/x
    sub/../../x CMakeLists.txt meson.build pom.xml build.gradle gradlew Vagrantfile justfile .husky/pre-commit id_rsa
    server.key Jenkinsfile
""")
)
_WRITERS = (
    "echo x > {}",
    "echo x >> {}",
    "ls >| {}",
    "ls &> {}",
    "ls 2> {}",
    "tee {}",
    "cp a.txt {}",
    "mv a.txt {}",
    "touch {}",
    "sed -i s/a/b/ {}",
)
_SECRETS = sorted(
    names("""
    ~/.ssh/id_rsa ~/.aws/credentials .env .env.production ~/.netrc /root/.ssh/id_ed25519 ~/.config/gh/hosts.yml
    /proc/self/environ $HOME/.kube/config server.key secrets.yaml credentials.json ../../.ssh/id_rsa /home/x/.pgpass
""")
)
_READERS = (
    "cat",
    "head -1",
    "tail",
    "nl",
    "grep x",
    "rg x",
    "sed p",
    "sort",
    "uniq",
    "cut -c1-",
    "od -c",
    "xxd",
    "strings",
    "base64",
    "diff a.txt",
    "awk 1",
    "jq .",
    "wc -l <",
    "cat <",
    "md5sum",
    "rev",
    "tac",
    "fold",
    "paste",
    "comm a.txt",
    "git diff --",
    "git show HEAD --",
    "git log -p --",
    "git blame",
    "cp -f",
)
_WRAPPERS = (
    "ls && {}",
    "ls; {}",
    "{} &",
    "({})",
    "{{ {}; }}",
    "if ls; then {}; fi",
    "for i in a; do {}; done",
    "echo $({})",
    'echo "$({})"',
    "cat <({})",
    "x=$({})",
    "! {}",
    "time {}",
    "ls | {}",
    "{} | cat",
    "# x\n{}",
    '[ -n "$({})" ]',
    "command {}",
    "timeout 5 {}",
)
_WRAPPED = (
    "id2",
    "rm -rf src",
    "gdb -batch -ex 'shell id'",
    "git push",
    "python x.py",
    "./x",
    "cat ~/.ssh/id_rsa",
    "touch ../x",
    "find . -delete",
    "sort -o x y",
)
_HIDDEN = (
    "r\\m -rf src",
    "r''m -rf src",
    'r""m -rf src',
    "'rm' -rf src",
    "$'rm' -rf src",
    "$'\\x72m' -rf src",
    '$"rm" -rf src',
    "\\rm -rf src",
    "/bin/rm -rf src",
    "rm -rf${IFS}src",
    "rm${IFS}-rf${IFS}src",
    "{rm,-rf,src}",
    "rm -\\rf src",
    "rm '-rf' src",
    "rm $'-rf' src",
    "r\\\nm -rf src",
    "rm \\\n-rf src",
    "rm -r\\\nf src",
    "x=rm; $x -rf src",
    "x=-rf; rm $x src",
    "echo x;rm -rf src",
    "echo x\nrm -rf src",
    "echo 'x'\"\n\"; rm -rf src",
    "echo x # '\nrm -rf src #'",
    'echo "x\\""; rm -rf src',
    "echo \\'; rm -rf src; echo \\'",
    "echo $'\\''; rm -rf src; echo $'\\''",
    "echo `rm -rf src`",
    "echo x|rm -rf src",
    "ls\trm;rm\t-rf\tsrc",
    "ls\u00a0; rm -rf src",
    "ls\r\nrm -rf src",
    "ls\x00; rm -rf src",
    "ls \x1b[2K; rm -rf src",
    "rm -rf src #" + "x" * 5_000,
    "(" * 200 + "rm" + ")" * 200,
    "$(" * 200 + "ls" + ")" * 200,
    "ls " + "a " * 60_000,
    "ls" + "|ls" * 4_000,
)


def dangerous() -> tuple[str, ...]:
    """Return all of them."""
    lines = [*Path(__file__).with_name("dangerous.txt").read_text(encoding="utf-8").splitlines(), *_LINES]
    lines += [
        f"git {option.format(verb)}"
        for option, verb in product(_GIT_OPTIONS, _GIT_VERBS)
        if verb != "branch" or option[:1] == "-"
    ]
    lines += [f"{name}=./x {rest}" for name, rest in product(_NAMES, ("ls", "git status"))]
    lines += [f"{name}=./x; ls" for name in _NAMES]
    lines += [writer.format(target) for writer, target in product(_WRITERS, _TARGETS)]
    lines += [f"{reader} {secret}" for reader, secret in product(_READERS, _SECRETS)]
    lines += [wrapper.format(command) for wrapper, command in product(_WRAPPERS, _WRAPPED)]
    lines += _HIDDEN
    lines += [f"bash -c {shlex.quote(command)}" for command in _WRAPPED]
    return tuple(dict.fromkeys(lines))
