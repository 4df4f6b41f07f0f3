"""A fused model on disk: JSON and arrays, no pickle; what follows from the vectors is made anew."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..errors import StoreError
from ..storage import Array, State
from ..votes import Split, Votes
from .balance import Balance
from .calibration import HIGHEST, LOWEST, SCALES
from .decision import Rule
from .features import NEAREST, View
from .fitted import Corrected, Fitted, Readout
from .labelled import Labelled
from .loudness import USUAL, ways
from .sequence import LabelChain

if TYPE_CHECKING:
    from .model import Fusion

_Model = TypeVar("_Model", bound="Fusion")
CHAIN = ("share", "pairs", "given")
BALANCE = ("shares", "low", "high")
VIEW = ("centre", "scale", "axes", "frequencies", "phase", "middle", "landmarks")
TAUGHT = ("y", "dual", "weights", "bias", "of_votes")
_SPLIT = {"sources": [str], "classes": [str]}
_VALUES = {
    "parameters": {
        "scoring": str,
        "positive": (str, None),
        "metric": str,
        "radius": object,
        "class_balance": ([float], dict, None),
        "noise": float,
        "seed": int,
    },
    "apart": bool,
    "rule": {"positive": (int, None), "threshold": (float, None)},
    "splits": {"train": _SPLIT, "hand?": _SPLIT},
    "places?": [[int]],
    "neighbours?": bool,
    "way?": int,
    "chain?": {"trust": float, "noise": float, "counted": int},
}


def _schema(values: dict[str, Any], names: Container[str]) -> dict[str, Array]:
    """What the arrays of a model with these values must be; parts come whole or not at all."""
    splits, several = values["splits"], "feature_axes+waves classes"
    n_classes = len(splits["train"]["classes"])
    found = {
        "balance/shares": Array("f", "classes", low=1e-300, high=1, shares=1),
        "balance/low": Array("f", "classes", low=0, high=1),
        "balance/high": Array("f", "classes", low=0, high=1),
        "agreement": Array("f", f"columns {n_classes + 1} classes", optional=True),
        "columns": Array("iu", "columns", low=0, high=len(splits["train"]["sources"]) - 1),
        "radii": Array("f", "columns", low=0, high=np.inf, nan=True),
        "edges": Array("f", "edges", low=0, high=np.inf),
        "vote_mean": Array("f", "classes*columns", low=0, high=1),
        "scales": Array("f", f"{len(SCALES)}", low=LOWEST, high=HIGHEST),
        "rule/divisors": Array("f", "classes", low=1e-300, optional=True),
        "lean": Array("f", "classes", optional=True),
        "support": Array("f", "columns", optional=True),
        "heard": Array("b", "columns", optional=True),
    }
    for name in splits:
        found |= _schema_of_split(name, n_classes)
    if "view/centre" in names:
        found |= _schema_of_view(names)
    if "places" in values:
        found |= {
            "corrected/y": Array("iu", "labelled", low=0, high=n_classes - 1),
            "corrected/dual": Array("f", "labelled classes"),
            "corrected/weights": Array("f", "experts"),
            "corrected/bias": Array("f", "classes"),
            "corrected/of_votes": Array("f", "classes*columns classes"),
        }
        if "view/centre" in names:
            found["corrected/of_features"] = Array("f", several, optional=True)
    if "chain" in values:
        found |= {
            "chain/share": Array("f", "classes", low=1e-300, high=1, shares=1),
            "chain/pairs": Array("f", "tables classes classes", low=0, high=1, shares=2),
            "chain/given": Array("iu", "train_rows", low=-1, high=n_classes - 1),
        }
    return found


def _schema_of_view(names: Container[str]) -> dict[str, Array]:
    """The view of vectors, and what was learned on it."""
    several = "feature_axes+waves classes"
    found = {
        "view/centre": Array("f", "dimension"),
        "view/scale": Array("f", "dimension", low=0),
        "view/axes": Array("f", "dimension feature_axes"),
        "view/frequencies": Array("f", "dimension waves"),
        "view/phase": Array("f", "waves"),
        "view/middle": Array("f", "feature_axes+waves"),
        "view/landmarks": Array("f", "landmarks feature_axes+waves"),
    }
    if "pupil/weights" in names:
        for name in ("pupil", "echo"):
            found[f"{name}/weights"] = Array("f", several)
            found[f"{name}/base"] = Array("f", "classes", low=0, high=1)
    if "regions/weights" in names:
        found["regions/weights"] = Array("f", "landmarks classes")
        found["regions/base"] = Array("f", "classes", low=0, high=1)
    return found


def _schema_of_split(name: str, n_classes: int) -> dict[str, Array]:
    """Votes, vectors and sequences are checked by the values they become."""
    found = {
        f"{name}/votes": Array("iu", f"{name}_rows {name}_sources"),
        f"{name}/ids": Array("iuUf", f"{name}_ids"),
        f"{name}/vectors": Array("f", f"{name}_rows dimension", optional=True),
        f"{name}/sequences": Array("iuUf", f"{name}_rows", optional=True),
    }
    if name == "hand":
        found["hand/y"] = Array("iu", "hand_rows", low=-1, high=n_classes - 1)
    return found


def _check_parts(model: Fusion, fitted: Fitted, values: dict[str, Any]) -> None:
    """Refuse parts that do not fit each other."""
    n_classes, rule, taught = len(fitted.prior), fitted.rule, fitted.corrected
    of_vectors = fitted.view is not None
    wrong = {
        "positive": rule.positive is not None and not 0 <= rule.positive < n_classes,
        "experts": taught is not None and len(taught.weights) != len(fitted.experts),
        "neighbours": fitted.hears_neighbours and (taught is None or taught.labelled is None),
        "vectors": of_vectors and model.train_.vectors is None,
        "landmarks": fitted.regions is not None
        and (fitted.view is None or len(fitted.view.landmarks) <= NEAREST),
        "hand labels": taught is not None
        and (model.hand_ is None or model.hand_.n_rows != len(taught.y)),
        "places": taught is not None
        and taught.labelled is not None
        and len(values["places"]) != len(taught.y),
        "features": taught is not None and taught.way not in _ways(fitted.view),
        "columns": len(set(fitted.columns.tolist())) != len(fitted.columns),
        "edges": bool((np.diff(fitted.edges) < 0).any()),
        "trust": model.chain_ is not None and not 0 <= model.chain_.trust <= 1,
        "noise": model.chain_ is not None and not 0 <= model.chain_.noise < 1,
    }
    for name, is_wrong in wrong.items():
        if is_wrong:
            raise StoreError(f"its {name} do not fit the rest; fit and save the model again")


def _ways(view: View | None) -> range:
    """The ways in which features may be heard; without any there is the usual one."""
    return range(1 if view is None else len(ways(view)))


def to_state(model: Fusion) -> State:
    """Everything a fitted model is."""
    fitted = model.fitted_
    arrays: dict[str, np.ndarray] = {
        "columns": fitted.columns,
        "radii": fitted.radii,
        "edges": fitted.edges,
        "vote_mean": fitted.vote_mean,
        "scales": fitted.scales,
    }
    arrays |= {f"balance/{name}": getattr(fitted.balance, name) for name in BALANCE}
    for name in ("agreement", "lean", "support", "heard"):
        if getattr(fitted, name) is not None:
            arrays[name] = getattr(fitted, name)
    if fitted.view is not None:
        arrays |= {f"view/{name}": getattr(fitted.view, name) for name in VIEW}
    for name in ("pupil", "regions", "echo"):
        readout: Readout | None = getattr(fitted, name)
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
        values["way"] = fitted.corrected.way
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
    for name in TAUGHT:
        arrays[f"corrected/{name}"] = getattr(taught, name)
    if taught.of_features is not None:
        arrays["corrected/of_features"] = taught.of_features
    return [] if taught.labelled is None else [list(place) for place in taught.labelled.places]


def from_state(cls: type[_Model], state: State) -> _Model:
    """The same model; features of the labelled rows follow from their vectors, which are stored."""
    values = state.read_values(_VALUES)
    about = values["splits"]["train"]
    arrays = dict(
        state.read_arrays(
            _schema(values, state.arrays),
            classes=len(about["classes"]),
            train_sources=len(about["sources"]),
            hand_sources=len(about["sources"]),
        )
    )
    model = cls(**values["parameters"]).checked(about["classes"])
    model.train_ = _split(values["splits"]["train"], "train", arrays)
    hand = values["splits"].get("hand")
    model.hand_ = None if hand is None else _split(hand, "hand", arrays)
    model.held_out_ = None
    if "chain" in values:
        kept: dict[str, Any] = {name: arrays[f"chain/{name}"] for name in CHAIN}
        model.chain_ = LabelChain(**kept, **values["chain"])
    view = None
    if "view/centre" in arrays:
        parts = {name: arrays[f"view/{name}"] for name in VIEW}
        view = View(**parts, apart=bool(values["apart"]))
    rule = Rule(**values["rule"], divisors=arrays.get("rule/divisors"))
    model.fitted_ = Fitted(
        Balance(arrays["balance/shares"], arrays["balance/low"], arrays["balance/high"]),
        arrays["columns"],
        arrays["radii"],
        arrays["edges"],
        view,
        arrays.get("agreement"),
        _readout("pupil", arrays),
        _readout("echo", arrays),
        arrays["vote_mean"],
        arrays["scales"],
        _corrected(model, view, values, arrays),
        rule,
        arrays.get("lean"),
        _readout("regions", arrays),
        arrays.get("support"),
        arrays.get("heard"),
    )
    _check_parts(model, model.fitted_, values)
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
        labelled = Labelled.of(named, view.of(vectors), vectors)
    return Corrected(
        labelled,
        arrays["corrected/y"],
        arrays["corrected/dual"],
        arrays["corrected/weights"],
        arrays["corrected/bias"],
        arrays.get("corrected/of_features"),
        arrays["corrected/of_votes"],
        bool(asks),
        values.get("way", USUAL),
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
