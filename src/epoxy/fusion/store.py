"""A fitted model on disk: JSON and arrays, no pickle; who is near whom is found anew.

Everything lies at the path of the attribute it is: `sight/view/axes` is `fitted_.sight.view.axes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..errors import StoreError
from ..storage import Array, State
from ..votes import Split, Votes
from .around import Thought
from .decision import Rule
from .fitted import Corrected, Fitted, Sight
from .sequence import LabelChain
from .tally import Balance
from .view import View

if TYPE_CHECKING:
    from .fusion import Fusion

_Model = TypeVar("_Model", bound="Fusion")
PARTS = {
    "fitted": Fitted,
    "fitted/balance": Balance,
    "fitted/sight": Sight,
    "fitted/sight/view": View,
    "fitted/sight/thought": Thought,
    "fitted/corrected": Corrected,
    "fitted/rule": Rule,
    "chain": LabelChain,
}
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
    "splits": {"train": _SPLIT, "hand?": _SPLIT},
    "fitted": {
        "balance": {"kept": bool},
        "rule": {"positive?": int, "threshold?": float},
        "sight?": {"view": {"apart": bool}, "thought": {}, "line": float, "around": float},
        "corrected?": {
            "places": [[int]],
            "moved": {"votes?": float, "vectors?": float, "likest?": float},
        },
    },
    "chain?": {"trust": float, "noise": float, "counted": int},
}
_SHARES = Array("f", "classes", low=1e-300, high=1, shares=1)


def _schema(values: dict[str, Any]) -> dict[str, Array]:
    """What the arrays of a model with these values must be; parts come whole or not at all."""
    splits = values["splits"]
    n_classes, n_sources = (len(splits["train"][name]) for name in ("classes", "sources"))
    found = {
        "fitted/balance/shares": _SHARES,
        "fitted/balance/low": Array("f", "classes", low=0, high=1),
        "fitted/balance/high": Array("f", "classes", low=0, high=1),
        "fitted/balance/agreed": Array("f", "classes", low=0, high=1, optional=True),
        "fitted/columns": Array("iu", "columns", low=0, high=n_sources - 1),
        "fitted/heard": Array("b", "columns"),
        "fitted/support": Array("f", "columns", optional=True),
        "fitted/radii": Array("f", "columns", low=0, high=np.inf, nan=True),
        "fitted/by_rule": Array("b", "columns"),
        "fitted/lean": Array("f", "classes"),
        "fitted/likelihood": Array("f", f"heard {n_classes + 1} classes", optional=True),
        "fitted/rule/divisors": Array("f", "classes", low=1e-300, optional=True),
    }
    for name in splits:  # values and sequences are checked by what they become
        rows = "labelled" if name == "hand" else "train_rows"
        found |= {
            f"{name}/votes": Array("iu", f"{rows} sources"),
            f"{name}/ids": Array("iuUf", f"{name}_ids"),
            f"{name}/vectors": Array("f", f"{rows} dimension", optional=True),
            f"{name}/sequences": Array("iuUf", rows, optional=True),
        }
    if "hand" in splits:
        found["hand/y"] = Array("iu", "labelled", low=-1, high=n_classes - 1)
    if "sight" in values["fitted"]:
        found |= {
            "train/vectors": Array("f", "train_rows dimension"),
            "fitted/sight/view/centre": Array("f", "dimension"),
            "fitted/sight/view/scale": Array("f", "dimension", low=0),
            "fitted/sight/view/axes": Array("f", "dimension feature_axes"),
            "fitted/sight/view/frequencies": Array("f", "dimension waves"),
            "fitted/sight/view/phase": Array("f", "waves"),
            "fitted/sight/view/middle": Array("f", "feature_axes+waves"),
            "fitted/sight/weights": Array("f", "feature_axes+waves classes"),
            "fitted/sight/base": Array("f", "classes", low=0, high=1),
            "fitted/sight/thought/total": Array("f", "nodes classes", low=0),
            "fitted/sight/thought/count": Array("f", "nodes", low=0),
        }
    if "corrected" in values["fitted"]:
        found |= {
            "hand/y": Array("iu", "labelled", low=0, high=n_classes - 1),
            "fitted/corrected/y": Array("iu", "labelled", low=0, high=n_classes - 1),
            "fitted/corrected/votes": Array("f", "labelled classes*columns"),
            "fitted/corrected/dual": Array("f", "labelled classes"),
            "fitted/corrected/bias": Array("f", "classes"),
            "fitted/corrected/of_votes": Array("f", "classes*columns classes"),
        }
        if "fitted/sight/view/axes" in found:
            seen = Array("f", "labelled feature_axes+waves", optional=True)
            found["fitted/corrected/features"] = seen
            learned = Array("f", "feature_axes+waves classes", optional=True)
            found["fitted/corrected/of_features"] = learned
    if "chain" in values:
        found |= {
            "chain/share": _SHARES,
            "chain/pairs": Array("f", "tables classes classes", low=0, high=1, shares=2),
            "chain/given": Array("iu", "train_rows", low=-1, high=n_classes - 1),
        }
    return found


def to_state(model: Fusion) -> State:
    """Everything a fitted model is."""
    arrays: dict[str, np.ndarray] = {}
    values: dict[str, Any] = {"parameters": _parameters(model), "splits": {}}
    values["fitted"] = _taken_apart(model.fitted_, "fitted", arrays)
    if model.chain_ is not None:
        values["chain"] = _taken_apart(model.chain_, "chain", arrays)
    for name, split in (("train", model.train_), ("hand", model.hand_)):
        if split is not None:
            values["splits"][name] = _describe(split, name, arrays)
    return State(values, arrays)


def from_state(cls: type[_Model], state: State) -> _Model:
    """The same model."""
    values = state.read_values(_VALUES)
    about = values["splits"]
    sizes = {"classes": len(about["train"]["classes"]), "sources": len(about["train"]["sources"])}
    columns = state.arrays.get("fitted/heard", np.empty(0, bool))
    arrays = dict(state.read_arrays(_schema(values), heard=int(columns.sum()), **sizes))
    model = cls(**values["parameters"]).checked(about["train"]["classes"])
    model.train_ = _split(about["train"], "train", arrays)
    model.hand_ = _split(about["hand"], "hand", arrays) if "hand" in about else None
    model.held_out_ = None
    model.fitted_ = _put_together("fitted", values["fitted"], arrays)
    if "chain" in values:
        model.chain_ = _put_together("chain", values["chain"], arrays)
    _check(model, model.fitted_)
    return model


def _taken_apart(part: Any, path: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """The values of a part; its arrays are added under their paths. What is None is left out."""
    found: dict[str, Any] = {}
    for each in fields(part):
        value, name = getattr(part, each.name), f"{path}/{each.name}"
        if isinstance(value, np.ndarray):
            arrays[name] = value
        elif is_dataclass(value):
            found[each.name] = _taken_apart(value, name, arrays)
        elif value is not None:
            found[each.name] = dict(value) if isinstance(value, Mapping) else value
    return found


def _put_together(path: str, values: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    found: dict[str, Any] = {}
    for each in fields(PARTS[path]):
        name = f"{path}/{each.name}"
        if name in PARTS and each.name in values:
            found[each.name] = _put_together(name, values[each.name], arrays)
        else:
            found[each.name] = arrays.get(name, values.get(each.name))
    return PARTS[path](**found)


def _check(model: Fusion, fitted: Fitted) -> None:
    """Refuse parts that do not fit each other, where shapes do not show it."""
    chain, sight, taught = model.chain_, fitted.sight, fitted.corrected
    wrong = {
        "columns": len(set(fitted.columns.tolist())) != len(fitted.columns),
        "slopes": sight is not None and not (0 <= sight.line <= 1 and 0 <= sight.around <= 1),
        "trust": chain is not None and not (0 <= chain.trust <= 1 and 0 <= chain.noise < 1),
    }
    if fitted.rule.positive is not None:
        wrong["positive"] = not 0 <= fitted.rule.positive < len(fitted.prior)
    if taught is not None:
        unseen = taught.features is None
        wrong["places"] = [len(each) for each in taught.places] != [2] * len(taught.y)
        wrong["features"] = unseen != (taught.of_features is None) or (taught.asks and unseen)
        wrong["hand labels"] = model.hand_ is None
    for name, is_wrong in wrong.items():
        if is_wrong:
            raise StoreError(f"its {name} do not fit the rest; fit and save the model again")


def _parameters(model: Fusion) -> dict[str, Any]:
    found: dict[str, Any] = model.get_params(deep=False)
    balance, radius = model.class_balance, model.radius
    if balance is not None and not isinstance(balance, dict):
        found["class_balance"] = np.asarray(balance, dtype=float).tolist()
    if isinstance(radius, np.ndarray):
        found["radius"] = radius.tolist()
    return found


def _describe(split: Split, name: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    truth = split.truth if name == "hand" else None  # train labels are never read, so never kept
    ids = np.empty(0) if split.ids is None else split.ids
    kept = {
        "votes": np.asarray(split.votes.matrix),
        "ids": ids,
        "vectors": split.vectors,
        "y": truth,
    }
    for key, each in (kept | {"sequences": split.votes.sequences}).items():
        if each is not None:
            arrays[f"{name}/{key}"] = each.astype(str) if each.dtype == object else each
    return {"sources": list(split.votes.sources), "classes": list(split.classes)}


def _split(about: dict[str, Any], name: str, arrays: dict[str, np.ndarray]) -> Split:
    sequences = arrays.get(f"{name}/sequences")
    votes = Votes(arrays[f"{name}/votes"], about["sources"], about["classes"], sequences=sequences)
    vectors, y = arrays.get(f"{name}/vectors"), arrays.get(f"{name}/y")
    return Split(votes, vectors, y, arrays[f"{name}/ids"])
