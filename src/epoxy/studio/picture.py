"""Where rows are on the map: principal components at once, then UMAP over our own neighbours.

The first picture is made in well under a second per ten thousand rows and is the same every time: the
sign of each axis is fixed. A background process makes the better one and the words of its regions
(`projecting`), from the neighbours the session found already; very many rows keep the first. It is kept
under a name made from the vectors, the settings and the versions, turned so that it lies on the first
picture as well as it can, and swapped in. Rows that came later are placed among their neighbours, and
old ones never move.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import json as msgjson
from msgspec.structs import replace

from ..numerics import unit_rows
from ..storage import read_arrays, write_arrays
from ..workspace import TRAIN
from . import projecting
from .replies import Picture, Region

if TYPE_CHECKING:
    from ..session import Session

log = logging.getLogger("epoxy.studio")
NEIGHBOURS, SEED, FORMAT = 15, 0, 4
SAMPLE, WORDS_SAMPLE = 20_000, 20_000
"""Rows the axes are found on, and rows whose words name regions: evenly spaced ones."""
MOST = 200_000
"""Rows that UMAP lays out at most."""


class Pictures:
    """The pictures of one session's rows; `changed` is called when a better one is there."""

    def __init__(self, session: Session, changed: Callable[[], None] = lambda: None) -> None:
        self._near = session.state.workspace.near
        self._changed = changed
        self._pool: Any = None
        self._closed = False
        self.told = Picture()
        self._placed = np.zeros((0, 2), dtype=np.float32)
        if self._near.spaces is not None:
            vectors = self._near.spaces[TRAIN].vectors
            vectors = unit_rows(vectors) if self._near.metric == "cosine" else vectors
            self._first = projecting.scaled(_components(vectors))
            self._placed = self._first[self._near.spaces[TRAIN].first]
            self.told = Picture("pca")

    def positions(self, session: Session) -> np.ndarray:
        """Where every row is now, train rows first; (n_rows, 2) float32 in [−1, 1]."""
        near = session.state.workspace.near
        if near.spaces is None or self._near.spaces is None:
            return np.zeros((session.n_rows, 2), dtype=np.float32)
        parts = []
        for at, space in enumerate(near.spaces):
            found = _among(near, at, self._placed)[space.node]
            rows = near.places[at] if near.places else None
            if rows is None:
                parts.append(found)
                continue
            whole = np.zeros((near.sizes[at], 2), dtype=np.float32)  # no direction: in the middle
            whole[rows] = found
            parts.append(whole)
        return np.concatenate(parts)

    # the better picture

    def start(self, texts: Sequence[str] | None, cache: Path | None) -> None:
        """Make the better picture in a process of its own, or read the one kept in `cache`."""
        near = self._near
        if near.spaces is None:
            self._tell(note="rows have no vectors, so there is no map")
        elif near.graphs is None or near.spaces[TRAIN].n_nodes <= NEIGHBOURS + 1:
            self._tell(note="too few rows for a better picture than this")
        elif near.spaces[TRAIN].n_nodes > MOST:
            self._tell(note=f"more than {MOST:,} rows keep this picture")
        else:
            self._tell(state="working", note="UMAP is being made")
            thread = threading.Thread(target=self._make, args=(texts, cache), daemon=True)
            thread.start()

    def close(self) -> None:
        """End the process, if it still runs."""
        self._closed = True
        if self._pool is not None:
            self._pool.shutdown(wait=False, kill_workers=True)

    def _tell(self, **fields: Any) -> None:
        self.told = replace(self.told, **fields)

    def _make(self, texts: Sequence[str] | None, cache: Path | None) -> None:
        from joblib.externals.loky import ProcessPoolExecutor  # type: ignore[import-untyped]

        start = time.monotonic()
        step = 1 if texts is None else max(1, len(texts) // WORDS_SAMPLE)
        words = None if texts is None else list(texts[::step])
        place = None if cache is None else cache / f"{self._fingerprint(words)}.npz"
        try:
            if place is not None and self._kept(place):
                return
            assert self._near.spaces is not None
            self._pool = ProcessPoolExecutor(1, initializer=projecting.begin)

            def regions(rows: np.ndarray) -> list[Region]:
                found: list[Region] = self._pool.submit(
                    projecting.regions, rows, words, step
                ).result()
                return found

            self._tell(regions=regions(self._first))
            self._changed()
            made = self._pool.submit(better, self._asked()).result()
            told = regions(made[self._near.spaces[TRAIN].node])
            if place is not None:
                said = np.frombuffer(msgjson.encode(told), dtype=np.uint8)
                write_arrays(place, {"positions": made, "regions": said})
            self._show(made, told, f"UMAP in {time.monotonic() - start:.0f} s")
        except Exception as error:
            if not self._closed:
                log.info("the better picture could not be made", exc_info=error)
                why = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
                self._tell(
                    state="failed", note=f"there is no UMAP ({why}); principal components stay"
                )
                self._changed()
        finally:
            self.close()

    def _asked(self) -> dict[str, Any]:
        """What the other process must know."""
        assert self._near.graphs is not None
        assert self._near.spaces is not None
        graph, space = self._near.graphs[TRAIN], self._near.spaces[TRAIN]
        lists = projecting.with_self_first(*graph.listed(), NEIGHBOURS + 1)
        return {"lists": lists, "start": self._first[space.first], "seed": SEED}

    def _kept(self, place: Path) -> bool:
        found = read_arrays(place, ("positions", "regions"))
        assert self._near.spaces is not None
        if found is None or found["positions"].shape != (self._near.spaces[TRAIN].n_nodes, 2):
            return False
        regions = msgjson.decode(found["regions"].tobytes(), type=list[Region])
        self._show(found["positions"], regions, "UMAP, kept from before")
        return True

    def _show(self, placed: np.ndarray, regions: list[Region], note: str) -> None:
        self._placed = placed
        self._tell(kind="umap", state="ready", regions=regions, note=note)
        self._changed()

    def _fingerprint(self, words: Sequence[str] | None) -> str:
        assert self._near.spaces is not None
        versions = [_version(name) for name in ("umap-learn", "numba", "numpy")]
        settings = [NEIGHBOURS, SEED, FORMAT, "", *versions]
        said = [self._near.spaces[TRAIN].fingerprint, *settings, *(words or ())]
        digest = hashlib.blake2b(json.dumps([str(each) for each in said]).encode(), digest_size=16)
        return f"umap-{digest.hexdigest()}"


better = projecting.better


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def _components(vectors: np.ndarray) -> np.ndarray:
    """The first two principal components; each axis points to where its largest loading is positive."""
    sample = vectors[:: max(1, len(vectors) // SAMPLE)].astype(np.float64)
    mean = sample.mean(axis=0)
    _, axes = np.linalg.eigh((sample - mean).T @ (sample - mean))
    axes = axes[:, ::-1][:, :2]
    axes = np.pad(axes, ((0, 0), (0, 2 - axes.shape[1])))
    signs = np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(2)])
    axes = axes * np.where(signs == 0, 1, signs)
    return np.asarray(vectors @ axes.astype(np.float32) - (mean @ axes).astype(np.float32))


def _among(near: Any, at: int, placed: np.ndarray) -> np.ndarray:
    """Where the nodes of a split are: train nodes that were placed, and others among those near them."""
    space, old = near.spaces[at], len(placed)
    if at == TRAIN and space.n_nodes == old:
        return placed
    if near.graphs is None:
        return np.zeros((space.n_nodes, 2), dtype=np.float32)
    fresh = np.arange(old if at == TRAIN else 0, space.n_nodes)
    lists, far = near.graphs[at].listed(4 * NEIGHBOURS, fresh)
    known = lists < old
    known &= known.cumsum(axis=1) <= NEIGHBOURS
    mean, _ = projecting.mean_of(placed, known, np.where(known, lists, 0), far)
    return np.concatenate([placed, mean]) if at == TRAIN else mean
