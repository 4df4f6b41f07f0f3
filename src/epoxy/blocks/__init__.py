"""One path for memory, disk and cluster: arrays in blocks of rows, and any map over them."""

from __future__ import annotations

from .label import label
from .table import Blocks

__all__ = ["Blocks", "label"]
