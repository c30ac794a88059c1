"""Run a command; when it ends or its time is up, end every process that it has left running.

A process that outlives the command, such as a server of a test, would hold its output open, and whoever reads that would wait.

Usage: contained.py SECONDS COMMAND [ARGUMENT ...]
"""

import ctypes
import os
import signal
import subprocess
import sys
import time

_PR_SET_CHILD_SUBREAPER = 36  # Linux: processes whose parent has ended become children of this one


def main() -> int:
    """Return the command's exit code, or 124 if its time was up."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for each in (signal.SIGINT, signal.SIGHUP):  # a command in the background of a shell ignores them; tests send them
        signal.signal(each, signal.SIG_DFL)
    command = subprocess.Popen(sys.argv[2:])
    until = time.monotonic() + float(sys.argv[1])
    code = None
    while code is None and time.monotonic() < until:
        time.sleep(0.02)
        code = _reap().get(command.pid)
    if code is None:
        print(f"\n== not ended after {sys.argv[1]} s", flush=True)
        command.send_signal(signal.SIGTERM)
    _end_descendants(signal.SIGABRT if code is None else signal.SIGKILL)
    return 124 if code is None else code


def _end_descendants(first: signal.Signals) -> None:
    """End the children until none is left: the children of each become children of this process.

    Args:
        first: what each is sent before it is killed. At SIGABRT pytest prints the stack of each thread.
    """
    sent: set[int] = set()
    until = time.monotonic() + 60
    while (children := _children()) and time.monotonic() < until:
        for pid, args in children.items():
            if pid not in sent:
                print(f"ends a process that was left running: {pid} {args[:200]}", flush=True)
            os.kill(pid, signal.SIGKILL if pid in sent else first)
            sent.add(pid)
        time.sleep(1 if first == signal.SIGABRT else 0.1)


def _children() -> dict[int, str]:
    _reap()
    told = subprocess.run(["ps", "--ppid", str(os.getpid()), "-o", "pid=,args="], capture_output=True, text=True, check=False)
    lines = (line.split(None, 1) for line in told.stdout.splitlines())
    return {int(pid): args for pid, args in lines if not args.startswith("ps --ppid")}


def _reap() -> dict[int, int]:
    """Return the exit codes of the children that have ended, orphans of the command included: nobody else waits for those."""
    codes: dict[int, int] = {}
    try:
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            codes[ended[0]] = os.waitstatus_to_exitcode(ended[1]) & 0xFF
    except ChildProcessError:
        pass
    return codes


if __name__ == "__main__":
    sys.exit(main())
