"""What a query may be, by its parsed form."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from orchestrator.analysis.sql.query_judge import FUNCTIONS, TABLES, WINDOWS, Refused, judge
from orchestrator.analysis.sql.sql_columns import VIEWS
from tests.orchestrator.analysis.hostile_sql import ALL

duckdb = pytest.importorskip("duckdb")

HARMLESS = (
    "SELECT * FROM steps",
    "FROM steps",
    "TABLE steps",
    "VALUES (1, 'a'), (2, 'b')",
    'SELECT "timestamp", STEPS.seq FROM Steps',
    "FROM main.steps",
    "SELECT count(*) FILTER (kind = 'failed') FROM events GROUP BY ALL HAVING count(*) > 1 ORDER BY ALL LIMIT 3 OFFSET 1",
    "SELECT *, row_number() OVER w, lag(seq) OVER (ORDER BY seq) FROM steps WINDOW w AS (PARTITION BY harness ORDER BY seq)",
    "SELECT * FROM steps QUALIFY rank() OVER (ORDER BY work_s DESC) <= 3",
    "WITH a AS (FROM steps), b AS (FROM a) SELECT * FROM b JOIN A USING (seq)",
    "WITH a AS MATERIALIZED (FROM steps), b AS NOT MATERIALIZED (FROM a) FROM b",
    "WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM r WHERE x < 5) FROM r",
    "SELECT (SELECT max(seq) FROM events e WHERE e.harness = s.harness) FROM steps s",
    "FROM steps s ASOF JOIN events e ON s.harness = e.harness AND s.seq >= e.seq",
    "FROM steps SEMI JOIN effects USING (harness, step_number)",
    "FROM steps WHERE EXISTS (FROM effects)",
    "SELECT output ->> '$.a', json_extract(output, '$.b'), output.a::INTEGER FROM steps",
    "SELECT unnest(consumed), [x + 1 FOR x IN consumed IF x > 1], list_transform(consumed, lambda x: x * 2) FROM steps",
    "SELECT key, value FROM steps, json_each(output)",
    "PIVOT attempts ON ended_by IN ('failed', 'killed') USING count(*)",
    "UNPIVOT (SELECT work_s, agent_s FROM steps) ON COLUMNS(*)",
    "SELECT quantile_cont(work_s, [0.5, 0.99]), approx_quantile(work_s, 0.9) FROM steps",
    "SELECT time_bucket(INTERVAL 1 MINUTE, timestamp), date_trunc('hour', timestamp) FROM steps",
    "SELECT CASE WHEN seq BETWEEN 1 AND 3 THEN 'a' ELSE NULL END, coalesce(summary, ''), summary LIKE 'a%' FROM steps",
    "DESCRIBE steps",
    "SUMMARIZE SELECT work_s FROM steps",
    "SELECT COLUMNS('.*_s') FROM steps",
    "SELECT * EXCLUDE (delta) REPLACE (seq + 1 AS seq) FROM steps USING SAMPLE 10",
    "SELECT 1 INTERSECT SELECT 2 EXCEPT SELECT 3",
    "SELECT grouping(harness), harness, count(*) FROM steps GROUP BY CUBE (harness)",
    "SELECT {'a': 1, 'b': [1, 2]}, MAP {'a': 1}, (1, 'a'), DATE '2026-01-01' + INTERVAL 3 DAY, TRY_CAST('x' AS INTEGER)",
    "SELECT timestamp AT TIME ZONE 'UTC', extract(hour FROM timestamp), summary COLLATE NOCASE FROM steps",
    "SELECT 'a' || 'b', 1 // 2, 2 ** 3, 5 % 2, 'a' SIMILAR TO 'b', 'a' ^@ 'b', ~1, 1 << 2, -seq, NOT true FROM steps",
    "SELECT summary.upper().left(3) FROM steps",
    "SELECT * FROM range(3) t(x), generate_series(1, x)",
    "FROM steps POSITIONAL JOIN events",
    "SELECT 1;",
    "SELECT 1 -- with a remark",
)


@cache
def _parser() -> Any:
    return duckdb.connect()


def tree(query: str) -> Any:
    """Return what DuckDB's parser makes of a query."""
    return json.loads(_parser().execute("SELECT json_serialize_sql(?::VARCHAR)", [query]).fetchone()[0])


@pytest.mark.parametrize("query", HARMLESS)
def test_a_query_over_the_views_passes(query: str) -> None:
    judge(tree(query), VIEWS)


@pytest.mark.parametrize("query", ALL)
def test_a_query_that_wants_more_is_refused(query: str) -> None:
    with pytest.raises(Refused):
        judge(tree(query.format(folder="/tmp")), VIEWS)


def test_a_name_of_with_holds_only_where_it_is_given() -> None:
    with pytest.raises(Refused, match="no view 'b'"):
        judge(tree("WITH a AS (FROM b), b AS (SELECT 1) FROM a"), VIEWS)


def test_a_name_of_with_is_not_its_own_source() -> None:
    with pytest.raises(Refused, match="no view 'a'"):
        judge(tree("WITH a AS (FROM a) FROM a"), VIEWS)


def test_a_name_that_only_looks_like_a_view_is_refused() -> None:
    with pytest.raises(Refused, match="no view"):
        judge(tree('FROM "\N{LATIN SMALL LETTER LONG S}teps"'), VIEWS)


def test_a_kind_of_node_that_nobody_knows_is_refused() -> None:
    unknown = {"statements": [{"node": {"type": "SELECT_NODE", "from_table": {"type": "BRAND_NEW_REF"}}}]}

    with pytest.raises(Refused, match="BRAND_NEW_REF"):
        judge(unknown, VIEWS)


def test_a_query_that_is_nested_without_end_is_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"child": deep}

    with pytest.raises(Refused, match="nested"):
        judge({"statements": [{"node": deep}]}, VIEWS)


def test_the_place_of_what_is_refused_is_told() -> None:
    with pytest.raises(Refused) as refused:
        judge(tree("SELECT 1, getvariable('x')"), VIEWS)

    assert refused.value.at == 10


def test_every_function_that_is_allowed_is_there() -> None:
    rows = _parser().execute("SELECT lower(function_name), function_type FROM duckdb_functions()").fetchall()
    known = {name for name, _ in rows}

    assert known >= FUNCTIONS
    assert known >= TABLES


def test_no_function_that_reads_a_table_or_a_file_is_allowed() -> None:
    rows = _parser().execute("SELECT lower(function_name), function_type FROM duckdb_functions()").fetchall()
    tables = {name for name, type in rows if type in ("table", "table_macro", "pragma")}
    values = {name for name, type in rows if type in ("scalar", "aggregate", "macro")}

    for name in sorted(tables - TABLES):
        with pytest.raises(Refused):
            judge(tree(f"FROM {name}('x')"), VIEWS)
    assert not (FUNCTIONS | WINDOWS) & (tables - values - TABLES)


def test_no_function_that_has_an_effect_is_allowed() -> None:
    query = "SELECT DISTINCT lower(function_name) FROM duckdb_functions() WHERE has_side_effects"
    acting = {name for (name,) in _parser().execute(query).fetchall()}

    assert acting & FUNCTIONS == {"error", "gen_random_uuid", "random", "uuid", "uuidv4", "uuidv7"}
