"""How a network is fine-tuned, as a value; apart from the loop, so that it needs no torch."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Training"]


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
