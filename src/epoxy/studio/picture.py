"""Where rows are on the map: principal components at once, then UMAP over our own neighbours.

The first picture is made in well under a second per ten thousand rows and is the same every time: the
sign of each axis is fixed. A background process makes the better one and the words of its regions
(`projecting`), from the neighbours the session found already; of very many rows it lays out a part, and
the others stand among those near them. It is kept under a name made from the vectors, the settings and
the versions, turned so that it lies on the first picture as well as it can, and swapped in. Rows that came
later are placed among their neighbours, and old ones never move.
"""

from __future__ import annotations

import hashlib
import json
import logging
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np

from ..neighbors import store as arrays
from ..workspace import TRAIN
from .projecting import scaled, with_self_first
from .replies import Picture, Region

if TYPE_CHECKING:
    from ..session import Session

log = logging.getLogger("epoxy.studio")
NEIGHBOURS, SEED, FORMAT = 15, 0, 2
PROGRAM = "import sys; from epoxy.studio.projecting import main; main(sys.argv[1])"
SAMPLE, WORDS_SAMPLE = 20_000, 20_000
"""Rows the axes are found on, and rows whose words name regions: evenly spaced ones."""
WHOLE, LAID_OUT = 200_000, 100_000
"""Rows up to which UMAP lays out all; of more it lays out so many, and others stand among those near them."""


class Pictures:
    """The pictures of one session's rows; `changed` is called when a better one is there."""

    def __init__(self, session: Session, changed: Callable[[], None] = lambda: None) -> None:
        self._near = session.state.workspace.near
        self._changed = changed
        self._process: subprocess.Popen[str] | None = None
        self._closed = False
        self._regions: list[dict[str, Any]] = []
        self._note = ""
        self.kind: Literal["pca", "umap", "none"] = "none"
        self.state: Literal["ready", "working", "failed", "off"] = "off"
        self._first = self._umap = np.zeros((0, 2), dtype=np.float32)
        if self._near.spaces is not None:
            self.kind, self._first = "pca", scaled(_components(self._vectors()))

    def _vectors(self) -> np.ndarray:
        assert self._near.spaces is not None
        vectors = self._near.spaces[TRAIN].vectors
        if self._near.metric != "cosine":
            return vectors
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.where(norms > 0, norms, 1)

    @property
    def told(self) -> Picture:
        """What pages are told of it."""
        regions = msgspec.convert(self._regions, list[Region])
        return Picture(self.kind, self.state, self._note, self._of.strip(" ,"), regions)

    def positions(self, session: Session) -> np.ndarray:
        """Where every row is now, train rows first; (n_rows, 2) float32 in [−1, 1]."""
        near = session.state.workspace.near
        if near.spaces is None or self._near.spaces is None:
            return np.zeros((session.n_rows, 2), dtype=np.float32)
        placed = self._umap if self.kind == "umap" else self._first
        old = self._near.spaces[TRAIN].n_nodes
        if self.kind == "umap":
            nodes = placed
        else:
            nodes = placed[self._near.spaces[TRAIN].first]
        parts = []
        for at, space in enumerate(near.spaces):
            found = _among(near, at, nodes, old)[space.node]
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
            self._note = "rows have no vectors, so there is no map"
            return
        if near.graphs is None or near.spaces[TRAIN].n_nodes <= NEIGHBOURS + 1:
            self._note = "too few rows for a better picture than this"
            return
        self.state, self._note = "working", f"UMAP{self._of} is being made"
        arguments = (texts, cache)
        threading.Thread(
            target=self._make, args=arguments, name="epoxy-picture", daemon=True
        ).start()

    @property
    def _sample(self) -> np.ndarray | None:
        """The nodes that are laid out, evenly spaced; None for all."""
        assert self._near.spaces is not None
        n_nodes = self._near.spaces[TRAIN].n_nodes
        return np.arange(0, n_nodes, -(-n_nodes // LAID_OUT)) if n_nodes > WHOLE else None

    @property
    def _of(self) -> str:
        """Of how many rows UMAP is, where it is not of all."""
        sample = None if self._near.spaces is None else self._sample
        return "" if sample is None else f" of {len(sample):,} rows, others placed among them,"

    def close(self) -> None:
        """End the process, if it still runs."""
        self._closed = True
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(5)

    def _make(self, texts: Sequence[str] | None, cache: Path | None) -> None:
        start = time.monotonic()
        try:
            place = None if cache is None else cache / f"{self._fingerprint(texts)}.npz"
            if place is not None and self._kept(place):
                return
            with tempfile.TemporaryDirectory(prefix="epoxy-picture-") as folder:
                self._ask(Path(folder), texts)
                for line in self._answers(Path(folder)):
                    self._take(line, Path(folder), time.monotonic() - start, place)
        except Exception as error:  # the first picture stays, and the studio with it
            if not self._closed:
                log.exception("the better picture could not be made")
                self._failed(f"{type(error).__name__}: {error}")

    def _ask(self, folder: Path, texts: Sequence[str] | None) -> None:
        assert self._near.graphs is not None
        assert self._near.spaces is not None
        graph, space = self._near.graphs[TRAIN], self._near.spaces[TRAIN]
        some, sample = {}, self._sample
        if sample is not None:
            vectors = self._vectors()[space.first[sample]]
            some = {"sample": sample, "vectors": vectors, "metric": self._near.metric}
        neighbour, distance = with_self_first(*graph.listed(), NEIGHBOURS + 1)
        np.savez(
            folder / "in.npz",
            neighbour=neighbour,
            distance=distance.astype(np.float32),
            start=self._first[space.first],
            seed=SEED,
            rows=self._first,
            node=space.node,
            **some,
        )
        if texts is not None:
            step = max(1, len(texts) // WORDS_SAMPLE)
            told = {"step": step, "texts": list(texts[::step])}
            (folder / "texts.json").write_text(json.dumps(told), "utf-8")

    def _answers(self, folder: Path) -> Any:
        command = [sys.executable, "-c", PROGRAM, str(folder)]
        with (folder / "said").open("w+") as said:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=said, stdin=subprocess.PIPE, text=True
            )
            if self._closed:
                self._process.kill()
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            with self._process.stdin, self._process.stdout as lines:
                for line in lines:
                    yield json.loads(line)
            if self._process.wait() and not self._closed:
                said.seek(0)
                why = said.read().strip().splitlines()[-1:] or ["its process ended"]
                self._failed(why[0])

    def _take(self, told: dict[str, Any], folder: Path, seconds: float, place: Path | None) -> None:
        """A line the process wrote: words of regions, the picture, or why there is none."""
        if "failed" in told:
            self._failed(told["failed"])
            return
        if told["kind"] == "umap":
            self._umap = np.load(folder / "umap.npy")
            self.kind, self.state = "umap", "ready"
            self._note = f"UMAP in {seconds:.0f} s"
            if place is not None:
                words = np.frombuffer(json.dumps(told["regions"]).encode(), dtype=np.uint8)
                arrays.save(place, {"positions": self._umap, "regions": words})
        self._regions = told["regions"]
        self._changed()

    def _kept(self, place: Path) -> bool:
        found = arrays.load(place, ("positions", "regions"))
        assert self._near.spaces is not None
        if found is None or found["positions"].shape != (self._near.spaces[TRAIN].n_nodes, 2):
            return False
        self._umap, self._regions = found["positions"], json.loads(found["regions"].tobytes())
        self.kind, self.state, self._note = "umap", "ready", "UMAP, kept from before"
        self._changed()
        return True

    def _failed(self, why: str) -> None:
        self.state = "failed"
        self._note = f"there is no UMAP ({why}); principal components stay"
        self._changed()

    def _fingerprint(self, texts: Sequence[str] | None) -> str:
        assert self._near.spaces is not None
        digest = hashlib.blake2b(digest_size=16)
        versions = [_version(name) for name in ("umap-learn", "numba", "numpy")]
        versions += [self._of] * bool(self._of)
        for each in (self._near.spaces[TRAIN].fingerprint, NEIGHBOURS, SEED, FORMAT, *versions):
            digest.update(f"{each}\n".encode())
        for text in () if texts is None else texts[:: max(1, len(texts) // WORDS_SAMPLE)]:
            digest.update(text.encode("utf-8", "replace") + b"\n")
        return f"umap-{digest.hexdigest()}"


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


def _among(near: Any, at: int, nodes: np.ndarray, old: int) -> np.ndarray:
    """Where the nodes of a split are: train nodes that were placed, and others among those near them.

    A node stands at the mean of its nearest placed nodes, nearer ones counting more.
    """
    space = near.spaces[at]
    if at == TRAIN and space.n_nodes == old:
        return nodes
    if near.graphs is None:
        return np.zeros((space.n_nodes, 2), dtype=np.float32)
    graph = near.graphs[at]
    fresh = np.arange(old if at == TRAIN else 0, space.n_nodes)
    lists, far = graph.listed(4 * NEIGHBOURS, fresh)
    known = lists < old
    rank = known.cumsum(axis=1)
    used = known & (rank <= NEIGHBOURS)
    scale = np.maximum(np.where(used, far, 0).max(axis=1, keepdims=True), 1e-12)
    weight = np.where(used, 1 / (far / scale + 1e-3), 0)
    total = np.maximum(weight.sum(axis=1, keepdims=True), 1e-12)
    placed = nodes[np.where(used, lists, 0)]
    mean = ((weight / total)[:, :, None] * placed).sum(axis=1).astype(np.float32)
    return np.concatenate([nodes, mean]) if at == TRAIN else mean
