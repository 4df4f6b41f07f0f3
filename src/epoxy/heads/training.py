"""The fine-tuning loop: soft-label cross entropy, AdamW with warm-up, early stopping on dev.

Needs torch; imported only inside `FineTuned`'s methods. The order of the rows comes from the plan's
seed, dropout from torch's state, which the caller has seeded and will restore.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch

from ..progress import Progress
from .base import Training
from .networks import Encoded, Network

_EVALUATION_BATCH = 64
_DROPOUT = 0.1
_CLIP = 1.0  # usual bound of the gradient norm when fine-tuning transformers


@dataclass(frozen=True, eq=False)
class Examples:
    """Prepared rows with their target distributions."""

    items: list[Any]
    targets: np.ndarray  # (n_rows, n_classes)


@dataclass(frozen=True)
class Plan:
    """How to train, from which seed, and whom to tell."""

    training: Training
    seed: int
    progress: Progress


@dataclass
class History:
    """What happened, epoch by epoch."""

    train_loss: list[float] = field(default_factory=list)
    dev_loss: list[float] = field(default_factory=list)
    best_epoch: int = 0


def batches(
    network: Network, items: Sequence[Any], size: int, rng: np.random.Generator | None
) -> Iterator[np.ndarray]:
    """Row indices in batches of similar length; shuffled where `rng` is given.

    Shuffled rows are sorted by length within windows of 50 batches: padding is small and the order
    of the batches is still random.
    """
    length = np.array([network.length(item) for item in items])
    if rng is None:
        order = np.argsort(length, kind="stable")
        yield from np.split(order, range(size, len(order), size))
        return
    order = rng.permutation(len(items))
    window = size * 50
    found: list[np.ndarray] = []
    for start in range(0, len(order), window):
        part = order[start : start + window]
        part = part[np.argsort(length[part], kind="stable")]
        found += np.split(part, range(size, len(part), size))
    for index in rng.permutation(len(found)):
        yield found[index]


def encode_all(
    network: Network, items: Sequence[Any], each: Callable[[Encoded, np.ndarray], Any]
) -> Iterator[tuple[np.ndarray, Any]]:
    """Run every row without gradients; yields row indices and `each(encoded, index)`."""
    network.module.eval()
    for index in batches(network, items, _EVALUATION_BATCH, None):
        with torch.inference_mode():
            value = each(network.encode([items[row] for row in index]), index)
        yield index, value


def train(
    network: Network, head: Any, examples: Examples, dev: Examples | None, plan: Plan
) -> History:
    """Fine-tune in place; ends with the weights of the best dev epoch where dev is given."""
    run = _Run.start(network, head, len(examples.items), plan)
    history = History()
    best: Any = None
    for epoch in range(plan.training.epochs):
        loss = _epoch(network, head, examples, run)
        history.train_loss.append(loss)
        plan.progress(epoch + 1, plan.training.epochs)
        if dev is None:
            history.best_epoch = epoch
            continue
        history.dev_loss.append(_loss(network, head, dev))
        if history.dev_loss[-1] <= min(history.dev_loss):
            history.best_epoch = epoch
            best = copy.deepcopy((network.module.state_dict(), head.state_dict()))
        elif epoch - history.best_epoch >= plan.training.patience:
            break
    if best is not None:
        network.module.load_state_dict(best[0])
        head.load_state_dict(best[1])
    network.module.eval()
    return history


@dataclass(frozen=True, eq=False)
class _Run:
    """What one training run carries from epoch to epoch."""

    optimizer: Any
    schedule: Any
    rng: np.random.Generator
    batch_size: int

    @classmethod
    def start(cls, network: Network, head: Any, n_rows: int, plan: Plan) -> Self:
        training = plan.training
        optimizer = _optimizer(network.module, head, training)
        total = math.ceil(n_rows / training.batch_size) * training.epochs
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: _rate(step, total, training.warmup)
        )
        return cls(optimizer, schedule, np.random.default_rng(plan.seed), training.batch_size)


def _epoch(network: Network, head: Any, examples: Examples, run: _Run) -> float:
    network.module.train()
    targets = torch.from_numpy(examples.targets).float()
    parameters = [each for group in run.optimizer.param_groups for each in group["params"]]
    spent = 0.0
    for index in batches(network, examples.items, run.batch_size, run.rng):
        encoded = network.encode([examples.items[row] for row in index])
        pooled = torch.nn.functional.dropout(encoded.pooled, _DROPOUT)
        logits = head(pooled)
        loss = torch.nn.functional.cross_entropy(logits, targets[index].to(logits.device))
        run.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, _CLIP)
        run.optimizer.step()
        run.schedule.step()
        spent += loss.item() * len(index)
    return spent / len(examples.items)


def _loss(network: Network, head: Any, examples: Examples) -> float:
    """Mean cross entropy without gradients and dropout."""
    targets = torch.from_numpy(examples.targets).float()

    def logits(encoded: Encoded, index: np.ndarray) -> Any:
        return head(encoded.pooled).cpu()

    found = encode_all(network, examples.items, logits)
    spent = sum(
        float(torch.nn.functional.cross_entropy(each, targets[index], reduction="sum"))
        for index, each in found
    )
    return spent / len(examples.items)


def _optimizer(module: Any, head: Any, training: Training) -> Any:
    decayed: list[Any] = []
    free: list[Any] = []
    for part in (module, head):
        for parameter in part.parameters():
            if parameter.requires_grad:
                (decayed if parameter.ndim > 1 else free).append(parameter)
    groups = [
        {"params": decayed, "weight_decay": training.weight_decay},
        {"params": free, "weight_decay": 0.0},
    ]
    # fused: one pass over memory; the plain loop costs a third of a step on a CPU
    return torch.optim.AdamW(groups, lr=training.learning_rate, fused=True)


def _rate(step: int, total: int, warmup: float) -> float:
    rise = max(1, round(total * warmup))
    if step < rise:
        return (step + 1) / rise
    return max(0.0, (total - step) / max(1, total - rise))
