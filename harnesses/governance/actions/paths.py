"""Which paths are protected: secrets, what configures and judges the work, and the machine itself. Pure.

A path is text as a command names it, with `UNKNOWN` for what is not known of it. One that is unknown in part is protected if
a protected path could come of it.
"""

from __future__ import annotations

import re

from attrs import evolve

from harnesses.governance.actions.nouns import UNKNOWN, Category, Word

_SECRET = re.compile(
    r"""(?x)
    (^|/)\.env(rc)?(\.(?!(example|sample|template|tmpl|dist|defaults?|schema)$)[^/]*)?$
    | (^|/)(\.npmrc|\.pypirc|\.netrc|_netrc|\.pgpass|\.my\.cnf|\.htpasswd|\.git-credentials|\.dockercfg|\.vault-token)$
    | (^|/)(\.ssh|\.gnupg|\.aws|\.azure|\.kube|\.config/gcloud|\.config/gh|\.password-store)(/|$)
    | (^|/)\.docker/config\.json$ | (^|/)\.cargo/credentials(\.toml)?$ | (^|/)\.gem/credentials$
    | (^|/)(id_(rsa|dsa|ecdsa|ed25519)(_sk)?|authorized_keys2?|known_hosts)(\.pub)?$
    | (^|/)(credentials?|secrets?)(\.(json|ya?ml|toml|ini|env|txt|xml|properties|cfg|conf|enc|gpg|local|production))*$
    | (^|/)(client_secret|service[-_]account)[^/]*\.json$
    | \.(pem|key|p12|pfx|keystore|jks|kdbx|ppk|asc)$
    | ^/etc/(shadow|gshadow|sudoers)(\.d)?(/|-|$)
    """
)
_CONFIG = re.compile(
    r"""(?x)
    (^|/)\.git(/|$) | (^|/)\.(gitattributes|gitmodules|gitconfig)$
    | (^|/)\.github(/(workflows|actions)(/|$)|/?$) | (^|/)(codeowners)$
    | (^|/)(\.gitlab-ci\.yml|jenkinsfile|azure-pipelines\.ya?ml|\.travis\.yml|bitbucket-pipelines\.yml|\.drone\.yml)$
    | (^|/)\.(circleci|buildkite|husky|devcontainer)(/|$) | (^|/)(\.pre-commit-config\.yaml|lefthook\.ya?ml)$
    | (^|/)(dockerfile(\.[^/]*)?|[^/]*\.dockerfile|containerfile)$ | (^|/)(docker-)?compose(\.[^/]*)?\.ya?ml$
    | (^|/)\.(claude|codex|gemini|cursor|aider|continue|windsurf|opencode|pipeline|orchestrator)(/|$)
    | (^|/)(\.claude\.json|\.mcp\.json|\.aider\.conf\.yml)$
    | (^|/)\.(bashrc|bash_profile|bash_login|bash_logout|profile|zshrc|zprofile|zshenv|zlogin|kshrc|inputrc)$
    | (^|/)\.config/(autostart|systemd|fish|git|pip)(/|$) | (^|/)(\.pip|pip)/pip\.(conf|ini)$
    | (^|/)run\.db([-.][^/]*)?(/|$) | (^|/)[^/]*\.db(-latch|-key|-head|\.run-[^/]*)(/|$)
    | ^/(etc|boot|usr(?!/src/)|bin|sbin|lib(32|64)?|sys|proc|var/spool/cron|library|system)(/|$)
    """
)
_RUN_FOLDER = re.compile(r"(^|/)\.pipeline/runs/[^/]+/(artifacts|tasks)/")
"""Where an agent that works by files hands its work in, in the midst of what is protected."""
_DEVICE = re.compile(r"^/dev/(?!null$|zero$|stdout$|stderr$|stdin$|tty$|fd/|full$|u?random$|shm/|pts/|ptmx$)")
_NOWHERE = re.compile(r"^/dev/(null|zero|stdout|stderr|tty|full|fd/\d+|pts/\d+)$")
_TEMPORARY = re.compile(r"^(/tmp|/var/tmp|/dev/shm|/private/tmp|~/tmp)/[^/]")
_SAMPLES = (
    ".env",
    ".env.local",
    ".npmrc",
    ".pypirc",
    ".netrc",
    "credentials",
    "credentials.json",
    "secrets.yaml",
    "id_rsa",
    "server.key",
    "cert.pem",
    ".ssh/authorized_keys",
    ".ssh/config",
    ".aws/credentials",
    ".git/config",
    ".git/hooks/pre-commit",
    ".git/HEAD",
    ".github/workflows/ci.yml",
    ".claude/settings.json",
    "dockerfile",
    "docker-compose.yml",
    "run.db",
    "run.db-latch/@all",
    ".bashrc",
    "/etc/passwd",
    "/dev/sda",
)
"""What a path that is unknown in part is compared with."""


def protected(word: Word) -> tuple[str, str] | None:
    """Return the category and the reason why a path is not to be written to; None if it may be."""
    text = word.text.strip()
    if UNKNOWN in text or word.splits or word.glob:
        return _possibly(text)
    return _named(text)


def within(word: Word, folder: str) -> Word:
    """Return a path as it is from the folder that a command has gone to."""
    if not folder or word.text.startswith(("/", "~")):
        return word
    return evolve(word, text=f"{folder.rstrip('/')}/{word.text}")


def from_root(word: Word, root: str) -> Word:
    """Return a path below `root` as it is seen from there."""
    inside = root.rstrip("/") + "/"
    if len(inside) > 1 and word.text.startswith(inside) and ".." not in word.text.split("/"):
        return evolve(word, text=word.text.removeprefix(inside))
    return word


def _named(text: str) -> tuple[str, str] | None:
    for path in {normal(text), collapsed(text)}:
        if _DEVICE.search(path):
            return Category.BROAD_DELETE, f"{text} is a device"
        if _SECRET.search(path):
            return Category.SECRET_WRITE, f"{text} is where secrets are kept"
        if _CONFIG.search(path) and not (_RUN_FOLDER.search(path) and ".." not in text):
            return Category.PROTECTED_CONFIG_WRITE, f"{text} is protected"
    return None


def _possibly(text: str) -> tuple[str, str] | None:
    shown = text.replace(UNKNOWN, "…")
    if set(text) <= {UNKNOWN, "/", ".", "*"} - {"."} or text.strip("./") in ("", UNKNOWN):
        return Category.PROTECTED_CONFIG_WRITE, f"it is not known where {shown} is"
    pattern = normal(text)
    if known := _named(pattern):
        return known[0], f"{shown} could be what is protected"
    for sample in _SAMPLES:
        parts = sample.count("/") + 1
        tail = pattern if sample.startswith("/") else "/".join(pattern.split("/")[-parts:])
        hidden = sample.startswith(".") and tail.startswith(("*", "?"))
        if not hidden and _matches(tail, sample) and _alike(tail, sample):
            where = _named(sample)
            return (where or (Category.PROTECTED_CONFIG_WRITE, ""))[0], f"{shown} could be {sample}"
    return None


def _matches(pattern: str, path: str) -> bool:
    """Return whether a path can come of a pattern, in which `UNKNOWN` is anything."""
    places = {0}
    for piece in re.findall(r"\[[^]/]+\]|.", pattern, flags=re.DOTALL):
        if piece == UNKNOWN:
            places = set(range(min(places), len(path) + 1))
        elif piece == "*":
            places = {end for start in places for end in range(start, _stroke(path, start) + 1)}
        else:
            places = {place + 1 for place in places if place < len(path) and _is_one_of(path[place], piece)}
        if not places:
            return False
    return len(path) in places


def _stroke(path: str, start: int) -> int:
    """Return where the next stroke is, or the end."""
    found = path.find("/", start)
    return len(path) if found < 0 else found


def _is_one_of(char: str, piece: str) -> bool:
    if len(piece) == 1:
        return char == piece or (piece == "?" and char != "/")
    try:
        return re.fullmatch(piece.replace("[!", "[^"), char, re.DOTALL) is not None
    except re.error:
        return True


def _alike(pattern: str, sample: str) -> bool:
    """Return whether something of the sample is spelt out in the pattern; `*.py` is none of ours, `…` was judged before."""
    return bool(re.sub(rf"[*?\[\]/.{UNKNOWN}]", "", pattern)) or pattern in ("*", ".*", UNKNOWN)


def normal(text: str) -> str:
    """Return a path in lower case without `.`, doubled strokes and what `..` takes back."""
    parts: list[str] = []
    for part in text.lower().replace("\\", "/").split("/"):
        if part in ("", "."):
            continue
        if part == ".." and parts and parts[-1] != ".." and UNKNOWN not in parts[-1]:
            parts.pop()
        else:
            parts.append(part)
    return ("/" if text.startswith("/") else "") + "/".join(parts)


def collapsed(text: str) -> str:
    """Return a path in lower case with its `..` left in it: a link may make it lead elsewhere."""
    return re.sub(r"/(\./)*/*", "/", text.lower())


def is_nowhere(word: Word) -> bool:
    """Return whether writing there changes nothing."""
    return word.known and bool(_NOWHERE.match(word.text))


def is_temporary(word: Word) -> bool:
    """Return whether a path is in a folder for temporary files."""
    return word.known and ".." not in word.text.split("/") and bool(_TEMPORARY.match(word.text))


_EVERYTHING = re.compile(r"^(~|/|)(/?(\*|\{\*,\.\*\}|\.\[!\.\]\*|\.))*/?$")
_TOP = re.compile(r"^/[^/]+/?(\*)?$|^/(home|users|var|usr|opt|srv|mnt|media)/[^/]+/?\*?$")


def is_everything(word: Word) -> bool:
    """Return whether a path stands for a whole folder's content, a home, or the machine."""
    text = word.text
    if not word.glob and "*" in text:
        return False
    return bool(_EVERYTHING.match(text)) or text.endswith(("/*", "/.*")) or bool(_TOP.match(normal(text)))
