"""When extension should beat a head trained on the labels (Theorem 2), and whether it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..label_models.base import balance_used
from ..votes import Split, Votes
from .bounds import disjoint_risk, epoxy_risk, extended_source_risk
from .lift import class_prior
from .pairs import Scan
from .radius import RadiusChoice, Surroundings
from .smoothness import Neighbourhood, model_smoothness

if TYPE_CHECKING:
    from ..model import Epoxy


@dataclass(frozen=True)
class Promise:
    """Theorem 2 and the risk of one source, with their quantities measured, beside a head's risk.

    The head is logistic regression on the vectors of the labelled rows, scored on rows it was not
    fitted on. Bounds are NaN for more than two classes, where the theorem makes no statement.
    """

    head: float
    """Share of dev rows the head gets wrong, held out."""
    extension: float
    """Share of dev rows extension gets wrong."""
    printed: float
    """Theorem 2 as printed, with the head's smoothness and risk for every specialised model."""
    measured: float
    """`bounds.disjoint_risk`: the line of its proof before anything is bounded, without labels."""
    source: str
    """The source that is best when extended to every row."""
    source_printed: float
    """Its risk bound, as printed."""
    source_measured: float
    """1 − ā of it, estimated without labels."""

    @property
    def text(self) -> str:
        """When extension should beat the head, and whether it did."""
        did = "It does" if self.extension < self.head else "It does not"
        outcome = (
            f"{did}: extension is wrong on {self.extension:.1%} of the rows that tuned it, the head "
            f"on {self.head:.1%} of them (held out)."
        )
        if np.isnan(self.measured):
            return f"Theorem 2 is about two classes and promises nothing against a head. {outcome}"
        should = (
            "so extension should beat it" if self.measured < self.head else "so it promises nothing"
        )
        return (
            f"Theorem 2 promises that extension beats a head on the labels where its bound is below "
            f"the head's risk, {self.head:.2f}: as printed it is {self.printed:.2f}, with measured "
            f"accuracies {self.measured:.2f}, {should}. {outcome}\n"
            f"{self.source} alone, extended to every row, has a risk of at most "
            f"{self.source_printed:.2f} as printed; {self.source_measured:.2f} is estimated."
        )


def promise(
    tuned: Epoxy,
    dev: Split,
    accuracies: np.ndarray,
    choice: RadiusChoice,
    around: Surroundings | None,
    scan: Scan,
) -> Promise | None:
    """Theorem 2 on a tuned model: every train row is left to the most accurate source it has.

    `dev` are the rows it was tuned on, `accuracies` those of the sources before extension, `choice`
    and `around` what was measured on train. None where dev has too few rows to fit a head.
    """
    counts = np.unique(dev.truth, return_counts=True)[1]
    if dev.vectors is None or len(counts) < 2 or counts.min() < 2:
        return None
    grid = next(iter(choice.curves.values())).radii
    _, head, rough = model_smoothness(dev.truth, dev.vectors, grid, scan)
    wrong = float((tuned.search_.best.proba.argmax(axis=1) != dev.truth).mean())
    last = [float(np.nan_to_num(curve.extended[-1])) for curve in choice.curves.values()]
    best = int(np.argmax(last))
    name, single = tuned.train_.votes.sources[best], 1 - last[best]
    if around is None:
        return Promise(head, wrong, np.nan, np.nan, name, np.nan, single)
    rough = np.nan_to_num(rough, nan=0.5)
    places = zip(accuracies, around.sources.values(), strict=True)
    printed = np.array([_printed(accuracy, place, rough) for accuracy, place in places])
    at = np.minimum(np.searchsorted(grid, np.nan_to_num(tuned.radius_)), len(grid) - 1)
    risks = np.where(np.isnan(tuned.radius_), 1 - accuracies, printed[np.arange(len(at)), at])
    accuracy = np.asarray(tuned.label_model_.accuracy_)  # type: ignore[attr-defined]
    shares, uncovered = _regions(tuned.votes_, accuracy)
    p = float(class_prior(balance_used(tuned.label_model_), 2)[1])
    return Promise(
        head,
        wrong,
        epoxy_risk(risks, shares, uncovered, p),
        disjoint_risk(accuracy, shares, uncovered, p),
        name,
        float(printed[best, -1]),
        single,
    )


def _printed(accuracy: float, place: Neighbourhood, rough: np.ndarray) -> np.ndarray:
    """The paper's risk bound of one extended source, per radius."""
    if not place.support:
        return np.full(len(rough), 0.5)
    growth = place.crossing * place.near
    return np.asarray(extended_source_risk(accuracy, rough, place.support, growth))


def _regions(votes: Votes, accuracy: np.ndarray) -> tuple[np.ndarray, float]:
    """The share of rows left to each source, and of rows that no source votes on."""
    ranked = np.where(votes.cast, accuracy, -1.0)
    owner = np.where(votes.covered, ranked.argmax(axis=1), len(accuracy))
    shares = np.bincount(owner, minlength=len(accuracy) + 1) / max(1, votes.n_rows)
    return shares[:-1], float(shares[-1])
