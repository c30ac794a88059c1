"""The launcher: restricts itself, then becomes the command. Run by its path, within bubblewrap or instead of it.

    launcher --limit … --read … --write … -- command
        │ limits of resources, a session and keys of its own, no descriptors but the streams
        │ with --proxy:     a child forwards a port of loopback to the Unix socket of the proxy
        │ with --landlock:  no privileges; files, TCP, signals and abstract sockets restricted by the kernel,
        │                   if it can (`try`) or else the command does not start (`need`)
        │ with --filter:    system calls restricted by a seccomp program, in hexadecimal
        └ exec command      ends with 127 if it is not found, with 126 if it cannot be run

Invariant: the command starts only if every restriction that was asked for is in force; else it ends with 125.
It starts within 15 ms because it imports very little; keep it so.

Sources: landlock(7); prctl(2); capabilities(7); keyctl(2), KEYCTL_JOIN_SESSION_KEYRING; getrlimit(2).
"""

from __future__ import annotations

import ctypes
import os
import resource
import struct
import sys

TYPE_CHECKING = False  # Importing `typing` takes 5 ms.
if TYPE_CHECKING:
    import socket

_signal = sys.modules["_signal"]  # The C part of `signal`; importing the Python part takes 5 ms.
_KEPT = (0, 1, 2)
_BROKEN = 125
_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 22, 24, 38
_SECCOMP_MODE_FILTER = 2
_LAST_CAPABILITY = 63
_CAPABILITY_VERSION_3 = 0x20080522
_KEYCTL_JOIN_SESSION_KEYRING = 1
_CALLS = {"x86_64": (250, 126), "aarch64": (219, 91), "riscv64": (219, 91)}
"""The numbers of keyctl and capset, by machine."""
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_RULE_PATH, _RULE_PORT = 1, 2
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK, _TRUNCATE, _IOCTL_DEVICE = 1 << 6, 1 << 11, 1 << 14, 1 << 15
_ALL_OF_FILES = (1 << 16) - 1
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_WRITE = _ALL_OF_FILES & ~(_MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEVICE)
_OF_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE
"""Rights that can be granted on a file; the others concern directories."""
_BIND_TCP, _CONNECT_TCP = 1 << 0, 1 << 1
_SCOPE_ABSTRACT_SOCKET, _SCOPE_SIGNAL = 1 << 0, 1 << 1
_LOWEST_ABI = 6
"""Linux 6.12, the first that can scope signals and abstract sockets."""
_MOST_ENTRIES = 1_000
"""Entries of a folder with hidden files; with more, all of it is hidden."""
_CHUNK = 65_536
_MOST_WAITING = 64

_libc = ctypes.CDLL(None, use_errno=True)


def main(arguments: list[str]) -> None:
    """Restrict this process as the options say, and become the command behind `--`."""
    options, command = _parse(arguments)
    with open("/proc/self/environ", "rb") as block:  # Not os.environ: Python adds to it at startup.
        environment = dict(pair.split(b"=", 1) for pair in block.read().split(b"\0") if b"=" in pair)
    try:
        _leave_session()
        os.closerange(3, min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 1 << 20))
        port = _forward(options["proxy"][0]) if "proxy" in options else 0
        if port:
            environment.update(_proxy_variables(port))
        is_needed = options.get("landlock") == ["need"]
        _limit(options.get("limit", []), counts_all=is_needed or "all-processes" in options)
        if is_needed or ("landlock" in options and _abi() >= _LOWEST_ABI):
            _restrict(options, port)
        if "filter" in options:
            _filter(bytes.fromhex(options["filter"][0]))
    except (OSError, ValueError) as error:
        os.write(2, f"sandbox: cannot restrict {command[0]}: {error}\n".encode(errors="replace"))
        os._exit(_BROKEN)
    _become(command, environment)


def _parse(arguments: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    end = arguments.index("--")
    options: dict[str, list[str]] = {}
    for name, value in zip(arguments[:end:2], arguments[1:end:2], strict=True):
        options.setdefault(name.removeprefix("--"), []).append(value)
    return options, arguments[end + 1 :]


def _become(command: list[str], environment: dict[bytes, bytes]) -> None:
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
        _signal.signal(number, _signal.SIG_DFL)
    code, why = 126, ""
    try:
        os.execvpe(command[0], command, environment)
    except FileNotFoundError:
        code, why = 127, _why_missing(command[0], environment)
    except NotADirectoryError:
        code, why = 127, "not found"
    except OSError as error:
        why = os.strerror(error.errno or 0)
    except ValueError as error:
        why = str(error)
    os.write(2, f"{command[0]}: cannot be run: {why}\n".encode(errors="replace"))
    os._exit(code)


def _why_missing(program: str, environment: dict[bytes, bytes]) -> str:
    """Say why a program was not found: there is none, or the interpreter that its first line names is missing."""
    folders = [""] if "/" in program else os.get_exec_path(environment)  # type: ignore[arg-type]
    path = next(filter(os.path.isfile, (os.path.join(folder, program) for folder in folders)), "")
    try:
        with open(path, "rb") as file:
            first = file.read(256).partition(b"\n")[0]
    except OSError:
        return "its interpreter was not found" if path else "not found"
    words = first[2:].split() if first.startswith(b"#!") else []
    return f"its interpreter{f' {os.fsdecode(words[0])}' if words else ''} was not found"


def _leave_session() -> None:
    """Leave the terminal and the keys of the session that this program was started in."""
    try:  # noqa: SIM105
        os.setsid()
    except PermissionError:
        pass  # It leads a session already.
    if os.uname().machine in _CALLS:
        _libc.syscall(_CALLS[os.uname().machine][0], _KEYCTL_JOIN_SESSION_KEYRING, None)


def _limit(limits: list[str], *, counts_all: bool) -> None:
    """Apply limits such as `NOFILE=1024`, without raising any.

    Args:
        counts_all: whether the kernel counts all processes of the user, not those of a user namespace alone.
    """
    for limit in ("CORE=0", *limits):
        name, _, text = limit.partition("=")
        kind, value = getattr(resource, f"RLIMIT_{name}"), int(text)
        if name == "NPROC" and counts_all:
            value += _threads_of_user()
        soft, hard = resource.getrlimit(kind)
        hard = value if hard == resource.RLIM_INFINITY else min(value, hard)
        soft = hard if soft == resource.RLIM_INFINITY or name == "NPROC" else min(soft, hard)
        resource.setrlimit(kind, (soft, hard))


def _threads_of_user() -> int:
    user, count = os.getuid(), 0
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == user:
                count += len(os.listdir(f"/proc/{name}/task"))
        except OSError:
            continue
    return count


# Landlock


def _restrict(options: dict[str, list[str]], port: int) -> None:
    """Give up all privileges, and have the kernel restrict this process and its descendants for ever.

    Raises:
        OSError: the kernel does not support it.
    """
    _drop_privileges()
    if _abi() < _LOWEST_ABI:
        raise OSError(f"Landlock: expected version {_LOWEST_ABI} of its interface (Linux 6.12), got {_abi()}")
    network = 0 if "network" in options else _BIND_TCP | _CONNECT_TCP
    rules = (ctypes.c_uint64 * 3)(_ALL_OF_FILES, network, _SCOPE_ABSTRACT_SOCKET | _SCOPE_SIGNAL)
    ruleset = _check(_libc.syscall(_CREATE_RULESET, rules, ctypes.c_size_t(ctypes.sizeof(rules)), 0))
    hidden = _Hidden(options.get("hide", []))
    for path in options.get("read", []):
        _grant(ruleset, path, _READ, hidden)
    for path in options.get("write", []):
        _grant(ruleset, path, _WRITE, hidden)
    for path in options.get("device", []):
        _grant(ruleset, path, _WRITE | _IOCTL_DEVICE, hidden)
    if port and network:
        packed = (ctypes.c_uint64 * 2)(_CONNECT_TCP, port)
        _check(_libc.syscall(_ADD_RULE, ruleset, _RULE_PORT, packed, 0))
    _check(_libc.syscall(_RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)


def _drop_privileges() -> None:
    for capability in range(_LAST_CAPABILITY + 1):
        _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)  # Fails without privileges, where there is nothing to drop.
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    if os.uname().machine in _CALLS:
        _check(_libc.syscall(_CALLS[os.uname().machine][1], header, (ctypes.c_uint32 * 6)()))
    elif os.geteuid() == 0:
        raise OSError(f"capabilities: expected a known machine, got {os.uname().machine}; do not run as root")
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def _abi() -> int:
    return int(_libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1))


def _filter(program: bytes) -> None:
    instructions = ctypes.create_string_buffer(program, len(program))
    header = ctypes.create_string_buffer(
        struct.pack("@HP", len(program) // 8, ctypes.addressof(instructions)), struct.calcsize("@HP")
    )
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _check(_libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, header, 0, 0))


class _Hidden:
    """Paths to which nothing above them gives access.

    Args:
        hidden: paths; one that ends in `/` stands for what is in the folder, one that ends in `*` also for the files named
            after it, with a suffix that begins with a dot or a dash.
    """

    def __init__(self, hidden: list[str]) -> None:
        self._paths = {path for path in hidden if not path.endswith(("/", "*"))}
        self._folders = {path.rstrip("/") or "/" for path in hidden if path.endswith("/")}
        self._named = [path[:-1] for path in hidden if path.endswith("*")]

    def covers(self, path: str) -> bool:
        """Return whether a path is hidden itself."""
        return path in self._paths or any(path == name or path.startswith((f"{name}-", f"{name}.")) for name in self._named)

    def is_within(self, path: str) -> bool:
        """Return whether something below a path is hidden."""
        below = path.rstrip("/") + "/"
        return path in self._folders or any(one.startswith(below) for one in (*self._paths, *self._folders, *self._named))

    def is_empty(self, path: str) -> bool:
        """Return whether everything directly in a folder is hidden."""
        return path in self._folders


def _grant(ruleset: int, path: str, rights: int, hidden: _Hidden) -> None:
    """Grant rights on a path and what is below it; where something below it is hidden, on the other entries alone."""
    if hidden.covers(path):
        return
    if not hidden.is_within(path):
        _add_path(ruleset, path, rights)
        return
    try:
        entries = [] if hidden.is_empty(path) else os.listdir(path)
    except OSError:
        return
    for name in entries if len(entries) <= _MOST_ENTRIES else ():
        entry = os.path.join(path, name)
        if not os.path.islink(entry):
            _grant(ruleset, entry, rights, hidden)


def _add_path(ruleset: int, path: str, rights: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        granted = rights if os.path.isdir(f"/proc/self/fd/{opened}") else rights & _OF_FILE
        attributes = ctypes.create_string_buffer(granted.to_bytes(8, sys.byteorder) + opened.to_bytes(4, sys.byteorder), 12)
        _check(_libc.syscall(_ADD_RULE, ruleset, _RULE_PATH, attributes, 0))
    finally:
        os.close(opened)


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


# the proxy


def _proxy_variables(port: int) -> dict[bytes, bytes]:
    address = f"http://127.0.0.1:{port}".encode()
    names = (b"HTTP_PROXY", b"HTTPS_PROXY", b"http_proxy", b"https_proxy")
    # Node.js reads the others only if told so.
    return {**dict.fromkeys(names, address), b"NO_PROXY": b"", b"no_proxy": b"", b"NODE_USE_ENV_PROXY": b"1"}


def _forward(path: str) -> int:
    """Start a child that forwards connections to a Unix socket, and return its port on loopback. It ends with the command."""
    import socket

    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(_MOST_WAITING)
    port = int(listening.getsockname()[1])
    ready, tell = os.pipe()
    parent = os.getpid()
    if os.fork():
        listening.close()
        os.close(tell)
        os.read(ready, 1)
        os.close(ready)
        return port
    _libc.prctl(_PR_SET_PDEATHSIG, _signal.SIGKILL, 0, 0, 0)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in _KEPT:
        os.dup2(nothing, stream)
    os.close(tell)
    if os.getppid() == parent:
        _serve(listening, path)
    os._exit(0)


def _serve(listening: socket.socket, path: str) -> None:
    import socket
    from _thread import LockType, allocate_lock, start_new_thread

    def copy(source: socket.socket, target: socket.socket) -> None:
        try:
            while chunk := source.recv(_CHUNK):
                target.sendall(chunk)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            for one in (source, target):
                try:  # noqa: SIM105
                    one.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def answer(proxy: socket.socket, client: socket.socket, answered: LockType) -> None:
        copy(proxy, client)
        answered.release()

    def connect(client: socket.socket) -> None:
        answered = allocate_lock()
        answered.acquire()
        with client, socket.socket(socket.AF_UNIX) as proxy:
            try:
                proxy.connect(path)
                start_new_thread(answer, (proxy, client, answered))
            except (OSError, RuntimeError):
                return
            copy(client, proxy)
            answered.acquire()

    while True:
        client, _ = listening.accept()
        try:
            start_new_thread(connect, (client,))
        except RuntimeError:
            client.close()


if __name__ == "__main__":
    main(sys.argv[1:])
