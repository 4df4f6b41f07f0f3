"""From votes to probabilities: one protocol, one model per file."""

from __future__ import annotations

from .dawid_skene import DawidSkene
from .label_model import LabelModel, balance_of
from .majority import MajorityVote
from .moments import Moments, moments
from .snorkel import Snorkel
from .triplet import Triplet

__all__ = [
    "DawidSkene",
    "LabelModel",
    "MajorityVote",
    "Moments",
    "Snorkel",
    "Triplet",
    "balance_of",
    "moments",
]
