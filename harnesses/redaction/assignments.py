"""Finds secrets assigned to names in text: `password=…`, `"api_key": "…"`, `<secret>…</secret>`. Pure.

Invariant: after a strong name, everything between quotes is secret; an unquoted value is not if it may be a variable, a call
or a word of a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from operator import itemgetter

from harnesses.redaction.secret_rules import rules
from harnesses.redaction.secret_values import (
    SAID,
    STAGES,
    Span,
    Strength,
    is_drawn,
    is_placeholder,
    is_secret,
    is_varied,
    strength,
)

_OPEN = r"(?:[\"'`\\*]|%22|%27|&quot;|&#34;)"
_AFTER = re.compile(
    rf"s?\d{{0,3}}(?:[_.-](?:{STAGES}))?(?:{_OPEN}{{0,9}}\]?[ \t]{{0,8}}"
    r"(:\s{0,2}(?:&?str|bytes|string|any|text|secretstr|optional\[\w{1,20}\]|str \| none|final)\s{0,2}=(?!=)"
    r"|=>|->|→|:=|={1,3}|!==?|[:\uff1a\uff1d]|\\{1,4}uff1[ad]|%3d|%3a|(?<=[ \t])[-\u2013\u2014](?=[ \t]))"
    r"(?:\s|\\[nrt]|\\{1,4}u00a0|\*\*(?=\s)|</\w{1,6}>){0,80}|(>)"
    rf"|{_OPEN}{{0,4}}(?:[ \t]|\\t){{1,8}}(?:(?:to|with)[ \t]{{1,4}})?((?:(?:{SAID})[ \t:]{{1,4}})?)(?=[\"'`]?[^\s\"'`]{{8}}))"
)
"""What may follow a name in text: a separator, with quotes before it and space after it; the end of a tag; a verb; nothing."""
_OPTION = re.compile(r"(?<![\w-])--?([a-z][a-z0-9-]{1,40})(?:[ \t]{1,4}|\\{0,4}[\"'],[ \t]{0,2}(?=\\{0,4}[\"']))(?!-)")
_TYPOGRAPHIC = re.compile(
    r"(?:[\u201c\u201e\xab\u2018\u201a\u2039\u300c\u300e]|\\{1,4}u(?:201[ace8]|00ab|2039|300[ce]))(?:\s|\\{1,4}u00a0)?([^\u2018-\u201f\xab\xbb\u2039\u203a\u300c-\u300f\n]{1,400}?)"
    r"(?:\s|\\{1,4}u00a0)?(?:[\u201c\u201d\xbb\u2018\u2019\u203a\u300d\u300f]|\\{1,4}u(?:201[cd89]|00bb|203a|300[df]))"
)
_SIGNS = {"%3d": "=", "%3a": ":", "\uff1d": "=", "\uff1a": ":", "uff1d": "=", "uff1a": ":"}
_LISTED = re.compile(r"""\[\s{0,80}((?:\\{0,8}["'])?[^\[\]{}]{1,2000})\]""")
_LISTED_BELOW = re.compile(r"""(?:-[ \t]{1,4}["']?[^\s"'\\]{1,400}["']?(?:\s|\\[nr]|$){1,40}){1,100}""")
_LISTED_ITEM = re.compile(r"""(["']?)([^\s"'\\,]{4,400})""")
QUOTE = re.compile(r"\"\"\"|'''|\\{0,8}[\"'`]|%22|&quot;")
_PREFIXED = re.compile(r"[rbfuRBFU]{1,2}(?=[\"'])")
_BARE = re.compile(r"(?:[^\s\"'`,;&%|<>()\[\]{}\\]++|%(?!2[26])|,(?![\s\"']|[\w.-]{1,40}[ \t]{0,2}[=:]|$))++")
_BESIDE = re.compile(r"[\"'`]?([^\s\"'`<>(){}\[\]\\]{7,400}[^\s\"'`<>(){}\[\]\\.,;:!?])")
_LINE = re.compile(r"(?:[^\s\"'`\\]++|\\(?![nrt\"']))++")
_LONGEST_BARE = 512
"""Maximum length of an unquoted value, in characters."""
_REST = re.compile(r"[^\n]{0,4096}")
_LONGEST = 4096
"""Maximum length of a quoted value, in characters."""
_STAND_IN = re.compile(
    r"\$\{[^}\n]{0,200}\}|\$\([^)\n]{0,200}\)|\{\{[^}\n]{0,200}\}\}|\{[\w.\[\]!]{0,80}\}|<[^<>\n]{1,80}>"
    r"|\[[\w -]{1,40}\]|[{(\[]"
)
_LINE_BEGIN = re.compile(r"[+\-\s]{0,20}(?:export |set |declare -x )?[\w.]{0,60}")
_LINE_END = re.compile(r"\n|\\n|[\"'`]")
_BLOCK = re.compile(r"[|>][+-]?[ \t]{0,8}(?:\n|\\n)[ \t]{1,40}([^\n\\\"]{1,4096})")
_TAG = re.compile(r"(?:<!\[cdata\[)?([^<>\s]{1,400}?)(?:\]\]>)?</", re.IGNORECASE)
_CODE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|[A-Za-z_]\w*(?=[(\[])|[A-Za-z_]\w*(?:\?\.|->|::)\w*")
_VAULT = re.compile(r"(?:hv)?[sbr]\.(?=[A-Za-z]{0,40}\d)[A-Za-z0-9_-]{24,}")
_RANGE = re.compile(r"\d{1,3}-\d{1,3}")
_WORD = re.compile(r"[A-Za-z_]+")
_VARIABLE = re.compile(
    r"(?i)[a-z_]*(?:pass(?:word|wd)?|pwd|secret|token|key|cred|auth)[a-z_]*|value|val|v|x|s|data|input|arg|args|self|config"
    r"|settings|response|result|user|field|default|env|any|object|varchar|char|number|boolean|to|or|and|is|in|for|with|from|if"
    r"|as|was|on|of|when|instead|options?|flags?|arguments?|parameters?|values?|prompts?|_[a-z_]*"
)


def find_assigned(text: str, low: str, words: Iterable[str]) -> Iterator[Span]:
    """Yield the values that follow a name and a separator, or a command-line option.

    Args:
        words: the words of the rules that are in `low`, in the order of the index.
    """
    place = 0
    for start, match in _find_names(low, words):
        if start < place:
            continue
        place = match.end()
        named = strength(_name(text, start, low[start : match.start()]))
        if named is Strength.NONE or named is Strength.HEADER or _in_resource(low, start):
            continue
        for span in _behind(text, start, match, named):
            yield span
            place = span[1]
    yield from _options(text, low)


def _behind(text: str, start: int, match: re.Match[str], named: Strength) -> Iterator[Span]:
    """Yield the values that follow a name, depending on the separator."""
    if match[2]:
        span = _read_tag(text, match.end())
    elif match[3] is not None:
        is_token = text[start : match.start()].lower() == "token"
        span = _find_spoken(text, match.end(), named, verb=match[3], is_token=is_token)
    else:
        span = _value(text, start, match, named)
    if span is not None:
        yield span
    elif match[1]:
        yield from _find_listed(text, match.end(), named)


def _find_spoken(text: str, start: int, named: Strength, *, verb: str, is_token: bool) -> Span | None:
    """Return a value that follows a name without a separator, unless it is a word: "the password is …", `password …`."""
    found = _BESIDE.match(text, start)
    if found is None or is_placeholder(found[1]) or _CODE.match(found[1]) is not None:
        return None
    says_enough = named is Strength.PASSWORD or (bool(verb) and named in (Strength.MIXED, Strength.STRONG))
    if says_enough and is_varied(found[1]):
        return found.span(1)
    return found.span(1) if (is_token or named >= Strength.STRONG) and is_drawn(found[1]) else None


def _find_listed(text: str, start: int, named: Strength) -> Iterator[Span]:
    """Yield list items that look like secrets: `passwords: ["…", "…"]`, or one per line with dashes."""
    inside = _LISTED.match(text, start) or _LISTED_BELOW.match(text, start)
    for item in _LISTED_ITEM.finditer(text, *inside.span(inside.lastindex or 0)) if inside else ():
        if "://" in item[2]:
            continue
        is_number = item[2].isdigit() and named is Strength.PASSWORD
        is_whole = bool(item[1]) and named is Strength.PASSWORD and is_secret(item[2], named)
        if is_number or is_whole or is_secret(item[2], min(named, Strength.MIXED)):
            yield item.span(2)


def _find_names(low: str, words: Iterable[str]) -> list[tuple[int, re.Match[str]]]:
    """Return the positions of names that may be followed by a secret, in order, with the match of what follows."""
    found: list[tuple[int, re.Match[str]]] = []
    names = rules().found
    for word in words:
        place = low.find(word) if word in names else -1
        while place >= 0:
            after = place + len(word)
            if match := _AFTER.match(low, after):
                found.append((place, match))
            place = low.find(word, after)
    found.sort(key=itemgetter(0))
    return found


def _options(text: str, low: str) -> Iterator[Span]:
    for match in _OPTION.finditer(low) if "-" in low else ():
        named = strength(match[1])
        if named is Strength.NONE or named is Strength.HEADER:
            continue
        start = match.end()
        if quote := QUOTE.match(text, start):
            span = read_quoted(text, quote, named)
        elif stands_in(text, start):
            continue
        else:
            span = bare(text, start, "=", named, at_line=False)
        if span is not None:
            yield span


def _in_resource(low: str, start: int) -> bool:
    """Return whether a name is part of an Amazon resource name: `arn:aws:secretsmanager:…:secret:prod/db`."""
    return low[start - 1 : start + 7] == ":secret:" and "arn:" in low[max(0, start - 80) : start]


def _name(text: str, start: int, word: str) -> str:
    """Return the whole name that ends with a word; for `api key`, both words."""
    begin = start
    while begin > 0 and start - begin < 60 and (text[begin - 1].isalnum() or text[begin - 1] in "_-."):
        begin -= 1
    # The n of an escaped line feed is not part of the name.
    if begin < start and text[begin] in "nrt" and text[begin - 1 : begin] == "\\":
        begin += 1
    name = text[begin:start] + (rules().found[word] or text[start : start + len(word)])
    if begin == start and name != "pw" and start > 1 and text[start - 1] == " ":
        before = re.search(r"[^\W\d_]{2,20}(?: de| [dl]a)?$", text[max(0, start - 24) : start - 1])
        return f"{before[0]} {name}" if before else name
    return name


def _value(text: str, begin: int, match: re.Match[str], named: Strength) -> Span | None:
    start = match.end()
    separator = _SIGNS.get(match[1].lstrip("\\"), match[1])
    over_line = "\n" in match[0] or "\\n" in match[0]
    if prefixed := _PREFIXED.match(text, start):
        start = prefixed.end()
    if quote := QUOTE.match(text, start):
        return read_quoted(text, quote, named)
    if typographic := _TYPOGRAPHIC.match(text, start):
        return typographic.span(1) if is_secret(typographic[1], named) else None
    if block := _BLOCK.match(text, start):
        return block.span(1) if is_secret(block[1], named) else None
    if over_line or stands_in(text, start):
        return None
    if text.startswith(("?", "+"), start) and "${" in text[max(0, begin - 60) : begin]:
        # A message of a shell, or a default value, in place of the variable.
        return None
    # `PASS: suite-1` is a test result.
    if named is Strength.MIXED and text[begin].isupper() and separator == ":" and text[begin - 1 : begin] != "_":
        return None
    return bare(text, start, separator, named, at_line=named is not Strength.WEAK and _at_line(text, begin))


def read_quoted(text: str, quote: re.Match[str], named: Strength) -> Span | None:
    start = quote.end()
    end = _closing(text, start, quote[0])
    if end < 0:
        # The text is cut off, so the rest of the line is the secret.
        line = _REST.match(text, start)
        end = line.end() if line else start
        if not any(map(str.isalnum, text[start : min(end, start + _LONGEST)])):
            # The quote closes another text: `ask("Password: ")`.
            return None
    return (start, end) if is_secret(text[start:end], named) else None


def _closing(text: str, start: int, quote: str) -> int:
    """Return the position of the closing quote. In JSON nested in JSON, quotes and backslashes are escaped repeatedly."""
    if quote[0] in "%&" or (len(quote) == 3 and "\\" not in quote):
        return text.find(quote, start, start + _LONGEST)
    level = len(quote) - 1
    place = start
    while (place := text.find(quote[-1], place, start + _LONGEST)) >= 0:
        back = place
        while back > start and text[back - 1] == "\\":
            back -= 1
        if (place - back) % (2 * level + 2) == level:
            return place - level if "\n" not in text[start:place] else -1
        place += 1
    return -1


def bare(text: str, start: int, separator: str, named: Strength, *, at_line: bool) -> Span | None:
    pattern = _LINE if at_line and separator == "=" and named >= Strength.STRONG else _BARE
    found = pattern.match(text, start, start + _LONGEST_BARE)
    if found is None:
        return None
    value = found[0].rstrip(",;.") if pattern is _BARE else found[0].rstrip(",;")
    end = start + len(value)
    if not is_secret(value, named) or _is_code(text, start, value):
        return None
    if named >= Strength.STRONG and not _weighty(text, value, end, separator):
        return None
    if named is Strength.MIXED and separator == ":" and not at_line:
        return None
    return start, end


def stands_in(text: str, start: int) -> bool:
    """Return whether the value at `start` is a placeholder, or a structure rather than a value."""
    return _STAND_IN.match(text, start) is not None


def _is_code(text: str, start: int, value: str) -> bool:
    """Return whether an unquoted value is a variable or a call: `password=user.password`, `token: Token`."""
    if _VAULT.fullmatch(value) is not None:
        return False
    code = _CODE.match(text, start)
    if code is not None and (code.end() >= start + len(value) or text[code.end()] in "([?"):
        return True
    return _VARIABLE.fullmatch(value) is not None


def _weighty(text: str, value: str, end: int, separator: str) -> bool:
    """Return whether an unquoted value counts as a value: after a colon, words of a sentence do not."""
    if value.isdigit():
        return len(value) > 3
    if separator in ("=", ":=", "=>"):
        return len(value) > 2
    if separator in ("->", "→", "-", "\u2013", "\u2014"):
        return is_varied(value) or is_drawn(value)
    if separator != ":" or len(value) < 4 or _RANGE.fullmatch(value) is not None:
        return False
    if _WORD.fullmatch(value) is None:
        return True
    if value[1:] != value[1:].lower() and value != value.upper():
        return True
    rest = text[end : end + 40].split("\n", 1)[0].strip()
    return rest in ("", ",", ";", "}", "'", '"') and value.islower()


def _at_line(text: str, start: int) -> bool:
    """Return whether a name is at the beginning of a line, except for `export`."""
    before = _LINE_END.split(text[max(0, start - 80) : start])
    return (len(before) > 1 or start <= 80) and _LINE_BEGIN.fullmatch(before[-1]) is not None


def _read_tag(text: str, start: int) -> Span | None:
    match = _TAG.match(text, start)
    return match.span(1) if match and not is_placeholder(match[1]) else None
