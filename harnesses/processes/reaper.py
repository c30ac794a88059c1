"""The reaper: a process that runs a command and leaves no descendant of it behind. Linux; run by its path.

Invariant: the report is written when every descendant of the command is dead and collected, whatever they do.

    this program ──control──►  reaper   ignores every signal; orphans below it become its children (a "subreaper")
        │   ◄──report────────    │
        └──output◄─────────── command   in a session of its own, may not signal anything outside (where Landlock exists)

It kills everything when the command ends, when the control pipe is closed, or when this program is gone: the kernel closes the
pipe even after `kill -9`. It starts within 20 ms because it imports very little; keep it so.

Sources: prctl(2), PR_SET_CHILD_SUBREAPER; landlock(7), scoping of signals, Linux 6.12.
"""

from __future__ import annotations

import ctypes
import os
import select
import sys
import time

# The C part of `signal`, which is already loaded; importing the Python part creates enums, which takes 5 ms.
# `contextlib` is not imported for the same reason.
_signal = sys.modules["_signal"]
_SIGKILL, _SIGCHLD = int(_signal.SIGKILL), int(_signal.SIGCHLD)
_GRACE_S = 10.0
"""Seconds for killed processes to die. Only one that hangs in the kernel, or belongs to another user, takes longer."""
_PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 4, 36, 38
_PR_CAPBSET_DROP = 24
_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_BIND, _MS_REC, _MS_SLAVE = 4096, 16384, 1 << 19
_WAYS_AROUND = (2, 16, 17, 19, 21, 22, 27, 38, 39)
"""Capabilities with which root could undo or bypass a mount: DAC_READ_SEARCH (file handles), SYS_MODULE, SYS_RAWIO, SYS_PTRACE
(the view of another process), SYS_ADMIN, SYS_BOOT, MKNOD (the disk itself), PERFMON, BPF."""
_LANDLOCK_CREATE_RULESET, _LANDLOCK_RESTRICT_SELF = 444, 446
_LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET, _LANDLOCK_SCOPE_SIGNAL = 1 << 0, 1 << 1

_libc = ctypes.CDLL(None, use_errno=True)


def main(arguments: list[str]) -> None:
    """Run a command and report how it ended: its code, then the ids of processes that could not be killed.

    Args:
        arguments: file descriptors of the control and report pipes, process id of this program, "free", "scoped" or "walled",
            number of files to hide, those files, command.
    """
    control, report, parent = (int(word) for word in arguments[:3])
    rights, hidden = arguments[3], arguments[5 : 5 + int(arguments[4])]
    words = arguments[5 + len(hidden) :]
    for pipe in (control, report):
        os.set_inheritable(pipe, False)  # The command must not inherit the report pipe.
    # Not os.environ: Python adds to it at startup.
    with open("/proc/self/environ", "rb") as block:
        environment = dict(pair.split(b"=", 1) for pair in block.read().split(b"\0") if b"=" in pair)
    directory = os.open(".", os.O_PATH | os.O_DIRECTORY)
    os.chdir("/")
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)  # Keeps the command from opening the report pipe through /proc.
    mask = _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
    woken = _wake_on_child()
    hidden = hidden if can_hide(hidden) else []
    command = os.fork()
    if command == 0:
        _become(words, environment, directory, mask, rights, hidden)
    _let_go_of_streams()
    _wait(command, (control, parent), woken)
    code, left = _end_all(command, woken)
    os.write(report, " ".join(str(number) for number in (code, *left)).encode())
    os._exit(0)


def _wake_on_child() -> int:
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    _signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    _signal.signal(_SIGCHLD, _take_note)
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, {_SIGCHLD})
    return woken


def _take_note(number: int, frame: object) -> None:
    """Do nothing: installing a handler is what makes Python write the signal to the wake-up pipe."""


def can_hide(files: list[str]) -> bool:
    """Return whether files can be hidden here, tested in a separate process because the test has side effects."""
    if not files:
        return False
    trying = os.fork()
    if trying == 0:
        try:
            _hide(files)
            os._exit(0)
        except OSError:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(trying, 0)[1]) == 0


def _hide(files: list[str]) -> None:
    """Make files appear empty to this process and its descendants; they lack the privileges to undo it.

    Raises:
        OSError: not possible on this system.
    """
    user, group = os.geteuid(), os.getegid()
    is_root = user == 0
    _check(_libc.unshare(_CLONE_NEWNS | (0 if is_root else _CLONE_NEWUSER)))
    if not is_root:
        # A user namespace grants rights that end when the command is executed. User and group ids stay the same.
        _libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    _check(_libc.mount(b"none", b"/", None, _MS_REC | _MS_SLAVE, None))
    for path in files:
        _check(_libc.mount(b"/dev/null", os.fsencode(path), None, _MS_BIND, None))
    if is_root:
        for capability in _WAYS_AROUND:
            _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)


def _check(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), "a file cannot be hidden")


def _become(
    command: list[str],
    environment: dict[bytes, bytes],
    directory: int,
    mask: set[int],
    rights: str,
    hidden: list[str],
) -> None:
    """Turn the forked child into the command."""
    code = 126
    try:
        os.setsid()
        os.fchdir(directory)
        for number in (_signal.SIGPIPE, _signal.SIGXFSZ, _SIGCHLD):
            _signal.signal(number, _signal.SIG_DFL)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, mask)
        if hidden:
            _hide(hidden)
        if rights != "free":
            _scope(_LANDLOCK_SCOPE_SIGNAL | (_LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET if rights == "walled" else 0))
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


def _scope(scopes: int) -> None:
    """Restrict this process and its descendants to signalling and tracing each other, if the kernel can.

    Args:
        scopes: Landlock scopes to apply: signals, and optionally abstract sockets.
    """
    if _libc.syscall(_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), 1) < 6:
        return
    rules = (ctypes.c_uint64 * 3)(0, 0, scopes)
    ruleset = _libc.syscall(_LANDLOCK_CREATE_RULESET, rules, ctypes.c_size_t(ctypes.sizeof(rules)), 0)
    if ruleset < 0:
        return
    if _libc.syscall(_LANDLOCK_RESTRICT_SELF, ruleset, 0) < 0:
        _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)  # Required for an unprivileged process.
        _libc.syscall(_LANDLOCK_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _let_go_of_streams() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)


def _wait(command: int, lifelines: tuple[int, int], woken: int) -> None:
    """Wait until the command has ended (without collecting it), or this program closes the control pipe or is gone."""
    control, parent = lifelines
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(woken, select.POLLIN)
    # A process forked by this program may keep a copy of the control pipe, so its process id is watched too.
    try:  # noqa: SIM105
        poll.register(os.pidfd_open(parent), select.POLLIN)
    except OSError:
        pass  # The process is gone, or the kernel is older than 5.3.
    if os.getppid() != parent:
        return
    while not _collect_others(command):
        if any(ready != woken for ready, _ in poll.poll()):
            return
        _drain(woken)


def _collect_others(command: int) -> bool:
    """Collect dead orphans; return whether the command is dead. It is left uncollected to reserve its id."""
    while (dead := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
        if dead.si_pid == command:
            return True
        os.waitpid(dead.si_pid, 0)
    return False


def _end_all(command: int, woken: int) -> tuple[int, list[int]]:
    """Kill all descendants until none is left; return the command's code, and the ids of those that do not die."""
    codes = {command: -_SIGKILL}
    killed: set[int] = set()
    deadline = time.monotonic() + _GRACE_S
    _kill_group(command)
    _kill(command)
    while _collect(codes) and time.monotonic() < deadline:
        children = _children()
        for child, group in children:
            _kill(child)
            _kill_group(group)
        fresh = {child for child, _ in children} - killed
        killed |= fresh
        if not fresh:
            select.select([woken], [], [], 0.02)
            _drain(woken)
    return codes[command], [child for child, _ in _children()] if _collect(codes) else []


def _collect(codes: dict[int, int]) -> bool:
    """Collect dead children, store requested exit codes, and return whether any child is left."""
    try:
        while (dead := os.waitpid(-1, os.WNOHANG))[0]:
            if dead[0] in codes:
                codes[dead[0]] = os.waitstatus_to_exitcode(dead[1])
    except ChildProcessError:
        return False
    return True


def _children() -> list[tuple[int, int]]:
    """Return the children of this process, including dead ones, each with its process group.

    Their ids cannot be reused before they are collected, which only this process does. Grandchildren become children when
    their parent dies.
    """
    me = str(os.getpid()).encode()
    found: list[tuple[int, int]] = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            parent, group = _parent_and_group(name)
            if parent == me:
                found.append((int(name), int(group)))
    return found


def _parent_and_group(process: str) -> tuple[bytes, bytes]:
    try:
        file = os.open(f"/proc/{process}/stat", os.O_RDONLY)
    except OSError:
        return b"", b""
    try:
        fields = os.read(file, 1_024).rpartition(b")")[2].split()
    except OSError:
        return b"", b""
    finally:
        os.close(file)
    return fields[1], fields[2]


def _kill(process: int) -> None:
    try:  # noqa: SIM105
        os.kill(process, _SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def _kill_group(group: int) -> None:
    # Kill the whole group at once, so that no member can fork in between.
    if group in (0, 1, os.getpgrp()):
        return
    try:  # noqa: SIM105
        os.killpg(group, _SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def _drain(woken: int) -> None:
    try:
        while os.read(woken, 512):
            pass
    except BlockingIOError:
        pass


if __name__ == "__main__":
    if sys.argv[1] == "try":
        os._exit(not can_hide(sys.argv[2:]))
    main(sys.argv[1:])
