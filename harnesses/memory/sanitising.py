"""Sanitises text of agents before it is stored or passed to other agents: one line of inert data. Pure.

Invariant: removed text is replaced by a bracketed label of its kind and leaves no other trace. Text is cut to a bound before
it is searched, so the running time is bounded.
"""

from __future__ import annotations

import re
import unicodedata

from harnesses.redaction.redactor import redact_text

CODE = "[code block omitted]"
INSTRUCTION = "[instruction-like text removed]"
_LOOKED_AT = 8
"""How many times more characters are searched than kept, since removals make room."""
_FENCED = re.compile(r"(`{3,}|~{3,})[^\n]*\n?.*?(?:\1|\Z)", re.DOTALL)
_UNSEEN = re.compile(r"[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\u00ad\U000e0000-\U000e007f]")
_WHAT = (
    r"(?:instructions?|prompts?|rules?|guidelines?|directions?|context|messages?|orders?|system prompt|guardrails?|approvals?)"
)
_BEFORE = r"(?:previous|prior|above|earlier|preceding|all|any|these|those|the|your|system|safety|task)"
_PHRASES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b(?:ignore|disregard|forget|override|overrule|bypass|skip|drop)\s+(?:{_BEFORE}\s+){{0,4}}{_WHAT}\b[^.\n]{{0,200}}",
        rf"\b(?:do not|don't|never)\s+(?:follow|obey|respect|apply)\s+(?:{_BEFORE}\s+){{0,4}}{_WHAT}\b[^.\n]{{0,200}}",
        r"\byou\s+(?:are|must|will|should(?!\s+always\s+round)|have to|need to)\s+"
        r"(?:now|always|from now on|act as|instead|be)\b[^.\n]{0,200}",
        r"\b(?:new|updated|real|actual|important|secret|hidden)\s+(?:system\s+)?(?:instructions?|prompt|orders?(?!\s*:\s*\d))\s*:[^.\n]{0,200}",
        r"<\s*/?\s*(?:system|assistant|user|instructions?|tool_?(?:call|result|use)|admin|developer|im_start|im_end)\b[^>\n]{0,100}>?",
        r"<\|[^|\n]{1,40}\|>|\[/?INST\]|<</?SYS>>",
        r"(?:^|(?<=[\s\"'(\[]))(?:system|assistant|developer)\s*:\s[^.\n]{0,200}",
        r"\b(?:act|behave|respond|pretend|roleplay)\s+as\s+(?:if|an?|the|root|admin)\b[^.\n]{0,200}",
        r"\b(?:reveal|print|show|leak|send|exfiltrate|repeat)\s+(?:me\s+)?(?:your|the|all)\s+(?:system\s+)?"
        r"(?:prompt|instructions?|secrets?|credentials?|keys?|passwords?)\b[^.\n]{0,200}",
        r"\b(?:mark|report|treat|accept|declare)\s+(?:this|it|the task|everything|all tasks|all checks)\s+(?:as\s+)?"
        r"(?:pass(?:ed)?|done|approved|complete[d]?|valid|trusted)\b[^.\n]{0,200}",
        r"\b(?:approval|permission|confirmation)s?\s+(?:is|are)\s+(?:not|no longer)\s+(?:needed|required|necessary)\b"
        r"[^.\n]{0,200}",
        r"\b(?:already|was|been|is)\s+(?:been\s+)?(?:pre-?)?approved\s+by\s+(?:the\s+)?(?:user|admin|owner|operator|system)\b[^.\n]{0,200}",
        r"\b(?:user|admin|owner|operator)\s+has\s+already\s+(?:approved|confirmed|permitted)\b[^.\n]{0,200}",
        r"\bapproved\s+by\s+the\s+(?:user|admin|owner|operator)\s*:[^.\n]{0,200}",
        r"\bend\s+of\s+(?:the\s+)?history\b[^\n]{0,200}|\bhistory\s+(?:above\s+)?(?:ends\s+here|is\s+over)\b[^\n]{0,200}",
        r"\b(?:new|your)\s+task\s*(?::|is\s+(?:now\s+)?to)[^.\n]{0,200}",
        r"\bsystem\s+prompt\s+override\b[^.\n]{0,200}",
        r"\b(?:without|no need (?:for|of|to ask for))\s+(?:asking for\s+|any\s+)?(?:approval|permission|confirmation)\b"
        r"[^.\n]{0,200}",
    )
)


_ALIKE = str.maketrans(
    "авекмнорстухіјѕԁԛԝАВЕКМНОРСТУХІЈЅοανρτΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "abekmhopctyxijsdqwABEKMHOPCTYXIJSoavptABEZHIKMNOPTYX"
)
_MIXED = re.compile(r"\w*[A-Za-z]\w*")


def plain_text(text: str, most: int) -> str:
    """Return text as one line of at most `most` characters, without secrets and control characters, otherwise unchanged.

    For storage: the words of an episode must stay searchable.
    """
    return cut(" ".join(_visible(redact_text(text[: most * _LOOKED_AT])).split()), most)


def sanitise(text: str, most: int) -> str:
    """Return text for agents: like `plain_text`, and also without code blocks and instructions."""
    looked_at = unicodedata.normalize("NFKC", _UNSEEN.sub("", text[: most * _LOOKED_AT]))
    flat = " ".join(_visible(redact_text(_FENCED.sub(f" {CODE} ", looked_at))).split())
    if not flat.isascii():
        # Letters of other alphabets inside Latin words are used to evade the patterns.
        flat = _MIXED.sub(lambda word: word[0].translate(_ALIKE), flat)
    for phrase in _PHRASES:
        flat = phrase.sub(INSTRUCTION, flat)
    return cut(flat, most)


def cut(text: str, most: int) -> str:
    """Return the start of a text, with an ellipsis if it was cut."""
    return text if len(text) <= most else text[: max(0, most - 1)].rstrip() + "…"


def _visible(text: str) -> str:
    """Return text without invisible characters: control characters, bidirectional marks, lone surrogates."""
    if text.isprintable() and text.isascii():
        return text
    return "".join(" " if unicodedata.category(char) in ("Cc", "Zl", "Zp") else char for char in text if _is_text(char))


def _is_text(char: str) -> bool:
    return unicodedata.category(char) not in ("Cf", "Cs", "Co", "Cn")
