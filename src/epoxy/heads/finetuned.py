"""A pre-trained network fine-tuned on the labels: texts through transformers, images through timm.

`transformers.Trainer` trains it. The linear layer on top starts from a `LinearHead` fitted on the
pre-trained vectors, not from random numbers: with few labels a random layer first ruins the features it
will later need, and most of the seed-to-seed spread comes from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..encoders.pretrained import need
from ..errors import AlignmentError, ParameterError, StoreError
from ..progress import Progress, silent
from ..storage import State
from .head import Head, Targets
from .linear import LinearHead

if TYPE_CHECKING:
    from .networks import Network

_WEIGHTS = "model.safetensors"


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
    "network": str,
    "rows": str,
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
        A folder, a name known to an installed package, or a name on the model hub (texts); a timm
        name (images). None takes all-MiniLM-L6-v2 for texts and efficientnet-lite0 for images.
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
        """Fine-tune on rows and targets; with `dev` (rows, targets) training stops early on it."""
        _need_torch()
        from .networks import own_randomness

        wanted = Targets.read(targets, n_rows=len(rows), classes=self.classes)
        wanted.need_two_classes("FineTuned")
        with own_randomness(self.seed):
            self._fit(rows, wanted, dev)
        return self

    def _fit(self, rows: Any, wanted: Targets, dev: tuple[Any, Any] | None) -> None:
        from .networks import open_network, train

        network = open_network(self.network, rows, self.max_length)
        items, classes = network.prepare(rows), wanted.classes.tolist()
        held = None if dev is None else _held_out(network, dev, classes)
        first = LinearHead(classes=classes).fit(network.embed(items), wanted.probabilities)
        network.set_head(first.coef_, first.intercept_, first.present_, len(classes))
        self.history_ = train(
            network,
            network.with_targets(items, wanted.probabilities),
            held,
            self.training or Training(),
            self.seed,
            self.progress or silent,
        )
        self._network, self.classes_ = network, wanted.classes

    def predict_proba(self, rows: Any) -> np.ndarray:
        """Return one row of class probabilities per row; (n_rows, n_classes)."""
        self._check_fitted()
        return self._network.probabilities(self._network.prepare(rows))

    def embed(self, rows: Any) -> np.ndarray:
        """Pooled vectors of the fine-tuned network; (n_rows, dimension)."""
        self._check_fitted()
        return self._network.embed(self._network.prepare(rows))

    def to_state(self) -> State:
        """Describe the fitted head: settings as values, weights and tokenizer as files."""
        self._check_fitted()
        record = {
            "classes": self.classes_.tolist(),
            "network": self._network.name,
            "rows": self._network.kind,
            "max_length": self.max_length,
            "seed": self.seed,
            "training": asdict(self.training or Training()),
            "history": self.history_,
        }
        return State(record, files=self._files())

    def _files(self) -> dict[str, bytes]:
        from safetensors.torch import save

        # shared storages (tied weights) are refused by safetensors; a contiguous clone is its own
        weights = {
            name: value.detach().cpu().clone().contiguous()
            for name, value in self._network.state_dict().items()
        }
        with TemporaryDirectory() as folder:
            self._network.save(Path(folder))
            written = {each.name: each.read_bytes() for each in Path(folder).iterdir()}
        return {**written, _WEIGHTS: save(weights)}

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Make the same fitted head again, from the state's files."""
        _need_torch()
        from safetensors import SafetensorError
        from safetensors.torch import load

        from .networks import own_randomness, reopen

        record, files = state.read_values(_VALUES), state.files
        state.read_arrays({})
        if _WEIGHTS not in files or any(Path(name).name != name for name in files):
            raise StoreError(f"{state.where} has no {_WEIGHTS}; save the head again")
        names = ("network", "classes", "max_length", "seed")
        head = cls(training=Training(**record["training"]), **{key: record[key] for key in names})
        head.classes_, head.history_ = np.asarray(record["classes"]), record["history"]
        try:
            weights = load(files[_WEIGHTS])
        except SafetensorError as error:
            raise StoreError(
                f"{state.where}: {_WEIGHTS} cannot be read ({error}); save the head again"
            ) from None
        # layers are drawn at random before the weights replace them
        with own_randomness(0), TemporaryDirectory() as folder:
            home = Path(folder)
            for name, content in files.items():
                (home / name).write_bytes(content)
            head._network = reopen(record["rows"], home, record["network"], record["max_length"])
            head._network.add_head(len(head.classes_))
        head._network.load_state_dict(weights)
        return head


def _held_out(network: Network, dev: tuple[Any, Any], classes: list[Any]) -> list[dict[str, Any]]:
    if len(dev) != 2:
        raise ParameterError(f"dev is a pair (rows, targets), got {len(dev)} values")
    rows, targets = dev
    if len(rows) != len(targets):
        raise AlignmentError(
            f"dev needs one target per row, got {len(rows)} rows and {len(targets)} targets"
        )
    wanted = Targets.read(targets, n_rows=len(rows), classes=classes)
    return network.with_targets(network.prepare(rows), wanted.probabilities)


def _need_torch() -> None:
    for module in ("torch", "transformers"):
        need(module, "FineTuned", "torch and transformers", "torch")
