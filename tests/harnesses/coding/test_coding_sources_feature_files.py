"""A file is found where the work begins, or by its whole path, and is read as its name says."""

from __future__ import annotations

from pathlib import Path

import pytest

from harnesses.coding.sources import FeatureFile, FeatureSource
from harnesses.features.errors import InvalidRequest

TOML = '[[feature]]\nid = "a"\ndescription = "A"\nsteps = ["a"]\n'
JSON = '{"objective": "All", "features": [{"id": "a", "description": "A", "steps": ["a"]}]}'
MARKDOWN = "- [ ] A #a\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    made = tmp_path / "checkout"
    made.mkdir()
    return made


async def refusal(file: FeatureFile, checkout: Path) -> str:
    with pytest.raises(InvalidRequest) as caught:
        await file.load(checkout)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("f.toml", TOML),
        ("F.JSON", JSON),
        ("TODO.md", MARKDOWN),
        ("todo.markdown", MARKDOWN),
        ("TODO", MARKDOWN),
        ("t.txt", MARKDOWN),
    ],
)
async def test_the_end_of_the_name_says_how_a_file_is_read(checkout: Path, name: str, text: str):
    (checkout / name).write_text(text)

    features = await FeatureFile(name).load(checkout)

    assert [feature.id for feature in features] == ["a"]


async def test_a_file_of_another_kind_is_refused_before_it_is_looked_for():
    with pytest.raises(InvalidRequest, match=r"'list.yaml': expected a name that ends with .toml, .json"):
        FeatureFile("list.yaml")


async def test_a_path_is_within_the_commit_that_the_work_begins_from(checkout: Path, monkeypatch: pytest.MonkeyPatch):
    (checkout / "docs").mkdir()
    (checkout / "docs" / "TODO.md").write_text(MARKDOWN)
    monkeypatch.chdir(checkout.parent)

    features = await FeatureFile("docs/TODO.md").load(checkout)

    assert [feature.id for feature in features] == ["a"]


async def test_a_whole_path_may_lie_anywhere(checkout: Path, tmp_path: Path):
    (tmp_path / "list.toml").write_text(TOML)

    features = await FeatureFile(tmp_path / "list.toml").load(checkout)

    assert [feature.id for feature in features] == ["a"]


async def test_the_objective_of_a_file_is_read_too(checkout: Path):
    (checkout / "f.json").write_text(JSON)

    source = FeatureFile("f.json")

    await source.load(checkout)

    assert source.objective == "All"
    assert (await source.read(checkout)).objective == "All"


async def test_a_file_that_is_not_committed_is_said_to_be_so(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "TODO.md").write_text(MARKDOWN)
    monkeypatch.chdir(tmp_path)

    text = await refusal(FeatureFile("TODO.md"), checkout)

    assert "cannot be read: No such file" in text
    assert f"commit it there, or give {str(tmp_path / 'TODO.md')!r}" in text


async def test_a_file_that_is_nowhere_is_refused(checkout: Path):
    assert (await refusal(FeatureFile("nowhere.md"), checkout)).endswith("check the path")


async def test_a_path_out_of_the_repository_is_refused(checkout: Path, tmp_path: Path):
    (tmp_path / "list.toml").write_text(TOML)
    (checkout / "link.toml").symlink_to(tmp_path / "list.toml")

    assert "is not in the repository" in await refusal(FeatureFile("../list.toml"), checkout)
    assert "is not in the repository" in await refusal(FeatureFile("link.toml"), checkout)


async def test_a_folder_is_no_file(checkout: Path):
    (checkout / "TODO").mkdir()

    assert "cannot be read: Is a directory" in await refusal(FeatureFile("TODO"), checkout)


async def test_a_byte_order_mark_is_passed_over(checkout: Path):
    (checkout / "f.toml").write_bytes(b"\xef\xbb\xbf" + TOML.encode())

    assert len(await FeatureFile("f.toml").load(checkout)) == 1


async def test_what_is_not_text_is_refused_with_the_place(checkout: Path):
    (checkout / "TODO.md").write_bytes(b"- [ ] \xff")

    assert "expected UTF-8, invalid start byte at byte 6" in await refusal(FeatureFile("TODO.md"), checkout)


async def test_a_file_too_large_to_be_a_list_is_refused(checkout: Path):
    (checkout / "TODO.md").write_bytes(b"x" * 4_000_001)

    assert "is too large: expected at most 4000000 bytes" in await refusal(FeatureFile("TODO.md"), checkout)


def test_what_proves_a_text_has_to_be_chosen():
    source: FeatureSource = FeatureFile("TODO.md")

    assert source.validator() is None
