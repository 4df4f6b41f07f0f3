"""What the speed benchmark measures of others; run by `speed.py` with the Python that has them.

    python speed_reference.py TASK FOLDER

Needs numpy, and whichever of faiss, torch, flyingsquid and snorkel a task is about. Written from
the published descriptions of the reference implementation: one flat index per source over the rows
it votes on, searched by the rows it abstains on; or all similarities at once, and a copy of
the (abstaining rows × voting rows) part for each source.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def calibrate(vectors: np.ndarray, votes: np.ndarray) -> dict[str, Any]:
    """A short search, to choose the BLAS kernels faiss runs best with."""
    import faiss

    sample = np.ascontiguousarray(np.resize(unit(vectors[:4096]), (4096, vectors.shape[1])))
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(sample)
    took = []
    for _ in range(4):
        start = time.perf_counter()
        index.search(sample, 1)
        took.append(time.perf_counter() - start)
    return {"gflops": 2e-9 * 4096**2 * vectors.shape[1] / min(took)}


def faiss_cold(vectors: np.ndarray, votes: np.ndarray) -> dict[str, Any]:
    """Build each source's index, search its abstaining rows, extend."""
    before = resident_mb()
    took = []
    for _ in range(3 if len(vectors) < 50_000 else 1):
        start = time.perf_counter()
        prepared = unit(vectors)
        total = sum(faiss_source(prepared, votes[:, each])[1] for each in range(votes.shape[1]))
        took.append(time.perf_counter() - start)
    return {"seconds": min(took), "extra_mb": peak_mb() - before, "checksum": total}


def faiss_source(prepared: np.ndarray, column: np.ndarray) -> tuple[np.ndarray, float]:
    import faiss

    voting, silent = np.flatnonzero(column >= 0), np.flatnonzero(column < 0)
    if not len(voting) or not len(silent):
        return column, 0.0
    index = faiss.IndexFlatIP(prepared.shape[1])
    index.add(prepared[voting])
    similarity, nearest = index.search(prepared[silent], 1)
    extended = column.copy()
    extended[silent] = np.where(similarity[:, 0] > 0.5, column[voting[nearest[:, 0]]], -1)
    return extended, float((1 - similarity).sum())


def torch_cold(vectors: np.ndarray, votes: np.ndarray) -> dict[str, Any]:
    """All similarities, then each source's part of them, kept for later radii."""
    import torch

    before = resident_mb()
    start = time.perf_counter()
    prepared = torch.nn.functional.normalize(torch.from_numpy(vectors), dim=1)
    similarity = prepared @ prepared.T
    parts, total = [], 0.0
    for column in torch.from_numpy(votes).T:
        rows, columns = torch.nonzero(column < 0)[:, 0], torch.nonzero(column >= 0)[:, 0]
        if not len(columns) or not len(rows):
            continue
        part = similarity[rows][:, columns]
        parts.append(part)
        total += float((1 - part.max(dim=1).values).sum())
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "extra_mb": peak_mb() - before, "checksum": total}


def flyingsquid(vectors: np.ndarray, votes: np.ndarray) -> dict[str, Any]:
    """Fit and predict; sources that never vote are left out, it cannot take them."""
    from flyingsquid.label_model import LabelModel

    signed = np.where(votes < 0, 0, 2 * (votes % 2) - 1).astype(np.int64)
    signed = signed[:, (signed != 0).any(axis=0)]
    start = time.perf_counter()
    model = LabelModel(signed.shape[1])
    model.fit(signed, class_balance=np.array([0.5, 0.5]), solve_method="triplet_median")
    fitted = time.perf_counter()
    model.predict_proba_marginalized(signed)
    return {"fit_seconds": fitted - start, "predict_seconds": time.perf_counter() - fitted}


def snorkel(vectors: np.ndarray, votes: np.ndarray) -> dict[str, Any]:
    """100 epochs of its label model, and predict."""
    from snorkel.labeling.model import LabelModel

    start = time.perf_counter()
    model = LabelModel(cardinality=2, verbose=False)
    model.fit(votes % 2 * (votes >= 0) - (votes < 0), n_epochs=100, seed=0, progress_bar=False)
    fitted = time.perf_counter()
    model.predict_proba(votes % 2 * (votes >= 0) - (votes < 0))
    return {"fit_seconds": fitted - start, "predict_seconds": time.perf_counter() - fitted}


def edit(vectors: np.ndarray, votes: np.ndarray) -> dict[str, Any]:
    """One source's index and search, everything else as it was; the label model comes on top."""
    prepared = unit(vectors)
    sources = [each for each in range(votes.shape[1]) if (votes[:, each] >= 0).any()]
    took = []
    for source in sources[: 10 if len(vectors) < 50_000 else 2]:
        start = time.perf_counter()
        faiss_source(prepared, votes[:, source])
        took.append(time.perf_counter() - start)
    return {"search_seconds": float(np.median(took)), "n": len(took)}


TASKS = {
    "calibrate": calibrate,
    "faiss_cold": faiss_cold,
    "torch_cold": torch_cold,
    "flyingsquid": flyingsquid,
    "snorkel": snorkel,
    "edit": edit,
}


def main() -> None:
    task, folder = sys.argv[1:]
    vectors = np.load(Path(folder) / "vectors.npy")
    votes = np.load(Path(folder) / "votes.npy")
    try:
        print(json.dumps(TASKS[task](vectors, votes)))
    except ImportError as missing:
        print(json.dumps({"missing": str(missing)}))


if __name__ == "__main__":
    main()
