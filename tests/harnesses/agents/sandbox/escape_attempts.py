"""Attempts to get out of a sandbox: small programs, by what they try, and why one is not shown to work without a sandbox.

Names in a program: those of `escape_driver`; `outside`, `hidden`, `store`, `sibling`, `temporary` and `common`, paths;
`victim`, a file of its own outside with the text "untouched"; `fresh`, a path of its own outside where nothing is; `folder`,
the folder of both; `bystander`, a process of its own outside; and what `escape_ground` adds.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from attrs import frozen


@frozen
class Attempt:
    """A program that tries to get out."""

    name: str
    group: str
    code: str
    root: bool = False
    """Whether it works without a sandbox for root alone."""
    unsafe: str = ""
    """Why it is not run without a sandbox; empty if it is harmless there."""
    alone: bool = False
    """Whether it runs when all others have ended."""


_TABLE: dict[str, str] = {}
_TABLE["files outside"] = """
write-absolute: write(victim)
write-dotdot: write(os.path.join("..", "outside", name, "victim"))
write-through-proc-root: write("/proc/self/root" + victim)
write-through-proc-cwd: write(f"/proc/self/cwd/../outside/{name}/victim")
write-through-thread-root: write("/proc/thread-self/root" + victim)
write-append: write(victim, flags=os.O_WRONLY | os.O_APPEND)
write-mapped
    import mmap
    with open(victim, "r+b") as file:
        mmap.mmap(file.fileno(), 0)[:5] = b"owned"
write-truncate: os.truncate(victim, 0)
write-from-parent
    os.chdir("..")
    write(f"outside/{name}/victim")
write-at-directory: os.close(os.open(f"../outside/{name}/fresh", os.O_WRONLY | os.O_CREAT, dir_fd=os.open(".", os.O_RDONLY)))
write-at-root-descriptor: os.close(os.open(victim[1:], os.O_WRONLY | os.O_TRUNC, dir_fd=os.open("/", os.O_RDONLY)))
write-reopened: write(f"/proc/self/fd/{os.open(victim, os.O_RDONLY)}")
write-reopened-path-only: write(f"/proc/self/fd/{os.open(victim, os.O_PATH)}")
write-by-shell: run("sh", "-c", f"echo owned > {victim}")
write-by-copy: run("cp", "/etc/hostname", victim)
write-unnamed
    opened = os.open(folder, os.O_TMPFILE | os.O_WRONLY)
    os.write(opened, b"owned")
    checked(libc.linkat(-100, f"/proc/self/fd/{opened}".encode(), -100, fresh.encode(), 0x400))
write-openat2
    import struct as packing
    how = ctypes.create_string_buffer(packing.pack("QQQ", os.O_WRONLY | os.O_TRUNC, 0, 0))
    os.write(syscall(437, -100, victim.encode(), how, 24), b"owned")
create: write(fresh)
create-folder: os.mkdir(fresh)
create-fifo: os.mkfifo(fresh)
create-socket: socket.socket(socket.AF_UNIX).bind(fresh)
delete: os.unlink(victim)
delete-folder: shutil.rmtree(folder)
fifo-outside: write(fifo, name, os.O_WRONLY | os.O_NONBLOCK)
"""
_TABLE["metadata"] = """
chmod: os.chmod(victim, 0o666)
chmod-descriptor: os.fchmod(os.open(victim, os.O_RDONLY), 0o666)
utime: os.utime(victim, (1, 1))
setxattr: os.setxattr(victim, "user.owned", b"1")
chown !root: os.chown(victim, 12345, 12345)
"""
_TABLE["renames"] = """
rename-over
    write("mine-" + name)
    os.rename("mine-" + name, victim)
rename-out
    write("mine-" + name)
    os.rename("mine-" + name, fresh)
rename-in: os.rename(victim, "stolen-" + name)
rename-folder: os.rename(folder, folder + "-moved")
rename-exchange
    write("mine-" + name)
    syscall(316, -100, f"mine-{name}".encode(), -100, victim.encode(), 2)
rename-own-directory !alone
    # Back at once: others work there.
    os.rename(work, work + "-moved")
    os.mkdir(fresh)
    os.rename(work + "-moved", work)
rename-run-folder !alone
    os.rename(os.path.dirname(store), os.path.dirname(store) + "-moved")
    os.mkdir(fresh)
    os.rename(os.path.dirname(store) + "-moved", os.path.dirname(store))
"""
_TABLE["links"] = """
symlink-to-file
    os.symlink(victim, "soft-" + name)
    write("soft-" + name)
symlink-to-folder
    os.symlink(folder, "soft-" + name)
    write(f"soft-{name}/fresh")
symlink-chain
    os.symlink("..", "up-" + name)
    os.symlink(f"up-{name}/outside", "on-" + name)
    write(f"on-{name}/{name}/victim")
symlink-race
    os.mkdir("race-" + name)
    write(f"race-{name}/victim")
    os.symlink(folder, "other-" + name)
    def swap():
        while True:
            syscall(316, -100, f"race-{name}".encode(), -100, f"other-{name}".encode(), 2)
    threading.Thread(target=swap, daemon=True).start()
    for _ in range(2_000):
        try:
            write(f"race-{name}/victim")
        except OSError:
            pass
hardlink
    os.link(victim, "hard-" + name)
    write("hard-" + name)
hardlink-descriptor
    opened = os.open(victim, os.O_RDONLY)
    checked(libc.linkat(-100, f"/proc/self/fd/{opened}".encode(), -100, f"hard-{name}".encode(), 0x400))
    write("hard-" + name)
hardlink-out
    write("mine-" + name)
    os.link("mine-" + name, fresh)
hardlink-secret
    os.link(hidden + "/secret", "hard-" + name)
    loot(read("hard-" + name))
"""
_TABLE["hidden files"] = """
read-hidden: loot(read(hidden + "/secret"))
read-hidden-by-dotdot: loot(read("../hidden/secret"))
read-hidden-by-proc: loot(read("/proc/self/root" + hidden + "/secret"))
read-hidden-by-symlink
    os.symlink(hidden, "soft-" + name)
    loot(read(f"soft-{name}/secret"))
read-hidden-by-descriptor: loot(read(os.open("secret", os.O_RDONLY, dir_fd=os.open(hidden, os.O_PATH))))
read-hidden-by-mapping
    import mmap
    with open(hidden + "/secret", "rb") as file:
        loot(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)[:])
read-hidden-by-exec: loot(run("cat", hidden + "/secret"))
read-hidden-by-loading: loot(run("sh", "-c", f". {hidden}/program"))
read-hidden-by-handle !root
    # A file handle goes round every path: open_by_handle_at(2).
    loot(read(syscall(304, os.open(work, os.O_RDONLY), bytes.fromhex(secret_handle), os.O_RDONLY)))
write-hidden: write(hidden + "/planted-" + name)
list-hidden: loot(os.listdir(hidden))
temporary-read: loot(read(temporary + "/secret"))
temporary-list: loot([read(f"/tmp/{one}/secret") for one in os.listdir("/tmp") if one.startswith("escape-temporary-")])
temporary-planted-link: os.symlink(victim, f"/tmp/escape-{token}-{name}")
shared-memory-read: loot(read(shared))
shared-memory-write: write(f"/dev/shm/escape-{token}-{name}")
run-folder-write !root: write(f"/run/escape-{token}-{name}")
"""
_TABLE["the run"] = """
store-read: loot(read(store))
store-read-log: loot(read(store + "-wal"))
store-key-read: loot(read(store + "-key"))
store-key-by-cat: loot(run("cat", store + "-key"))
store-key-by-proc: loot(read("/proc/self/root" + store + "-key"))
store-key-hardlink
    os.link(store + "-key", "key")
    loot(read("key"))
store-write: write(store + "-head", name)
store-delete: os.unlink(store + "-shm")
store-latch: os.mkdir(store + "-latch-" + name)
store-list: loot(os.listdir(os.path.dirname(store)))
control-socket: send(socket.AF_UNIX, socket.SOCK_STREAM, store + ".control-1", name)
sibling-read: loot(read(sibling + "/secret"))
sibling-write: write(sibling + "/planted-" + name)
sibling-list: loot(os.listdir(sibling))
"""
_TABLE["git"] = """
git-config: write(".git/config", payload(name), os.O_WRONLY | os.O_APPEND)
git-config-by-git: run("git", "config", "core.sshCommand", "touch " + name)
git-hooks-path-by-git: run("git", "config", "core.hooksPath", "/tmp/" + name)
git-filter-by-git: run("git", "config", "filter.x.clean", "touch " + name)
git-hook: write(".git/hooks/post-checkout", "touch " + name)
git-attributes: write(".git/info/attributes", "* filter=" + name)
git-worktree-config: write(".git/config.worktree", payload(name))
git-alternates: write(".git/objects/info/alternates", name)
git-common-folder: write(".git/commondir", name)
git-rename
    os.rename(".git", "other.git")
    write("other.git/" + name, name)
    os.rename("other.git", ".git")
git-delete: os.unlink(".git/description")
git-linked-config: write(common + "/config", payload(name), os.O_WRONLY | os.O_APPEND)
git-linked-hook: write(common + "/hooks/post-checkout", "touch " + name)
"""
_TABLE["processes"] = """
proc-environment: loot(read(f"/proc/{bystander}/environ"))
proc-every-environment
    for one in os.listdir("/proc"):
        if one.isdigit():
            try:
                loot(read(f"/proc/{one}/environ"))
            except OSError:
                pass
proc-command-line
    for one in os.listdir("/proc"):
        if one.isdigit():
            try:
                loot(read(f"/proc/{one}/cmdline"))
            except OSError:
                pass
proc-root: loot(read(f"/proc/{bystander}/root{hidden}/secret"))
proc-directory: loot(read(f"/proc/{bystander}/cwd/secret"))
proc-descriptor: loot(read(f"/proc/{bystander}/fd/0"))
proc-memory
    first, last = stack_of(bystander)
    with open(f"/proc/{bystander}/mem", "rb", buffering=0) as memory:
        memory.seek(first)
        loot(memory.read(last - first))
proc-oom: write(f"/proc/{bystander}/oom_score_adj", "500", os.O_WRONLY)
memory-of-another
    first, last = stack_of(bystander)
    kept = ctypes.create_string_buffer(last - first)
    class Vector(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
    mine, other = Vector(ctypes.addressof(kept), last - first), Vector(first, last - first)
    one = ctypes.c_ulong(1)
    checked(libc.process_vm_readv(bystander, ctypes.byref(mine), one, ctypes.byref(other), one, ctypes.c_ulong(0)))
    loot(kept.raw)
descriptor-of-another
    loot(read(syscall(438, os.pidfd_open(bystander), 0, 0)))
trace-another
    checked(libc.ptrace(16, bystander, None, None))
    os.waitpid(bystander, 0x40000000)
    checked(libc.ptrace(17, bystander, None, ctypes.c_void_p(9)))
signal-kill: os.kill(bystander, signal.SIGKILL)
signal-group: os.killpg(bystander, signal.SIGKILL)
signal-by-descriptor: signal.pidfd_send_signal(os.pidfd_open(bystander), signal.SIGKILL)
signal-thread: syscall(234, bystander, bystander, 9)
signal-queue: libc.sigqueue(bystander, 9, None) and checked(-1)
signal-everything: os.kill(-1, signal.SIGURG)
signal-owner
    # The kernel sends it to the owner of a pipe when somebody writes.
    reads, writes = os.pipe()
    fcntl.fcntl(reads, 8, bystander)
    fcntl.fcntl(reads, 10, 9)
    fcntl.fcntl(reads, fcntl.F_SETFL, os.O_ASYNC)
    os.write(writes, b"x")
priority-of-another: os.setpriority(os.PRIO_PROCESS, bystander, 10)
limits-of-another
    import resource
    resource.prlimit(bystander, resource.RLIMIT_NOFILE, (50, 50))
processors-of-another: os.sched_setaffinity(bystander, {0})
"""
_TABLE["what stays behind"] = """
daemon
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for stream in (0, 1, 2):
                os.close(stream)
            os.execve("/bin/sleep", ["sleep", "600"], {"STAYS": token, "ATTEMPT": name})
        os._exit(0)
daemon-without-mark
    if os.fork() == 0:
        os.setsid()
        os.closerange(0, 100)
        os.execve("/bin/sleep", ["escape-" + token + "-" + name, "600"], {})
daemon-deaf
    if os.fork() == 0:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        os.closerange(0, 100)
        os.execve("/bin/sleep", ["sleep", "600"], {"STAYS": token, "ATTEMPT": name})
daemon-by-shell
    around = {"STAYS": token, "ATTEMPT": name, "PATH": "/usr/bin:/bin"}
    run("sh", "-c", "(setsid nohup sleep 600 >/dev/null 2>&1 </dev/null &)", env=around)
"""
_TABLE["network"] = """
tcp: send(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", tcp), name)
tcp-other-loopback: send(socket.AF_INET, socket.SOCK_STREAM, ("127.9.9.9", tcp), name)
tcp-any-address: send(socket.AF_INET, socket.SOCK_STREAM, ("0.0.0.0", tcp), name)
tcp-mapped: send(socket.AF_INET6, socket.SOCK_STREAM, ("::ffff:127.0.0.1", tcp), name)
tcp-by-name: socket.create_connection(("localhost", tcp), 2).sendall(name.encode())
tcp-by-curl: run("curl", "-s", "-m", "2", "--noproxy", "*", f"http://127.0.0.1:{tcp}/{name}")
tcp-multipath: send(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", tcp), name, 262)
tcp-fast-open
    with socket.socket() as one:
        one.sendto(name.encode(), 0x20000000, ("127.0.0.1", tcp))
udp: send(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", udp), name)
udp-mapped: send(socket.AF_INET6, socket.SOCK_DGRAM, ("::ffff:127.0.0.1", udp), name)
dns
    labels = b"".join(bytes([len(part)]) + part for part in (name.encode(), b"example", b"org"))
    query = struct.pack("!6H", 0x1234, 0x0100, 1, 0, 0, 0) + labels + struct.pack("!BHH", 0, 1, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(query, ("127.0.0.1", udp))
raw-socket !root
    packet = struct.pack("!HHHH", 9, udp, 8 + len(name), 0) + name.encode()
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP).sendto(packet, ("127.0.0.1", 0))
listen
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(("127.0.0.1", wanted))
        one.listen()
        one.settimeout(0.6)
        one.accept()[0].sendall(name.encode())
        time.sleep(0.1)
"""
_TABLE["unix sockets"] = """
unix-path: send(socket.AF_UNIX, socket.SOCK_STREAM, service, name)
unix-path-by-proc: send(socket.AF_UNIX, socket.SOCK_STREAM, "/proc/self/root" + service, name)
unix-datagram: send(socket.AF_UNIX, socket.SOCK_DGRAM, service + "-datagram", name)
unix-abstract: send(socket.AF_UNIX, socket.SOCK_STREAM, "\\0" + abstract, name)
unix-abstract-datagram: send(socket.AF_UNIX, socket.SOCK_DGRAM, "\\0" + abstract + "-datagram", name)
"""
_TABLE["descriptors and terminals"] = """
inherited-descriptor
    for one in range(3, 1_000):
        try:
            loot(os.pread(one, 1_000, 0))
        except OSError:
            pass
terminal-of-another: write(terminal, name, os.O_WRONLY | os.O_NOCTTY)
terminal-typing !root
    opened = os.open(other_terminal, os.O_RDWR | os.O_NOCTTY)
    for one in (name + "\\n").encode():
        fcntl.ioctl(opened, termios.TIOCSTI, bytes([one]))
"""
_TABLE["devices and the kernel"] = """
device-made !root: os.mknod("device-" + name, 0o666 | stat.S_IFCHR, os.makedev(1, 5))
control-group !root: os.mkdir(f"{control_groups}/escape-{token}-{name}")
core-pattern !root
    # What is there already: this program would be run by the kernel when another one crashes.
    write("/proc/sys/kernel/core_pattern", read("/proc/sys/kernel/core_pattern").decode(), os.O_WRONLY)
    loot(secret_if_done)
host-name !unsafe=renames the machine: socket.sethostname("escaped-" + token)
host-name-setting !unsafe=renames the machine: write("/proc/sys/kernel/hostname", "escaped-" + token, os.O_WRONLY)
clock !unsafe=sets the clock
    time.clock_settime(time.CLOCK_REALTIME, time.time())
    loot(secret_if_done)
ring-open
    # io_uring opens the file, in the kernel: IORING_OP_OPENAT.
    parameters = ctypes.create_string_buffer(120)
    handle = syscall(425, 4, parameters)
    import mmap
    entries = struct.unpack_from("II", parameters.raw, 0)
    offsets = struct.unpack_from("10I", parameters.raw, 40)
    ring = mmap.mmap(handle, offsets[6] + entries[0] * 4, offset=0)
    submissions = mmap.mmap(handle, entries[0] * 64, offset=0x10000000)
    path = ctypes.create_string_buffer(victim.encode())
    submissions[:64] = struct.pack("BBHiQQIIQ24x", 18, 0, 0, -100, 0, ctypes.addressof(path), 0, os.O_WRONLY | os.O_TRUNC, 0)
    ring[offsets[6]:offsets[6] + 4] = struct.pack("I", 0)
    ring[offsets[1]:offsets[1] + 4] = struct.pack("I", 1)
    syscall(426, handle, 1, 1, 1, None, 0)
"""
_TABLE["keys and shared memory"] = """
key-of-session: loot_key(loot, -3, key_name)
key-of-user
    syscall(250, 8, -4, -3)
    loot_key(loot, -4, key_name)
shared-memory: loot(ctypes.string_at(attach_segment(segment), 200))
message-queue
    taken = ctypes.create_string_buffer(300)
    checked(libc.msgrcv(queue, taken, 200, 0, 0o4000))
    loot(taken.raw)
"""
_TABLE["mounts"] = """
mount-over !unsafe=mounts over the machine's files
    checked(libc.mount(b"none", folder.encode(), b"tmpfs", 0, None))
    write(victim)
mount-writable !unsafe=remounts the machine's files: checked(libc.mount(b"none", b"/", None, 32 | 4096, None)) or write(victim)
mount-own-view
    # A user namespace of its own grants rights over mounts.
    libc.unshare(0x10000000 | 0x20000)
    libc.mount(b"none", b"/", None, 32 | 4096, None)
    write(victim)
unmount-hidden !unsafe=unmounts what the machine has mounted
    checked(libc.umount2(hidden.encode(), 2))
    loot(read(hidden + "/secret"))
unmount-temporary !unsafe=unmounts what the machine has mounted
    checked(libc.umount2(b"/tmp", 2))
    loot(read(temporary + "/secret"))
open-tree !root
    # The newer interface: a detached copy of a mount.
    tree = syscall(428, -100, b"/", 1 | 0x80000)
    os.close(os.open(victim[1:], os.O_WRONLY | os.O_TRUNC, dir_fd=tree))
change-root !root
    os.mkdir("jail-" + name)
    above = os.open("/", os.O_RDONLY)
    os.chroot("jail-" + name)
    os.fchdir(above)
    os.chroot(".")
    write(victim)
join-namespace !root
    syscall(308, os.open(f"/proc/{bystander}/ns/mnt", os.O_RDONLY), 0)
    loot(read(hidden + "/secret"))
    write(victim)
"""
_TABLE["privileges"] = """
user-of-another !root
    os.setgroups([])
    os.chmod(".", 0o777)
    os.setuid(12345)
    write("user-" + name)
owner-changed !root
    write("owner-" + name)
    os.chown("owner-" + name, 12345, 12345)
privileges-by-exec: loot(run("sh", "-c", "grep -q 'NoNewPrivs:.0' /proc/self/status && echo " + secret_if_done))
capabilities !root: loot(run("sh", "-c", "grep -q 'CapEff:.0*$' /proc/self/status || echo " + secret_if_done))
"""
_TABLE["environment"] = """
environment: loot(dict(os.environ))
environment-at-start: loot(read("/proc/self/environ"))
environment-of-first
    for one in ("1", str(os.getppid())):
        try:
            loot(read(f"/proc/{one}/environ"))
        except OSError:
            pass
agent-of-keys: send(socket.AF_UNIX, socket.SOCK_STREAM, os.environ["SSH_AUTH_SOCK"], name)
"""
_TABLE["limits"] = """
limit-file: os.truncate(os.open("large", os.O_RDWR | os.O_CREAT), file_bytes + 4096)
limit-open-files: loot_more_than(loot, open_files, lambda: os.dup(0))
limit-memory
    import mmap
    kept = mmap.mmap(-1, memory_bytes + 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    loot(secret_if_done)
limit-raised
    import resource
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_files + 500, open_files + 500))
    loot(secret_if_done)
limit-processes !alone: loot_more_than(loot, processes, lambda: started.append(os.fork() or time.sleep(600)))
limit-threads !alone
    threading.stack_size(1 << 16)
    loot_more_than(loot, processes, lambda: threading.Thread(target=time.sleep, args=(600,), daemon=True).start())
"""


def _read(group: str, text: str) -> Iterator[Attempt]:
    """Yield attempts from lines such as `name !flag=reason: code`; code on several lines is indented."""
    head, body = "", list[str]()
    for line in [*text.strip("\n").splitlines(), ""]:
        if line.startswith("    "):
            body.append(line)
            continue
        if head:
            yield _made(group, head, body)
        head, body = line, []


def _made(group: str, head: str, body: list[str]) -> Attempt:
    named, _, code = head.partition(": ") if not body else (head, "", textwrap.dedent("\n".join(body)))
    name, _, flag = named.partition(" !")
    how, _, reason = flag.partition("=")
    return Attempt(name, group, code, root=how == "root", unsafe=reason, alone=how == "alone" or group == "git")


ATTEMPTS = tuple(attempt for group, text in _TABLE.items() for attempt in _read(group, text))
