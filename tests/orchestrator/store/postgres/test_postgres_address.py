"""Addresses are split as libpq does it, and none is shown with a password, whatever that consists of."""

from __future__ import annotations

import pytest
from psycopg.conninfo import conninfo_to_dict

from orchestrator.errors import UsageError
from orchestrator.store.places.store_location import place_of, server_at
from orchestrator.store.postgres.postgres_address import (
    Address,
    has_password,
    server_named,
    shown_url,
    split_schema,
    with_schema,
)

_SHOWN = "postgresql://me@db.example.net:5432/desk"
_PASSWORDS = ["pa55", "#pa55", "?pa55", "pa55#1", "pa55?schema=x", "[pa55", "pa55:1", "%23pa55", "pa55]&a=b"]
_NAMES = ["password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key", "pass%77ord"]


@pytest.mark.parametrize("password", _PASSWORDS)
def test_no_character_of_a_password_hides_it(password: str) -> None:
    address = f"postgresql://me:{password}@db.example.net:5432/desk?schema=night"
    url, schema = split_schema(address)

    assert conninfo_to_dict(url)["dbname"] == "desk"
    assert schema == "night"
    assert (has_password(address), shown_url(address)) == (True, _SHOWN)
    assert with_schema(url, schema) == address
    assert server_named(address).address == f"{_SHOWN}?schema=night"
    with pytest.raises(UsageError, match="without a password") as error:
        server_at(address)
    assert "pa55" not in f"{error.value}{server_named(address)}{Address(url, schema, 1.0)}"


@pytest.mark.parametrize("name", _NAMES)
def test_a_secret_among_the_options_is_a_password(name: str) -> None:
    address = f"{_SHOWN}?{name}=pa55&sslmode=require"

    assert has_password(address)
    assert server_named(address).address == f"{_SHOWN}?sslmode=require"


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:pa55/1@db/desk",
        "postgresql://me:pa55@1/2@db/desk",
        "postgresql://me:5?5/pa55@db/desk",
        "postgresql://me:pa55@1@db/desk",
        "postgresql://me:pa55",
        "host=db password=pa55",
    ],
)
def test_what_may_be_part_of_a_password_is_neither_accepted_nor_shown(address: str) -> None:
    assert "pa55" not in shown_url(address)
    assert "://" not in address or has_password(address)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me@[::1]:5432/desk",
        "postgresql:///desk",
        "postgresql://one:1,two:2/desk",
        "postgres://%2Frun%2Fpostgresql/desk",
        "postgresql://me@db#1/desk#2",
        "postgresql://",
    ],
)
def test_an_address_without_a_password_stays_as_it_is(address: str) -> None:
    conninfo_to_dict(address)
    assert (has_password(address), shown_url(address), server_at(address).url) == (False, address, address)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("postgresq://desk:pa55@db/desk", "got postgresq://desk@db/desk; did you mean 'postgresql'?"),
        ("Postgresql://db/desk", "did you mean 'postgresql'?"),
        ("sqlite:///run.db", "got sqlite:///run.db; correct it"),
    ],
)
def test_an_address_of_another_kind_is_not_taken_for_a_path(address: str, words: str) -> None:
    with pytest.raises(UsageError, match="expected a path, or an address that begins with postgresql://") as error:
        place_of(address)
    assert words in str(error.value)
    assert "pa55" not in str(error.value)
    assert place_of("run:1.db").name == "run:1.db"
