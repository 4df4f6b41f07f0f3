"""A fused model on disk: JSON and arrays, no pickle; what follows from the vectors is made anew."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..errors import StoreError
from ..persistence import State
from ..votes import Split, Votes
from . import experts
from .experts import head, majority, neighbours, reach, student
from .geometry import Geometry
from .pool import Pool

if TYPE_CHECKING:
    from .model import Fusion

__all__ = ["from_state", "to_state"]

_Model = TypeVar("_Model", bound="Fusion")

SPEAKERS: dict[str, type] = {
    "shares": majority.Shares,
    "graded": reach.Graded,
    "readout": head.Readout,
    "near": neighbours.Near,
    "taught": student.Taught,
}
EXPERTS: dict[str, type] = {
    each.__name__: each
    for each in (
        experts.Majority,
        experts.Reach,
        experts.Head,
        experts.Neighbours,
        experts.Pupil,
        experts.Echo,
    )
}


def to_state(model: Fusion) -> State:
    """Everything a fitted model is."""
    kinds = {cls: kind for kind, cls in SPEAKERS.items()}
    arrays: dict[str, np.ndarray] = {}
    speakers = []
    for name, speaker in model.speakers_.items():
        if type(speaker) not in kinds:
            raise StoreError(
                f"expert {name!r} cannot be saved; only the experts of epoxy.fusion can"
            )
        about: dict[str, Any] = {"name": name, "kind": kinds[type(speaker)]}
        for part in fields(speaker):  # type: ignore[arg-type]
            value = getattr(speaker, part.name)
            if isinstance(value, np.ndarray):
                arrays[f"{name}/{part.name}"] = value
            else:
                about[part.name] = value
        speakers.append(about)
    splits = {"train": model.train_} | ({} if model.dev_ is None else {"dev": model.dev_})
    values: dict[str, Any] = {
        "speakers": speakers,
        "parameters": _parameters(model),
        "splits": {name: _describe(split, name, arrays) for name, split in splits.items()},
        "has_geometry": model.geometry_ is not None,
        "threshold": model.threshold_,
    }
    arrays |= {f"pool/{key}": value for key, value in asdict(model.pool_).items()}
    if model.dev_proba_ is not None:
        arrays["dev_proba"] = model.dev_proba_
    return State(values, arrays)


def from_state(cls: type[_Model], state: State) -> _Model:
    """The same model: its geometry follows from the train vectors, which are stored."""
    values, arrays = state.values, state.arrays
    given = dict(values["parameters"])
    if given["experts"] is not None:
        given["experts"] = [EXPERTS[kind](**about) for kind, about in given["experts"]]
    model = cls(**given)
    model.train_ = _split(values["splits"]["train"], "train", arrays)
    dev = values["splits"].get("dev")
    model.dev_ = None if dev is None else _split(dev, "dev", arrays)
    vectors = model.train_.vectors
    usable = vectors is not None and values["has_geometry"]
    model.geometry_ = Geometry.over(vectors, model.seed) if usable and vectors is not None else None
    model.speakers_ = {about["name"]: _speaker(about, arrays) for about in values["speakers"]}
    model.pool_ = Pool(arrays["pool/weights"], arrays["pool/bias"], arrays["pool/prior"])
    model.threshold_ = values["threshold"]
    model.dev_proba_ = arrays.get("dev_proba")
    return model


def _parameters(model: Fusion) -> dict[str, Any]:
    found: dict[str, Any] = model.get_params(deep=False)
    if model.experts is not None:
        found["experts"] = [(type(each).__name__, asdict(each)) for each in model.experts]  # type: ignore[call-overload]
    balance = model.class_balance
    if balance is not None and not isinstance(balance, dict):
        found["class_balance"] = np.asarray(balance, dtype=float).tolist()
    return found


def _describe(split: Split, name: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    arrays[f"{name}/votes"] = np.asarray(split.votes.matrix)
    ids = np.empty(0) if split.ids is None else split.ids
    arrays[f"{name}/ids"] = ids.astype(str) if ids.dtype == object else ids
    if split.vectors is not None:
        arrays[f"{name}/vectors"] = split.vectors
    if split.y is not None and name == "dev":  # train labels are never read, so never kept
        arrays[f"{name}/y"] = split.y
    return {"sources": list(split.votes.sources), "classes": list(split.classes)}


def _split(about: dict[str, Any], name: str, arrays: dict[str, np.ndarray]) -> Split:
    votes = Votes(arrays[f"{name}/votes"], about["sources"], about["classes"])
    vectors, y = arrays.get(f"{name}/vectors"), arrays.get(f"{name}/y")
    return Split(votes, vectors, y, arrays[f"{name}/ids"])


def _speaker(about: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    made = SPEAKERS[about["kind"]]
    parts = {}
    for part in fields(made):
        key = f"{about['name']}/{part.name}"
        parts[part.name] = arrays[key] if key in arrays else about[part.name]
    return made(**parts)
