"""The commands of servers where repositories are kept: `gh` and its like. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from harnesses.governance.actions.leaving import asks_help, says, verbs_of
from harnesses.governance.actions.nouns import Call, Category, Found, Rule, Sayings
from harnesses.governance.actions.options import options

_GH_READS = frozenset(
    "status browse search help version completion auth|status pr|view pr|list pr|status pr|diff pr|checks pr|checkout "
    "issue|view issue|list issue|status repo|view repo|list repo|clone run|view run|list run|watch run|download release|view "
    "release|list release|download workflow|view workflow|list gist|view gist|list gist|clone label|list cache|list "
    "variable|list variable|get secret|list ruleset|list ruleset|view ruleset|check org|list project|list project|view "
    "extension|list alias|list config|get config|list ssh-key|list gpg-key|list codespace|list attestation|verify".replace(
        "|", "_"
    ).split()
)


def _gh(call: Call) -> Sayings:
    verbs = verbs_of(call)
    if not verbs or asks_help(call):
        return
    if verbs[0] == "api":
        given = options(call.args, "XfFH", ("method", "field", "raw-field", "input", "header"))
        methods = {method.text.upper() for method in given.of("X", "method")}
        if (methods - {"GET", "HEAD"}) or (not methods and given.has("f", "F", "field", "raw-field", "input")):
            yield from says(Category.PUBLISH, "it changes something on the server")
        return
    if verbs[0] in _GH_READS or "_".join(verbs[:2]) in _GH_READS:
        return
    if verbs[:1] == ("secret",) or verbs[:2] in (("auth", "login"), ("auth", "refresh"), ("ssh-key", "add")):
        yield Found(Category.SECRET_WRITE, "it writes a secret")
    elif verbs[:1] == ("workflow",) or verbs[:1] == ("run",):
        yield from says(Category.DEPLOY, "it starts or stops a workflow on the server")
    elif verbs[:2] == ("repo", "delete"):
        yield Found(Category.BROAD_DELETE, "it deletes a repository")
    elif verbs[:1] in (("alias",), ("extension",), ("config",)):
        yield Found(Category.PROTECTED_CONFIG_WRITE, "it changes what gh does")
    else:
        yield from says(Category.PUBLISH, "it changes what others see on the server")


RULES: Mapping[str, Rule] = {
    "gh": _gh,
    "hub": _gh,
    "glab": _gh,
}
