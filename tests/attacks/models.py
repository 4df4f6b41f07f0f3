"""Saved models that somebody damaged, or made on purpose: refused in words, or as good as the model."""

from __future__ import annotations

import io
import json
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import epoxy
from attacks.tally import Tally
from epoxy import storage
from epoxy.heads import LinearHead, NearestNeighbors
from epoxy.sequences import Chain, TaskGraph, Tasks

Ask = Callable[[Any], np.ndarray]


def rows(n_rows: int = 60, seed: int = 0) -> epoxy.Split:
    """A few rows of two classes with votes, vectors and truth."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_rows) // 3 % 2
    matrix = np.where(rng.random((n_rows, 4)) < 0.8, y[:, None], 1 - y[:, None])
    matrix = np.where(rng.random((n_rows, 4)) < 0.7, matrix, -1)
    vectors = rng.normal(size=(n_rows, 3)) + 2 * y[:, None]
    return epoxy.Split(epoxy.Votes(matrix, classes=["ham", "spam"]), vectors, y)


def saved(home: Path) -> dict[str, tuple[Path, Ask]]:
    """Every kind of model that can be saved, and how to ask it."""
    train, dev = rows(), rows(30, seed=1)
    votes, in_order = (
        train.votes,
        epoxy.Votes(
            train.votes.matrix, classes=train.classes, sequences=np.repeat(np.arange(20), 3)
        ),
    )
    ordered = epoxy.Split(in_order, train.vectors)
    graph = TaskGraph(3, [(0, 1), (1, 2)])
    made: dict[str, tuple[Any, Ask]] = {
        "epoxy": (epoxy.Epoxy(radius=0.2).fit(train), lambda m: m.predict_proba(dev)),
        "epoxy chain": (epoxy.Epoxy(Chain(), 0.2).fit(ordered), lambda m: m.predict_proba(ordered)),
        "fusion": (epoxy.Fusion().fit(train, dev), lambda m: m.predict_proba(dev)),
        "fusion bare": (
            epoxy.Fusion().fit(epoxy.Split(votes)),
            lambda m: m.predict_proba(epoxy.Split(dev.votes)),
        ),
        "fusion chain": (epoxy.Fusion().fit(ordered, dev), lambda m: m.predict_proba(ordered)),
        "triplet": (epoxy.Triplet().fit(votes), lambda m: m.predict_proba(votes)),
        "majority": (epoxy.MajorityVote().fit(votes), lambda m: m.predict_proba(votes)),
        "dawid-skene": (epoxy.DawidSkene().fit(votes), lambda m: m.predict_proba(votes)),
        "chain": (Chain().fit(in_order), lambda m: m.predict_proba(in_order)),
        "tasks": (Tasks(graph).fit(votes), lambda m: m.predict_proba(votes)),
        "linear": (
            LinearHead().fit(train.vectors, train.y),
            lambda m: m.predict_proba(dev.vectors),
        ),
        "nearest": (
            NearestNeighbors(3).fit(train.vectors, train.y),
            lambda m: m.predict_proba(dev.vectors),
        ),
    }
    return {name: (storage.save(model, home / name), ask) for name, (model, ask) in made.items()}


def is_distribution(proba: np.ndarray) -> bool:
    """Whether every row is finite and sums to one."""
    return bool(
        np.isfinite(proba).all() and (proba >= 0).all() and np.allclose(proba.sum(axis=1), 1)
    )


def flip(path: Path, rng: np.random.Generator) -> None:
    """Change a byte, cut the file short, or append to it."""
    data = bytearray(path.read_bytes())
    kind = rng.choice(["bit", "byte", "cut", "zeros", "more"], p=[0.4, 0.2, 0.2, 0.1, 0.1])
    at = int(rng.integers(max(1, len(data))))
    if kind == "cut" or not data:
        data = data[:at]
    elif kind == "bit":
        data[at] ^= 1 << int(rng.integers(8))
    elif kind == "byte":
        data[at] = int(rng.integers(256))
    elif kind == "zeros":
        data[at : at + 16] = bytes(len(data[at : at + 16]))
    else:
        data += rng.bytes(8)
    path.write_bytes(data)


def flip_models(home: Path, count: int, seed: int = 0) -> Tally:
    """Flip every file of every kind of model: the same answers, or a sentence."""
    tally, rng, models = Tally(), np.random.default_rng(seed), saved(home / "whole")
    expected = {name: ask(epoxy.load(folder)) for name, (folder, ask) in models.items()}
    for at in range(count):
        name = list(models)[at % len(models)]
        folder, ask = models[name]
        copy = fresh_copy(folder, home / "copy")
        file = sorted(copy.iterdir())[int(rng.integers(len(list(copy.iterdir()))))]
        flip(file, rng)
        tally.check(
            f"{name}, flip {at} of {file.name}",
            lambda: ask(epoxy.load(copy)),  # noqa: B023 — asked at once
            lambda found: np.array_equal(found, expected[name]),  # noqa: B023
        )
    return tally


def fresh_copy(folder: Path, copy: Path) -> Path:
    """The folder again, in the place of an earlier copy."""
    shutil.rmtree(copy, ignore_errors=True)
    return Path(shutil.copytree(folder, copy))


# made on purpose


def read(folder: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What a saved model says it is, and its arrays."""
    with np.load(folder / "model.npz", allow_pickle=False) as stored:
        parts = {name: stored[name] for name in stored.files}
    return json.loads(parts.pop("model.json")), parts


def write(folder: Path, about: Any, arrays: dict[str, np.ndarray]) -> None:
    """Write a model with every checksum in order."""
    with (folder / "model.npz").open("wb") as file:
        storage.pack(file, arrays, {"model.json": json.dumps(about).encode()})


def odd_files(folder: Path, kind: str) -> None:
    """Put something in the place of a model's file that is not a file, or would become far too large."""
    target = folder / "model.npz"
    if kind == "bomb":
        bomb(target)
        return
    target.unlink()
    if kind == "pipe":
        os.mkfifo(target)
    else:
        target.symlink_to("/dev/zero")


def bomb(place: Path) -> None:
    """Arrays that would become a thousand times as large as their file."""
    about, arrays = read(place.parent)
    header = io.BytesIO()
    about_array = {"descr": "<f8", "fortran_order": False, "shape": (12_500_000,)}
    np.lib.format.write_array_header_1_0(header, about_array)
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.json", json.dumps(about))
        with archive.open(f"{next(iter(arrays))}.npy", "w", force_zip64=True) as member:
            member.write(header.getvalue())
            for _ in range(50):
                member.write(bytes(2_000_000))
