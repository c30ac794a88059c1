"""The little languages within arguments: scripts of sed and awk, filters of jq, formats of printf. Pure.

The law: a script passes if it is made only of what is listed here, which reads its input and writes standard output.
"""

from __future__ import annotations

import re

from harnesses.governance.actions.nouns import names

_ADDRESS = r"(?:\d+(?:[~+,]\d+)?|\$|/(?:[^/\\\n]|\\[^\n])+/I?)"
_SED = re.compile(
    rf"""(?x)\s* (?:{_ADDRESS}(?:\s*,\s*[+~]?{_ADDRESS})?)? \s* !? \s*
    (?: [pdqQDNPnhHgGxl=]
      | s(?P<mark>[/|,\#@:!%+~])(?:(?!(?P=mark))[^\\\n]|\\[^\n])*(?P=mark)(?:(?!(?P=mark))[^\\\n]|\\[^\n])*(?P=mark)[gpiI0-9]*
      | y/(?:[^/\\\n]|\\[^\n])*/(?:[^/\\\n]|\\[^\n])*/
      | [aic]\\?[ ]?[^\n\\;]+$
    ) \s* """
)
_AWK_NAMES = names(
    "BEGIN END NR NF FS OFS RS ORS FNR FILENAME RSTART RLENGTH SUBSEP IGNORECASE print printf length substr index "
    "split sub gsub gensub match sprintf tolower toupper int sqrt exp log sin cos atan2 rand srand if else while for "
    "in do break continue next exit delete return strftime systime asort asorti"
)
_AWK_CALLS = names(
    "length substr index split sub gsub gensub match sprintf tolower toupper int sqrt exp log sin cos "
    "print printf if while for in strftime systime atan2 rand srand asort asorti return"
)
_AWK_TOKEN = re.compile(
    r"""(?x) (?P<text>"(?:[^"\\\n]|\\.)*") | (?P<name>[A-Za-z_]\w*) | (?P<number>\d+(?:\.\d+)?) | (?P<blank>[ \t]+)
    | (?P<pattern>/(?:[^/\\\n\[\]"]|\\.|\[(?!\^?\])\^?[^\]\[/\\\n"]+\])+/)
    | (?P<mark>\|\||&&|[<>=!+*/%~^-]=?|[{}()$,;:?\[\]\n.&])
    """
)
_BEFORE_PATTERN = frozenset(["(", ",", "{", "}", ";", "!", "~", "&&", "||", "\n"]) | {""}
_AWK_WORDS = names("print printf return in if else while for do getline delete next exit")
_DIVIDES = re.compile(r"(?P<mark>/=?)")
_CONDITION = re.compile(r"\b(if|while|for)\b")
_AWK_NEVER = names("system getline close fflush func function load include namespace")
_JQ = re.compile(r"(?i)\b(env|include|import|get_search_list)\b|\$__|\$ENV")


def is_plain_sed(script: str) -> bool:
    """Return whether a script of sed only edits what it prints: no `w`, `r`, `e`, and nothing that is not listed."""
    at = 0
    for line in re.split(r"\n", script):
        at = 0
        while at < len(line):
            found = _SED.match(line, at)
            if found is None or found.end() == at:
                return False
            at = found.end()
            if at < len(line):
                if line[at] != ";":
                    return False
                at += 1
    return True


def is_plain_awk(program: str) -> bool:
    """Return whether a program of awk only prints: no command, file, environment or function that is not listed."""
    at, before, depth, printed = 0, "", 0, False
    while at < len(program):
        found = _AWK_TOKEN.match(program, at)
        if program[at] == "/" and before not in _BEFORE_PATTERN:
            # What divides stands behind a value; where it may be a pattern after all, nothing can be told of the rest.
            divides = re.fullmatch(r"[a-z]\w*|N[RF]|[0-9.]+|\]|\)", before) and before not in _AWK_WORDS
            found = _DIVIDES.match(program, at) if divides and not (before == ")" and _CONDITION.search(program)) else None
        if found is None or (program[at] == "/" and before in _BEFORE_PATTERN and found.lastgroup != "pattern"):
            return False
        at, kind, token = found.end(), found.lastgroup, found[0]
        if kind == "name":
            plain = re.fullmatch("[a-z][a-z0-9_]*", token) or token in _AWK_NAMES
            called = re.match(r"\s*\(", program[at:])
            if not plain or token in _AWK_NEVER or (called and token not in _AWK_CALLS):
                return False
            printed = printed or token in ("print", "printf")
        depth += (token == "{") - (token == "}")
        # Behind a `print`, and so in any block, it would name a file.
        if token.startswith(">") and kind == "mark" and (depth or printed):
            return False
        before = before if kind == "blank" else token
    return True


def is_plain_jq(text: str) -> bool:
    """Return whether a filter of jq only looks at its input: it does not show the environment, or read other files."""
    return _JQ.search(text) is None
