"""The system calls that Landlock does not restrict and that a command without namespaces of its own may not make.

A seccomp filter, which the launcher installs. It refuses what would lead to other processes or to the network: all sockets but
TCP, whose ports Landlock judges; System V and POSIX message queues, semaphores and shared memory; keys of the user; the limits
and the scheduling of other processes; io_uring, which makes system calls that no filter sees; TCP Fast Open. `socketpair` and
pipes work.

Sources: seccomp(2); linux/filter.h; linux/audit.h.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import sys
from collections.abc import Iterable
from functools import cache

_LOAD, _AND, _IS, _IS_AT_LEAST, _HAS, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
"""Offsets in `struct seccomp_data`; each argument has 8 bytes."""
_SECOND_ABI = 0x40000000
"""System call numbers of x32, another interface of x86_64."""
_MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1), "riscv64": (0xC00000F3, 1)}
"""Of each machine: its audit architecture, and the column of its numbers below."""
_SOCKET = (41, 198)
_REFUSED = {
    "shmget": (29, 194),
    "shmat": (30, 196),
    "msgget": (68, 186),
    "msgrcv": (70, 188),
    "msgsnd": (69, 189),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "mq_open": (240, 180),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "ioprio_set": (251, 30),
    "userfaultfd": (323, 282),
    "perf_event_open": (298, 241),
    "bpf": (321, 280),
}
_MISSING = {"io_uring_setup": (425, 425)}
"""Programs that try it do without."""
_OF_ITSELF_ALONE = {
    "prlimit64": ((302, 261), 0),
    "setpriority": ((141, 140), 1),
    "sched_setparam": ((142, 118), 0),
    "sched_setscheduler": ((144, 119), 0),
    "sched_setaffinity": ((203, 122), 0),
    "sched_setattr": ((314, 274), 0),
}
"""The argument that names another process, unless it is 0."""
_SENDING = {"sendto": ((44, 206), 3), "sendmsg": ((46, 211), 2), "sendmmsg": ((307, 269), 3)}
"""Their flags: with TCP Fast Open, sending connects, which Landlock does not see."""
_FAST_OPEN = 0x20000000


@cache
def filter_program(network: bool) -> bytes | None:
    """Return the filter for this machine; None if its system calls are not known.

    Args:
        network: whether all sockets but Unix sockets are allowed.
    """
    if sys.byteorder != "little" or os.uname().machine not in _MACHINES:
        return None
    architecture, column = _MACHINES[os.uname().machine]
    refuse, ignore = _ERROR | errno.EPERM, _ERROR | errno.ENOSYS
    program = [
        *((_LOAD, 0, 0, _ARCHITECTURE), (_IS, 1, 0, architecture), (_RETURN, 0, 0, refuse)),
        *((_LOAD, 0, 0, _NUMBER), (_IS_AT_LEAST, 0, 1, _SECOND_ABI), (_RETURN, 0, 0, ignore)),
    ]
    for numbers in _REFUSED.values():
        program += [(_IS, 0, 1, numbers[column]), (_RETURN, 0, 0, refuse)]
    for numbers in _MISSING.values():
        program += [(_IS, 0, 1, numbers[column]), (_RETURN, 0, 0, ignore)]
    for numbers, argument in _OF_ITSELF_ALONE.values():
        program += _when(numbers[column], [*_unless(argument, (0,), refuse), (_RETURN, 0, 0, _ALLOW)])
    for numbers, argument in _SENDING.values():
        fast = [(_LOAD, 0, 0, _ARGUMENTS + 8 * argument), (_HAS, 0, 1, _FAST_OPEN), (_RETURN, 0, 0, refuse)]
        program += _when(numbers[column], [*fast, (_RETURN, 0, 0, _ALLOW)])
    program += _when(_SOCKET[column], _judge_socket(network))
    program.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in program)


_Instruction = tuple[int, int, int, int]


def _when(number: int, block: list[_Instruction]) -> list[_Instruction]:
    """Return instructions that run a block, which returns, for one system call."""
    return [(_IS, 0, len(block), number), *block]


def _unless(argument: int, allowed: Iterable[int], result: int, mask: int = 0xFFFFFFFF) -> list[_Instruction]:
    """Return instructions that end with a result unless an argument has one of the allowed values."""
    values = tuple(allowed)
    tests = [(_IS, len(values) - at, 0, value) for at, value in enumerate(values)]
    return [(_LOAD, 0, 0, _ARGUMENTS + 8 * argument), (_AND, 0, 0, mask), *tests, (_RETURN, 0, 0, result)]


def _judge_socket(network: bool) -> list[_Instruction]:
    refuse = _ERROR | errno.EACCES
    if network:
        is_local = [(_LOAD, 0, 0, _ARGUMENTS), (_IS, 0, 1, int(socket.AF_UNIX)), (_RETURN, 0, 0, refuse)]
        return [*is_local, (_RETURN, 0, 0, _ALLOW)]
    return [
        *_unless(0, (int(socket.AF_INET), int(socket.AF_INET6)), refuse),
        *_unless(1, (int(socket.SOCK_STREAM),), refuse, mask=0xF),
        *_unless(2, (0, int(socket.IPPROTO_TCP)), refuse),
        (_RETURN, 0, 0, _ALLOW),
    ]
