"""Small projects on disk for tests of labelling in blocks: rows, votes and vectors in files, joined by id."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def write_project(
    home: Path,
    votes: np.ndarray,
    vectors: np.ndarray | None,
    y: np.ndarray,
    classes: list[str],
    *,
    model: str = 'kind = "fusion"',
    more: str = "",
    parts: int = 1,
    seed: int = 0,
) -> Path:
    """A project whose rows with y ≥ 0 are dev rows; votes lie in another order than the rows."""
    home.mkdir(parents=True, exist_ok=True)
    n_rows = len(votes)
    ids = [f"r{at}" for at in range(n_rows)]
    label = pa.array([None if each < 0 else classes[each] for each in y.tolist()], pa.string())
    rows = pa.table({"id": ids, "label": label})
    place = "rows.parquet"
    if parts > 1:
        place = "rows"
        (home / place).mkdir()
    ends = np.linspace(0, n_rows, parts + 1).astype(int)
    for at, (start, stop) in enumerate(pairwise(ends.tolist())):
        path = home / place if parts == 1 else home / place / f"{at}.parquet"
        pq.write_table(rows.slice(start, stop - start), path, row_group_size=7)
    order = np.random.default_rng(seed).permutation(n_rows)
    columns: dict[str, Any] = {f"s{at}": votes[order, at] for at in range(votes.shape[1])}
    pq.write_table(pa.table({"id": [ids[at] for at in order], **columns}), home / "votes.parquet")
    if vectors is not None:
        np.save(home / "vectors.npy", vectors)
    encoder = "none" if vectors is None else "vectors.npy"
    (home / "epoxy.toml").write_text(
        f'[rows]\nfile = "{place}"\nid = "id"\nlabel = "label"\n'
        f'[classes]\nnames = {json.dumps(classes)}\n{more}\n[votes]\nfile = "votes.parquet"\n'
        f'[vectors]\nencoder = "{encoder}"\n[model]\n{model}\n',
        "utf-8",
    )
    return home


def drawn(
    n_rows: int, seed: int, *, n_classes: int = 2, dimension: int = 6, n_sources: int = 5
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Votes, vectors and classes of rows whose class is a direction, some vectors equal, one of zeros."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n_rows)
    vectors = 1.2 * np.eye(dimension)[y] + 0.6 * rng.normal(size=(n_rows, dimension))
    vectors[1::7] = vectors[0]
    names = np.arange(n_sources) % n_classes
    speaks = rng.random((n_rows, n_sources)) < np.where(y[:, None] == names, 0.35, 0.07)
    return np.where(speaks, names, -1).astype(np.int8), vectors.astype(np.float32), y


def agree(one: Any, two: Any, *, within: float = 1e-5) -> None:
    """Two tables of labels: the same rows and provenance, probabilities up to `within`.

    And every label whose two best classes are farther apart than that.
    """
    assert one.schema.remove_metadata() == two.schema.remove_metadata()
    names = [each for each in one.column_names if each.startswith("p_")]
    best = np.sort([one.column(each).to_numpy() for each in names], axis=0)
    sure = best[-1] - best[-2] > within
    for name in one.column_names:
        first, second = one.column(name).to_numpy(), two.column(name).to_numpy()
        if name == "probability" or name in names:
            assert np.abs(first - second).max() <= within, name
        elif name == "label":
            assert (first[sure] == second[sure]).all()
        else:
            assert one.column(name).equals(two.column(name)), name
