"""Sentence embeddings that say between whom: for relations between two things a text mentions.

The mean of all tokens is the same for every pair in a sentence, so nothing that reads it can tell who
of three people is married to whom. Here a row's vector is that mean, the sum of the means of the two
mentions' tokens, and the mean of the tokens between them, side by side; one pass of the network over
the unchanged text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import FrameError, ParameterError
from .rows import Rows, listed
from .text import DEFAULT, Text

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

    def __init__(
        self,
        model: str | Path = DEFAULT,
        *,
        max_length: int | None = None,
        device: str | None = None,
        batch_size: int = 32,
    ) -> None:
        super().__init__(model, max_length=max_length, device=device, batch_size=batch_size)

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
