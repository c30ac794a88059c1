"""Which paths a harmless command may read and write: below the workspace, without secrets and what configures or runs things.

A path is judged from every folder that the command may have gone to, by its text and, where the workspace is known, by where
its links lead. Reading is refused where secrets are kept and below the home directory outside the workspace: what is read
reaches the agent, and whoever it talks to.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from fnmatch import fnmatchcase

from attrs import define, field

from harnesses.governance.actions.nouns import HOLE, SECRET_READ, UNREADABLE, Category, Finding, Word

_SECRET = re.compile(
    r"""(?xi)
    (^|/)\.env(rc)?(\.(?!(example|sample|template|tmpl|dist|defaults?|schema)$)[^/]*)?$
    | (^|/)(\.npmrc|\.pypirc|\.netrc|_netrc|\.pgpass|\.my\.cnf|\.htpasswd|\.git-credentials|\.dockercfg|\.vault-token)$
    | (^|/)(\.ssh|\.gnupg|\.aws|\.azure|\.kube|\.config/gcloud|\.config/gh|\.password-store)(/|$)
    | (^|/)\.docker/config\.json$ | (^|/)\.cargo/credentials(\.toml)?$ | (^|/)\.gem/credentials$
    | (^|/)(id_(rsa|dsa|ecdsa|ed25519)(_sk)?|authorized_keys2?|known_hosts)(\.pub)?$
    | (^|/)(credentials?|secrets?)(\.(json|ya?ml|toml|ini|env|txt|xml|properties|cfg|conf|enc|gpg|local|production))*$
    | (^|/)(client_secret|service[-_]account)[^/]*\.json$ | (^|/)\.(bash|zsh|python|psql|mysql|node_repl)_history$
    | \.(pem|key|p12|pfx|keystore|jks|kdbx|ppk|asc)$ | (^|/)[^/]*\.db-key$
    | ^/etc/(g?shadow|sudoers)(\.d)?(/|-|$)
    | ^/proc/[^/]+/(environ|mem|maps|fd|root|cwd|task|map_files)(/|$) | ^/(dev|run|sys)/
    """
)
_CONFIG = re.compile(
    r"""(?xi)
    (^|/)\.git(/|$) | (^|/)\.(gitattributes|gitmodules|gitconfig)$ | (^|/)(HEAD|commondir|gitdir|config\.worktree)$
    | (^|/)\.github(/(workflows|actions)(/|$)|/?$) | (^|/)codeowners$
    | (^|/)(\.gitlab-ci\.yml|jenkinsfile|azure-pipelines\.ya?ml|\.travis\.yml|bitbucket-pipelines\.yml|\.drone\.yml)$
    | (^|/)\.(circleci|buildkite|husky|devcontainer|direnv)(/|$) | (^|/)(\.pre-commit-config\.yaml|lefthook\.ya?ml)$
    | (^|/)(dockerfile(\.[^/]*)?|[^/]*\.dockerfile|containerfile)$ | (^|/)(docker-)?compose(\.[^/]*)?\.ya?ml$
    | (^|/)\.(claude|codex|gemini|cursor|aider|continue|windsurf|opencode|pipeline|orchestrator)(/|$)
    | (^|/)(\.claude\.json|\.mcp\.json|\.aider\.conf\.yml)$
    | (^|/)\.(bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile|zshrc|zprofile|zshenv|zlogin|kshrc|inputrc)$
    | (^|/)\.config/(autostart|systemd|fish|git|pip)(/|$) | (^|/)(\.pip|pip)/pip\.(conf|ini)$
    | (^|/)run\.db([-.][^/]*)?(/|$) | (^|/)[^/]*\.db(-latch|-key|-head|\.run-[^/]*)(/|$)
    | ^/(etc|boot|usr(?!/src/)|bin|sbin|lib(32|64)?|sys|proc|dev|var/spool/cron|library|system)(/|$)
    """
)
_RUN_FOLDER = re.compile(r"(^|/)\.pipeline/runs/[^/]+/(artifacts|tasks)/")
"""Where an agent that works by files hands its work in, in the midst of what is protected."""
_RUNS = re.compile(
    r"""(?xi)
    (^|/)(conftest|sitecustomize|usercustomize|setup|noxfile)\.py$ | \.(pth|mk|so|pyc|egg-link)$
    | (^|/)(gnu)?makefile(\.[^/]*)?$ | (^|/)(justfile|rakefile|gemfile|vagrantfile|procfile|tiltfile|brewfile|cmakelists\.txt)$
    | (^|/)(package(-lock)?|composer|deno|tsconfig[^/]*|angular|nx|turbo|lerna)\.jsonc?$
    | (^|/)(pyproject|cargo|pixi|mise|uv)\.toml$
    | (^|/)(setup|tox|pytest|mypy|flake8|coverage)\.(cfg|ini)$ | (^|/)(build\.rs|pom\.xml|meson\.build)$
    | (^|/)((?-i:BUILD|WORKSPACE)(\.bazel)?|gradlew?)$
    | (^|/)[^/]*(\.config|gruntfile|gulpfile)\.[cm]?[jt]s$ | (^|/)(build|settings)\.gradle(\.kts)?$ | (^|/)taskfile\.ya?ml$
    | (^|/)\.[^/]*(rc|rc\.[a-z]+)$ | (^|/)\.(vscode|idea|mvn|cargo|yarn|venv|tox|nox|npm)(/|$) | (^|/)rust-toolchain[^/]*$
    | (^|/)\.(tool-versions|python-version|nvmrc|pnpmfile\.cjs|pythonrc|gdbinit|lldbinit|bazelrc|envrc)$
    | (^|/)(venv|node_modules|site-packages|__pycache__|\.bin)(/|$)
    """
)
_NOWHERE = re.compile(r"^/dev/(null|zero|stdout|stderr|tty|full|fd/[012])$")
_SHOWS_NOTHING = re.compile(r"^/dev/(null|zero|stdin|tty|fd/(\d+|\0))$|^(/dev/stdin|-)$")
_NAME = re.compile(r"[^\s'\"\\|&;()<>*?\[\]{}$`!#:]+")
"""Names that may be written: others may become something else where they are read, such as by xargs."""
_HOMES = ("/home", "/root", "/Users", "/var/root")
_SAMPLES = (
    ".env",
    ".env.local",
    ".npmrc",
    ".pypirc",
    ".netrc",
    ".pgpass",
    ".git-credentials",
    "id_rsa",
    "id_ed25519",
    "server.key",
    "cert.pem",
)


def protected_path(path: str, *, root: str = "") -> Finding | None:
    """Return why a tool may not write to a path without an approval; None if it may."""
    found = _protected(_from_root(path.strip(), root))
    return None if found is None else Finding(found[0], found[1], path[:200])


@define
class Places:
    """Where a command may be, and what it may read and write there."""

    root: str = ""
    """The workspace; without it, paths from the top are outside, and no link is looked at."""
    disposable: Collection[str] = ()
    folders: set[str | None] = field(factory=lambda: {""})
    """Where it may have gone to, from the workspace; None is anywhere."""

    def go(self, word: Word) -> None:
        """Note that it may have gone to a folder."""
        where = {self._from(folder, word.text) if word.known else None for folder in self.folders}
        self.folders |= {None if where_to is None else where_to for where_to in where}
        if len(self.folders) > 16:
            self.folders = {None}

    def folders_on_disk(self) -> list[str] | None:
        """Return where it may be as paths from the top; None if that is not known, or the workspace is not."""
        if not self.root or None in self.folders:
            return None
        return [os.path.normpath(os.path.join(self.root, folder)) for folder in self.folders if folder is not None]

    def may_not_read(self, word: Word) -> tuple[str, str] | None:
        """Return the category and the reason why the content of a file may not be shown; None if it may."""
        if _SHOWS_NOTHING.match(word.text):
            return None
        if HOLE in word.text or word.splits:
            return UNREADABLE, f"it is not known which file {word} is"
        if _is_secret(word.text):
            return SECRET_READ, f"{word} is where secrets are kept"
        for folder in self.folders:
            path = self._from(folder, word.text)
            if path is None:
                return SECRET_READ, f"it is not known where {word} is"
            found = self._read_at(path, word)
            if found is not None:
                return found
        return None

    def may_not_write(self, word: Word, *, runs: bool = True) -> tuple[str, str] | None:
        """Return the category and the reason why a path may not be written to; None if it may.

        Args:
            runs: whether to refuse what configures or is run by tools: it may be run by the same command.
        """
        if word.known and _NOWHERE.match(word.text):
            return None
        if found := _protected(word.text) if HOLE not in word.text else None:
            return found
        if not word.known or not _NAME.fullmatch(word.text) or word.text.startswith(("~", "-")):
            return Category.PROTECTED_CONFIG_WRITE, f"it is not known to be below the workspace where {word} is"
        for folder in self.folders:
            path = self._from(folder, word.text)
            if path is None or path.startswith(("/", "..")) or path == "" or ".." in word.text.split("/"):
                return Category.PROTECTED_CONFIG_WRITE, f"{word} is not known to be below the workspace"
            if found := _protected(path) or (
                ("run-code", f"{word} may be run, or says what is") if runs and _RUNS.search(path) else None
            ):
                return found
            if found := self._write_at(path, word, runs=runs):
                return found
        return None

    def may_go(self, word: Word) -> bool:
        """Return whether a whole folder may be deleted: it is below the workspace, and its name is given as disposable."""
        return (
            word.known
            and word.text.rstrip("/").rpartition("/")[2] in self.disposable
            and self.may_not_write(word, runs=False) is None
        )

    def _from(self, folder: str | None, text: str) -> str | None:
        """Return a path from the workspace: `..` or `/` leads it if it is outside."""
        if text.startswith("~") or (folder is None and not text.startswith("/")):
            return text if text.startswith("~") else None
        path = os.path.normpath(os.path.join(folder or "", text)) if text else folder or ""
        path = "" if path == "." else path
        if path.startswith("~"):
            return path
        if self.root:
            whole = os.path.normpath(os.path.join(self.root, path))
            return _from_root(whole, self.root) if whole != os.path.normpath(self.root) else ""
        return path

    def _read_at(self, path: str, word: Word) -> tuple[str, str] | None:
        if path.startswith("~"):
            return SECRET_READ, f"{word} is below the home directory, outside the workspace"
        if path.startswith("..") or (path.startswith("/") and (word.glob or _is_homely(path))):
            return SECRET_READ, f"{word} is outside the workspace, where secrets may be"
        if _is_secret(path):
            return SECRET_READ, f"{word} is where secrets are kept"
        if self.root and not word.glob:
            real = _from_root(os.path.realpath(os.path.join(self.root, path)), os.path.realpath(self.root))
            if _is_secret(real) or (real.startswith("/") and _is_homely(real)):
                return SECRET_READ, f"{word} leads to {real}, outside the workspace"
        return None

    def _write_at(self, path: str, word: Word, *, runs: bool) -> tuple[str, str] | None:
        if not self.root:
            return None
        whole = os.path.join(self.root, path)
        real = _from_root(os.path.realpath(whole), os.path.realpath(self.root))
        try:
            linked = not os.path.isdir(whole) and os.stat(whole).st_nlink > 1
        except OSError:
            linked = False
        if real.startswith("/") or linked:
            return Category.PROTECTED_CONFIG_WRITE, f"{word} leads out of the workspace"
        return _protected(real) or (("run-code", f"{word} leads to what may be run") if runs and _RUNS.search(real) else None)


def _protected(path: str) -> tuple[str, str] | None:
    for text in {path, re.sub(r"/(\./)*/*", "/", path), os.path.normpath(path)}:
        if _NOWHERE.match(text):
            return None
        if _SECRET.search(text) and not text.startswith(("/dev/", "/run/", "/sys/")):
            return Category.SECRET_WRITE, f"{path} is where secrets are kept"
        if text.startswith("/dev/"):
            return Category.BROAD_DELETE, f"{path} is a device"
        if _CONFIG.search(text) and not (_RUN_FOLDER.search(text) and ".." not in path):
            return Category.PROTECTED_CONFIG_WRITE, f"{path} is protected"
    return None


def _is_secret(text: str) -> bool:
    """Return whether a path, or what its pattern may match, is where secrets are kept."""
    path = os.path.normpath(text)
    if _SECRET.search(path) or _SECRET.search(text):
        return True
    name = path.rpartition("/")[2]
    if not set(path) & set("*?["):
        return False
    plain = len(re.sub(r"[*?.]|\[[^]]*\]", "", name))
    matched = [one for one in _SAMPLES if fnmatchcase(one, name)]
    return any(one.startswith(".") == (name[:1] in ".[") and (plain > 1 or name[:1] == ".") for one in matched)


def _is_homely(path: str) -> bool:
    """Return whether a path from the top is a home directory, or holds or is below one."""
    homes = (*_HOMES, os.path.expanduser("~"))
    pattern = re.split(r"[*?\[]", path)[0]
    return any(f"{path}/".startswith(f"{home}/") or f"{home}/".startswith(f"{path.rstrip('/')}/") for home in homes) or (
        pattern != path and any(home.startswith(pattern) for home in homes)
    )


def _from_root(path: str, root: str) -> str:
    """Return a path below `root` as it is seen from there."""
    inside = root.rstrip("/") + "/"
    if len(inside) > 1 and path.startswith(inside) and ".." not in path.split("/"):
        return path.removeprefix(inside)
    return "" if root and path == root.rstrip("/") else path
