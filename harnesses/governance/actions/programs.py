"""Programs that run others: shells, interpreters, wrappers; and those of which every word is but data. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial

from harnesses.governance.actions.code import LANGUAGES
from harnesses.governance.actions.data import RULES as DATA
from harnesses.governance.actions.data import SCRIPTS, sql
from harnesses.governance.actions.files import RULES as FILES
from harnesses.governance.actions.git import RULES as GIT
from harnesses.governance.actions.nouns import (
    ANYTHING,
    Call,
    Category,
    Changes,
    Code,
    Command,
    File,
    Found,
    Run,
    Sayings,
    Shell,
    Word,
    Write,
    unclear,
)
from harnesses.governance.actions.options import names, options
from harnesses.governance.actions.release import RULES as RELEASE
from harnesses.governance.actions.release import task

Rule = Callable[[Call], Sayings]
SHELLS = names("sh bash zsh dash ash ksh mksh fish csh tcsh rbash")
_DOWNLOADERS = names(
    "curl wget http https fetch aria2c axel lynx links w3m xh nc ncat netcat socat scp ssh gsutil iwr invoke- webrequest"
)
_REMOTE_WHY = "it runs what another machine sends"


def downloads(commands: tuple[Command, ...]) -> bool:
    """Return whether one of the commands, or what feeds it, gets something from another machine."""
    for command in commands:
        link: Command | None = command
        while link is not None:
            names = [word.text.rpartition("/")[2].lower() for word in link.words]
            if any(name in _DOWNLOADERS for name in names[:6]) or any(downloads(word.inner) for word in link.words):
                return True
            link = link.reads
    return False


def shell(call: Call) -> Sayings:
    """Say what a shell is told to run."""
    given = options(call.args, "Oo", ("rcfile", "init-file"), first=True)
    if given.has("version", "help"):
        return
    for path in given.of("rcfile", "init-file"):
        yield from _script(path, "shell")
    letters = "".join(word.text[1:] for word in call.args if re.match(r"-[A-Za-z]", word.text))
    if given.has("c"):
        if not given.operands:
            return
        text = given.operands[0]
        if downloads(text.inner):
            yield Found(Category.REMOTE_EXEC, _REMOTE_WHY)
        yield Shell(text)
    elif given.operands and given.operands[0].text != "-" and not given.has("s"):
        yield from _script(given.operands[0], "shell")
    elif "n" in letters and "s" not in letters and given.operands:
        return
    else:
        yield from _from_input(call, "shell")


def _script(path: Word, language: str) -> Sayings:
    if downloads(path.inner):
        yield Found(Category.REMOTE_EXEC, _REMOTE_WHY)
    elif path.inner or not path.known or path.text in ("/dev/stdin", "/dev/fd/0"):
        yield unclear("it is not known what it runs")
    else:
        yield File(path, language)
        yield from task(path.text.rpartition("/")[2])


def _from_input(call: Call, language: str) -> Sayings:
    given = call.input
    if given.kind == "net" or downloads(given.word.inner):
        yield Found(Category.REMOTE_EXEC, _REMOTE_WHY)
    elif given.kind == "text":
        yield Shell(given.word) if language == "shell" else Code(language, given.word)
    elif given.kind == "file":
        yield from _script(given.word, language)
    else:
        yield unclear(f"{call.program} runs what it reads, and it is not known what that is")


def _python(call: Call) -> Sayings:
    given = options(call.args, "cmWXQ", ("check-hash-based-pycs",), first=True)
    if given.has("V", "version", "help", "h"):
        return
    # What follows -c or -m is for the program, not for Python.
    texts = [word.text for word in call.args]
    for place, text in enumerate(texts):
        found = re.match(r"-[A-Za-z]*?([cm])(.*)$", text, re.DOTALL) if not text.startswith("--") else None
        if found is None:
            if not text.startswith("-") or text == "-":
                break
            continue
        inside = Word(found.group(2)) if found.group(2) else call.args[place + 1] if place + 1 < len(texts) else ANYTHING
        rest = call.args[place + (1 if found.group(2) else 2) :]
        if found.group(1) == "m":
            yield Run((inside, *rest))
            yield File(Word(f"{inside.text.replace('.', '/')}.py"), "python")
        else:
            if downloads(inside.inner):
                yield Found(Category.REMOTE_EXEC, _REMOTE_WHY)
            yield Code("python", inside)
        return
    if not given.operands or given.operands[0].text == "-":
        yield from _from_input(call, "python")
        return
    yield from _script_with_words(given.operands, call, "python")


def _script_with_words(words: tuple[Word, ...], call: Call, language: str) -> Sayings:
    yield from _script(words[0], language)
    rule = SCRIPTS.get(words[0].text.rpartition("/")[2])
    if rule is not None:
        yield from rule(Call(words[0].text, words[1:], call.input))


def _interpreter(call: Call, *, language: str, evaluates: str = "e", long: tuple[str, ...] = ("eval", "print")) -> Sayings:
    takes = {"tcl": "cf", "perl": "eEIMmCdDxF", "ruby": "eIrCEFKT", "php": "rdfcBRFE", "lua": "el"}.get(language, "epr")
    words = call.args[1:] if call.args[:1] and call.args[0].text in ("eval", "run", "repl") else call.args
    if language == "javascript":
        # Here -p takes no value of its own when -e follows in the same word.
        words = tuple(Word("-e") if re.fullmatch(r"-[a-z]*pe|-ep", word.text) else word for word in words)
    given = options(words, takes, (*long, "require", "import", "loader"), first=True)
    if given.has("version", "v", "help", "h", "V") and not given.operands and not given.values:
        return
    if call.args[:1] and call.args[0].text == "eval":
        yield from (Code(language, word) for word in given.operands[:1])
        return
    texts = [*given.of(*evaluates, *long)]
    for text in texts:
        if downloads(text.inner):
            yield Found(Category.REMOTE_EXEC, _REMOTE_WHY)
        yield Code(language, text)
    if language in ("perl", "ruby") and any(
        re.match(r"-[a-zA-Z0-9]*i", word.text) and not word.text.startswith(("-I", "-M", "--")) for word in call.args
    ):
        yield Changes("in-place-edit", "it changes files in place")
        for path in given.operands:
            yield Write(path)
    elif texts:
        return
    elif given.operands and given.operands[0].text != "-":
        yield from _script_with_words(given.operands, call, language)
    elif not call.args or given.operands or call.input.kind != "none":
        yield from _from_input(call, language)


def _wrapper(call: Call, *, takes: str = "", long: str = "", skip: int = 0, assigns: bool = False) -> Sayings:
    """Programs that run the command which follows their own options."""
    given = options(call.args, takes, long.split(), first=True)
    words = given.operands[skip:]
    if any(word.splits for word in given.operands[:skip]):
        yield unclear("it is not known which program it runs")
    while assigns and words and re.match(r"[A-Za-z_]\w*=", words[0].text):
        words = words[1:]
    for text in given.of("S", "split-string") if call.program == "env" else ():
        yield Shell(Word(" ".join([text.text, *(word.text for word in words)]), text.splits))
        return
    if words:
        yield Run(words)


def _sudo(call: Call) -> Sayings:
    given = options(
        call.args, "ugpChRrDTU", names("user group host prompt chdir chroot role type other-user command-timeout"), first=True
    )
    words = given.operands
    while words and re.match(r"[A-Za-z_]\w*=", words[0].text):
        words = words[1:]
    if given.has("e", "edit"):
        yield from (Write(path) for path in words)
    elif words:
        yield Run(words)
    elif given.has("s", "i", "shell", "login"):
        yield from _from_input(call, "shell")


def _command(call: Call) -> Sayings:
    given = options(call.args, first=True)
    if not given.has("v", "V") and given.operands:
        yield Run(given.operands)


def _su(call: Call) -> Sayings:
    given = options(call.args, "csguG", ("command", "shell", "group", "session-command"))
    texts = [*given.of("c", "command", "session-command")]
    for text in texts:
        yield Shell(text)
    if not texts:
        yield from _from_input(call, "shell")


def _joined(call: Call, *, takes: str = "", skip: int = 0, texts: str = "") -> Sayings:
    """Programs that hand their words to a shell."""
    given = options(call.args, takes, ("command", "interval"), first=True)
    for text in given.of(*texts, "command") if texts else ():
        yield Shell(text)
    words = given.operands[skip:]
    if words:
        yield Shell(Word(" ".join(word.text for word in words), any(word.splits for word in words)))


def _eval(call: Call) -> Sayings:
    if any(downloads(word.inner) for word in call.args):
        yield Found(Category.REMOTE_EXEC, _REMOTE_WHY)
    yield from _joined(call)


def _source(call: Call) -> Sayings:
    if call.args:
        yield from _script(call.args[0], "shell")


def _alias(call: Call) -> Sayings:
    for word in call.args:
        _, equals, value = word.text.partition("=")
        if equals:
            # What follows the alias where it is used is not known here.
            yield Shell(Word(f'{value} "$@"', word.splits))


def _trap(call: Call) -> Sayings:
    if len(call.args) > 1 and call.args[0].text not in ("-", "-p", "-l"):
        yield Shell(call.args[0])


def _exports(call: Call) -> Sayings:
    for word in call.args:
        name, equals, value = word.text.partition("=")
        if equals:
            yield from variable(name, Word(value, word.splits))


_RUNNING = names(
    "GIT_SSH_COMMAND GIT_SSH GIT_EDITOR GIT_SEQUENCE_EDITOR EDITOR VISUAL PAGER GIT_PAGER MANPAGER "
    "GIT_EXTERNAL_DIFF GIT_ASKPASS SSH_ASKPASS PROMPT_COMMAND BROWSER LESSOPEN GIT_PROXY_COMMAND RSYNC_RSH "
    "MAKEFLAGS"
)
_LOADING = names(
    "LD_PRELOAD LD_AUDIT DYLD_INSERT_LIBRARIES BASH_ENV ENV PYTHONSTARTUP NODE_OPTIONS PERL5OPT RUBYOPT "
    "GIT_CONFIG_COUNT GIT_CONFIG_PARAMETERS GIT_EXEC_PATH GIT_TEMPLATE_DIR BASH_FUNC PYTHONINSPECT IFS"
)


def variable(name: str, value: Word) -> Sayings:
    """Say what it means that a variable is set."""
    if name in _RUNNING and value.text not in ("", "true", "false", "cat", "less", ":"):
        yield Shell(value)
    elif (
        name in _LOADING
        and value.text
        and not (name == "NODE_OPTIONS" and re.fullmatch(r"--max[-_]old[-_]space[-_]size=\d+", value.text))
    ):
        yield unclear(f"{name} has other programs do something else")


def _editor(call: Call) -> Sayings:
    given = options(call.args, "cSsTuU", ("cmd", "eval", "load", "script"))
    yield Changes("in-place-edit", "it changes files")
    if given.values or any(word.text.startswith("+") for word in call.args):
        yield unclear("the editor is told to do what is not judged here")
    for path in given.operands:
        if not path.text.startswith("+"):
            yield Write(path)


def _power_shell(call: Call) -> Sayings:
    texts = [word.text.lower() for word in call.args]
    for place, text in enumerate(texts):
        if re.match(r"[-/]e(nc|ncodedcommand|c)?$", text):
            yield unclear("its command is encoded")
        elif re.match(r"[-/](c|command|k)$", text):
            yield Shell(Word(" ".join(word.text for word in call.args[place + 1 :])))
            yield Changes("powershell", "it runs PowerShell")
            return
    if not texts:
        yield from _from_input(call, "shell")


def _package_manager(call: Call) -> Sayings:
    verbs = [word.text for word in call.args if not word.text.startswith("-")]
    if set(verbs[:2]) & {
        "install",
        "uninstall",
        "remove",
        "purge",
        "add",
        "upgrade",
        "update",
        "sync",
        "autoremove",
        "create",
        "delete",
    }:
        yield Changes("install", "it changes what is installed")
    if verbs[:2] in (["config", "set"], ["config", "edit"]):
        yield Found(Category.PROTECTED_CONFIG_WRITE, "it changes settings")


def _with_runner(call: Call) -> Sayings:
    """`uv run`, `poetry run`, `npx` and the like, and what else these programs do."""
    yield from RELEASE[call.program](call) if call.program in RELEASE else _package_manager(call)
    texts = [word.text for word in call.args]
    for word in ("run", "exec", "tool"):
        if word in texts[:3]:
            rest = call.args[texts.index(word) + 1 :]
            if rest[:1] and rest[0].text == "run":
                rest = rest[1:]
            given = options(
                rest,
                "pnw",
                (
                    "python",
                    "with",
                    "package",
                    "project",
                    "directory",
                    "extra",
                    "group",
                    "env",
                    "name",
                    "from",
                    "env-file",
                    "index",
                ),
                first=True,
            )
            if given.operands:
                yield Run(given.operands)
            return


def _truncate(call: Call) -> Sayings:
    if call.args and call.args[0].text.lower() in ("table", "only"):
        yield from sql(" ".join(["truncate", *(word.text for word in call.args)]))
    else:
        yield from FILES["truncate"](call)


def _multi_call(call: Call) -> Sayings:
    if call.args:
        yield Run(call.args)


def _pager(call: Call) -> Sayings:
    given = options(call.args, "P" if call.program == "man" else "", ("pager",))
    for text in given.of("P", "pager"):
        yield Shell(text)
    if any(word.text.startswith("+") and "!" in word.text for word in call.args):
        yield unclear("it is told to run a program")


def _screen(call: Call) -> Sayings:
    given = options(call.args, "SchpestTX", first=True)
    if given.has("X"):
        yield unclear("it is not known what reads this")
    elif given.operands:
        yield Run(given.operands)


def _nix(call: Call) -> Sayings:
    given = options(call.args, "pc", ("run", "command"))
    for text in given.of("run", "command"):
        yield Shell(text)
    texts = [word.text for word in call.args]
    for mark in ("-c", "--command"):
        if mark in texts and call.program == "nix":
            yield Run(call.args[texts.index(mark) + 1 :])
    if "--" in texts:
        yield Run(call.args[texts.index("--") + 1 :], guessed=True)


def _tmux(call: Call) -> Sayings:
    texts = [word.text for word in call.args]
    if "send-keys" in texts or "send" in texts:
        yield unclear("it is not known what reads these keys")
    for word in call.args:
        if " " in word.text:
            yield Shell(word)


_WRAPPERS: Mapping[str, Rule] = {
    "sudo": _sudo,
    "doas": partial(_wrapper, takes="uC"),
    "env": partial(_wrapper, takes="uSC", long="unset chdir split-string", assigns=True),
    "nohup": _wrapper,
    "setsid": _wrapper,
    "nice": partial(_wrapper, takes="n", long="adjustment"),
    "ionice": partial(_wrapper, takes="cnp", long="class classdata"),
    "chrt": partial(_wrapper, takes="TPD", skip=1),
    "taskset": partial(_wrapper, skip=1),
    "timeout": partial(_wrapper, takes="ks", long="kill-after signal", skip=1),
    "gtimeout": partial(_wrapper, takes="ks", long="kill-after signal", skip=1),
    "time": partial(_wrapper, takes="fo", long="format output"),
    "stdbuf": partial(_wrapper, takes="ioe", long="input output error"),
    "unbuffer": _wrapper,
    "command": _command,
    "builtin": _wrapper,
    "exec": partial(_wrapper, takes="a"),
    "busybox": _multi_call,
    "toybox": _multi_call,
    "rtk": _multi_call,
    "caffeinate": partial(_wrapper, takes="tw"),
    "chronic": _wrapper,
    "ts": lambda _: iter(()),
    "flock": partial(_joined, takes="wEc", skip=1, texts="c"),
    "watch": partial(_joined, takes="n"),
    "script": partial(_joined, takes="cEIOoT", skip=1, texts="c"),
    "su": _su,
    "runuser": _su,
    "eval": _eval,
    "source": _source,
    ".": _source,
    "alias": _alias,
    "trap": _trap,
    "export": _exports,
    "declare": _exports,
    "typeset": _exports,
    "readonly": _exports,
    "local": _exports,
    "powershell": _power_shell,
    "pwsh": _power_shell,
    "cmd": _power_shell,
    "tmux": _tmux,
    "screen": _screen,
    "nix-shell": _nix,
    "nix": _nix,
}


def _unclear_with(call: Call, *, letters: str, why: str) -> Sayings:
    if options(call.args).has(*letters):
        yield unclear(why)


_OTHERS: Mapping[str, Rule] = {
    **dict.fromkeys(("vi", "vim", "nvim", "ex", "ed", "nano", "emacs", "pico", "view"), _editor),
    **dict.fromkeys(
        ("pip", "pipx", "apt", "apt-get", "brew", "yum", "dnf", "apk", "pacman", "snap", "composer", "bundle"),
        _package_manager,
    ),
    **dict.fromkeys(("uv", "poetry", "pdm", "hatch", "pipenv", "rye", "conda", "mise", "asdf", "bundle"), _with_runner),
    **dict.fromkeys(("npx", "bunx", "pnpx", "uvx"), _wrapper),
    "truncate": _truncate,
    "man": _pager,
    "less": _pager,
    "more": _pager,
    "hash": partial(_unclear_with, letters="p", why="it has a name stand for another program"),
    "bind": partial(_unclear_with, letters="x", why="it has keys run a command"),
    "enable": partial(_unclear_with, letters="fnd", why="it changes what the shell's own commands are"),
}
_INTERPRETERS: Mapping[str, Rule] = {
    name: _python
    if language == "python"
    else partial(
        _interpreter,
        language=language,
        evaluates={"perl": "eE", "php": "rBRE", "javascript": "ep", "tcl": "c"}.get(language, "e"),
    )
    for name, language in LANGUAGES.items()
}
RULES: Mapping[str, Rule] = {
    **DATA,
    **FILES,
    **RELEASE,
    **GIT,
    **_OTHERS,
    **_INTERPRETERS,
    **_WRAPPERS,
    **dict.fromkeys(SHELLS, shell),
}
"""What each program does."""
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
