"""Clouds, clusters, and what is set up there or deployed to them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from harnesses.governance.actions.leaving import asks_help, deploys, says, unless, verbs_of
from harnesses.governance.actions.nouns import Call, Category, Found, Rule, Sayings, Write
from harnesses.governance.actions.options import names, options

_KUBECTL_READS = names(
    "get describe logs diff explain top version cluster-info api-resources api-versions wait auth events kustomize "
    "completion options plugin rollout_status rollout_history config_view config_current-context "
    "config_get-contexts port-forward"
)


def _kubectl(call: Call) -> Sayings:
    given = options(
        call.args,
        "nfolLcs",
        ("namespace", "filename", "output", "selector", "context", "kubeconfig", "container", "cluster", "server"),
    )
    verbs = tuple(word.text for word in given.operands)
    if not verbs or asks_help(call) or verbs[0] in _KUBECTL_READS or "_".join(verbs[:2]) in _KUBECTL_READS:
        return
    if any(word.text in ("--dry-run=client", "--dry-run=server", "--dry-run") for word in call.args):
        return
    if verbs[0] in ("exec", "cp", "attach", "debug", "run", "proxy"):
        yield Found(Category.REMOTE_EXEC, "it runs something in a cluster")
        return
    if verbs[0] in ("delete", "drain"):
        yield Found(Category.BROAD_DELETE, "it deletes what runs in a cluster")
    if verbs[0] == "config":
        yield Found(Category.SECRET_WRITE, "it changes the keys of clusters")
        return
    yield from says(Category.DEPLOY, "it changes what runs in a cluster")


_CLOUD_READ = re.compile(
    r"^(describe|list|get|head|show|ls|wait|help|filter|lookup|search|scan|query|batch-get|check|validate|estimate|preview|"
    r"presign|tail|version|info|config-helper|print|read|diff|ping|whoami|status|logs|history|open|docs|search-\w+)(-|$)"
)


def _cloud(call: Call) -> Sayings:
    """`aws`, `gcloud`, `az` and the like: there has to be a word for looking, and it comes last."""
    if asks_help(call) or any(word.text == "--dry-run" or word.text == "--dryrun" for word in call.args):
        return
    verbs = [verb for verb in verbs_of(call) if not re.search(r"[:/=.]", verb)]
    text = " ".join(verbs_of(call))
    if call.program == "aws" and verbs[:1] == ["s3"]:
        yield from _aws_s3(call)
        return
    if not verbs and not any(word.may_be_option for word in call.args):
        return
    if verbs[:1] in (["configure"], ["config"], ["auth"], ["login"], ["sso"]):
        if not set(verbs[1:2]) & {"list", "get", "print-access-token", "describe"}:
            yield Found(Category.SECRET_WRITE, "it changes the keys and settings of the cloud")
        return
    if any(_CLOUD_READ.match(verb) for verb in verbs[:4]) and not re.search(
        r"\b(delete|create|update|set|run|deploy|terminate|put)\b", text
    ):
        return
    if re.search(r"\b(ssh|send-command|execute-command|run-command|start-session|scp)\b", text):
        yield Found(Category.REMOTE_EXEC, "it runs something on another machine")
        return
    if re.search(r"(delete|terminate|destroy|remove|purge|drop|\brm\b|\brb\b)", text):
        about_data = re.search(
            r"(?i)rds|sql|db|table|dynamo|bucket|snapshot|backup|redshift|spanner|firestore|redis|cache", text
        )
        yield Found(Category.DB_DESTROY if about_data else Category.BROAD_DELETE, "it deletes what is in the cloud")
    yield from says(Category.DEPLOY, "it changes what is in the cloud")


def _aws_s3(call: Call) -> Sayings:
    verbs = verbs_of(call)
    verb = verbs[1] if len(verbs) > 1 else ""
    places = verbs[2:4]
    if verb in ("ls", "presign", "", "help"):
        return
    if verb in ("rm", "rb") or any(word.text == "--delete" for word in call.args):
        yield Found(Category.BROAD_DELETE, "it deletes what is in a bucket")
    elif verb == "mv":
        yield Found(Category.BROAD_DELETE, "it moves away what is in a bucket")
    elif len(places) == 2 and places[0].startswith("s3:") and not places[1].startswith("s3:"):
        yield Write(next(word for word in reversed(call.args) if word.text == places[1]))
        return
    yield from says(Category.PUBLISH, "it changes what is in a bucket")


def _terraform(call: Call) -> Sayings:
    reads = names(
        "plan validate fmt init show output providers graph version get console state_list state_show state_pull "
        "workspace_list workspace_show workspace_select refresh test metadata"
    )
    verbs = verbs_of(call)
    if not verbs or asks_help(call) or verbs[0] in reads or "_".join(verbs[:2]) in reads:
        if verbs[:1] == ("plan",) or not verbs:
            return
        return
    if verbs[0] == "destroy" or any(word.text.lstrip("-") == "destroy" for word in call.args) or verbs[:2] == ("state", "rm"):
        yield Found(Category.BROAD_DELETE, "it destroys what it has set up")
    yield from says(Category.DEPLOY, "it changes what is set up")


RULES: Mapping[str, Rule] = {
    "helm": partial(
        unless,
        reads=names(
            "template lint list ls status get repo search dependency show history env pull package create verify completion "
            "plugin diff dep"
        ),
        category=Category.DEPLOY,
        why="it changes what runs in a cluster",
    ),
    "kubectl": _kubectl,
    "oc": _kubectl,
    "k": _kubectl,
    "terraform": _terraform,
    "tofu": _terraform,
    "terragrunt": _terraform,
    "pulumi": partial(deploys, reads="preview stack whoami version about config plugin logs"),
    "cdk": partial(deploys, reads="synth diff ls list doctor init metadata docs"),
    "sam": partial(deploys, reads="build validate local logs init list"),
    "serverless": partial(deploys, reads="print info logs package offline"),
    "sls": partial(deploys, reads="print info logs package offline"),
    "vercel": partial(deploys, reads="ls list inspect logs whoami dev build pull env", bare=True),
    "netlify": partial(deploys, reads="status dev build logs sites watch"),
    "fly": partial(deploys, reads="status logs version info doctor apps_list"),
    "flyctl": partial(deploys, reads="status logs version info doctor apps_list"),
    "heroku": partial(deploys, reads="logs ps apps info status version releases"),
    "firebase": partial(deploys, reads="emulators:start emulators:exec projects:list serve"),
    "wrangler": partial(deploys, reads="dev tail whoami types init"),
    "surge": partial(deploys, bare=True),
    "eb": partial(deploys, reads="status logs health list events"),
    "railway": partial(deploys, reads="status logs whoami list"),
    "render": partial(deploys, reads="services logs whoami"),
    "cap": partial(deploys),
    "kamal": partial(deploys, reads="config details audit version"),
    "helmfile": partial(deploys, reads="diff lint list template status build"),
    "argocd": partial(deploys, reads="version app_get app_list app_diff app_history context"),
    "flux": partial(deploys, reads="get logs check version diff tree"),
    "skaffold": partial(deploys, reads="build render diagnose version test"),
    "nomad": partial(deploys, reads="status plan validate version"),
    "vault": partial(deploys, reads="read status list version", why="it changes secrets"),
    "aws": _cloud,
    "gcloud": _cloud,
    "gsutil": _cloud,
    "az": _cloud,
    "doctl": _cloud,
    "oci": _cloud,
    "ibmcloud": _cloud,
    "hcloud": _cloud,
    "linode-cli": _cloud,
    "bq": _cloud,
    "rclone": partial(
        unless,
        reads=names("ls lsl lsd lsf lsjson size check cat version listremotes tree about config_show"),
        category=Category.PUBLISH,
        why="it changes what is on another machine",
    ),
}
