"""The little languages within arguments: scripts of sed and awk, filters of jq. Pure.

The law: a script passes if it is made only of what is listed here, which reads its input and writes standard output.
"""

from __future__ import annotations

import re

_ADDRESS = r"(?:\d+(?:[~+,]\d+)?|\$|/(?:[^/\\\n]|\\[^\n])+/I?)"
_SED = re.compile(
    rf"""(?x)\s*+ (?:{_ADDRESS}(?:\s*+,\s*+[+~]?{_ADDRESS})?)? \s*+ !? \s*+
    (?: [pdqQDNPnhHgGxl=]
      | s(?P<mark>[/|,\#@:!%+~])(?:(?!(?P=mark))[^\\\n]|\\[^\n])*(?P=mark)(?:(?!(?P=mark))[^\\\n]|\\[^\n])*(?P=mark)[gpiI0-9]*
    ) [ \t]*+ (?:[;\n]|\Z) """
)
_AWK = re.compile(
    r"""(?x) (?: "(?:[^"\\\n]|\\.)*+" | /(?:[^/"\\\n(){}\[\]<>|@;=]|\[[\w.,:^ -]+\]|\\[^"\n])*+/
    | (?!getline\b)[a-z]\w*+(?!\s*\() | \d++(?!\w)
    | (?:BEGIN|END|NR|NF|O?FS|O?RS|FNR|FILENAME|RSTART|RLENGTH)\b | [\s$,;{}()\[\]=+*%!~?:.<>^-] | && | \|\|
    | (?:length|substr|index|split|g?sub|gensub|match|sprintf|tolower|toupper|int|sqrt|exp|log|if|while|for|print|printf|in)\b
    )*+ """
)
_AWK_NEVER = re.compile("ENVIRON|PROCINFO|SYMTAB|FUNCTAB|ARG[CV]|print.*>|>.*print", re.DOTALL)
_JQ = re.compile(r"(?i)\b(env|include|import|get_search_list|input_filename)\b|\$__|\$ENV")


def is_plain_sed(script: str) -> bool:
    """Return whether a script of sed only edits what it prints: no `w`, `r`, `e`, and nothing that is not listed."""
    at = 0
    while at < len(script):
        found = _SED.match(script, at)
        if found is None:
            return False
        at = found.end()
    return True


def is_plain_awk(program: str) -> bool:
    """Return whether a program of awk only prints: no command, file, environment or function that is not listed.

    A `/` is read as the beginning of a pattern, in which nothing can be called, quoted or opened: so it may divide as well.
    Behind a `print`, `>` would name a file.
    """
    return _AWK.fullmatch(program) is not None and _AWK_NEVER.search(program) is None


def is_plain_jq(text: str) -> bool:
    """Return whether a filter of jq only looks at its input: it does not show the environment, or read other files."""
    return _JQ.search(text) is None
