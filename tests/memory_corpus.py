"""A made memory: 2,000 episodes, and queries of which it is known what answers them. The same at every run.

Sixty subjects of software work, each with words of its own, and for most words other ways to say them. An episode is about a
detail: three of those words, in one part of one place of the software, and one kind of trouble. It says so in one or another
of the ways, among sentences that every episode may hold and hints at other subjects. A query is about one detail: it names it
as a task does, in a title and a description, in other forms and another order; a quarter of the words are left out and noise
is added. What answers a query are the episodes about the same detail: one to three of the 2,000. Thirty others share its
subject, forty its place, forty its part, a hundred its trouble.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from attrs import frozen

from harnesses.memory import Episode, Query

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)

SUBJECTS = tuple(
    tuple(line.split())
    for line in """
    price/quote rounding/round decimal/fraction tick/increment currency/money
    order/trade cancel/revoke timeout/deadline exchange/venue retry/repeat
    login/signin session cookie expiry/expire browser
    password hash/digest salt bcrypt upgrade/migrate
    cache/memo invalidate/invalidation stale/outdated key eviction/evict
    database/store migration/migrate column schema rollback/revert
    index query/lookup slow/latency plan scan
    upload attachment/file size/length limit/bound multipart
    email/mail template render/rendering bounce unsubscribe
    webhook/callback signature/sign replay/duplicate verify/verification endpoint
    payment/charge refund/reimburse invoice/bill tax/vat ledger
    search/find ranking/rank synonym tokenizer/token stemming/stem
    thumbnail/preview image/picture resize/scale crop colour/color
    video/clip transcode/encode bitrate subtitle/caption stream/streaming
    map/chart tile zoom projection/project marker/pin
    calendar/schedule timezone/zone recurrence/recurring holiday reminder/remind
    translation/translate locale/language plural missing/absent fallback/default
    accessibility contrast keyboard/key focus screenreader/reader
    metric/measure histogram/distribution label/tag scrape/collect dashboard/board
    trace/span sampling/sample propagation/propagate header context
    log/record rotation/rotate retention/retain redaction/redact structured/structure
    alert/alarm threshold/limit pager/oncall silence/mute escalate/escalation
    container/pod image registry layer/stage digest
    deploy/deployment canary rollback/revert traffic/load health/check
    queue/backlog consumer/worker ack/acknowledge poison dead/failed
    lock/mutex deadlock/stuck lease/hold heartbeat/beat takeover/steal
    thread/task race/racing cancel/cancellation nursery/group shutdown/stop
    socket/connection keepalive/idle proxy/gateway tls/certificate handshake
    dns/resolver ttl/lifetime record zone delegation/delegate
    backup/snapshot restore/recover checksum/digest encrypt/encryption schedule
    import/load csv/spreadsheet delimiter/separator encoding/charset header
    export/dump parquet/columnar partition/shard compress/compression type
    parser/parse grammar/syntax recovery/recover error/fault position/offset
    compiler/compile inline/inlining register/allocation loop/unroll vector/simd
    graph/network cycle/ring topological/order edge/link traversal/walk
    sort/order stable/stability comparator/compare merge partition/pivot
    regex/pattern backtrack/backtracking anchor greedy/lazy escape
    date/day parse/parsing leap/year week/isoweek format/formatting
    float/double precision/accuracy nan/infinity sum/summation overflow
    random/chance seed/state shuffle/permute uniform/even reproducible/repeat
    permission/right role/group inherit/inheritance deny/refuse audit/trail
    tenant/customer isolate/isolation quota/allowance billing/bill archive
    feature/flag rollout/release cohort/bucket experiment/test killswitch/switch
    form/input validate/validation message/hint required/mandatory submit/send
    table/grid paginate/pagination sort/order filter/narrow sticky/fixed
    tooltip/popover hover/pointer delay/wait placement/position arrow
    modal/dialog focus/trap escape/close backdrop/overlay nested/stacked
    animation/transition easing/curve frame/jank reduce/reduced duration/length
    sync/synchronise conflict/clash merge/combine offline/disconnected version/revision
    feed/subscription gap/hole sequence/number resubscribe/reconnect snapshot/image
    candle/bar aggregate/aggregation volume/turnover session/day backfill/refill
    position/holding netting/net margin/collateral liquidation/close hedge/offset
    risk/exposure drawdown/loss limit/cap breach/exceed halt/stop
    strategy/signal crossover/cross average/mean lag/delay warmup/lead
    backtest/simulate slippage/impact fill/execution commission/fee bias/lookahead
    portfolio/basket weight/allocation rebalance/adjust turnover/churn benchmark/reference
    sensor/probe calibrate/calibration drift/shift outlier/spike smoothing/smooth
    firmware/image bootloader/boot flash/write watchdog/timer brick/recover
    license/licence header/notice dependency/package scan/check allowlist/allowed
    documentation/docs example/sample broken/dead link/anchor build/generate
    """.strip().splitlines()
)


def _listed(words: str) -> tuple[str, ...]:
    return tuple(words.split())


PLACES = _listed(
    """
    admin api billing checkout cli client console core desktop editor gateway importer inbox library mobile notifier
    onboarding partner planner portal profile reporter scheduler sdk server settings shipping signup storefront studio
    support sync tracker viewer wallet warehouse widget worker archive auction catalog dispatcher exporter forum helpdesk
    kiosk lobby market newsroom
    """
)
PARTS = _listed(
    """
    adapter banner bridge buffer builder cart cleaner counter drawer driver editor engine feeder finder footer handler
    helper iterator journal launcher limiter list loader logger mapper monitor picker planner pool printer reader renderer
    resolver router sampler selector sender sidebar sorter splitter store switcher toolbar tracer validator walker watcher
    wizard writer
    """
)
TROUBLES = _listed(
    """
    crash/abort hang/freeze leak/grow corrupt/damage duplicate/double lose/drop truncate/shorten reorder/shuffle
    reject/refuse flicker/blink overflow/exceed underflow mislabel/rename undercount/miss overcount/inflate stall/block
    flood/spam skew/shift
    """
)
COMMON = (
    "All checks were run again and passed.",
    "The change is small and was reviewed with the team.",
    "Added a test that fails before and passes after the change.",
    "Updated the changelog and the notes for the next agent.",
    "The code was moved into a function of its own and documented.",
    "Nothing else in the module had to be changed.",
    "Ran the whole suite twice on the build machine.",
    "Kept the public interface as it was.",
    "Measured before and after with the benchmark.",
    "Left a hint for whoever works here next.",
)
ASKING = (
    "please",
    "implement",
    "fix",
    "investigate",
    "make sure",
    "we need",
    "again",
    "customers report",
    "acceptance: tests pass",
)
AGENTS = ("builder", "architect", "tester", "reviewer", "writer")
STAGES = ("06-architecture", "07-code", "08-testing", "12-security-threat-model", "03-documentation")


@frozen
class Asked:
    """A query, and the ids of what answers it."""

    query: Query
    answers: frozenset[str]


@frozen
class _Detail:
    """What a few episodes, and perhaps a query, are about."""

    aspects: tuple[str, ...]
    """Of a subject: three of its words."""
    place: str
    part: str
    trouble: str


def episodes(count: int = 2000, seed: int = 7) -> tuple[Episode, ...]:
    """Return the episodes."""
    return tuple(
        _episode(number, detail, random.Random(f"{seed}/{number}")) for number, detail in enumerate(_details(count, seed))
    )


def queries(count: int = 200, size: int = 2000, seed: int = 7) -> tuple[Asked, ...]:
    """Return the queries, each about another detail."""
    about: dict[_Detail, list[str]] = {}
    for number, detail in enumerate(_details(size, seed)):
        about.setdefault(detail, []).append(_id(number))
    dice = random.Random(f"{seed}/queries")
    chosen = dice.sample(sorted(about, key=repr), count)
    return tuple(Asked(Query(_question(detail, dice)), frozenset(about[detail])) for detail in chosen)


def _details(count: int, seed: int) -> Iterator[_Detail]:
    dice = random.Random(f"{seed}/details")
    made = 0
    while made < count:
        aspects = tuple(dice.sample(dice.choice(SUBJECTS), 3))
        detail = _Detail(aspects, dice.choice(PLACES), dice.choice(PARTS), dice.choice(TROUBLES))
        for _ in range(min(count - made, dice.choice((1, 1, 1, 2, 3)))):
            yield detail
            made += 1


def _episode(number: int, detail: _Detail, dice: random.Random) -> Episode:
    words = [_said(word, dice) for word in detail.aspects]
    again = [_said(word, dice) for word in detail.aspects]
    other = [_said(word, dice) for word in dice.choice(SUBJECTS)]
    trouble = _said(detail.trouble, dice)
    return Episode(
        id=_id(number),
        run_id=f"run-{number // 10}",
        task_id=f"task-{number}",
        task=f"{words[0].capitalize()} {_formed(words[1], dice)} in the {detail.part} of the {detail.place} may {trouble}",
        outcome="PASS",
        validator_status="PASS",
        evidence_paths=(f"tasks/task-{number}/validation.json",),
        created_at=NOW - timedelta(days=dice.uniform(0, 60)),
        importance=dice.choice((0.6, 0.75, 0.9)),
        agents=(dice.choice(AGENTS),),
        stages=(dice.choice(STAGES),),
        approach=" ".join(dice.sample(COMMON, 1)),
        notes=f"It could {_said(detail.trouble, dice)} when the {words[2]} met the {other[1]}. {dice.choice(COMMON)}",
        work_done=f"Changed how the {again[0]} handles the {_formed(again[2], dice)}. {dice.choice(COMMON)}",
        keep=(f"{again[1]} and {again[2]} belong together in the {detail.part}", dice.choice(COMMON)),
        hints=(f"look at the {other[0]} of the {dice.choice(PLACES)} next",),
        files=(f"{detail.place}/{words[0]}.py",),
    )


def _question(detail: _Detail, dice: random.Random) -> str:
    """Return what one asks who does not know how it was said: a title and a description, a quarter of both left out."""
    title = [_formed(_said(word, dice), dice) for word in (*detail.aspects, detail.trouble)]
    description = [_formed(_said(word, dice), dice) for word in (*detail.aspects, detail.trouble)]
    said = [word for word in (*title, *description) if dice.random() > 0.25]
    said += (detail.place, detail.part, *dice.sample(ASKING, 3), _said(dice.choice(dice.choice(SUBJECTS)), dice))
    dice.shuffle(said)
    return " ".join(said)


def _said(word: str, dice: random.Random) -> str:
    """Return one of the ways to say it; the first is said twice as often."""
    first, *others = word.split("/")
    return dice.choice((first, first, *others))


def _formed(word: str, dice: random.Random) -> str:
    ending = dice.choice(("", "", "s", "ing", "ed"))
    if not ending or word.endswith(("s", "ing", "ed", "ion")):
        return word
    if ending != "s" and word.endswith("e"):
        return word[:-1] + ending
    return word + ending


def _id(number: int) -> str:
    return f"ep_corpus_{number:05d}_1"
