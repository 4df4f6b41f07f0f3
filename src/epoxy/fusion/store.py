"""A fused model on disk: JSON and arrays, no pickle; what follows from the vectors is made anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..errors import StoreError
from ..persistence import State
from ..votes import Split, Votes
from .decision import Rule
from .features import View
from .fitted import Corrected, Fitted, Readout
from .labelled import Labelled
from .sequence import LabelChain

if TYPE_CHECKING:
    from .model import Fusion

__all__ = ["from_state", "to_state"]

_Model = TypeVar("_Model", bound="Fusion")
CHAIN = ("share", "pairs", "given")


def to_state(model: Fusion) -> State:
    """Everything a fitted model is."""
    fitted = model.fitted_
    arrays: dict[str, np.ndarray] = {
        "prior": fitted.prior,
        "columns": fitted.columns,
        "radii": fitted.radii,
        "edges": fitted.edges,
        "vote_mean": fitted.vote_mean,
    }
    if fitted.view is not None:
        names = ("centre", "scale", "axes", "waves", "phase", "middle")
        arrays |= {f"view/{name}": getattr(fitted.view, name) for name in names}
    for name, readout in (("pupil", fitted.pupil), ("echo", fitted.echo)):
        if readout is not None:
            arrays |= {f"{name}/weights": readout.weights, f"{name}/base": readout.base}
    values: dict[str, Any] = {
        "parameters": _parameters(model),
        "apart": fitted.view is not None and fitted.view.apart,
        "rule": {"positive": fitted.rule.positive, "threshold": fitted.rule.threshold},
        "splits": {},
    }
    if fitted.rule.divisors is not None:
        arrays["rule/divisors"] = fitted.rule.divisors
    if fitted.corrected is not None:
        values["places"] = _keep_corrected(fitted.corrected, arrays)
        values["neighbours"] = fitted.corrected.neighbours
    if model.chain_ is not None:
        values["chain"] = _keep_chain(model.chain_, arrays)
    splits = {"train": model.train_} | ({} if model.hand_ is None else {"hand": model.hand_})
    for name, split in splits.items():
        values["splits"][name] = _describe(split, name, arrays)
    return State(values, arrays)


def _keep_chain(chain: LabelChain, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    for name in CHAIN:
        arrays[f"chain/{name}"] = getattr(chain, name)
    return {"trust": chain.trust, "noise": chain.noise, "counted": chain.counted}


def _keep_corrected(taught: Corrected, arrays: dict[str, np.ndarray]) -> list[list[int]]:
    for name in ("y", "dual", "weights", "bias", "of_votes"):
        arrays[f"corrected/{name}"] = getattr(taught, name)
    if taught.of_features is not None:
        arrays["corrected/of_features"] = taught.of_features
    return [] if taught.labelled is None else [list(place) for place in taught.labelled.places]


def from_state(cls: type[_Model], state: State) -> _Model:
    """The same model; features of the labelled rows follow from their vectors, which are stored."""
    values, arrays = state.values, state.arrays
    if "rule" not in values:
        raise StoreError(
            "this model was saved by an earlier version whose Fusion had other experts; "
            "fit it again on the same splits and save it"
        )
    model = cls(**values["parameters"])
    model.train_ = _split(values["splits"]["train"], "train", arrays)
    hand = values["splits"].get("hand")
    model.hand_ = None if hand is None else _split(hand, "hand", arrays)
    model.held_out_ = None
    if "chain" in values:
        kept: dict[str, Any] = {name: arrays[f"chain/{name}"] for name in CHAIN}
        model.chain_ = LabelChain(**kept, **values["chain"])
    view = None
    if "view/centre" in arrays:
        names = ("centre", "scale", "axes", "waves", "phase", "middle")
        parts = {name: arrays[f"view/{name}"] for name in names}
        view = View(**parts, apart=bool(values["apart"]))
    rule = Rule(**values["rule"], divisors=arrays.get("rule/divisors"))
    model.fitted_ = Fitted(
        arrays["prior"],
        arrays["columns"],
        arrays["radii"],
        arrays["edges"],
        view,
        _readout("pupil", arrays),
        _readout("echo", arrays),
        arrays["vote_mean"],
        _corrected(model, view, values, arrays),
        rule,
    )
    return model


def _readout(name: str, arrays: dict[str, np.ndarray]) -> Readout | None:
    if f"{name}/weights" not in arrays:
        return None
    return Readout(arrays[f"{name}/weights"], arrays[f"{name}/base"])


def _corrected(
    model: Fusion, view: View | None, values: dict[str, Any], arrays: dict[str, np.ndarray]
) -> Corrected | None:
    places, asks = values.get("places"), values.get("neighbours", False)
    if places is None:
        return None
    labelled = None
    hand = model.hand_
    if view is not None and hand is not None and hand.vectors is not None:
        named = [(int(split), int(row)) for split, row in places]
        order = sorted(range(len(named)), key=named.__getitem__)
        rank = np.argsort(order)
        vectors = hand.vectors[rank]
        labelled = Labelled.of(
            named, view.of(vectors), vectors, np.empty((0, len(view.middle)), np.float32)
        )
    return Corrected(
        labelled,
        arrays["corrected/y"],
        arrays["corrected/dual"],
        arrays["corrected/weights"],
        arrays["corrected/bias"],
        arrays.get("corrected/of_features"),
        arrays["corrected/of_votes"],
        bool(asks),
    )


def _parameters(model: Fusion) -> dict[str, Any]:
    found: dict[str, Any] = model.get_params(deep=False)
    balance, radius = model.class_balance, model.radius
    if balance is not None and not isinstance(balance, dict):
        found["class_balance"] = np.asarray(balance, dtype=float).tolist()
    if isinstance(radius, np.ndarray):
        found["radius"] = radius.tolist()
    return found


def _describe(split: Split, name: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    arrays[f"{name}/votes"] = np.asarray(split.votes.matrix)
    ids = np.empty(0) if split.ids is None else split.ids
    arrays[f"{name}/ids"] = ids.astype(str) if ids.dtype == object else ids
    if split.vectors is not None:
        arrays[f"{name}/vectors"] = split.vectors
    if split.votes.sequences is not None:
        named = split.votes.sequences
        arrays[f"{name}/sequences"] = named.astype(str) if named.dtype == object else named
    if name == "hand":  # train labels are never read, so never kept
        arrays[f"{name}/y"] = split.truth
    return {"sources": list(split.votes.sources), "classes": list(split.classes)}


def _split(about: dict[str, Any], name: str, arrays: dict[str, np.ndarray]) -> Split:
    sequences = arrays.get(f"{name}/sequences")
    votes = Votes(arrays[f"{name}/votes"], about["sources"], about["classes"], sequences=sequences)
    vectors, y = arrays.get(f"{name}/vectors"), arrays.get(f"{name}/y")
    return Split(votes, vectors, y, arrays[f"{name}/ids"])
