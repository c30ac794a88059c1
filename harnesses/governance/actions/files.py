"""What programs do to files: delete, overwrite, move, change permissions. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial

from harnesses.governance.actions.nouns import (
    ANYTHING,
    UNKNOWN,
    Call,
    Category,
    Changes,
    Found,
    Run,
    Sayings,
    Word,
    Write,
    unclear,
)
from harnesses.governance.actions.options import options
from harnesses.governance.actions.paths import is_everything, protected

Rule = Callable[[Call], Sayings]
BROAD, PERM = Category.BROAD_DELETE, Category.PERM_DESTROY
_MANY_RUN, _LONG_SCRIPT = 50, 5_000
_DESTRUCTIVE, _IN_PLACE = "destructive-shell", "in-place-edit"


def _rm(call: Call) -> Sayings:
    given = options(call.args)
    yield Changes(_DESTRUCTIVE, "it deletes files")
    if given.has("r", "R", "recursive"):
        yield Found(BROAD, "it deletes folders with all that is in them")
    elif given.loose:
        yield unclear("what it deletes is not known, it may be a whole folder")
    for path in given.operands:
        if is_everything(path):
            yield Found(BROAD, f"{path} stands for everything there")
        yield Write(path, "deletes")


def _moves(call: Call) -> Sayings:
    """`mv`: takes away here what it writes there."""
    given = options(call.args, "tS", ("target-directory", "suffix"))
    yield Changes(_DESTRUCTIVE, "it moves files")
    targets = tuple(given.of("t", "target-directory"))
    for path in (*given.operands, *targets):
        yield Write(path, "moves")
    sources = given.operands if targets else given.operands[:-1]
    if any(is_everything(path) for path in sources):
        yield Found(BROAD, "it moves everything away")
    folders = targets or given.operands[-1:]
    yield from _into(folders, sources)
    if any(path.text in ("/dev/null", "/dev/zero") for path in folders):
        yield Found(BROAD, "it moves files to where nothing is kept")


def _copies(call: Call) -> Sayings:
    given = options(call.args, "tSmgo", ("target-directory", "suffix", "mode", "owner", "group"))
    yield Changes(_DESTRUCTIVE, "it writes files")
    targets = tuple(given.of("t", "target-directory"))
    folders = targets or given.operands[-1:]
    for path in folders:
        yield Write(path)
    yield from _into(folders, given.operands if targets else given.operands[:-1])
    if call.program == "install" and any(re.search("[2367]$", mode.text) for mode in given.of("m", "mode")):
        yield Found(PERM, "it gives everybody the right to write")


def _into(folders: tuple[Word, ...], sources: tuple[Word, ...]) -> Sayings:
    """Say where files come to lie that keep their name in another folder."""
    for folder in folders:
        for source in sources:
            name = source.text.rstrip("/").rpartition("/")[2]
            if source.known and name not in ("", ".", "..") and not source.glob:
                yield Write(Word(f"{folder.text.rstrip('/')}/{name}", folder.splits, folder.glob))


def _writes(call: Call, *, kind: str = _DESTRUCTIVE, takes: str = "") -> Sayings:
    """Programs that write to every path that they are given."""
    given = options(call.args, takes)
    yield Changes(kind, "it writes files")
    for path in given.operands:
        yield Write(path)


def _makes(call: Call) -> Sayings:
    yield Changes(_DESTRUCTIVE, "it makes files")
    for path in options(call.args, "mdtr", ("mode", "date", "reference")).operands:
        yield Write(path)


def _dd(call: Call) -> Sayings:
    for word in call.args:
        if word.text.startswith("of="):
            yield Write(Word(word.text[3:], word.splits, word.glob))
            yield Changes(_DESTRUCTIVE, "it writes files")
        elif word.may_be_option:
            yield unclear("it is not known where it writes")


def _wipes(call: Call) -> Sayings:
    given = options(call.args)
    if given.has("help", "version", "l") or not call.args:
        return
    yield Changes(_DESTRUCTIVE, "it destroys what is there")
    yield Found(BROAD, f"{call.program} leaves nothing of what is there")


def _chmod(call: Call) -> Sayings:
    yield Changes(_DESTRUCTIVE, "it changes permissions")
    modes = [word for word in call.args if re.fullmatch(r"[-+=ugoarwxXst,0-7]+", word.text) and not word.text.startswith("--")]
    # `chmod -w file` takes a right away: what looks like options may be a mode.
    given = options(call.args)
    if given.has("R", "recursive"):
        yield Found(PERM, "it changes the permissions of whole folders")
    elif given.loose:
        yield unclear("it is not known what permissions it gives, and to what")
    for mode in modes:
        if _opens(mode.text):
            yield Found(PERM, f"{mode} opens the file to everybody, closes it to all, or has it run as its owner")
    for path in given.operands[1:]:
        yield Write(path, "changes the permissions of")


def _opens(mode: str) -> bool:
    if mode.isdigit():
        return mode[-1] in "2367" or mode.strip("0") == "" or (len(mode) >= 4 and mode[-4] in "24673" and mode[-4] != "0")
    return any(
        ("s" in part and "-s" not in part and "=" not in part)
        or bool(re.match(r"[ug]*[oa][ugoa]*[+=][rxX]*w|[+=][rxX]*w.*$", part) and re.match(r".*[oa]", part))
        for part in mode.split(",")
    )


def _owners(call: Call) -> Sayings:
    yield Changes(_DESTRUCTIVE, "it changes who owns files")
    given = options(call.args, "", ("from", "reference"))
    if given.has("R", "recursive"):
        yield Found(PERM, "it changes who owns whole folders")
    elif given.loose:
        yield unclear("it is not known what it changes")
    for path in given.operands[1:]:
        yield Write(path, "changes who owns")


def _rights(call: Call, *, reads: tuple[str, ...] = ()) -> Sayings:
    """Programs that change who may do what on the machine."""
    if any(word.text in ("--help", "--version", *reads) for word in call.args):
        return
    yield Found(PERM, f"{call.program} changes who may do what")


def _sed(call: Call) -> Sayings:
    given = options(call.args, "efl" if call.program == "sed" else "eEfF", ("expression", "file", "line-length"))
    in_place = given.has("i", "in-place") if call.program in ("sed", "gsed") else given.has("i")
    scripts = [*given.of("e", "expression")]
    files = given.operands
    if not scripts and not given.has("f", "file"):
        scripts, files = [*files[:1]], files[1:]
    if in_place:
        yield Changes(_IN_PLACE, "it changes files in place")
        for path in files:
            yield Write(path)
    elif given.loose and call.args and call.args[0].may_be_option:
        yield unclear("it is not known whether it changes files in place")
    if call.program in ("sed", "gsed"):
        for script in scripts:
            yield from _sed_script(script)


def _sed_script(script: Word) -> Sayings:
    for text in re.split(r"[\n;{}]", script.text):
        if re.match(r"\s*(\d+|\$|/[^/]*/)?(,(\d+|\$|/[^/]*/))?\s*!?\s*e(\s|$)", text):
            yield unclear("its script runs a program")
        if written := re.match(r"\s*(?:\d+|\$|/[^/]*/)?(?:,(?:\d+|\$|/[^/]*/))?\s*!?\s*[wW]\s+(\S+)", text):
            yield Write(Word(written.group(1)))
    if substituted := re.match(
        r"\s*(?:\d+|\$)?s(.)(?:\\.|(?!\1).)*\1(?:\\.|(?!\1).)*\1([a-zA-Z0-9]*)(?:\s+(\S+))?", script.text
    ):
        if "e" in substituted.group(2):
            yield unclear("its script runs a program")
        if "w" in substituted.group(2).lower():
            yield Write(Word(substituted.group(3) or UNKNOWN))


def _find(call: Call) -> Sayings:
    texts = [word.text for word in call.args]
    if any(word.splits for word in call.args):
        yield unclear("it is not known what it does with what it finds")
    found = _found_by(call)
    if sum(text.startswith(("-exec", "-ok")) for text in texts) > _MANY_RUN:
        yield unclear(f"it runs more than {_MANY_RUN} programs")
        return
    for place, text in enumerate(texts):
        if text == "-delete":
            yield Changes(_DESTRUCTIVE, "it deletes what it finds")
            yield Found(BROAD, "it deletes all that it finds")
        elif text in ("-fprint", "-fprintf", "-fls", "-fprint0") and place + 1 < len(texts):
            yield Write(call.args[place + 1])
        elif text in ("-exec", "-execdir", "-ok", "-okdir"):
            words = _up_to(call.args[place + 1 :], (";", "+"))
            inner = tuple(
                Word(word.text.replace("{}", found.text), word.splits, word.glob or found.glob) if "{}" in word.text else word
                for word in words
            )
            if inner and inner[0].text.rpartition("/")[2] in ("rm", "unlink", "shred", "rmdir", "trash"):
                yield Found(BROAD, "it deletes all that it finds")
            yield Run(inner)


def _fd(call: Call) -> Sayings:
    texts = [word.text for word in call.args]
    for mark in ("-x", "-X", "--exec", "--exec-batch"):
        if mark in texts:
            words = call.args[texts.index(mark) + 1 :]
            if words and words[0].text.rpartition("/")[2] in ("rm", "unlink", "shred", "rmdir"):
                yield Found(BROAD, "it deletes all that it finds")
            yield Run((*words, ANYTHING))


def _found_by(call: Call) -> Word:
    """Return what stands for a file that is found: its name, if that is asked for."""
    names = [call.args[place + 1] for place, word in enumerate(call.args[:-1]) if word.text in ("-name", "-iname")]
    root = call.args[0].text if call.args and not call.args[0].text.startswith("-") else "."
    if len(names) == 1 and names[0].known and not any(word.text in ("-o", "-or", "!", "-not") for word in call.args):
        return Word(f"{root.rstrip('/')}/{names[0].text}", glob=True)
    return Word(f"{root.rstrip('/')}/{UNKNOWN}")


def _up_to(words: tuple[Word, ...], ends: tuple[str, ...]) -> tuple[Word, ...]:
    for place, word in enumerate(words):
        if word.text in ends:
            return words[:place]
    return words


def _xargs(call: Call) -> Sayings:
    given = options(call.args, "aEILnPsd", ("arg-file", "max-args", "max-procs", "replace", "delimiter"), first=True)
    words = given.operands
    if not words:
        return
    if words[0].text.rpartition("/")[2] in ("rm", "unlink", "shred", "trash"):
        yield Found(BROAD, "it deletes all that it is told")
    mark = next(iter(given.of("I", "replace")), None)
    if mark is not None:
        yield Run(tuple(Word(word.text.replace(mark.text, UNKNOWN), word.splits) for word in words))
    else:
        yield Run((*words, ANYTHING))


def _sort(call: Call) -> Sayings:
    for path in options(call.args, "oktST", ("output", "key", "field-separator")).of("o", "output"):
        yield Write(path)


def _rsync(call: Call) -> Sayings:
    given = options(call.args, "efBT", ("rsh", "exclude", "include", "filter", "exclude-from", "files-from", "backup-dir"))
    if given.has("n", "dry-run"):
        return
    yield Changes(_DESTRUCTIVE, "it writes files")
    if any(name.startswith(("delete", "del", "remove-source")) for name in given.long):
        yield Found(BROAD, "it deletes what is not, or no more, at its source")
    for shell in given.of("e", "rsh"):
        yield Run(tuple(Word(text) for text in shell.text.split()))
    target = given.operands[-1:] if len(given.operands) > 1 else ()
    for path in target:
        if re.match(r"[^/]*:", path.text) or path.text.startswith("rsync:"):
            yield Found(Category.REMOTE_EXEC, "it writes to another machine")
        else:
            yield Write(path)


def _archives(call: Call) -> Sayings:
    given = options(call.args, "fCTXI", ("file", "directory", "to-command", "checkpoint-action", "use-compress-program"))
    first = call.args[0].text.lstrip("-") if call.args else ""
    for name, value in given.values:
        if name in ("I", "to-command", "use-compress-program") or (name == "checkpoint-action" and "exec" in value.text):
            yield Run(tuple(Word(text) for text in value.text.partition("exec=")[2 if "exec=" in value.text else 0].split()))
    if "x" in first or given.has("extract", "get"):
        yield Changes(_DESTRUCTIVE, "it writes files")
        for path in given.of("C", "directory"):
            yield Write(path)
    if given.has("remove-files"):
        yield Found(BROAD, "it deletes what it has packed")
    if "c" in first or "r" in first or given.has("create"):
        for path in (*given.of("f", "file"), *(call.args[1:2] if call.args and not call.args[0].text.startswith("-") else ())):
            yield Write(path)


def _zip(call: Call) -> Sayings:
    given = options(call.args)
    if any(word.text.startswith(("-TT", "--unzip-command")) for word in call.args):
        yield unclear("it runs a program to test what it has packed")
    if given.has("m", "move"):
        yield Found(BROAD, "it deletes what it has packed")
    yield Changes(_DESTRUCTIVE, "it writes files")
    for path in given.operands[:1]:
        yield Write(path)


def _unzip(call: Call) -> Sayings:
    given = options(call.args, "dxP")
    if given.has("l", "t", "v", "Z"):
        return
    yield Changes(_DESTRUCTIVE, "it writes files")
    for path in given.of("d"):
        yield Write(path)


def _patch(call: Call) -> Sayings:
    given = options(call.args, "pdior", ("output", "input", "directory"))
    if given.has("dry-run"):
        return
    yield Changes(_IN_PLACE, "it changes files in place")
    for path in (*given.operands[:1], *given.of("o", "output")):
        yield Write(path)
    if call.input.kind == "text":
        for name in re.findall(r"^\+\+\+ (?:b/)?(\S+)", call.input.word.text, re.MULTILINE):
            yield Write(Word(name))


def _power_shell_delete(call: Call) -> Sayings:
    """`Remove-Item` and what cmd.exe has."""
    texts = [word.text.lower() for word in call.args]
    yield Changes("powershell", "it deletes files")
    if any(re.match(r"-r(ec|ecu|ecur|ecurs|ecurse)?$|/s$", text) for text in texts):
        yield Found(BROAD, "it deletes folders with all that is in them")
    for word in call.args:
        if not word.text.startswith("-"):
            yield Write(word, "deletes")


def _power_shell_write(call: Call) -> Sayings:
    yield Changes("powershell", "it changes files")
    for word in call.args:
        if not word.text.startswith("-"):
            yield Write(word)


def _openssl(call: Call) -> Sayings:
    texts = [word.text for word in call.args]
    for place, text in enumerate(texts[:-1]):
        if text in ("-out", "-keyout"):
            yield Write(call.args[place + 1])


def _ssh_keygen(call: Call) -> Sayings:
    given = options(call.args, "tbCfNPOsImnVzDEGRYFHl")
    if not given.has("l", "F", "y", "E") or given.has("p"):
        yield Found(Category.SECRET_WRITE, "it makes or changes keys")


def _awk(call: Call) -> Sayings:
    given = options(call.args, "vfFie", ("assign", "file", "include", "source"))
    if any(value.text == "inplace" for value in given.of("i", "include")):
        yield Changes(_IN_PLACE, "it changes files in place")
        for path in given.operands[1:]:
            yield Write(path)
    if given.has("f", "file"):
        return
    for script in (*given.operands[:1], *given.of("e", "source")):
        if len(script.text) > _LONG_SCRIPT:
            yield unclear(f"its script is longer than {_LONG_SCRIPT} characters")
            continue
        without = re.sub(r"/(?:\\.|[^/\n])*/", "//", script.text)
        if re.search(r"\bsystem\s*\(|\"\s*\|\s*getline|\|&|\|\s*(\"|[a-z])", without):
            yield unclear("its script runs a program")
        for path in re.findall(r"print[^;}\n]*?>>?\s*(\"[^\"]*\"|[A-Za-z_$][\w$]*)", script.text):
            yield Changes(_DESTRUCTIVE, "its script writes files")
            yield Write(Word(path.strip('"')) if path.startswith('"') else Word(UNKNOWN))


def _curl(call: Call) -> Sayings:
    given = options(
        call.args,
        "odFTHXuAbcewmKxErDPQtUyYzC",
        (
            "output",
            "output-dir",
            "data",
            "request",
            "header",
            "form",
            "upload-file",
            "data-raw",
            "data-binary",
            "json",
            "user",
            "user-agent",
            "config",
            "cookie-jar",
        ),
    )
    for path in given.of("o", "output", "output-dir", "D", "dump-header", "c", "cookie-jar"):
        if path.text != "-":
            yield Changes(_DESTRUCTIVE, "it writes a file")
            yield Write(path)
    for name in given.operands if given.has("O", "remote-name") else ():
        yield Changes(_DESTRUCTIVE, "it writes a file")
        yield Write(Word(name.text.rpartition("/")[2], name.splits))
    for data in given.of("d", "F", "data", "data-binary", "form", "T", "upload-file"):
        sent = Word(data.text.rpartition("@")[2], data.splits)
        found = protected(sent) if "@" in data.text or given.has("T", "upload-file") else None
        if found is not None and found[0] == Category.SECRET_WRITE:
            yield Found(Category.PUBLISH, f"it sends {sent}, where secrets are kept, to another machine")
    methods = {method.text.upper() for method in given.of("X", "request")}
    if given.has("T", "upload-file") or methods & {"PUT", "DELETE", "PATCH"}:
        yield Found(Category.PUBLISH, "it changes something on another machine")


def _wget(call: Call) -> Sayings:
    given = options(call.args, "OPoaeUiT", ("output-document", "directory-prefix", "output-file", "header"))
    yield Changes(_DESTRUCTIVE, "it writes files")
    for path in given.of("O", "output-document", "P", "directory-prefix", "o"):
        if path.text != "-":
            yield Write(path)


_MANY: Mapping[str, Rule] = {
    "rm": _rm,
    "grm": _rm,
    "unlink": _rm,
    "srm": _wipes,
    "trash": _rm,
    "rmdir": partial(_writes, kind=_DESTRUCTIVE),
    "mv": _moves,
    "cp": _copies,
    "install": _copies,
    "ln": _copies,
    "link": _copies,
    "tee": partial(_writes, kind=_IN_PLACE),
    "sponge": partial(_writes, kind=_IN_PLACE),
    "truncate": partial(_writes, takes="sor"),
    "fallocate": partial(_writes, takes="ol"),
    "touch": _makes,
    "mkdir": _makes,
    "mkfifo": _makes,
    "mknod": _makes,
    "dd": _dd,
    "shred": _wipes,
    "wipefs": _wipes,
    "blkdiscard": _wipes,
    "mkswap": _wipes,
    "fdisk": _wipes,
    "sfdisk": _wipes,
    "gdisk": _wipes,
    "parted": _wipes,
    "format": _wipes,
    "diskpart": _wipes,
    "mkfs": _wipes,
    "mke2fs": _wipes,
    "mkdosfs": _wipes,
    "mkntfs": _wipes,
    "newfs": _wipes,
    "cryptsetup": _wipes,
    "lvremove": _wipes,
    "vgremove": _wipes,
    "pvremove": _wipes,
    "zpool": _wipes,
    "zfs": _wipes,
    "chmod": _chmod,
    "chown": _owners,
    "chgrp": _owners,
    "setfacl": partial(_rights, reads=()),
    "chattr": _rights,
    "chflags": _rights,
    "setcap": _rights,
    "icacls": _rights,
    "cacls": _rights,
    "takeown": _rights,
    "visudo": partial(_rights, reads=("-c",)),
    "usermod": _rights,
    "useradd": _rights,
    "userdel": _rights,
    "adduser": _rights,
    "deluser": _rights,
    "groupmod": _rights,
    "groupdel": _rights,
    "passwd": partial(_rights, reads=("-S",)),
    "chpasswd": _rights,
    "sed": _sed,
    "gsed": _sed,
    "find": _find,
    "gfind": _find,
    "fd": _fd,
    "fdfind": _fd,
    "xargs": _xargs,
    "parallel": _xargs,
    "sort": _sort,
    "rsync": _rsync,
    "tar": _archives,
    "gtar": _archives,
    "bsdtar": _archives,
    "unzip": _unzip,
    "zip": _zip,
    "7z": _unzip,
    "patch": _patch,
    "remove-item": _power_shell_delete,
    "ri": _power_shell_delete,
    "del": _power_shell_delete,
    "erase": _power_shell_delete,
    "rd": _power_shell_delete,
    "set-content": _power_shell_write,
    "add-content": _power_shell_write,
    "out-file": _power_shell_write,
    "new-item": _power_shell_write,
    "copy-item": _power_shell_write,
    "move-item": _power_shell_write,
    "rename-item": _power_shell_write,
    "clear-content": _power_shell_write,
    "openssl": _openssl,
    "ssh-keygen": _ssh_keygen,
    "awk": _awk,
    "gawk": _awk,
    "mawk": _awk,
    "nawk": _awk,
    "curl": _curl,
    "wget": _wget,
    "split": partial(_writes, takes="ablnCt"),
}
RULES = _MANY
