"""What the paper published, and what is known of public data sets that a table does not show.

Figures of "Interactive Weak Supervision with Pre-trained Embeddings" (Chen, Fu et al., 2020), its
tables 1, 2 and those of the appendix. Its vectors are BERT's and those of image networks; ours differ.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

METHODS = (
    *("Epoxy", "Epoxy-fixed-r", "WS-LM", "MV-LM", "DP-LM", "TS-NFT"),
    *("WS-NFT", "TS-KNN", "WS-KNN", "TS-FT", "WS-FT", "Epoxy-FT"),
)
SCORES = {
    "spam": (89.6, 88.0, 83.6, 84.0, 86.0, 78.5, 87.2, 49.2, 48.4, 76.7, 90.0, 94.1),
    "weather": (82.0, 80.0, 78.0, 78.0, 78.0, 71.6, 74.4, 64.0, 58.0, 71.2, 85.6, 86.8),
    "spouse": (48.4, 43.9, 47.0, 46.6, 42.3, 17.7, 17.5, 0.0, 4.9, 20.4, 49.6, 51.3),
    "basketball, RN-101": (31.3, 23.8, 27.9, 17.7, 14.0, 18.8, 16.8, 0.0, 0.0, 26.8, 35.8, 36.7),
    "commercial, RN-101": (90.1, 89.1, 88.4, 83.7, 83.7, 73.6, 75.5, 30.7, 30.3, 90.9, 92.5, 93.0),
    "tennis, RN-101": (82.9, 82.6, 82.0, 80.8, 80.7, 76.7, 79.5, 43.5, 52.6, 57.6, 82.9, 83.1),
    "basketball, BiT-M": (42.5, 34.5, 27.9, 17.7, 14.0, 22.8, 23.2, 5.6, 10.2, 29.1, 33.8, 45.8),
    "commercial, BiT-M": (91.8, 90.5, 88.4, 83.7, 83.7, 71.7, 73.8, 29.3, 45.3, 93.2, 93.7, 94.4),
    "tennis, BiT-M": (83.1, 82.7, 82.0, 80.8, 80.7, 75.5, 79.0, 50.1, 52.1, 47.5, 83.7, 83.8),
}
"""Points by task (and vectors, where there are two), in the order of METHODS."""
SIMILARITY = (0.735, 0.677, 0.248, 0.562, 0.284, 0.113, 0.907, 0.559, 0.408)
"""1 − d(PT, DN) in the order of SCORES."""
SECONDS = dict(
    zip(METHODS, (0.5, np.nan, 0.1, *[np.nan] * 2, 1.2, 5.7, *[np.nan] * 2, 1243.0, 5354.1, 4995.0))
)
"""Mean training seconds, on another machine."""
KNOWN = {
    ("imdb", 2500, 500, 2000): (
        "dev and test of imdb are one re-split: they share films with each other and not with train, so "
        "whatever learns from dev rows looks better than it would on new films. With 500 labels of train "
        "rows in their place an earlier Fusion had 76.9 and LR-xv 77.3."
    ),
    ("sms", 4571, 500, 500): "about 50 dev and 68 test texts of sms also occur in train.",
}
"""Notes by name and rows of train, dev and test."""


def fit_of_lift(similarity: Sequence[float], lift: Sequence[float]) -> float:
    """R² of lift against similarity; NaN for fewer than three points."""
    if len(lift) < 3 or np.ptp(similarity) == 0 or np.ptp(lift) == 0:
        return float("nan")
    return float(np.corrcoef(similarity, lift)[0, 1] ** 2)
