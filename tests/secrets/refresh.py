"""`python -m tests.secrets.refresh GITLEAKS.TOML VERSION`: bring the rules of others up to date.

Of gitleaks' rules those are taken that know a secret by its own look; what a vendor's name beside a value says is left to our
names. Go's syntax becomes Python's, and what has to stand around the secret is left to `harnesses.redaction.detect`.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

from harnesses.redaction import secret_rules

TARGET = Path(secret_rules.__file__).with_suffix(".toml")
BEGIN = "# --- from here on written by `python -m tests.secrets.refresh` ---\n"
LEFT_OUT = frozenset(
    (
        *("authress-service-client-access-key", "curl-auth-header", "curl-auth-user", "facebook-access-token", "jwt"),
        *(
            "flutterwave-public-key",
            "freemius-secret-key",
            "generic-api-key",
            "intra42-client-secret",
            "kubernetes-secret-yaml",
        ),
        *("nuget-config-password", "private-key", "sidekiq-sensitive-url", "sourcegraph-access-token", "square-access-token"),
        *("jwt-base64", "cloudflare-origin-ca-key", "aws-amazon-bedrock-api-key-short-lived", "twilio-api-key"),
    )
)
"""Rules of ours find these, or they find what is no secret: a SHA-1, a base64 image."""
DETECTORS = {
    "discord": "DiscordBotTokenDetector",
    "mailchimp": "MailchimpDetector",
    "telegram_token": "TelegramBotTokenDetector",
}
KEYWORDS = {"discord": ["."], "mailchimp": ["-us"], "telegram_token": [":"]}
SUSPECTS = {
    "detect-secrets:discord": r"\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{20}",
    "detect-secrets:mailchimp": r"[0-9a-z]{8}-us[0-9]",
    "detect-secrets:telegram_token": "[0-9]:[0-9A-Za-z_-]{30}",
    "gitleaks:maxmind-license-key": "_mmk",
}
"""What stands in every text with such a secret, where that is not one of its words with some letters behind it."""
_END = r"""(?:[\x60'"\s;]|\\[nr]|$)"""


def of_gitleaks(text: str) -> list[dict[str, Any]]:
    """Return the rules of gitleaks that are taken."""
    rules = [rule for rule in tomllib.loads(text)["rules"] if rule.get("regex") and rule["id"] not in LEFT_OUT]
    own_look = [rule for rule in rules if r"[\w.-]{0,50}?" not in rule["regex"]]
    return [
        {
            "id": f"gitleaks:{rule['id']}",
            "words": [word.lower() for word in rule["keywords"]],
            "entropy": float(rule.get("entropy", 0)),
            "pattern": converted(rule["regex"]),
        }
        for rule in own_look
    ]


def converted(pattern: str) -> str:
    """Return a pattern of Go as one of Python."""
    pattern = pattern.replace("[[:alnum:]]", "[A-Za-z0-9]").replace(_END, "").replace(r"(?:[^\w-]|\z)", "")
    pattern = re.sub(r"^(\(\?i\))?\\b", r"\1", pattern).removesuffix(r"\b").replace(r"(?:[^a-zA-Z0-9+/]|\z)", "")
    whole = pattern.startswith("(?i)")
    head, *rest = pattern.removeprefix("(?i)").split("(?i)")
    for part in rest:
        # Go's flag holds to the end of its group.
        depth = end = 0
        while end < len(part) and depth >= 0:
            depth += (part[end] == "(") - (part[end] == ")")
            end += depth >= 0
        head += f"(?i:{part[:end]}){part[end:]}"
    pattern = f"(?i:{head})" if whole else head
    re.compile(pattern)
    return pattern


def of_detect_secrets() -> list[dict[str, Any]]:
    """Return the patterns of detect-secrets that are taken."""
    from importlib import import_module

    taken = []
    for module, name in DETECTORS.items():
        detector: Any = getattr(import_module(f"detect_secrets.plugins.{module}"), name)
        pattern = "|".join(one.pattern.removeprefix("^").removesuffix("$") for one in detector.denylist)
        taken.append({"id": f"detect-secrets:{module}", "words": KEYWORDS[module], "entropy": 0.0, "pattern": pattern})
    return taken


def written(rules: list[dict[str, Any]], version: str) -> str:
    """Return rules as TOML, below what says where they come from."""
    lines = [
        BEGIN.rstrip(),
        f"# gitleaks {version}, config/gitleaks.toml: https://github.com/gitleaks/gitleaks, MIT, (c) 2019 Zachary Rice.",
        "# detect-secrets 1.5.0: https://github.com/Yelp/detect-secrets, Apache-2.0, (c) Yelp.",
        "# Changed: syntax, and what stands around the secret.",
        "",
    ]
    for rule in rules:
        words = ", ".join(f'"{word}"' for word in rule["words"])
        entropy = f"\nentropy = {rule['entropy']}" if rule["entropy"] else ""
        entropy += f"\nsuspect = '''{SUSPECTS[rule['id']]}'''" if rule["id"] in SUSPECTS else ""
        lines.append(f"[[issued]]\nid = \"{rule['id']}\"\nwords = [{words}]{entropy}\npattern = '''{rule['pattern']}'''\n")
    return "\n".join(lines)


def main(source: str, version: str) -> None:
    """Write the rules of others into the file anew."""
    own = TARGET.read_text().partition(BEGIN)[0]
    TARGET.write_text(own + written(of_gitleaks(Path(source).read_text()) + of_detect_secrets(), version))


if __name__ == "__main__":
    main(*sys.argv[1:])
