"""Votes alone: where vectors tell nothing, how sources agree with each other speaks in their place."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import replace

import numpy as np

from ..errors import NotIdentifiable
from ..label_models import Triplet
from ..label_models.moments import Moments
from .calibration import WITHOUT_VECTORS
from .fitted import Fitted


def of_votes_alone(base: Fitted, summary: Moments) -> Fitted:
    """Nothing is lent; how sources agree speaks in place of vectors, where it tells anything."""
    table = None
    with warnings.catch_warnings(), suppress(NotIdentifiable):
        warnings.simplefilter("ignore")
        table = Triplet(class_balance=base.prior).fit_moments(summary).log_likelihood_
    silent = np.full(len(base.radii), np.nan)
    scales = base.scales if table is None else WITHOUT_VECTORS
    edges = np.zeros_like(base.edges)
    return replace(base, radii=silent, edges=edges, agreement=table, scales=scales)
