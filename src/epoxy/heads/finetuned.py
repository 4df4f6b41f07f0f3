"""A pre-trained text model fine-tuned on the labels by `transformers.Trainer`.

The linear layer on top starts from a `LinearHead` fitted on the
pre-trained vectors, not from random numbers: with few labels a random layer first ruins the features it
will later need, and most of the seed-to-seed spread comes from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from ..encoders.pretrained import need
from ..errors import AlignmentError, ParameterError
from ..progress import Progress, silent
from ..storage import Array, State
from .head import Head, Targets
from .linear import LinearHead


@dataclass(frozen=True)
class Training:
    """How a network is fine-tuned; the defaults are the usual ones for BERT-sized text models.

    Parameters
    ----------
    epochs
        Most passes over the rows.
    learning_rate
        Highest rate, reached after warm-up, then falling to zero in a straight line.
    batch_size
        Rows per step.
    warmup
        Share of the steps in which the rate rises.
    weight_decay
        AdamW's decay, not applied to biases and norms.
    patience
        Passes without a better dev loss before training stops; used only where dev is given.
    """

    epochs: int = 4
    learning_rate: float = 5e-5
    batch_size: int = 16
    warmup: float = 0.1
    weight_decay: float = 0.01
    patience: int = 2


_VALUES = {
    "classes": [(str, int, float, bool)],
    "network": (str, None),
    "max_length": int,
    "seed": int,
    "training": {
        **dict.fromkeys(("epochs", "batch_size", "patience"), int),
        **dict.fromkeys(("learning_rate", "warmup", "weight_decay"), float),
    },
    "history": dict,
}


class FineTuned(Head):
    """A pre-trained network and a linear layer, trained together on labels or probabilities.

    Parameters
    ----------
    network
        A folder, a name known to an installed package, or a name on the model hub. None takes
        all-MiniLM-L6-v2.
    training
        Epochs, rates, batch size, patience.
    classes
        All classes, in the order of the columns of `predict_proba`; without it, those that occur.
    max_length
        Tokens per text; the rest is cut.
    seed
        Order of the rows and dropout.
    progress
        Called with (done, total) epochs.
    """

    history_: dict[str, Any]
    """Losses by epoch and the epoch kept."""

    def __init__(
        self,
        network: str | None = None,
        *,
        training: Training | None = None,
        classes: Sequence[Any] | None = None,
        max_length: int = 128,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> None:
        self.network = network
        self.training = training
        self.classes = classes
        self.max_length = max_length
        self.seed = seed
        self.progress = progress

    def fit(self, rows: Any, targets: Any, *, dev: tuple[Any, Any] | None = None) -> Self:
        """Fine-tune on texts and targets; with `dev` (texts, targets) training stops early on it."""
        _need_torch()
        from .networks import DEFAULT, Network, own_randomness, train

        wanted = Targets.read(targets, n_rows=len(rows), classes=self.classes)
        wanted.need_two_classes("FineTuned")
        held = None if dev is None else _held_out(dev, wanted.classes.tolist())
        with own_randomness(self.seed):
            network = Network.open(self.network or DEFAULT, self.max_length)
            items = network.prepare(rows, wanted.probabilities)
            network.set_head(*_first_layer(network.embed(network.prepare(rows)), wanted))
            self.history_ = train(
                network,
                items,
                None if held is None else network.prepare(*held),
                self.training or Training(),
                self.seed,
                self.progress or silent,
            )
        self._network, self.classes_ = network, wanted.classes
        return self

    def predict_proba(self, rows: Any) -> np.ndarray:
        """Return one row of class probabilities per row; (n_rows, n_classes)."""
        self._check_fitted()
        return self._network.probabilities(self._network.prepare(rows))

    def embed(self, rows: Any) -> np.ndarray:
        """Pooled vectors of the fine-tuned network; (n_rows, dimension)."""
        self._check_fitted()
        return self._network.embed(self._network.prepare(rows))

    def to_state(self) -> State:
        """Describe the fitted head: settings as values, the network and its tokenizer as files."""
        self._check_fitted()
        record = {
            "classes": self.classes_.tolist(),
            "network": self.network,
            "max_length": self.max_length,
            "seed": self.seed,
            "training": asdict(self.training or Training()),
            "history": self.history_,
        }
        layer = self._network.head.state_dict().items()
        arrays = {name: value.detach().cpu().numpy() for name, value in layer}
        return State(record, arrays, self._network.saved())

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Make the same fitted head again, from the state's files."""
        _need_torch()
        from .networks import Network

        record = state.read_values(_VALUES)
        names = ("network", "classes", "max_length", "seed")
        head = cls(training=Training(**record["training"]), **{key: record[key] for key in names})
        head.classes_, head.history_ = np.asarray(record["classes"]), record["history"]
        head._network = Network.reopen(state.files, head.max_length, state.where)
        sizes = {"classes": len(head.classes_), "dimension": head._network.body.config.hidden_size}
        layer = {"weight": Array("f", "classes dimension"), "bias": Array("f", "classes")}
        found = state.read_arrays(layer, **sizes)
        head._network.set_head(found["weight"], found["bias"])
        return head


def _first_layer(vectors: np.ndarray, wanted: Targets) -> tuple[np.ndarray, np.ndarray]:
    """The weights of a linear head on pre-trained vectors, one row for each class, and the intercepts."""
    first = LinearHead(classes=wanted.classes.tolist()).fit(vectors, wanted.probabilities)
    coef, intercept = first.coef_, first.intercept_
    if len(coef) == 1:  # two classes share one vector of weights
        coef, intercept = np.vstack([-coef, coef]) / 2, np.r_[-intercept, intercept] / 2
    weight = np.zeros((len(wanted.classes), coef.shape[1]), dtype=np.float32)
    bias = np.full(len(weight), -10.0, dtype=np.float32)  # a class without a row starts improbable
    weight[first.present_], bias[first.present_] = coef, intercept
    return weight, bias


def _held_out(dev: tuple[Any, Any], classes: list[Any]) -> tuple[Any, np.ndarray]:
    if len(dev) != 2:
        raise ParameterError(f"dev is a pair (rows, targets), got {len(dev)} values")
    rows, targets = dev
    if len(rows) != len(targets):
        raise AlignmentError(
            f"dev needs one target per row, got {len(rows)} rows and {len(targets)} targets"
        )
    return rows, Targets.read(targets, n_rows=len(rows), classes=classes).probabilities


def _need_torch() -> None:
    for module in ("torch", "transformers"):
        need(module, "FineTuned", "torch and transformers", "torch")
