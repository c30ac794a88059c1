"""What a person writes as TOML or JSON is read as it is meant, or refused with everything that is wrong, at once."""

from __future__ import annotations

import json

import pytest

from harnesses.coding.sources import FeatureList, NothingToDo, parse_json, parse_toml
from harnesses.features.errors import InvalidRequest
from harnesses.features.feature import Feature

WHOLE = """
objective = "A parser for dates"

[[feature]]
id = "lexer"
description = "Dates are cut into words"
steps = ["'2024-02-29' gives five words"]

[[feature]]
id = "iso"
description = "Dates of ISO 8601 are read"
category = "reading"
steps = ["2024-02-29 is read", "2023-02-29 is refused"]
priority = 2
depends_on = ["lexer"]
required = false
"""
LEXER = Feature("lexer", "Dates are cut into words", steps=("'2024-02-29' gives five words",))
ISO = Feature(
    "iso",
    "Dates of ISO 8601 are read",
    category="reading",
    steps=("2024-02-29 is read", "2023-02-29 is refused"),
    priority=2,
    depends_on=("lexer",),
    required=False,
)


def one(**changes: object) -> str:
    """Return a list of one feature as JSON; None leaves a key out."""
    table = {"id": "a", "description": "A", "steps": ["a"], **changes}
    return json.dumps([{key: value for key, value in table.items() if value is not None}])


def refusal(text: str, parse=parse_json, where: str = "list.json") -> str:
    """Return why a text is refused."""
    with pytest.raises(InvalidRequest) as caught:
        parse(text, where)
    return str(caught.value).removeprefix("InvalidRequest: ")


def test_all_keys_of_toml_are_read():
    assert parse_toml(WHOLE, "list.toml") == FeatureList((LEXER, ISO), "A parser for dates")


def test_toml_with_the_line_ends_of_windows_is_read():
    assert parse_toml(WHOLE.replace("\n", "\r\n"), "list.toml").features == (LEXER, ISO)


def test_a_json_list_is_read():
    text = '[{"id": "init.a", "category": "functional", "description": "A", "steps": ["one", "two"], "passes": false}]'

    assert parse_json(text, "feature_list.json").features == (Feature("init.a", "A", steps=("one", "two")),)


def test_a_json_object_gives_the_objective_too():
    text = json.dumps({"objective": "All of it", "features": [{"id": "a", "description": "A", "steps": "a"}]})

    assert parse_json(text, "list.json") == FeatureList((Feature("a", "A", steps=("a",)),), "All of it")


def test_a_single_text_stands_for_a_list_of_one():
    text = json.dumps([json.loads(one())[0], {"id": "b", "description": "B", "steps": "b", "depends_on": "a"}])

    features = parse_json(text, "list.json").features

    assert (features[1].steps, features[1].depends_on) == (("b",), ("a",))


@pytest.mark.parametrize("key", ["id", "description", "steps"])
def test_a_feature_needs_it(key: str):
    assert f"has no {key}: expected " in refusal(one(**{key: None}))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("id", ""),
        ("id", " a"),
        ("id", "a\nb"),
        ("id", "a" * 501),
        ("id", 1),
        ("description", "  "),
        ("description", "a\0b"),
        ("description", "\ud800"),
        ("steps", []),
        ("steps", [""]),
        ("steps", [1]),
        ("category", ""),
        ("priority", True),
        ("priority", 1.0),
        ("priority", 10**7),
        ("depends_on", [1]),
        ("required", "yes"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_key(key: str, value: object):
    text = refusal(one(**{key: value}))

    assert text.startswith("list.json: feature 1")
    assert f"{key}: expected " in text
    assert f", was {value!r:.100}; correct it" in text


def test_a_claim_that_a_feature_passes_is_refused_with_the_way_out():
    text = refusal(one(passes=True))

    assert text.startswith(
        "list.json: feature 1 'a': passes: expected false, because a file cannot prove anything, was True; remove it"
    )
    assert "check_first" in text


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("descripton", "description"),
        ("depends-on", "depends_on"),
        ("name", "id"),
        ("title", "description"),
        ("done", "passes"),
    ],
)
def test_an_unknown_key_is_refused_with_the_one_that_may_be_meant(wrong: str, right: str):
    assert f"feature 1 'a': unknown key {wrong!r}: " in refusal(one(**{wrong: "x"}))
    assert f"did you mean {right!r}?" in refusal(one(**{wrong: "x"}))


def test_an_unknown_key_that_is_like_none_is_refused():
    assert "unknown key 'xyzzy': expected one of id, " in refusal(one(xyzzy=1))
    assert refusal(one(xyzzy=1)).endswith("; correct or remove it")


def test_all_mistakes_are_told_at_once_each_with_its_feature():
    tables = [{"id": "a", "steps": ["a"]}, {"id": "b", "description": "B", "steps": [], "priority": "high"}, 7]

    lines = refusal(json.dumps(tables)).splitlines()

    assert lines[0] == "list.json has 4 mistakes:"
    assert [line.strip().split(":")[0] for line in lines[1:]] == [
        "feature 1 'a'",
        "feature 2 'b'",
        "feature 2 'b'",
        "feature 3",
    ]


def test_of_many_mistakes_the_first_are_told_and_the_number_of_the_others():
    lines = refusal(json.dumps([0] * 50)).splitlines()

    assert lines[0] == "list.json has 50 mistakes:"
    assert len(lines) == 22
    assert lines[-1] == "  and 30 more"


def test_an_id_that_is_there_twice_is_refused_with_both_places():
    tables = [{"id": "a", "description": "A", "steps": ["a"]}] * 2

    assert refusal(json.dumps(tables)) == (
        "list.json: feature 2 'a': id 'a' is also used by feature 1 'a': expected a unique id; rename one"
    )


def test_an_unknown_dependency_is_refused_with_the_one_that_may_be_meant():
    tables = [*json.loads(one(id="lexer")), {"id": "b", "description": "B", "steps": ["b"], "depends_on": ["lexr"]}]

    assert "feature 2 'b': depends on 'lexr': expected " in refusal(json.dumps(tables))
    assert refusal(json.dumps(tables)).endswith("did you mean 'lexer'?")


def test_one_may_depend_on_a_feature_that_has_mistakes_of_its_own():
    tables = [{"id": "a"}, {"id": "b", "description": "B", "steps": ["b"], "depends_on": ["a"]}]

    assert "depends on" not in refusal(json.dumps(tables))


def test_a_ring_of_dependencies_is_refused_as_a_ring():
    tables = [
        {"id": name, "description": "A", "steps": ["a"], "depends_on": [other]} for name, other in (("a", "b"), ("b", "a"))
    ]

    assert "depend on each other: " in refusal(json.dumps(tables))
    assert refusal(json.dumps([{**tables[0], "depends_on": ["a"]}])).endswith(
        "depends on itself: expected ids of other features; remove it"
    )


@pytest.mark.parametrize("text", ["[]", '{"features": []}', "{}"])
def test_an_empty_list_is_nothing_to_do(text: str):
    with pytest.raises(NothingToDo, match="there is nothing to do: expected at least one feature"):
        parse_json(text, "list.json")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[", "list.json is not valid JSON: Expecting value (at line 1, column 2); correct it"),
        ('[{"id": "a", "id": "b"}]', "list.json: key 'id' occurs twice in one object; remove one"),
        ("[" * 100_000, "list.json cannot be read: "),
        ("7", "list.json: features: expected a list of objects, was 7; write one"),
        ('{"feature": []}', "list.json: unknown key 'feature': expected one of objective, features; did you mean 'features'?"),
        ('{"objective": 7, "features": []}', "list.json: objective: expected a text, was 7; correct or remove it"),
    ],
)
def test_json_that_is_no_list_of_features_is_refused(text: str, told: str):
    assert refusal(text).startswith(told)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[[feature]", "list.toml is not valid TOML: "),
        (
            "[feature]\nid = 'a'",
            "list.toml: feature: expected [[feature]] tables, was {'id': 'a'}; write each with two brackets",
        ),
        (
            "[[features]]\nid = 'a'",
            "list.toml: unknown key 'features': expected one of objective, feature; did you mean 'feature'",
        ),
        ("a = " + "[" * 100_000, "list.toml cannot be read: "),
    ],
)
def test_toml_that_is_no_list_of_features_is_refused(text: str, told: str):
    assert refusal(text, parse_toml, "list.toml").startswith(told)
