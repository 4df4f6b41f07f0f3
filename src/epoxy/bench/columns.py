"""The columns of the tables, in order; one row here adds a method everywhere."""

from __future__ import annotations

from ..errors import UnknownName
from . import deep_columns, head_columns, label_columns
from .context import Column
from .liger import liger

__all__ = ["COLUMNS", "DEEP", "column", "columns"]

_DEV, _VECTORS, _ROWS = "dev", "vectors", "rows"

COLUMNS: tuple[Column, ...] = (
    Column("Epoxy", label_columns.epoxy, frozenset({_DEV, _VECTORS}), cost=2),
    Column("Epoxy-fixed-r", label_columns.epoxy_fixed, frozenset({_DEV, _VECTORS})),
    Column("WS-LM", label_columns.triplet, cost=0.1),
    Column("MV-LM", label_columns.majority, cost=0.1),
    Column("DP-LM", label_columns.snorkel, random=True, cost=2, loads="snorkel.labeling.model"),
    Column("DS-LM", label_columns.dawid_skene, cost=0.3),
    Column("Liger", liger, frozenset({_DEV, _VECTORS}), random=True),
    Column("TS-NFT", head_columns.ts_nft, frozenset({_DEV, _VECTORS})),
    Column("WS-NFT", head_columns.ws_nft, frozenset({_VECTORS})),
    Column("Epoxy-NFT", head_columns.epoxy_nft, frozenset({_DEV, _VECTORS})),
    Column("TS-KNN", head_columns.ts_knn, frozenset({_DEV, _VECTORS}), cost=0.2),
    Column("WS-KNN", head_columns.ws_knn, frozenset({_VECTORS})),
    Column("Fusion", label_columns.fusion, frozenset({_DEV, _VECTORS}), cost=2),
    Column("TS-FT", deep_columns.ts_ft, frozenset({_DEV, _ROWS}), True, 60, "torch"),
    Column("WS-FT", deep_columns.ws_ft, frozenset({_ROWS}), True, 180, "torch"),
    Column(
        "Epoxy-FT",
        deep_columns.epoxy_ft,
        frozenset({_DEV, _VECTORS, _ROWS}),
        True,
        180,
        "torch",
    ),
)

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
