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

WRONG = (
    None,
    -1,
    0,
    7,
    1e308,
    float("nan"),
    "x",
    "predict_proba",
    True,
    [],
    [[]],
    {},
    [None],
    10**40,
)


def forge(folder: Path, rng: np.random.Generator) -> str:
    """Change one value or one array of a model, with every checksum in order; says what."""
    about, arrays = read(folder)
    if rng.random() < 0.5 and arrays:
        name = str(rng.choice(list(arrays)))
        said = forge_array(arrays, name, rng)
    else:
        said = forge_value(about, rng)
    write(folder, about, arrays)
    return said


def forge_array(arrays: dict[str, np.ndarray], name: str, rng: np.random.Generator) -> str:
    array = arrays[name]
    kinds: dict[str, Callable[[], np.ndarray]] = {
        "NaN": lambda: np.full(array.shape, np.nan),
        "infinite": lambda: np.full(array.shape, np.inf),
        "negative": lambda: np.full(array.shape, -5.0 if array.dtype.kind == "f" else -5),
        "huge": lambda: np.full(array.shape, 1e300 if array.dtype.kind == "f" else 10**9),
        "half": lambda: array[: len(array) // 2],
        "more": lambda: np.concatenate([array, array]),
        "flat": lambda: array.ravel(),
        "deeper": lambda: array[None],
        "empty": lambda: array[:0],
        "turned": lambda: array.T,
        "text": lambda: np.full(array.shape, "x"),
        "complex": lambda: np.full(array.shape, 1j),
        "whole": lambda: np.zeros(array.shape, dtype=np.int64),
        "half floats": lambda: np.zeros(array.shape, np.half),
        "long floats": lambda: np.zeros(array.shape, np.longdouble),
        "the other way round": lambda: array.astype(array.dtype.newbyteorder()),
        "zeros": lambda: np.zeros_like(array),
        "noise": lambda: rng.normal(size=array.shape),
    }
    kind = str(rng.choice([*kinds, "gone", "renamed"]))
    if kind in kinds:
        arrays[name] = kinds[kind]()
    else:
        taken = arrays.pop(name)
        if kind == "renamed":
            arrays[str(rng.choice(["predict_proba", "__class__", "fit", "../x", "x" * 500]))] = (
                taken
            )
    return f"{kind} {name}"


def forge_value(about: dict[str, Any], rng: np.random.Generator) -> str:
    """Replace, remove or add one value, at any depth."""
    place, path = about["values"], ["values"]
    if rng.random() < 0.1:
        place, path = about, []
    while isinstance(place, dict | list) and place:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = keys[int(rng.integers(len(keys)))]
        path.append(str(key))
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.4:
            wrong = WRONG[int(rng.integers(len(WRONG)))]
            if isinstance(place, dict) and rng.random() < 0.2:
                del place[key]
            elif isinstance(place, dict) and rng.random() < 0.1:
                place["__dict__"] = wrong
            else:
                place[key] = wrong
            return f"{'.'.join(path)} = {wrong!r}"
        place = inner
    return "nothing"


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
    """Put something in the place of a model's file that is not a file, or not that file."""
    target = folder / "model.npz"
    if kind.startswith("bomb"):
        bomb(target, kind)
        return
    arrays = read(folder)[1]
    target.unlink()
    if kind == "pipe":
        os.mkfifo(target)
    elif kind == "endless":
        target.symlink_to("/dev/zero")
    elif kind == "loop":
        target.symlink_to(target)
    elif kind == "folder":
        target.mkdir()
    elif kind == "empty":
        target.touch()
    elif kind.endswith("json"):
        with target.open("wb") as file:
            storage.pack(file, arrays, {"model.json": ODD_JSON[kind]})


ODD_JSON = {
    "deep json": b"[" * 200_000,
    "long number json": b'{"format": ' + b"9" * 10_000 + b"}",
    "list json": b"[1, 2]",
    "not text json": b"\xff\xfe\x00",
    "empty json": b"",
}
ODD = (
    *("pipe", "endless", "loop", "folder", "empty", "gone", *ODD_JSON),
    *("bomb", "bomb of overlaps", "bomb of a header"),
)


def bomb(place: Path, kind: str) -> None:
    """Arrays that say they are, or would become, a thousand times as large as their file."""
    about, arrays = read(place.parent)
    header = io.BytesIO()
    claimed = (10**8,) if kind == "bomb of a header" else (12_500_000,)
    about_array = {"descr": "<f8", "fortran_order": False, "shape": claimed}
    np.lib.format.write_array_header_1_0(header, about_array)
    how = zipfile.ZIP_DEFLATED if kind == "bomb" else zipfile.ZIP_STORED
    times = 50 if kind == "bomb" else 1
    with zipfile.ZipFile(place, "w", how) as archive:
        archive.writestr("model.json", json.dumps(about))
        for at, name in enumerate(arrays):
            if at == 0 or kind != "bomb":
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    member.write(header.getvalue())
                    for _ in range(times):
                        member.write(bytes(2_000_000))
            if kind == "bomb of overlaps" and at:
                archive.filelist[-1].header_offset = archive.filelist[1].header_offset


def hostile_models(home: Path, count: int, seed: int = 0) -> Tally:
    """Models made on purpose: every answer is a distribution, or there is a sentence."""
    tally, rng, models = Tally(), np.random.default_rng(seed), saved(home / "whole")
    for at in range(count):
        name = list(models)[at % len(models)]
        folder, ask = models[name]
        copy = fresh_copy(folder, home / "copy")
        if at % 4 == 3:
            said = ODD[at // 4 % len(ODD)]
            odd_files(copy, said)
        else:
            said = forge(copy, rng)
        tally.check(
            f"{name}, {at}: {said}",
            lambda: ask(epoxy.load(copy)),  # noqa: B023 — asked at once
            is_distribution,
        )
    return tally
