"""The outside of a sandbox, with everything that an attempt may reach; and what tells, from there, that one did."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import select
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from attrs import field, frozen

from harnesses.files.private_files import conceal_file, conceal_folder
from tests.harnesses.agents.sandbox.escape_attempts import ATTEMPTS, Attempt
from tests.harnesses.agents.sandbox.escape_driver import SECRET_IF_DONE

DRIVER = Path(__file__).with_name("escape_driver.py")
LIMITS = {"memory_bytes": 256 << 20, "processes": 60, "open_files": 300, "file_bytes": 32 << 20}
_NAMES = re.compile(rb"[a-z0-9]+(?:-[a-z0-9]+)*")
_OTHER_USER = 12345
_libc = ctypes.CDLL(None, use_errno=True)


@frozen
class Ground:
    """A folder outside of a sandbox, and the directory in it that a sandboxed command works in."""

    folder: Path
    token: str
    secret: str
    facts: dict[str, object]
    """What attempts are told."""
    bystanders: Mapping[str, subprocess.Popen[bytes]]
    heard: list[bytearray]
    """What services, terminals and pipes outside received."""
    before: dict[str, object] = field(factory=dict)

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def environment(self) -> dict[str, str]:
        """The environment of this program, as a sandbox is given it."""
        found = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "GIT_CONFIG_GLOBAL": "/dev/null"}
        secrets = dict.fromkeys(("DEPLOY_PASSWORD", "MY_API_KEY", "ORCHESTRATOR_KEY"), self.secret)
        return {**found, **secrets, "SSH_AUTH_SOCK": str(self.folder / "agent")}

    @property
    def command(self) -> list[str]:
        return [os.path.realpath(sys.executable), "-I", "-S", "-B", str(self.work / "driver.py")]

    def with_descriptor(self, command: Sequence[str]) -> list[str]:
        """Return a command line that starts a command with an open descriptor of a secret file."""
        return ["sh", "-c", f'exec "$@" 9<{self.folder}/hidden/secret', "sh", *command]

    def escaped(self, attempts: Sequence[Attempt]) -> set[str]:
        """Return the names of the attempts that got out, as seen from outside."""
        heard = {found.decode() for one in self.heard for found in _NAMES.findall(one)}
        left = left_behind(self.token)
        evidence = (
            self._looted,
            self._changed_outside,
            lambda name: name in heard,
            lambda name: name in left,
            self._changed_bystander,
            self._changed_elsewhere,
            self._changed_git(),
            self._planted,
        )
        return {attempt.name for attempt in attempts if any(look(attempt.name) for look in evidence)}

    def remember(self, attempts: Sequence[Attempt]) -> None:
        """Keep how everything was before the attempts."""
        for attempt in attempts:
            self.before[attempt.name] = self._state_outside(attempt.name)
        for name, process in self.bystanders.items():
            self.before[f"bystander {name}"] = _state_of(process)

    def _looted(self, name: str) -> bool:
        file = self.work / "loot" / name
        found = file.read_bytes() if file.exists() else b""
        return self.secret.encode() in found or SECRET_IF_DONE.encode() in found

    def _changed_outside(self, name: str) -> bool:
        return self.before[name] != self._state_outside(name)

    def _state_outside(self, name: str) -> object:
        """Return what is in the folder of an attempt: content, metadata, names."""
        found: list[object] = []
        for path in (self.folder / "outside" / name, *sorted((self.folder / "outside" / name).glob("*"))):
            if not os.path.lexists(path):
                found.append("gone")
                continue
            now = os.lstat(path)
            kept = (now.st_mode, now.st_uid, now.st_gid, now.st_nlink, now.st_size)
            content = path.read_bytes() if stat.S_ISREG(now.st_mode) else b""
            attributes = os.listxattr(path, follow_symlinks=False)
            found.append((path.name, kept, now.st_mtime_ns if path.is_file() else 0, content, attributes))
        return found

    def _changed_bystander(self, name: str) -> bool:
        process = self.bystanders.get(name)
        return process is not None and self.before[f"bystander {name}"] != _state_of(process)

    def _changed_git(self) -> object:
        """Return a look for the name of an attempt in the repositories."""
        repositories = (self.work / ".git", self.folder / "common.git")
        files = [file for one in repositories for file in one.rglob("*") if file.is_file() and not file.is_symlink()]
        named = {found.decode() for file in files for found in _NAMES.findall(file.read_bytes() + b" " + bytes(file))}
        kept = (self.work / ".git" / "description").exists()
        return lambda name: name.startswith("git-") and (name in named if name != "git-delete" else not kept)

    def _changed_elsewhere(self, name: str) -> bool:
        """Return whether there is something new in /tmp, /run, the store, a hidden folder or the machine."""
        mark = f"escape-{self.token}-{name}"
        places = ("/tmp", "/run", "/dev/shm", str(self.facts["control_groups"]))
        planted = (self.folder / "hidden", self.folder / "trees" / "other", self.folder / "run")
        store = self.folder / "run" / "run.db"
        return (
            any(os.path.lexists(os.path.join(place, mark)) for place in places)
            or any(one.name.endswith(name) for folder in planted if folder.exists() for one in folder.iterdir())
            or (name == "store-write" and (store.with_name("run.db-head")).read_text() != self.secret)
            or (name == "store-delete" and not store.with_name("run.db-shm").exists())
            or (name.startswith("host-name") and socket.gethostname().startswith("escaped-"))
        )

    def _planted(self, name: str) -> bool:
        """Return whether there is something in the working directory that should not be possible there."""
        for path in self.work.glob(f"*-{name}"):
            now = os.lstat(path)
            if now.st_uid == _OTHER_USER or stat.S_ISCHR(now.st_mode) or stat.S_ISBLK(now.st_mode):
                return True
        large = self.work / "large"
        return name == "limit-file" and large.exists() and large.stat().st_size > LIMITS["file_bytes"]


def _state_of(process: subprocess.Popen[bytes]) -> object:
    with suppress(OSError):
        return (
            process.poll(),
            os.getpriority(os.PRIO_PROCESS, process.pid),
            os.sched_getaffinity(process.pid),
            Path(f"/proc/{process.pid}/limits").read_text(),
            Path(f"/proc/{process.pid}/oom_score_adj").read_text(),
        )
    return None


def left_behind(token: str) -> dict[str, int]:
    """Return the processes that are still there and have the mark of an attempt, by its name."""
    found: dict[str, int] = {}
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            around = (place / "environ").read_bytes().split(b"\0")
            words = (place / "cmdline").read_bytes().decode(errors="replace")
            if f"STAYS={token}".encode() in around:
                found[next(one for one in around if one.startswith(b"ATTEMPT="))[8:].decode()] = int(place.name)
            if words.startswith(f"escape-{token}-"):
                found[words.split("\0")[0].removeprefix(f"escape-{token}-")] = int(place.name)
    return found


_CAPABILITIES = (0, 2, 6, 7, 13, 18, 21, 27)
"""Those that attempts use: CHOWN, DAC_READ_SEARCH, SETGID, SETUID, NET_RAW, SYS_CHROOT, SYS_ADMIN, MKNOD."""


def refused_by_this_machine() -> set[str]:
    """Return the attempts that this machine's settings refuse without any sandbox."""

    def setting(path: str) -> int:
        try:
            return int(Path("/proc/sys", path).read_text())
        except OSError:
            return -1

    full = sum(1 << capability for capability in _CAPABILITIES)
    status = Path("/proc/self/status").read_text()
    has_all = int(re.search(r"CapEff:\s*(\w+)", status)[1], 16) & full == full  # type: ignore[index]
    traces_none = not has_all and setting("kernel/yama/ptrace_scope") > 0
    with tempfile.NamedTemporaryFile(dir="/var/tmp") as file:
        handle = _handle_of(Path(file.name))
        try:
            os.setxattr(file.name, "user.tried", b"1")
            has_attributes = True
        except OSError:
            has_attributes = False
    unnamed = getattr(os, "O_TMPFILE", 0)
    refused = {
        "root": not has_all,
        "ring-open": setting("kernel/io_uring_disabled") > (1 if has_all else 0),
        "tcp-multipath": setting("net/mptcp/enabled") != 1,
        "tcp-fast-open": setting("net/ipv4/tcp_fastopen") & 1 == 0,
        "tcp-mapped udp-mapped": not Path("/proc/net/if_inet6").exists(),
        "proc-memory memory-of-another descriptor-of-another trace-another": traces_none,
        "tcp-by-curl": shutil.which("curl") is None,
        "key-of-session key-of-user": _libc.syscall(250, 0, -3, 0) < 0,
        "setxattr": not has_attributes,
        "read-hidden-by-handle": not handle,
        "write-unnamed": not unnamed,
        "core-pattern": not os.access("/proc/sys/kernel/core_pattern", os.W_OK),
        "processors-of-another": len(os.sched_getaffinity(0)) < 2,
    }
    names = {name for line, is_refused in refused.items() if is_refused for name in line.split()}
    return names | {one.name for one in ATTEMPTS if one.root and "root" in names}


@contextmanager
def escape_ground(attempts: Sequence[Attempt] = ATTEMPTS) -> Iterator[Ground]:
    """Make a ground, serve what is outside meanwhile, and remove everything, daemons that stayed behind included."""
    token, secret = uuid4().hex[:12], f"SECRET{uuid4().hex}"
    with ExitStack() as stack:
        folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="escape-", dir="/var/tmp")))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        _lay_out(folder, secret, attempts)
        temporary = Path(tempfile.mkdtemp(prefix="escape-temporary-", dir="/tmp"))
        stack.callback(shutil.rmtree, temporary, ignore_errors=True)
        (temporary / "secret").write_text(secret)
        shared = Path(f"/dev/shm/escape-secret-{token}")
        shared.write_text(secret)
        stack.callback(shared.unlink, missing_ok=True)
        heard: list[bytearray] = []
        stack.callback(_remove_marked, token)
        facts = stack.enter_context(_serving(folder, heard, token))
        facts |= stack.enter_context(_remembered_by_the_kernel(secret, token))
        needing = [one for one in attempts if "bystander" in one.code or one.name in _LOOK_AT_ALL]
        bystanders = {one.name: _bystander(folder, secret, one) for one in needing}
        for process in bystanders.values():
            stack.callback(_end, process)
        for concealed in (conceal_file(folder / "run" / "run.db"), conceal_folder(folder / "trees")):
            stack.callback(concealed.reveal)
        facts |= {
            **LIMITS,
            **{name: str(folder / name) for name in ("outside", "hidden", "work", "fifo")},
            "store": str(folder / "run" / "run.db"),
            "sibling": str(folder / "trees" / "other"),
            "common": str(folder / "common.git"),
            "temporary": str(temporary),
            "shared": str(shared),
            "token": token,
            "control_groups": next((one for one in _GROUPS if os.access(one, os.W_OK)), "/sys/fs/cgroup"),
            "secret_handle": _handle_of(folder / "hidden" / "secret"),
            "bystanders": {name: process.pid for name, process in bystanders.items()},
        }
        ground = Ground(folder, token, secret, facts, bystanders, heard)
        (folder / "work" / "ground.json").write_text(json.dumps(facts))
        told = [{"name": one.name, "code": one.code, "alone": one.alone} for one in attempts]
        (folder / "work" / "attempts.json").write_text(json.dumps(told))
        ground.remember(attempts)
        yield ground


_LOOK_AT_ALL = ("proc-every-environment", "proc-command-line", "signal-everything")
"""Attempts that find a bystander by themselves."""
_GROUPS = ("/sys/fs/cgroup/pids", "/sys/fs/cgroup")


def _lay_out(folder: Path, secret: str, attempts: Sequence[Attempt]) -> None:
    for name in ("work/loot", "work/said", "outside", "hidden", "run", "trees/other"):
        (folder / name).mkdir(parents=True)
    for attempt in attempts:
        (folder / "outside" / attempt.name).mkdir()
        (folder / "outside" / attempt.name / "victim").write_text("untouched")
    stores = [f"run/run.db{end}" for end in ("", "-wal", "-shm", "-head", "-key")]
    for name in ("hidden/secret", "trees/other/secret", *stores):
        (folder / name).write_text(secret)
    (folder / "hidden" / "program").write_text(f"echo {secret}")
    for name in ("hidden/", "trees/other/", "run/run.db-"):  # Seen by who can list the folder.
        (folder / f"{name}{secret}").touch()
    shutil.copy(DRIVER, folder / "work" / "driver.py")
    os.mkfifo(folder / "fifo")
    around = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    for words in (("init", "-q", "work"), ("init", "-q", "--bare", "common.git")):
        subprocess.run(["git", *words], cwd=folder, env=around, check=True)


def _bystander(folder: Path, secret: str, attempt: Attempt) -> subprocess.Popen[bytes]:
    words = [secret if attempt.name == "proc-command-line" else "sleep", "600"]
    program = "/bin/sleep"
    if attempt.name == "signal-everything":
        words, program = ["sh", "-c", "trap 'exit 1' URG; sleep 600 & wait"], "/bin/sh"
    with open(folder / "hidden" / "secret", "rb") as held:
        return subprocess.Popen(
            words,
            executable=program,
            stdin=held,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder / "hidden",
            env={"PATH": "/usr/bin:/bin", "BYSTANDER": secret},
            start_new_session=True,
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _remove_marked(token: str) -> None:
    for pid in left_behind(token).values():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for place in ("/tmp", "/run", "/dev/shm", *_GROUPS):
        for path in Path(place).glob(f"escape-{token}-*"):
            with suppress(OSError):
                path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


def _handle_of(path: Path) -> str:
    handle, mount = ctypes.create_string_buffer(struct.pack("Ii128x", 128, 0)), ctypes.c_int()
    if _libc.name_to_handle_at(-100, os.fsencode(path), handle, ctypes.byref(mount), 0) != 0:
        return ""
    return handle.raw.hex()


@contextmanager
def _remembered_by_the_kernel(secret: str, token: str) -> Iterator[dict[str, object]]:
    """Put a secret into keys, shared memory and a message queue of this user."""
    add_key, keyctl, unlink = 248, 250, 9
    told = (b"user", f"escape-{token}".encode(), secret.encode(), len(secret))
    keys = [(_libc.syscall(add_key, *told, ring), ring) for ring in (-3, -4)]
    _libc.shmat.restype = ctypes.c_void_p
    segment = _libc.shmget(0, 4_096, 0o1600)
    ctypes.memmove(_libc.shmat(segment, None, 0), secret.encode(), len(secret))
    queue = _libc.msgget(0, 0o1600)
    _libc.msgsnd(queue, struct.pack("l", 1) + secret.encode(), len(secret), 0)
    try:
        yield {"segment": segment, "queue": queue, "key_name": f"escape-{token}"}
    finally:
        for key, ring in keys:
            _libc.syscall(keyctl, unlink, key, ring)
        _libc.shmctl(segment, 0, None)
        _libc.msgctl(queue, 0, None)


@contextmanager
def _serving(folder: Path, heard: list[bytearray], token: str) -> Iterator[dict[str, object]]:
    """Listen on everything that an attempt may reach, in a thread."""
    with ExitStack() as stack:

        def listen(family: int, kind: int, address: object) -> socket.socket:
            made = stack.enter_context(socket.socket(family, kind))
            made.bind(address)  # type: ignore[arg-type]
            if kind == socket.SOCK_STREAM:
                made.listen(50)
            return made

        paths = [str(folder / name) for name in ("service", "agent", "run/run.db.control-1")]
        streams = [
            listen(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
            *(listen(socket.AF_UNIX, socket.SOCK_STREAM, path) for path in (*paths, f"\0escape-{token}")),
        ]
        port = streams[0].getsockname()[1]
        streams.append(listen(socket.AF_INET, socket.SOCK_STREAM, ("127.9.9.9", port)))
        datagrams = [
            listen(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
            listen(socket.AF_UNIX, socket.SOCK_DGRAM, str(folder / "service-datagram")),
            listen(socket.AF_UNIX, socket.SOCK_DGRAM, f"\0escape-{token}-datagram"),
        ]
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            wanted = free.getsockname()[1]
        terminals = [os.openpty() for _ in range(2)]
        for pair in terminals:
            stack.callback(os.close, pair[0])
            stack.callback(os.close, pair[1])
        fifo = os.open(folder / "fifo", os.O_RDWR | os.O_NONBLOCK)
        stack.callback(os.close, fifo)
        done = threading.Event()
        masters = [*(pair[0] for pair in terminals), fifo]
        threads = [
            threading.Thread(target=_hear, args=(streams, datagrams, masters, heard, done)),
            threading.Thread(target=_visit, args=(wanted, heard, done)),
        ]
        for thread in threads:
            thread.start()
            stack.callback(thread.join)
        stack.callback(done.set)
        yield {
            "tcp": port,
            "udp": datagrams[0].getsockname()[1],
            "wanted": wanted,
            "service": str(folder / "service"),
            "abstract": f"escape-{token}",
            "terminal": os.ttyname(terminals[0][1]),
            "other_terminal": os.ttyname(terminals[1][1]),
        }


def _hear(
    streams: list[socket.socket],
    datagrams: list[socket.socket],
    others: list[int],
    heard: list[bytearray],
    done: threading.Event,
) -> None:
    """Receive what attempts send, until done."""
    connected: dict[int, tuple[socket.socket, bytearray]] = {}
    parts: dict[int, bytearray] = {one: bytearray() for one in others}
    heard += parts.values()
    listening = {one.fileno(): one for one in streams}
    with ExitStack() as stack:
        while not done.is_set():
            ready, _, _ = select.select([*listening, *datagrams, *others, *connected], [], [], 0.05)
            for one in ready:
                if isinstance(one, socket.socket):
                    heard.append(bytearray(one.recv(4_096)))
                elif one in listening:
                    made, _ = listening[one].accept()
                    connected[stack.enter_context(made).fileno()] = (made, bytearray())
                    heard.append(connected[made.fileno()][1])
                elif one in parts:
                    with suppress(OSError):
                        parts[one] += os.read(one, 4_096)
                else:
                    made, kept = connected[one]
                    chunk = b""
                    with suppress(OSError):
                        chunk = made.recv(4_096)
                    kept += chunk
                    if not chunk:
                        connected.pop(one)
                        made.close()


def _visit(port: int, heard: list[bytearray], done: threading.Event) -> None:
    """Connect to a port that an attempt may listen on."""
    while not done.wait(0.02):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.5) as one:
            heard.append(bytearray(one.recv(4_096)))
