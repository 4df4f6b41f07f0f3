"""A pre-trained network fine-tuned on the labels: texts through transformers, images through timm.

The linear layer on top starts from a `LinearHead` fitted on the pre-trained vectors, not from
random numbers: with few labels a random layer first ruins the features it will later need, and most
of the seed-to-seed spread comes from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..errors import AlignmentError, MissingExtra, ParameterError, StoreError
from ..persistence import State
from ..progress import Progress, silent
from .base import Estimator, Targets, Training
from .linear import LinearHead

if TYPE_CHECKING:
    from .networks import Encoded, Network

_WEIGHTS = "model.safetensors"
_VALUES = {
    "classes": [(str, int, float, bool)],
    "network": str,
    "rows": str,
    "max_length": int,
    "seed": int,
    "training": {
        "epochs": int,
        "learning_rate": float,
        "batch_size": int,
        "warmup": float,
        "weight_decay": float,
        "patience": int,
    },
    "history": dict,
}


@dataclass(frozen=True)
class Drift:
    """How far fine-tuning moved the network's vectors, on some rows.

    `similarity` is the paper's 1 − d(PT, DN): the cosine similarity of a row's pooled vector before
    and after, averaged over rows. `pre_pool` looks one step earlier: the smallest similarity among
    a row's matching cells (tokens, image places), averaged over rows; it can be low while
    `similarity` is high. `smallest` is the smallest cell similarity of all.
    """

    similarity: float
    pre_pool: float
    smallest: float


class FineTuned(Estimator):
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
        torch = _torch()
        wanted = Targets.read(targets, n_rows=len(rows), classes=self.classes)
        wanted.need_two_classes("FineTuned")
        with _own_randomness(torch, self.seed):
            self._fit(torch, rows, wanted, dev)
        return self

    def _fit(self, torch: Any, rows: Any, wanted: Targets, dev: tuple[Any, Any] | None) -> None:
        from .networks import is_images, open_network
        from .training import Examples, Plan, train

        self._kind = "image" if is_images(rows) else "text"
        network = open_network(self.network, self._kind, self.max_length)
        network.module.to(_device(torch))
        examples = Examples(network.prepare(rows), wanted.probabilities)
        held = None if dev is None else _held_out(network, dev, wanted.classes)
        self._network, self.classes_ = network, wanted.classes
        self._head = self._start(torch, examples, wanted)
        plan = Plan(self.training or Training(), self.seed, self.progress or silent)
        self.history_ = asdict(train(network, self._head, examples, held, plan))

    def predict_proba(self, rows: Any) -> np.ndarray:
        """Return one row of class probabilities per row; (n_rows, n_classes)."""
        network = self._fitted()

        def answers(encoded: Encoded) -> Any:
            return self._head(encoded.pooled).double().softmax(-1)

        return self._run(network, rows, answers, len(self.classes_))

    def embed(self, rows: Any, *, pretrained: bool = False) -> np.ndarray:
        """Pooled vectors of the fine-tuned network, or of the network before fine-tuning."""
        network = self._before() if pretrained else self._fitted()
        answer = self._run(network, rows, lambda encoded: encoded.pooled, network.dimension)
        return answer.astype(np.float32)

    def drift(self, rows: Any) -> Drift:
        """Compare the vectors of these rows before and after fine-tuning."""
        import torch

        after, before = self._fitted(), self._before()
        cosine = torch.nn.functional.cosine_similarity

        def compare(new: Encoded, old: Encoded) -> Any:
            cells = cosine(new.cells, old.cells, dim=-1).masked_fill(~new.mask, float("inf"))
            return torch.stack([cosine(new.pooled, old.pooled), cells.min(dim=1).values], dim=1)

        items = after.prepare(rows)

        def both(encoded: Encoded, index: np.ndarray) -> Any:
            return compare(encoded, before.encode([items[row] for row in index]))

        before.module.eval()
        found = self._collect(after, items, both, 2)
        pooled, cells = found.mean(axis=0)
        return Drift(float(pooled), float(cells), float(found[:, 1].min()))

    def to_state(self) -> State:
        """Describe the fitted head: settings as values, weights and tokenizer as files."""
        network = self._fitted()
        record = {
            "classes": self.classes_.tolist(),
            "network": network.name,
            "rows": self._kind,
            "max_length": self.max_length,
            "seed": self.seed,
            "training": asdict(self.training or Training()),
            "history": self.history_,
        }
        return State(record, files=self._write_files)

    def _write_files(self, folder: Path) -> None:
        from safetensors.torch import save_file

        parts = {"network": self._network.module, "head": self._head}
        # shared storages (tied weights) are refused by safetensors; a contiguous clone is its own
        weights = {
            f"{name}.{key}": value.detach().cpu().clone().contiguous()
            for name, part in parts.items()
            for key, value in part.state_dict().items()
        }
        self._network.save(folder)
        save_file(weights, str(folder / _WEIGHTS))

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Make the same fitted head again, from the files in the state's folder."""
        torch = _torch()
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        from .networks import reopen

        record, home = state.read_values(_VALUES), state.folder
        state.read_arrays({})
        if home is None or not (home / _WEIGHTS).is_file():
            raise StoreError(f"the head in {str(home)!r} has no {_WEIGHTS}; save it again")
        head = cls(
            record["network"],
            training=Training(**record["training"]),
            classes=record["classes"],
            max_length=record["max_length"],
            seed=record["seed"],
        )
        head._kind = record["rows"]
        head.classes_, head.history_ = np.asarray(record["classes"]), record["history"]
        try:
            weights = load_file(str(home / _WEIGHTS))
        except SafetensorError as error:
            raise StoreError(f"{home}/{_WEIGHTS} cannot be read ({error}); save it again") from None
        with _own_randomness(
            torch, 0
        ):  # layers are drawn at random before the weights replace them
            head._network = reopen(record["rows"], home, record["network"], record["max_length"])
            head._head = torch.nn.Linear(head._network.dimension, len(head.classes_))
        head._network.module.load_state_dict(_part(weights, "network."))
        head._head.load_state_dict(_part(weights, "head."))
        head._network.module.to(_device(torch)).eval()
        head._head.to(_device(torch))
        return head

    def _fitted(self) -> Network:
        self._check_fitted()
        return self._network

    def _before(self) -> Network:
        """The network as it was before fine-tuning, loaded again by its name."""
        from .networks import open_network

        network = open_network(self._fitted().name, self._kind, self.max_length)
        network.module.to(next(self._network.module.parameters()).device)
        return network

    def _start(self, torch: Any, examples: Any, wanted: Targets) -> Any:
        """The linear layer, from a LinearHead on the pre-trained vectors."""
        head = torch.nn.Linear(self._network.dimension, len(wanted.classes))
        vectors = self._collect(
            self._network,
            examples.items,
            lambda encoded, index: encoded.pooled,
            self._network.dimension,
        )
        probe = LinearHead(C=1.0, classes=wanted.classes.tolist())
        probe.fit(vectors, wanted.probabilities)
        with torch.no_grad():
            head.weight.zero_()
            head.bias.fill_(-10.0)  # a class without a row starts, and may stay, improbable
            coef, intercept = torch.from_numpy(probe.coef_), torch.from_numpy(probe.intercept_)
            if len(probe.coef_) == 1:  # two classes share one vector of weights
                coef = torch.cat([-coef, coef]) / 2
                intercept = torch.cat([-intercept, intercept]) / 2
            head.weight[probe.present_] = coef.float()
            head.bias[probe.present_] = intercept.float()
        return head.to(_device(torch))

    def _run(self, network: Network, rows: Any, each: Any, width: int) -> np.ndarray:
        items = network.prepare(rows)
        return self._collect(network, items, lambda encoded, index: each(encoded), width)

    def _collect(self, network: Network, items: list[Any], each: Any, width: int) -> np.ndarray:
        """Rows of `each(encoded, index)`, back in the order of the items; (n_rows, width)."""
        from .training import encode_all

        answer = np.empty((len(items), width))
        for index, value in encode_all(network, items, each):
            answer[index] = value.cpu().numpy()
        return answer


def _held_out(network: Network, dev: tuple[Any, Any], classes: np.ndarray) -> Any:
    from .training import Examples

    if len(dev) != 2:
        raise ParameterError(f"dev is a pair (rows, targets), got {len(dev)} values")
    rows, targets = dev
    if len(rows) != len(targets):
        raise AlignmentError(
            f"dev needs one target per row, got {len(rows)} rows and {len(targets)} targets"
        )
    wanted = Targets.read(targets, n_rows=len(rows), classes=classes.tolist())
    return Examples(network.prepare(rows), wanted.probabilities)


def _part(weights: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {
        key.removeprefix(prefix): value for key, value in weights.items() if key.startswith(prefix)
    }


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise MissingExtra.of("FineTuned", "torch and transformers", "torch") from None
    return torch


@contextmanager
def _own_randomness(torch: Any, seed: int) -> Iterator[None]:
    """Seed torch inside, and leave the caller's random state as it was."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


def _device(torch: Any) -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"
