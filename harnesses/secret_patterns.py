"""Values that are secret wherever they stand, known by how their issuers make them. Pure.

The law: each begins with letters that its issuer chose, so that text without them is not searched at all; none is
tried anew within what it has read, so the time is that of reading the text once.

Sources: the issuers' own pages on the format of their tokens, and the rules of gitleaks and detect-secrets.
"""

from __future__ import annotations

import re

_BODY = r"[A-Za-z0-9_-]"
_BESIDE = r"(?:[\"'\\]{0,3}[,;|\t ][\"'\\ ]{0,3}[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=]))?"
"""The secret that goes with an id of Amazon, beside it in a table."""


def _table(rows: dict[str, str]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((prefix.lower(), re.compile(re.escape(prefix) + rest)) for prefix, rest in rows.items())


PATTERNS = _table(
    {
        # Amazon, Google, Azure
        "AKIA": rf"[A-Z0-9]{{16}}(?![A-Za-z0-9]){_BESIDE}",
        "ASIA": rf"[A-Z0-9]{{16}}(?![A-Za-z0-9]){_BESIDE}",
        "AIza": rf"{_BODY}{{35}}",
        "ya29.": rf"{_BODY}{{20,}}",
        "GOCSPX-": rf"{_BODY}{{20,}}",
        "1//0": rf"{_BODY}{{40,}}",
        # code
        **{f"gh{kind}_": r"[A-Za-z0-9]{20,}" for kind in "pousr"},
        "github_pat_": r"\w{22,}",
        **{
            f"gl{kind}-": rf"{_BODY}{{20,}}" for kind in ("pat", "dt", "rt", "cbt", "ptt", "ft", "soat", "imt", "agent", "oas")
        },
        "npm_": r"[A-Za-z0-9]{30,}",
        "pypi-": rf"{_BODY}{{40,}}",
        "AKCp": r"[A-Za-z0-9]{60,}",
        "dckr_pat_": rf"{_BODY}{{20,}}",
        "ATATT3": r"[A-Za-z0-9_=-]{40,}",
        # talk
        **{f"xox{kind}-": r"[A-Za-z0-9-]{10,}" for kind in "abeoprs"},
        "xapp-": r"[A-Za-z0-9-]{20,}",
        "SG.": rf"{_BODY}{{16,32}}\.{_BODY}{{16,64}}",
        "key-": r"[0-9a-f]{32}(?![A-Za-z0-9])",
        "AA": rf"(?<=\d:AA){_BODY}{{33}}(?![A-Za-z0-9_-])",
        # money
        **{f"{kind}_{mode}_": r"[A-Za-z0-9]{16,}" for kind in ("sk", "rk") for mode in ("live", "test")},
        "whsec_": r"[A-Za-z0-9+/]{24,}=*",
        **{f"shp{kind}_": r"[a-fA-F0-9]{32}" for kind in ("at", "ca", "pa", "ss")},
        "sq0atp-": rf"{_BODY}{{20,}}",
        "sq0csp-": rf"{_BODY}{{20,}}",
        "xprv": r"[1-9A-HJ-NP-Za-km-z]{100,}",
        # models
        "sk-ant-": rf"[a-z]{{2,8}}\d\d-{_BODY}{{16,}}",
        "sk-": rf"(?={_BODY}{{0,80}}\d){_BODY}{{20,}}",
        "ak_": rf"(?={_BODY}{{0,80}}\d){_BODY}{{20,}}",
        "hf_": r"[A-Za-z0-9]{30,}",
        "gsk_": r"[A-Za-z0-9]{40,}",
        "pplx-": r"[A-Za-z0-9]{40,}",
        "xai-": r"[A-Za-z0-9]{60,}",
        "r8_": r"[A-Za-z0-9]{30,}",
        # machines and what watches them
        "dop_v1_": r"[a-f0-9]{40,}",
        "doo_v1_": r"[a-f0-9]{40,}",
        "dapi": r"[0-9a-f]{32}(?![A-Za-z0-9])",
        "hvs.": rf"{_BODY}{{24,}}",
        "sbp_": r"[a-f0-9]{40}",
        "glsa_": r"\w{30,}",
        "sntrys_": r"[A-Za-z0-9_=+/]{40,}",
        "NRAK-": r"[A-Z0-9]{24,}",
        "lin_api_": r"[A-Za-z0-9]{32,}",
        "ntn_": r"[A-Za-z0-9]{40,}",
        "figd_": rf"{_BODY}{{30,}}",
        "PMAK-": r"[a-f0-9]{24}-[a-f0-9]{34}",
        "AGE-SECRET-KEY-1": r"[A-Z0-9]{50,}",
        # anybody
        "eyJ": rf"{_BODY}{{8,}}+(?:\.{_BODY}{{8,}}+\.{_BODY}{{8,}}+(?:\.{_BODY}{{8,}}+){{0,2}})?",
    }
)
"""The beginning in small letters, and the pattern. Before it there must be no letter or digit of ASCII, but for these."""
ANYWHERE = frozenset(
    (
        *("aa", "eyj", "github_pat_", "dckr_pat_", "atatt3", "gocspx-", "xapp-", "sk-ant-", "whsec_", "sq0atp-", "sq0csp-"),
        *("dop_v1_", "doo_v1_", "glsa_", "sntrys_", "nrak-", "lin_api_", "figd_", "pmak-", "age-secret-key-1"),
        *(f"gh{kind}_" for kind in "pousr"),
        *(f"gl{kind}-" for kind in ("pat", "cbt", "ptt", "soat", "agent")),
        *(f"xox{kind}-" for kind in "abeoprs"),
        *(f"shp{kind}_" for kind in ("at", "ca", "pa", "ss")),
    )
)
"""Beginnings that no word ends with: what follows is secret, whatever stands before."""
OFTEN_WORDS = frozenset(("key-", "ak_", "dapi", "pypi-"))
"""Beginnings that are the end of many a name: `_` and `-` before them make them one."""
