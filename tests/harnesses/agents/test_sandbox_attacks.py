"""No program leaves the sandbox. Each test has an agent try, with real walls, and looks at what became of it outside."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from harnesses.agents import Bubblewrap, CommandAgent, Dialect
from harnesses.agents.sandbox import environment_within
from harnesses.errors import HarnessMisuse
from harnesses.files.private_files import conceal_file, conceal_folder, concealed_names
from tests.harnesses.agents.attacks import Ground, ground
from tests.harnesses.agents.turns import assigned, take_turn

pytestmark = pytest.mark.skipif(not Bubblewrap().works(), reason="bubblewrap is not installed, or may not run")


@pytest.fixture
def place() -> Iterator[Ground]:
    with ground() as made:
        yield made


# files of the run


COMPANIONS = ("", "-wal", "-shm", "-head", "-key", "-head.new", ".run-0011", "-latch/@all", "-values/ab")


@pytest.fixture
def run(place: Ground) -> Iterator[Ground]:
    """Give a place with a store in it that is open."""
    store = place.folder / "run.db"
    for name in COMPANIONS:
        file = Path(f"{store}{name}")
        file.parent.mkdir(exist_ok=True)
        file.write_text("PRIVATE")
    (place.folder / "notes.txt").write_text("anybody may read this")
    concealed = conceal_file(store)
    yield place
    concealed.reveal()
    assert str(place.folder) not in concealed_names()


def content(path: str) -> str:
    return Path(path).read_text()


async def test_nothing_of_a_run_is_seen_and_all_else_beside_it_is(run: Ground) -> None:
    told = await run.attacked(f"""
        attempt("seen", lambda: sorted(os.listdir({str(run.folder)!r})))
        attempt("notes", lambda: open({str(run.folder / "notes.txt")!r}).read())
        for name in {COMPANIONS!r}:
            attempt("read" + name, lambda: open({str(run.folder / "run.db")!r} + name).read())
            attempt("write" + name, lambda: open({str(run.folder / "run.db")!r} + name, "w").write("x"))
    """)

    assert told.pop("seen") == ["notes.txt", "work"]
    assert told.pop("notes") == "anybody may read this"
    assert {value.split(":")[0] for value in told.values()} <= {"FileNotFoundError", "OSError", "NotADirectoryError"}
    assert {content(f"{run.folder}/run.db{name}") for name in COMPANIONS} == {"PRIVATE"}


async def test_what_a_run_makes_or_replaces_later_is_not_seen_either(run: Ground) -> None:
    head = run.folder / "run.db-head"

    def replace() -> None:
        (run.work / "begun").touch()
        while not (run.work / "looking").exists() and not done.wait(0.01):
            continue
        (run.folder / "new").write_text("REPLACED")
        os.replace(run.folder / "new", head)
        (run.folder / "run.db.control-99").write_text("LATER")
        (run.work / "replaced").touch()

    done = threading.Event()
    thread = threading.Thread(target=replace)
    thread.start()
    try:
        told = await run.attacked(f"""
            import time
            open("looking", "w").close()
            while not os.path.exists("replaced"):
                time.sleep(0.01)
            attempt("head", lambda: open({str(head)!r}).read())
            attempt("seen", lambda: sorted(os.listdir({str(run.folder)!r})))
        """)
    finally:
        done.set()
        thread.join()

    assert head.read_text() == "REPLACED"
    assert told["head"].startswith("FileNotFoundError")
    assert told["seen"] == ["notes.txt", "work"]


@pytest.mark.parametrize("way", ["/proc/1/root", "/proc/self/root", "/proc/thread-self/root", "/proc/self/cwd/../..", "/."])
async def test_no_way_around_leads_to_the_key(run: Ground, way: str) -> None:
    told = await run.attacked(f"""attempt("key", lambda: open({way!r} + {str(run.folder / "run.db-key")!r}).read())""")

    assert "PRIVATE" not in told["key"]


async def test_a_run_is_hidden_in_a_place_that_is_writable_and_below_the_directory(run: Ground) -> None:
    inner = run.work / "data"
    inner.mkdir()
    (inner / "inner.db-key").write_text("PRIVATE")
    (inner / "kept.txt").write_text("before")
    concealed = conceal_file(inner / "inner.db")
    try:
        told = await run.attacked(
            f"""
            attempt("outer", lambda: open({str(run.folder / "run.db-key")!r}).read())
            attempt("inner", lambda: open("data/inner.db-key").read())
            attempt("plant", lambda: open("data/inner.db-latch", "w").write("x"))
            attempt("kept", lambda: open("data/kept.txt", "w").write("after"))
            """,
            Bubblewrap(writable=[run.folder]),
        )
    finally:
        concealed.reveal()

    assert "FileNotFoundError" in told["outer"]
    assert "FileNotFoundError" in told["inner"]
    assert not (inner / "inner.db-latch").exists()
    assert (inner / "kept.txt").read_text() == "after"


async def test_an_agent_is_not_let_into_the_folder_of_its_store(run: Ground) -> None:
    concealed = conceal_file(run.work / "run.db")
    try:
        with pytest.raises(HarnessMisuse, match=r"holds files of the run itself \(run.db\)"):
            await run.attacked("pass")
    finally:
        concealed.reveal()


async def test_other_worktrees_are_not_seen(place: Ground) -> None:
    trees = place.folder / "space" / "trees"
    for name in ("mine", "other"):
        (trees / name).mkdir(parents=True)
    (trees / "other" / "a.txt").write_text("PRIVATE")
    concealed = conceal_folder(place.folder / "space")
    try:
        told = await Ground(place.folder, trees / "mine").attacked("""
            attempt("others", lambda: os.listdir(".."))
            attempt("write", lambda: open("mine.txt", "w").write("done"))
            attempt("plant", lambda: os.mkdir("../other"))
        """)
    finally:
        concealed.reveal()

    assert told["others"] == ["mine"]
    assert (trees / "mine" / "mine.txt").read_text() == "done"
    assert told["plant"].startswith("OSError")


# the directory


async def test_a_git_file_that_an_agent_writes_opens_nothing(place: Ground) -> None:
    victim = place.folder / "victim"
    victim.mkdir()
    plant = f"""
        os.makedirs("g", exist_ok=True)
        open("g/commondir", "w").write({str(victim)!r})
        attempt("git", lambda: open(".git", "w").write("gitdir: g"))
        attempt("write", lambda: open({str(victim / "owned")!r}, "w").write("x"))
    """

    for _ in range(2):
        await place.attacked(plant)

    assert (place.work / ".git").read_text() == "gitdir: g"
    assert list(victim.iterdir()) == []


@pytest.mark.parametrize("planted", ["config", "hooks/pre-commit", "commondir", "config.worktree", "info/attributes"])
async def test_what_the_next_git_outside_obeys_can_not_be_planted(place: Ground, planted: str) -> None:
    await trio.run_process(["git", "init", "-q", place.work])

    await place.attacked(f"""
        attempt("write", lambda: open(os.path.join(".git", {planted!r}), "w").write("[core]\\n\\tfsmonitor = touch owned\\n"))
        attempt("rename", lambda: os.rename(".git", "other"))
        attempt("remove", lambda: __import__("shutil").rmtree(".git"))
        attempt("again", lambda: os.mkdir(".git"))
    """)

    file = place.work / ".git" / planted
    assert not file.exists() or "owned" not in file.read_text()
    assert not (place.work / "other").exists()


async def test_links_lead_nowhere_and_files_outside_can_not_be_linked(place: Ground) -> None:
    outside = place.folder / "outside"
    outside.write_text("as it was")

    await place.attacked(f"""
        attempt("link", lambda: os.link({str(outside)!r}, "hard"))
        attempt("symlink", lambda: os.symlink({str(outside)!r}, "soft"))
        attempt("through", lambda: open("soft", "w").write("owned"))
        attempt("up", lambda: open("../outside", "w").write("owned"))
    """)

    assert outside.read_text() == "as it was"
    assert not (place.work / "hard").exists()


# sockets and the network


@pytest.fixture
def service(place: Ground) -> Iterator[tuple[Path, list[str]]]:
    """Give a socket with a file, that somebody listens on, and what comes in."""
    path, came = place.folder / "service.sock", list[str]()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        yield from _listen(listening, came, path)


def _listen(listening: socket.socket, came: list[str], path: Path) -> Iterator[tuple[Path, list[str]]]:
    listening.listen()
    listening.settimeout(10)

    def answer() -> None:
        while True:
            try:
                connected, _ = listening.accept()
            except OSError:
                return
            came.append(connected.recv(100).decode())
            connected.close()

    thread = threading.Thread(target=answer)
    thread.start()
    yield path, came
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    thread.join()


_CONNECT = """
    import socket
    def connect(family, address):
        with socket.socket(family) as one:
            one.settimeout(5)
            one.connect(address)
            one.sendall(b"stop")
            return "connected"
"""


@pytest.mark.parametrize("network", [False, True])
async def test_no_socket_with_a_file_is_reached(place: Ground, service: tuple[Path, list[str]], network: bool) -> None:
    path, came = service

    told = await place.attacked(
        f"{_CONNECT}\n    attempt('connect', lambda: connect(socket.AF_UNIX, {str(path)!r}))", Bubblewrap(network=network)
    )

    assert "connected" not in told["connect"]
    assert came == []


@pytest.mark.parametrize("network", [False, True])
async def test_no_socket_without_a_file_is_reached(place: Ground, network: bool) -> None:
    name, came = f"\0attacked-{os.getpid()}", list[str]()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(name)
        for _ in _listen(listening, came, Path()):
            told = await place.attacked(
                f"{_CONNECT}\n    attempt('connect', lambda: connect(socket.AF_UNIX, {name!r}))", Bubblewrap(network=network)
            )

    if network and not _has_landlock_scopes():
        pytest.skip("this kernel cannot keep a process from sockets without a file (Linux 6.12)")
    assert "connected" not in told["connect"]
    assert came == []


def _has_landlock_scopes() -> bool:
    version = tuple(int(part) for part in os.uname().release.split(".")[:2] if part.isdigit())
    return version >= (6, 12)


async def test_loopback_is_not_reached_unless_the_network_is_shared(place: Ground) -> None:
    came = list[str]()
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        address = listening.getsockname()
        deed = f"{_CONNECT}\n    attempt('connect', lambda: connect(socket.AF_INET, {address!r}))"
        for _ in _listen(listening, came, Path()):
            alone = await place.attacked(deed)
            shared = await place.attacked(deed, Bubblewrap(network=True))

    assert "connected" not in alone["connect"]
    assert shared["connect"] == "connected"
    assert came == ["stop"]


async def test_a_dialect_shares_the_network_and_a_command_does_not(place: Ground) -> None:
    there = os.readlink("/proc/self/ns/net")
    look = ("readlink", "/proc/self/ns/net")

    bare = await take_turn(CommandAgent(list(look), sandbox="bwrap"), assigned(place.work))
    online = Dialect(name="talks", command=look, network=True)
    shared = await take_turn(CommandAgent(dialect=online, sandbox="bwrap"), assigned(place.work))
    refused = await take_turn(CommandAgent(dialect=online, sandbox=Bubblewrap(network=False)), assigned(place.work))

    assert [bare.message == there, shared.message == there, refused.message == there] == [False, True, False]


# processes, the kernel, the environment


def bystander() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env={"MY_SECRET": "PRIVATE"})


async def test_no_process_outside_is_seen_or_reached(place: Ground) -> None:
    with bystander() as other:
        told = await place.attacked(f"""
            attempt("environ", lambda: [open(f"/proc/{{one}}/environ").read() for one in os.listdir("/proc") if one.isdigit()])
            attempt("kill", lambda: os.kill({other.pid}, 9))
            attempt("kill all", lambda: os.kill(-1, 0))
            attempt("processes", lambda: len([one for one in os.listdir("/proc") if one.isdigit()]))
        """)
        survived = other.poll() is None
        other.communicate(b"\n")

    assert survived
    assert "PRIVATE" not in str(told["environ"])
    assert told["processes"] <= 3


async def test_all_namespaces_are_its_own(place: Ground) -> None:
    told = await place.attacked("""
        for name in ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts"):
            attempt(name, lambda: os.readlink(f"/proc/self/ns/{name}"))
    """)

    assert {name for name, link in told.items() if link == os.readlink(f"/proc/self/ns/{name}")} == set()


async def test_no_privileges_are_gained(place: Ground) -> None:
    told = await place.attacked("""
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        attempt("status", lambda: open("/proc/self/status").read())
        attempt("remount", lambda: libc.mount(b"none", b"/", None, 32 | 4096, None))
        attempt("unmount", lambda: libc.umount2(b"/tmp", 2))
        attempt("nested", lambda: libc.unshare(0x10000000))
    """)

    status = dict(line.split(":\t", 1) for line in told["status"].splitlines() if ":\t" in line)
    assert status["NoNewPrivs"] == "1"
    assert {int(status[one], 16) for one in ("CapEff", "CapPrm", "CapBnd", "CapInh")} == {0}
    assert (told["remount"], told["unmount"], told["nested"]) == (-1, -1, -1)


async def test_no_setting_of_the_kernel_can_be_written(place: Ground) -> None:
    # Opened without writing: what is possible is not done.
    told = await place.attacked("""
        for top in ("/proc/sys/kernel", "/proc/sys/fs", "/proc/sys/vm", "/sys/fs/cgroup", "/sys/kernel"):
            for folder, _, files in os.walk(top):
                for name in [f"{folder}/{one}" for one in files][:50]:
                    attempt(name, lambda: os.close(os.open(name, os.O_WRONLY)))
        for name in ("/proc/sysrq-trigger", "/proc/1/oom_score_adj", "/proc/self/uid_map"):
            attempt(name, lambda: os.close(os.open(name, os.O_WRONLY)))
        told = {"tried": len(told), "opened": [name for name, became in told.items() if became is None]}
    """)

    assert told["tried"] > 50
    assert told["opened"] == []


async def test_shared_memory_and_control_groups_are_not_written(place: Ground) -> None:
    name = f"planted-{os.getpid()}"
    await place.attacked(f"""
        attempt("cgroup", lambda: os.mkdir("/sys/fs/cgroup/{name}"))
        attempt("shm", lambda: open("/dev/shm/{name}", "w").write("x"))
    """)

    assert [folder for folder in ("/sys/fs/cgroup", "/dev/shm") if name in os.listdir(folder)] == []


async def test_no_terminal_and_no_descriptor_is_inherited(place: Ground) -> None:
    with (place.folder / "open").open("w") as held:
        os.set_inheritable(held.fileno(), True)
        told = await place.attacked("""
            import fcntl, termios
            attempt("descriptors", lambda: sorted(os.readlink(f"/proc/self/fd/{one}") for one in ("0", "1", "2")))
            attempt("more", lambda: [one for one in range(3, 100) if os.path.exists(f"/proc/self/fd/{one}")])
            attempt("terminal", lambda: os.open("/dev/tty", os.O_RDWR))
            attempt("type", lambda: fcntl.ioctl(0, termios.TIOCSTI, b"x"))
        """)

    assert told["more"] == []
    assert all(link.startswith("pipe:") for link in told["descriptors"])
    assert told["terminal"].startswith("OSError")
    assert told["type"].startswith("OSError")


async def test_secrets_and_ways_out_are_no_part_of_its_environment(place: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DEPLOY_PASSWORD", "MY_API_KEY", "SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, "n0-s3cret-4t-all")
    monkeypatch.setenv("HARMLESS", "seen")

    told = await place.attacked("""
        attempt("mine", lambda: dict(os.environ))
        attempt("first", lambda: open("/proc/1/environ").read())
    """)

    assert told["mine"]["HARMLESS"] == "seen"
    assert "n0-s3cret" not in str(told)


def test_a_dialect_keeps_what_it_signs_in_with() -> None:
    environment = {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "sk-123456789", "PATH": "/bin"}

    assert environment_within(environment, ("ANTHROPIC_",)) == {"ANTHROPIC_API_KEY": "k", "PATH": "/bin"}


@pytest.mark.parametrize(
    "name",
    [
        *(
            "SECRET_TOKEN",
            "MY_TOKEN",
            "STRIPE_KEY",
            "GITHUBTOKEN",
            "DB_PASSWORD",
            "PGPASSWORD",
            "npm_config__auth",
            "X_API_KEY",
        ),
        *("AWS_ACCESS_KEY_ID", "GOOGLE_APPLICATION_CREDENTIALS", "DJANGO_SECRET_KEY", "SSH_PASSPHRASE", "my.secret.value"),
    ],
)
def test_a_variable_whose_name_says_that_it_is_secret_is_removed_whatever_it_holds(name):
    assert environment_within({name: "abc", "PATH": "/bin"}) == {"PATH": "/bin"}


def test_variables_that_only_sound_secret_stay():
    ordinary = {
        "MAX_TOKENS": "4096",
        "TOKENIZERS_PARALLELISM": "false",
        "GIT_AUTHOR_NAME": "agent",
        "KEYBOARD": "us",
        "PWD": "/home/me",
        "KEYTIMEOUT": "1",
        "MONKEY_PATCH": "1",
        "AUTHOR": "me",
        "TOKENIZER_PATH": "/models/t",
    }
    assert environment_within(ordinary) == ordinary
