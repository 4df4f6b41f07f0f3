"""Which rows count as drawn at random: the beginning of one seeded order of all rows.

The order is read off the rows' names, so a project keeps it across sessions, machines and row files
that grow. Rows are drawn from its front. A row that was labelled for another reason before the draw
came to it is passed over, and counts as random from then on: left out, it would bias the sample
towards rows that nobody had a reason to look at. Labels that may be wrong do not move the draw: scores
rest on trusted ones, and those must be all of its beginning.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..votes import ABSTAIN, RANDOM
from ..workspace import HandLabels
from .records import Place

_KEY = b"epoxy: rows drawn at random"


def drawing_order(files: Sequence[str], ids: Sequence[np.ndarray]) -> list[Place]:
    """All rows in the order in which they are drawn."""
    digests = b"".join(
        _digest(file, name) for file, names in zip(files, ids) for name in names.tolist()
    )
    at = np.repeat(np.arange(len(ids)), [len(each) for each in ids])
    row = np.concatenate([np.arange(len(each)) for each in ids])
    order = np.argsort(np.frombuffer(digests, dtype=">u8"), kind="stable")
    return list(zip(at[order].tolist(), row[order].tolist()))


def drawing_digest(file: str, name: Any) -> int:
    """Where a row stands in the order: rows are drawn from the least number on."""
    return int.from_bytes(_digest(file, name), "big")


def _digest(file: str, name: Any) -> bytes:
    whole = f"{file}\n{name}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(whole, digest_size=8, key=_KEY).digest()


def with_drawn(labels: HandLabels, order: Sequence[Place]) -> HandLabels:
    """Labels with every row called random that the draw has passed; the same where there is none."""
    passed: list[Place] = []
    last = 0
    for at, row in order:
        if labels.y[at][row] == ABSTAIN or labels.wrong[at][row] > 0:
            break
        passed.append((at, row))
        if labels.chosen[at][row] == RANDOM:
            last = len(passed)
    turned = [
        (at, row, labels.y[at][row], RANDOM, labels.wrong[at][row])
        for at, row in passed[:last]
        if labels.chosen[at][row] != RANDOM
    ]
    return labels.with_labels(turned) if turned else labels
