"""Stands between this program and a command, and sees to it that nothing of the command is left. Linux; run by its path.

The law: the report is written when every descendant of the command is dead and collected, whatever they do.

    this program ──control──►  reaper   ignores every signal; orphans below it become its children (a "subreaper")
        │   ◄──report────────    │
        └──output◄─────────── command   in a session of its own, may not signal anything outside (where Landlock is there)

It ends everything when the command ends, when the control pipe is closed, or when this program is gone: the kernel closes
the pipe even after `kill -9`. It begins in 20 ms because it imports next to nothing; keep it so.

Sources: prctl(2), PR_SET_CHILD_SUBREAPER; landlock(7), scoping of signals, Linux 6.12.
"""

from __future__ import annotations

import ctypes
import os
import select
import sys
import time

# The part of `signal` that is written in C and there already; the part in Python makes enumerations first, which takes 5 ms.
# `contextlib` is left out for the like reason.
_signal = sys.modules["_signal"]
_SIGKILL, _SIGCHLD = int(_signal.SIGKILL), int(_signal.SIGCHLD)
_GRACE_S = 10.0
"""For what has been killed to die. Only what hangs in the kernel, or belongs to another user, takes longer."""
_PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 4, 36, 38
_PR_CAPBSET_DROP = 24
_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_BIND, _MS_REC, _MS_SLAVE = 4096, 16384, 1 << 19
_WAYS_AROUND = (2, 16, 17, 19, 21, 22, 27, 38, 39)
"""Capabilities of root with which a mount is undone or passed by: DAC_READ_SEARCH (handles of files), SYS_MODULE, SYS_RAWIO,
SYS_PTRACE (the view of another process), SYS_ADMIN, SYS_BOOT, MKNOD (the disk itself), PERFMON, BPF."""
_LANDLOCK_CREATE_RULESET, _LANDLOCK_RESTRICT_SELF = 444, 446
_LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET, _LANDLOCK_SCOPE_SIGNAL = 1 << 0, 1 << 1

_libc = ctypes.CDLL(None, use_errno=True)


def main(arguments: list[str]) -> None:
    """Run a command and report how it ended: its code, then the ids of processes that could not be ended.

    Args:
        arguments: file descriptors of the control and report pipes, process id of this program, "free", "scoped" or
            "walled", how many files are to be hidden, those files, command.
    """
    control, report, parent = (int(word) for word in arguments[:3])
    rights, hidden = arguments[3], arguments[5 : 5 + int(arguments[4])]
    words = arguments[5 + len(hidden) :]
    for pipe in (control, report):
        os.set_inheritable(pipe, False)  # the command is not to speak for its reaper
    # Not os.environ: at its start Python adds to it.
    with open("/proc/self/environ", "rb") as block:
        environment = dict(pair.split(b"=", 1) for pair in block.read().split(b"\0") if b"=" in pair)
    directory = os.open(".", os.O_PATH | os.O_DIRECTORY)
    os.chdir("/")
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)  # so that the command cannot open the report in /proc
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
    """Do nothing: that a signal is handled is what has it written to the pipe."""


def can_hide(files: list[str]) -> bool:
    """Return whether files can be hidden here, found out by a process of its own: to try leaves traces."""
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
    """Have this process and all that it starts find files empty, for good: it has no privilege left to undo that.

    Raises:
        OSError: it cannot be done here.
    """
    user, group = os.geteuid(), os.getegid()
    is_root = user == 0
    _check(_libc.unshare(_CLONE_NEWNS | (0 if is_root else _CLONE_NEWUSER)))
    if not is_root:
        # Rights over the namespace, which end when the command is executed. It is known by its own number as before.
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
        code, why = 127, "its interpreter was not found" if os.path.exists(command[0]) else "not found"
    except NotADirectoryError:
        code, why = 127, "not found"
    except OSError as error:
        why = os.strerror(error.errno or 0)
    except ValueError as error:
        why = str(error)
    os.write(2, f"{command[0]}: cannot be run: {why}\n".encode(errors="replace"))
    os._exit(code)


def _scope(scopes: int) -> None:
    """Let this process and all that it starts signal and trace nothing but each other, if the kernel can.

    Args:
        scopes: what it is to be kept to; sockets without a file are another.
    """
    if _libc.syscall(_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), 1) < 6:
        return
    rules = (ctypes.c_uint64 * 3)(0, 0, scopes)
    ruleset = _libc.syscall(_LANDLOCK_CREATE_RULESET, rules, ctypes.c_size_t(ctypes.sizeof(rules)), 0)
    if ruleset < 0:
        return
    if _libc.syscall(_LANDLOCK_RESTRICT_SELF, ruleset, 0) < 0:
        _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)  # what it asks of a process that is not privileged
        _libc.syscall(_LANDLOCK_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _let_go_of_streams() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)


def _wait(command: int, lifelines: tuple[int, int], woken: int) -> None:
    """Return when the command has ended, still uncollected, or when this program lets go of it or is gone."""
    control, parent = lifelines
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(woken, select.POLLIN)
    # A copy of the control pipe may live on in a process that this program has forked, hence its own end as well.
    try:  # noqa: SIM105
        poll.register(os.pidfd_open(parent), select.POLLIN)
    except OSError:
        pass  # it is gone, or the kernel is older than 5.3
    if os.getppid() != parent:
        return
    while not _collect_others(command):
        if any(ready != woken for ready, _ in poll.poll()):
            return
        _drain(woken)


def _collect_others(command: int) -> bool:
    """Collect dead orphans; return whether the command itself is dead. It stays uncollected, so that its number is kept."""
    while (dead := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
        if dead.si_pid == command:
            return True
        os.waitpid(dead.si_pid, 0)
    return False


def _end_all(command: int, woken: int) -> tuple[int, list[int]]:
    """Kill all descendants until there are none; return the command's code, and those that do not die."""
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
    """Collect the dead, keep the codes that are asked for, and return whether any child is left."""
    try:
        while (dead := os.waitpid(-1, os.WNOHANG))[0]:
            if dead[0] in codes:
                codes[dead[0]] = os.waitstatus_to_exitcode(dead[1])
    except ChildProcessError:
        return False
    return True


def _children() -> list[tuple[int, int]]:
    """Return the children of this process, the dead among them too, each with its process group.

    Their numbers cannot be given to others before they are collected, which nobody else does. Children of children become
    children when their parent dies.
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
    # A whole group at once: of a group that is killed, no member can fork itself away.
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
