"""A fitted model on disk: JSON and arrays, no pickle; who is near whom is found anew."""

from __future__ import annotations

from collections.abc import Container
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
    from .model import Fusion

_Model = TypeVar("_Model", bound="Fusion")
BALANCE = ("shares", "low", "high")
CHAIN = ("share", "pairs", "given")
VIEW = ("centre", "scale", "axes", "frequencies", "phase", "middle")
PLAIN = ("columns", "heard", "radii", "by_rule", "vote_mean", "lean")
TAUGHT = ("y", "votes", "dual", "bias", "of_votes")
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
    "rule": {"positive": (int, None), "threshold": (float, None)},
    "splits": {"train": _SPLIT, "hand?": _SPLIT},
    "sight?": {"apart": bool, "line": float, "around": float},
    "corrected?": {"places": [[int]], "moved": dict},
    "chain?": {"trust": float, "noise": float, "counted": int},
}


def _schema(values: dict[str, Any], names: Container[str]) -> dict[str, Array]:
    """What the arrays of a model with these values must be; parts come whole or not at all."""
    splits = values["splits"]
    n_classes = len(splits["train"]["classes"])
    found = {
        "balance/shares": Array("f", "classes", low=1e-300, high=1, shares=1),
        "balance/low": Array("f", "classes", low=0, high=1),
        "balance/high": Array("f", "classes", low=0, high=1),
        "columns": Array("iu", "columns", low=0, high=len(splits["train"]["sources"]) - 1),
        "heard": Array("b", "columns"),
        "support": Array("f", "columns", optional=True),
        "radii": Array("f", "columns", low=0, high=np.inf, nan=True),
        "by_rule": Array("b", "columns"),
        "vote_mean": Array("f", "classes*columns", low=0, high=1),
        "lean": Array("f", "classes"),
        "likelihood": Array("f", f"speaking {n_classes + 1} classes", optional=True),
        "rule/divisors": Array("f", "classes", low=1e-300, optional=True),
    }
    for name in splits:
        found |= _schema_of_split(name, n_classes)
    if "sight" in values:
        found |= {
            "view/centre": Array("f", "dimension"),
            "view/scale": Array("f", "dimension", low=0),
            "view/axes": Array("f", "dimension feature_axes"),
            "view/frequencies": Array("f", "dimension waves"),
            "view/phase": Array("f", "waves"),
            "view/middle": Array("f", "feature_axes+waves"),
            "sight/weights": Array("f", "feature_axes+waves classes"),
            "sight/base": Array("f", "classes", low=0, high=1),
            "sight/total": Array("f", "nodes classes", low=0),
            "sight/count": Array("f", "nodes", low=0),
        }
    if "corrected" in values:
        found |= {
            "corrected/y": Array("iu", "labelled", low=0, high=n_classes - 1),
            "corrected/votes": Array("f", "labelled classes*columns"),
            "corrected/dual": Array("f", "labelled classes"),
            "corrected/bias": Array("f", "classes"),
            "corrected/of_votes": Array("f", "classes*columns classes"),
        }
        if "sight" in values:
            several = "feature_axes+waves"
            found["corrected/features"] = Array("f", f"labelled {several}", optional=True)
            found["corrected/of_features"] = Array("f", f"{several} classes", optional=True)
    if "chain" in values:
        found |= {
            "chain/share": Array("f", "classes", low=1e-300, high=1, shares=1),
            "chain/pairs": Array("f", "tables classes classes", low=0, high=1, shares=2),
            "chain/given": Array("iu", "train_rows", low=-1, high=n_classes - 1),
        }
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


def _check_parts(model: Fusion, fitted: Fitted) -> None:
    """Refuse parts that do not fit each other."""
    rule, taught, chain, sight = fitted.rule, fitted.corrected, model.chain_, fitted.sight
    known = taught is not None
    moved = {} if taught is None else taught.moved
    numbers = [value for value in moved.values() if isinstance(value, int | float)]
    wrong = {
        "positive": rule.positive is not None and not 0 <= rule.positive < len(fitted.prior),
        "columns": len(set(fitted.columns.tolist())) != len(fitted.columns),
        "likelihood": fitted.likelihood is not None
        and len(fitted.likelihood) != int(fitted.heard.sum()),
        "vectors": (sight is None) != (model.train_.vectors is None) and sight is not None,
        "slopes": sight is not None and not (0 <= sight.line <= 1 and 0 <= sight.around <= 1),
        "hand labels": taught is not None
        and (model.hand_ is None or model.hand_.n_rows != len(taught.y)),
        "places": taught is not None and len(taught.places) != len(taught.y),
        "weights": known
        and (not set(moved) <= {"votes", "vectors", "likest"} or len(numbers) != len(moved)),
        "features": taught is not None
        and ((taught.features is None) != (taught.of_features is None))
        | (taught.asks and taught.features is None),
        "trust": chain is not None and not 0 <= chain.trust <= 1,
        "noise": chain is not None and not 0 <= chain.noise < 1,
    }
    for name, is_wrong in wrong.items():
        if is_wrong:
            raise StoreError(f"its {name} do not fit the rest; fit and save the model again")


def to_state(model: Fusion) -> State:
    """Everything a fitted model is."""
    fitted, chain = model.fitted_, model.chain_
    sight, taught = fitted.sight, fitted.corrected
    arrays: dict[str, np.ndarray] = {name: getattr(fitted, name) for name in PLAIN}
    arrays |= {f"balance/{name}": getattr(fitted.balance, name) for name in BALANCE}
    values: dict[str, Any] = {
        "parameters": _parameters(model),
        "rule": {"positive": fitted.rule.positive, "threshold": fitted.rule.threshold},
        "splits": {},
    }
    maybe: dict[str, np.ndarray | None] = {
        "support": fitted.support,
        "likelihood": fitted.likelihood,
        "rule/divisors": fitted.rule.divisors,
    }
    if sight is not None:
        arrays |= {f"view/{name}": getattr(sight.view, name) for name in VIEW}
        arrays |= {"sight/weights": sight.weights, "sight/base": sight.base}
        arrays |= {"sight/total": sight.thought.total, "sight/count": sight.thought.count}
        values["sight"] = {"apart": sight.view.apart, "line": sight.line, "around": sight.around}
    if taught is not None:
        arrays |= {f"corrected/{name}": getattr(taught, name) for name in TAUGHT}
        maybe |= {
            "corrected/features": taught.features,
            "corrected/of_features": taught.of_features,
        }
        places = [list(place) for place in taught.places]
        values["corrected"] = {"places": places, "moved": dict(taught.moved)}
    if chain is not None:
        arrays |= {f"chain/{name}": getattr(chain, name) for name in CHAIN}
        values["chain"] = {"trust": chain.trust, "noise": chain.noise, "counted": chain.counted}
    splits = {"train": model.train_} | ({} if model.hand_ is None else {"hand": model.hand_})
    for name, split in splits.items():
        values["splits"][name] = _describe(split, name, arrays)
    return State(values, arrays | {name: each for name, each in maybe.items() if each is not None})


def from_state(cls: type[_Model], state: State) -> _Model:
    """The same model."""
    values = state.read_values(_VALUES)
    about = values["splits"]["train"]
    several = {"train_sources": len(about["sources"]), "hand_sources": len(about["sources"])}
    schema = _schema(values, state.arrays)
    arrays = dict(state.read_arrays(schema, classes=len(about["classes"]), **several))
    model = cls(**values["parameters"]).checked(about["classes"])
    model.train_ = _split(about, "train", arrays)
    hand = values["splits"].get("hand")
    model.hand_ = None if hand is None else _split(hand, "hand", arrays)
    model.held_out_ = None
    if "chain" in values:
        kept: dict[str, Any] = {name: arrays[f"chain/{name}"] for name in CHAIN}
        model.chain_ = LabelChain(**kept, **values["chain"])
    model.fitted_ = Fitted(
        balance=Balance(arrays["balance/shares"], arrays["balance/low"], arrays["balance/high"]),
        **{name: arrays[name] for name in PLAIN},
        support=arrays.get("support"),
        likelihood=arrays.get("likelihood"),
        sight=_sight(values.get("sight"), arrays),
        corrected=_corrected(values.get("corrected"), arrays),
        rule=Rule(**values["rule"], divisors=arrays.get("rule/divisors")),
    )
    _check_parts(model, model.fitted_)
    return model


def _sight(about: dict[str, Any] | None, arrays: dict[str, np.ndarray]) -> Sight | None:
    if about is None:
        return None
    view = View(**{name: arrays[f"view/{name}"] for name in VIEW}, apart=about["apart"])
    thought = Thought(arrays["sight/total"], arrays["sight/count"])
    learned = arrays["sight/weights"], arrays["sight/base"], thought
    return Sight(view, *learned, float(about["line"]), float(about["around"]))


def _corrected(about: dict[str, Any] | None, arrays: dict[str, np.ndarray]) -> Corrected | None:
    if about is None:
        return None
    if any(len(place) != 2 for place in about["places"]):
        raise StoreError("its places do not fit the rest; fit and save the model again")
    return Corrected(
        **{name: arrays[f"corrected/{name}"] for name in TAUGHT},
        places=tuple((int(split), int(row)) for split, row in about["places"]),
        features=arrays.get("corrected/features"),
        of_features=arrays.get("corrected/of_features"),
        moved=about["moved"],
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
