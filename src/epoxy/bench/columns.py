"""The columns of the tables, in order; one row here adds a method everywhere."""

from __future__ import annotations

from ..errors import UnknownName
from . import deep_columns, head_columns, label_columns
from .context import Column
from .liger import liger

COLUMNS: tuple[Column, ...] = (
    Column("Epoxy", label_columns.epoxy, "dev vectors", cost=2),
    Column("Epoxy-fixed-r", label_columns.epoxy_fixed, "dev vectors"),
    Column("WS-LM", label_columns.triplet, cost=0.1),
    Column("Triplet", label_columns.own_triplet, cost=0.1),
    Column("MV-LM", label_columns.majority, cost=0.1),
    Column("DP-LM", label_columns.snorkel, random=True, cost=2, loads="snorkel.labeling.model"),
    Column("DS-LM", label_columns.dawid_skene, cost=0.3),
    Column("Liger", liger, "dev vectors", random=True),
    Column("TS-NFT", head_columns.ts_nft, "dev vectors"),
    Column("WS-NFT", head_columns.ws_nft, "vectors"),
    Column("Epoxy-NFT", head_columns.epoxy_nft, "dev vectors"),
    Column("TS-KNN", head_columns.ts_knn, "dev vectors", cost=0.2),
    Column("WS-KNN", head_columns.ws_knn, "vectors"),
    Column("LR-xv", head_columns.lr_xv, "dev vectors"),
    Column("Self-train", head_columns.self_training, "dev vectors", cost=2),
    Column("Boost-xv", head_columns.boosting, "dev vectors", cost=2),
    Column("Fusion", label_columns.fusion, cost=2),
    Column("TS-FT", deep_columns.ts_ft, "dev rows", True, 60, "torch"),
    Column("WS-FT", deep_columns.ws_ft, "rows", True, 180, "torch"),
    Column("Epoxy-FT", deep_columns.epoxy_ft, "dev rows vectors", True, 180, "torch"),
    Column("Ceiling", head_columns.ceiling, "gold vectors", cost=5),
)

OURS, CEILING = "Fusion", "Ceiling"
"""The column the others are compared with, and the one that reads train labels: no baseline."""

DEEP = ("TS-FT", "WS-FT", "Epoxy-FT")
"""The columns that fine-tune a network, and so take minutes."""


def column(name: str) -> Column:
    """One column by name."""
    for each in COLUMNS:
        if each.name == name:
            return each
    raise UnknownName.of("method", name, [each.name for each in COLUMNS])


def columns(names: tuple[str, ...] | None) -> tuple[Column, ...]:
    """The named columns in the order of the tables; all of them for None."""
    if names is None:
        return COLUMNS
    wanted = {column(name).name for name in names}
    return tuple(each for each in COLUMNS if each.name in wanted)
