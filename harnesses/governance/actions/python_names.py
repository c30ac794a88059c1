"""The names of Python's functions and methods that run, write, delete or hide something. Pure."""

from __future__ import annotations

from harnesses.governance.actions.options import names

WRITES, DELETES = "destructive-shell", "destructive-shell"
SHELLS = names(
    "os.system os.popen subprocess.getoutput subprocess.getstatusoutput asyncio.create_subprocess_shell commands.getoutput"
)
PROGRAMS = names(
    "subprocess.run subprocess.call subprocess.check_call subprocess.check_output subprocess.Popen trio.run_process "
    "os.execv os.execve os.execvp os.execvpe os.posix_spawn os.posix_spawnp pty.spawn sh.Command anyio.run_process"
)
SPREAD = names("os.execl os.execle os.execlp os.execlpe asyncio.create_subprocess_exec")
SPAWNS = names(
    "os.spawnl os.spawnle os.spawnlp os.spawnlpe os.spawnv os.spawnve os.spawnvp os.spawnvpe os.startfile os.fork os.forkpty"
)
TREES = names("shutil.rmtree os.removedirs send2trash.send2trash distutils.dir_util.remove_tree")
ONE = {
    "os.remove": (0,),
    "os.unlink": (0,),
    "os.rmdir": (0,),
    "os.truncate": (0,),
    "os.mkdir": (0,),
    "os.makedirs": (0,),
    "os.rename": (0, 1),
    "os.renames": (0, 1),
    "os.replace": (0, 1),
    "os.link": (1,),
    "os.symlink": (1,),
    "os.chmod": (0,),
    "os.chown": (0,),
    "os.mknod": (0,),
    "shutil.move": (0, 1),
    "shutil.copy": (1,),
    "shutil.copy2": (1,),
    "shutil.copyfile": (1,),
    "shutil.copytree": (1,),
    "shutil.copymode": (1,),
    "shutil.chown": (0,),
    "shutil.unpack_archive": (1,),
    "shutil.make_archive": (0,),
    "urllib.request.urlretrieve": (1,),
}
"""Functions that write to, move or remove what is at some of their arguments."""
RUNS_CODE = names("eval exec compile builtins.eval builtins.exec builtins.compile")
HIDES = names(
    "__import__ importlib.import_module importlib.__import__ runpy.run_path runpy.run_module code.interact "
    "marshal.loads pickle.loads pickle.load types.FunctionType globals locals vars builtins.__import__ "
    "operator.attrgetter operator.methodcaller"
)
HIDDEN_MODULES = frozenset({"ctypes", "cffi", "pty", "_posixsubprocess", "posix", "imp", "runpy", "code", "codeop"})
REMOTE_METHODS = frozenset({"exec_command", "invoke_shell"})
PATH_WRITES = frozenset(
    {"write_text", "write_bytes", "unlink", "rmdir", "touch", "symlink_to", "hardlink_to", "chmod", "mkdir"}
)
PATH_MOVES = frozenset({"rename", "replace"})
GIVES_UP = frozenset({"__subclasses__", "__globals__", "__builtins__", "__code__", "__getattribute__", "__reduce__"})
