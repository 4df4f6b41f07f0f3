"""Rows in, vectors out: the encoders, and the disk cache they share.

`resolve` turns what a user writes (a name, a function, an array, a scikit-learn transformer) into
an `Encoder`; `embed` does the whole of it for train rows and any further splits.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ParameterError, UnknownName
from ..progress import Progress, silent
from .encoder import Encoder, column_of
from .given import Function, Precomputed, Transformer
from .image import Image
from .lsa import Lsa
from .pretrained import Choice, are_images, choose, here
from .static import Static
from .text import Pair, Text
from .vector_cache import Cached, cache_folder

__all__ = [
    "Cached",
    "Choice",
    "Encoder",
    "Function",
    "Image",
    "Lsa",
    "Pair",
    "Precomputed",
    "Static",
    "Text",
    "Transformer",
    "are_images",
    "cache_folder",
    "choose",
    "column_of",
    "embed",
    "here",
    "resolve",
]

_MODELS: dict[str, Any] = {
    "lsa": Lsa,
    "text": Text,
    "static": Static,
    "pair": Pair,
    "image": Image,
    "precomputed": Precomputed,
}
NAMES = ("auto", *_MODELS)
"""What `resolve` knows by name; `text:MODEL`, `pair:MODEL`, `image:MODEL`, `static:PATH` choose one."""


def resolve(what: Any, *, cache: str | Path | bool | None = True) -> Encoder:
    """Make an encoder of what the user wrote.

    Parameters
    ----------
    what
        `"auto"` (the best pre-trained one of texts on this machine, see `choose`), `"static"`,
        `"static:PATH"`, `"lsa"`, `"text"`, `"text:MODEL"`, `"pair"`, `"pair:MODEL"`, `"image"`,
        `"image:MODEL"`, `"precomputed"`, a path that ends in `.npy`, an array of vectors, a
        function of a list of rows, a scikit-learn transformer, an object with an `encode` method (a
        loaded SentenceTransformer), or an encoder.
    cache
        Where slow encoders keep their vectors: a folder; `True` for `EPOXY_CACHE` or else the
        user's cache folder; `None` or `False` for nowhere.

    Examples
    --------
    >>> resolve("lsa")
    Lsa(dim=128, words=50000, seed=0)
    >>> resolve("text:all-MiniLM-L6-v2", cache=False)
    Text('all-MiniLM-L6-v2')
    """
    encoder = _made(what)
    folder = cache_folder(cache)
    return Cached(encoder, folder) if encoder.slow and folder is not None else encoder


def embed(
    encoder: Any,
    train: Any,
    *others: Any,
    column: str | Sequence[str] | None = None,
    cache: str | Path | bool | None = True,
    progress: Progress = silent,
) -> list[np.ndarray]:
    """Fit an encoder on the train rows, and return the vectors of train and of every other split.

    `column` says which column of a table is encoded; for an encoder of several (`pair`), which.

    Examples
    --------
    >>> train = [{"text": "free money"}, {"text": "lovely song"}]
    >>> vectors, dev_vectors = embed("lsa", train, [{"text": "money"}], column="text")
    >>> dev_vectors.shape
    (1, 3)
    """
    made = resolve(encoder, cache=cache)
    splits = [made.prepare(column_of(rows, column)) for rows in (train, *others)]
    total = max(1, sum(len(rows) for rows in splits))
    made.fit(splits[0])
    vectors: list[np.ndarray] = []
    for rows in splits:
        report = _part_of(progress, sum(map(len, vectors)), len(rows), total)
        vectors.append(made.encode(rows, progress=report))
    progress(total, total)
    return vectors


def _part_of(progress: Progress, before: int, size: int, total: int) -> Progress:
    def report(done: int, of: int) -> None:
        # an encoder counts distinct rows, so its share is what carries over
        progress(before + round(size * done / max(1, of)), total)

    return report


def _made(what: Any) -> Encoder:
    if isinstance(what, str):
        return _named(what)
    if isinstance(what, Path):
        return Precomputed(what)
    if isinstance(what, type):
        raise ParameterError(
            f"an encoder came as the class {what.__name__}; make an object of it: {what.__name__}()"
        )
    if isinstance(what, Encoder):
        return what
    if hasattr(what, "fit") and hasattr(what, "transform"):
        return Transformer(what)
    if callable(getattr(what, "encode", None)):
        return Function(what.encode)
    if callable(what):
        return Function(what)
    if isinstance(what, (list, tuple)) or hasattr(what, "__array__"):
        return Precomputed(what)
    raise ParameterError(
        f"an encoder came as a {type(what).__name__}; expected one of {list(NAMES)}, "
        "'text:MODEL', 'image:MODEL', a function, an array or a scikit-learn transformer"
    )


def _named(name: str) -> Encoder:
    if name == "auto":
        return _named(choose().encoder)
    if name.endswith(".npy"):
        return Precomputed(name)
    kind, _, model = name.partition(":")
    if kind not in _MODELS or (model and kind == "lsa"):
        some = ("text:MODEL", "pair:MODEL", "image:MODEL", "static:PATH", "column:NAME", "none")
        raise UnknownName.of("encoder", name, [*NAMES, *some])
    made: Encoder = _MODELS[kind](model) if model else _MODELS[kind]()
    return made
