"""Whether a query may be executed, judged by its parsed form. Pure.

Invariant: everything is refused that is not known to be harmless: each node of the tree, each table, each function. A name in
FROM is a view of the run, or defined by WITH at that place; files cannot be named. Functions only compute values from values.
They are an allowlist, so that functions added by a newer DuckDB or an extension are refused until somebody has reviewed them.
Functions that are not on it read settings, variables, files, other queries or the catalogue, or write: `current_setting`,
`getvariable`, `json_serialize_plan`, `write_log`, `nextval` and others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, cast

_EXPRESSIONS = frozenset(
    {"BETWEEN", "CASE", "CAST", "COLLATE", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "FUNCTION", "LAMBDA"}
    | {"LAMBDA_REF", "OPERATOR", "PARAMETER", "POSITIONAL_REFERENCE", "STAR", "SUBQUERY", "WINDOW"}
)
_QUERIES = frozenset({"CTE_NODE", "RECURSIVE_CTE_NODE", "SELECT_NODE", "SET_OPERATION_NODE"})
_SOURCES = frozenset({"BASE_TABLE", "EMPTY", "EXPRESSION_LIST", "JOIN", "PIVOT", "SHOW_REF", "SUBQUERY", "TABLE_FUNCTION"})
_MODIFIERS = frozenset({"DISTINCT_MODIFIER", "LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER", "ORDER_MODIFIER"})
_ORDERS = frozenset({"ASCENDING", "DESCENDING", "ORDER_DEFAULT"})
_NODES = _QUERIES | _SOURCES | _MODIFIERS | _ORDERS
_SMALL = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
"""Lower-casing as DuckDB does it: ASCII letters only."""

Names = frozenset[str]


class Refused(Exception):
    """A query must not be executed. The message says why; `at` is the position in the query, in bytes from 0, if known."""

    def __init__(self, why: str, at: int | None = None) -> None:
        super().__init__(why)
        self.at = at


def judge(tree: Mapping[str, Any], views: Collection[str]) -> None:
    """Raise unless a query may be executed.

    Args:
        tree: the query as DuckDB's `json_serialize_sql` returns it.
        views: the views that may be read.

    Raises:
        Refused: it is anything else than one query over these views.
    """
    statements: list[Any] = tree.get("statements") or []
    if tree.get("error") or len(statements) != 1:
        raise Refused(NO_QUERY)
    try:
        _Judge(frozenset(views)).look(statements[0]["node"], frozenset())
    except RecursionError:
        raise Refused("the query is nested too deep: expected fewer levels") from None


NO_QUERY = (
    "only a query can be carried out: expected one statement that begins with SELECT, FROM, WITH, VALUES, DESCRIBE or "
    "SUMMARIZE; of PIVOT say the values, as in `ON kind IN ('a', 'b')`"
)


class _Judge:
    def __init__(self, views: Names) -> None:
        self._views = views

    def look(self, node: Any, given: Names) -> None:
        """Check a part of the tree; `given` are the names defined by WITH there."""
        if isinstance(node, list):
            for part in cast("Iterable[Any]", node):
                self.look(part, given)
        elif isinstance(node, dict):
            self._look_at(cast("dict[str, Any]", node), given)

    def _look_at(self, node: dict[str, Any], given: Names) -> None:
        self._known(node)
        rest: dict[str, Any] = node
        if "cte_map" in node:
            given = self._with(node["cte_map"], given)
            rest = {name: part for name, part in node.items() if name != "cte_map"}
        kind = node.get("type")
        if kind == "RECURSIVE_CTE_NODE":
            self.look(node.get("left"), given)
            given |= {_small(node["cte_name"])}
            rest = {name: part for name, part in rest.items() if name != "left"}
        elif kind == "BASE_TABLE":
            self._table(node, given)
        elif kind == "SHOW_REF":
            _show(node)
        elif kind == "TABLE_FUNCTION":
            function: dict[str, Any] = node.get("function") or {}
            _callable(function, TABLES, "in FROM")
            rest = {**rest, "function": function.get("children")}
        elif node.get("class") in ("FUNCTION", "WINDOW"):
            _callable(node, FUNCTIONS | WINDOWS if node["class"] == "WINDOW" else FUNCTIONS, "in a query")
        for part in rest.values():
            self.look(part, given)

    def _known(self, node: dict[str, Any]) -> None:
        """Refuse a node of an unknown kind."""
        if "class" in node:
            known = node["class"] in _EXPRESSIONS
        else:
            kind = node.get("type")
            known = not isinstance(kind, str) or kind in _NODES or kind.endswith("_TYPE_INFO")
        if not known:
            raise Refused(f"{node.get('class') or node.get('type')} is not known here: expected a plain query", _at(node))

    def _with(self, map: dict[str, Any], given: Names) -> Names:
        """Check the queries of WITH, each of which sees those before it; return the names defined after them."""
        for entry in map.get("map") or ():
            self.look(entry["value"], given)
            given |= {_small(entry["key"])}
        return given

    def _table(self, node: dict[str, Any], given: Names) -> None:
        name = node.get("table_name", "")
        schema, catalog = node.get("schema_name") or "", node.get("catalog_name") or ""
        if not schema and not catalog and _small(name) in given:
            return
        if catalog or schema not in ("", "main") or _small(name) not in self._views:
            whole = ".".join(filter(None, (catalog, schema, name)))
            raise Refused(f"no view {whole!r}: expected one of {', '.join(sorted(self._views))}", _at(node))


def _show(node: dict[str, Any]) -> None:
    """Allow DESCRIBE and SUMMARIZE of a query, and refuse other catalogue queries."""
    if node.get("table_name"):
        raise Refused("SHOW is not allowed here: expected DESCRIBE or SUMMARIZE of a view; ask `FROM views`", _at(node))


def _callable(node: dict[str, Any], allowed: Names, where: str) -> None:
    name = str(node.get("function_name", ""))
    is_operator = not any(letter.isalnum() or letter == "_" for letter in name)
    if not (is_operator and allowed is not TABLES) and _small(name) not in allowed:
        raise Refused(
            f"{name}() is not allowed {where}: expected a function of values alone, which reads nothing else",
            _at(node),
        )


def _small(name: str) -> str:
    return name.translate(_SMALL)


def _at(node: dict[str, Any]) -> int | None:
    place = node.get("query_location")
    return place if isinstance(place, int) else None


TABLES = frozenset({"generate_series", "json_each", "json_tree", "range", "unnest"})
"""Table functions allowed in FROM. None of them reads anything but its arguments."""

WINDOWS = frozenset(
    {"cume_dist", "dense_rank", "fill", "first_value", "lag", "last_value", "lead", "nth_value", "ntile", "percent_rank"}
    | {"rank", "rank_dense", "row_number"}
)
"""Window functions, allowed before OVER in addition to aggregates."""

_NAMES = """
    abs acos acosh add age aggregate alias any_value apply approx_count_distinct approx_quantile approx_top_k
    arbitrary arg_max arg_max_null arg_min arg_min_null argmax argmin array_agg array_aggr array_aggregate array_append
    array_apply array_cat array_concat array_contains array_cosine_distance array_cosine_similarity array_cross_product
    array_distance array_distinct array_dot_product array_extract array_filter array_grade_up array_has array_has_all
    array_has_any array_indexof array_inner_product array_intersect array_length array_negative_dot_product
    array_negative_inner_product array_pop_back array_pop_front array_position array_prepend array_push_back
    array_push_front array_reduce array_resize array_reverse array_reverse_sort array_select array_slice array_sort
    array_to_json array_to_string array_to_string_comma_default array_transform array_unique array_value array_where
    array_zip ascii asin asinh atan atan2 atanh avg bar base64 bin bit_and bit_count bit_length bit_or bit_position bit_xor
    bitstring bitstring_agg bool_and bool_or cardinality cbrt ceil ceiling century char_length character_length chr concat
    concat_ws contains corr cos cosh cot count count_if count_star countif covar_pop covar_samp current_date
    current_localtime current_localtimestamp damerau_levenshtein date_add date_diff date_part date_sub date_trunc datediff
    datepart datesub datetrunc day dayname dayofmonth dayofweek dayofyear decade decode degrees divide editdist3 element_at
    encode ends_with entropy enum_code enum_first enum_last enum_range enum_range_boundary epoch epoch_ms epoch_ns epoch_us
    era error even exp factorial favg fdiv filter first flatten floor fmod format formatreadabledecimalsize
    formatreadablesize format_bytes from_base64 from_binary from_hex from_json from_json_strict fsum gamma gcd
    gen_random_uuid generate_series generate_subscripts geomean geometric_mean get_bit get_current_time
    get_current_timestamp grade_up greatest greatest_common_divisor group_concat hamming hash hex histogram hour
    ilike_escape instr isfinite isinf isnan isodow isoyear jaccard jaro_similarity jaro_winkler_similarity json json_array
    json_array_length json_contains json_exists json_extract json_extract_path json_extract_path_text json_extract_string
    json_group_array json_group_object json_group_structure json_keys json_merge_patch json_object json_pretty json_quote
    json_structure json_transform json_transform_strict json_type json_valid json_value julian kahan_sum kurtosis
    kurtosis_pop last last_day lcase lcm least least_common_multiple left left_grapheme len length length_grapheme
    levenshtein lgamma like_escape list list_aggr list_aggregate list_any_value list_append list_apply
    list_approx_count_distinct list_avg list_bit_and list_bit_or list_bit_xor list_bool_and list_bool_or list_cat
    list_concat list_contains list_cosine_distance list_cosine_similarity list_count list_distance list_distinct
    list_dot_product list_element list_entropy list_extract list_filter list_first list_grade_up list_has list_has_all
    list_has_any list_histogram list_indexof list_inner_product list_intersect list_kurtosis list_kurtosis_pop list_last
    list_mad list_max list_median list_min list_mode list_negative_dot_product list_negative_inner_product list_pack
    list_position list_prepend list_product list_reduce list_resize list_reverse list_reverse_sort list_select list_sem
    list_skewness list_slice list_sort list_stddev_pop list_stddev_samp list_string_agg list_sum list_transform list_unique
    list_value list_var_pop list_var_samp list_where list_zip listagg ln log log10 log2 lower lpad ltrim mad make_date
    make_time make_timestamp make_timestamp_ms make_timestamp_ns make_timestamptz map map_concat map_contains
    map_contains_entry map_contains_value map_entries map_extract map_extract_value map_from_entries map_keys map_values
    max max_by md5 md5_number md5_number_lower md5_number_upper mean median microsecond millennium millisecond min min_by
    minute mismatches mod mode month monthname multiply nanosecond nextafter nfc_normalize normalized_interval
    not_ilike_escape not_like_escape now nullif octet_length ord parse_dirname parse_dirpath parse_filename parse_path pi
    position pow power prefix printf product quantile quantile_cont quantile_disc quarter radians random range reduce
    regexp_escape regexp_extract regexp_extract_all regexp_full_match regexp_matches regexp_replace regexp_split_to_array
    regexp_split_to_table regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy
    repeat replace reservoir_quantile reverse right right_grapheme round round_even roundbankers row row_to_json rpad rtrim
    second sem set_bit sha1 sha256 sign signbit sin sinh skewness split split_part sqrt starts_with stddev stddev_pop
    stddev_samp str_split str_split_regex strftime string_agg string_split string_split_regex string_to_array strip_accents
    strlen strpos strptime struct_concat struct_contains struct_extract struct_extract_at struct_has struct_indexof
    struct_insert struct_pack struct_position struct_update substr substring substring_grapheme subtract suffix sum
    sum_no_overflow sumkahan tan tanh time_bucket timezone timezone_hour timezone_minute to_base to_base64 to_binary
    to_centuries to_days to_decades to_hex to_hours to_json to_microseconds to_millennia to_milliseconds to_minutes
    to_months to_quarters to_seconds to_timestamp to_weeks to_years today transaction_timestamp translate trim trunc
    try_strptime typeof ucase unbin unhex unicode union_extract union_tag union_value upper url_decode url_encode uuid
    uuid_extract_timestamp uuid_extract_version uuidv4 uuidv7 var_pop var_samp variance variant_extract variant_typeof wavg
    week weekday weekofyear weighted_avg xor year yearweek
    unnest
"""
FUNCTIONS = frozenset(_NAMES.split())
"""Names of allowed functions in lower case. Operators have no letters in their names, and are all allowed."""
