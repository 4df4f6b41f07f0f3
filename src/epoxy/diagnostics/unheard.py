"""Sources that a model does not hear because vectors contradict them, and what hand labels say of those."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..errors import few
from ..votes import ABSTAIN
from .examination import limits
from .report import Finding


def not_heard(
    unheard: Mapping[str, float], defended: Mapping[str, tuple[int, int]] | None = None
) -> list[Finding]:
    """The model found its vectors to contradict some sources, of which `unheard` has the support.

    Parameters
    ----------
    defended
        Right votes and all votes on labelled rows of those that hand labels prove right: `defended_by`.
    """
    if not unheard:
        return []
    proven = defended or {}
    worst = sorted(unheard, key=unheard.__getitem__)
    fact = (
        f"Not heard because vectors contradict them: "
        f"{few([f'{name!r} (support {unheard[name]:+.2f})' for name in worst])}; rows like those they "
        "vote on are otherwise called by the other sources."
    )
    cure = ""
    if len(proven) < len(unheard):
        others = "of their votes" if not proven else "votes of the others"
        cure = (
            f"Read some {others}: such a source may return the wrong class, or vote at random. Hand "
            "labels still learn what its votes are worth."
        )
    if proven:
        told = [
            f"{name!r} on {proven[name][0]} of {proven[name][1]} rows"
            for name in worst
            if name in proven
        ]
        fact += f" Hand labels agree with {few(told)}."
        kept = "Keep what hand labels agree with: they weigh its votes. Look instead for sources that err"
        cure = f"{kept} where it votes, or vectors that tell these rows apart. {cure}".strip()
    return [Finding("not-heard", tuple(worst), "warning", fact, cure)]


def defended_by(
    votes: np.ndarray, y: np.ndarray, sources: Sequence[str]
) -> dict[str, tuple[int, int]]:
    """Right votes and all votes of the sources that labels prove right.

    Wilson's lower limit lies above naming the same classes at random; `votes` are those on the labelled rows,
    (n_sources, n_rows), and `y` what these are.
    """
    found, share = {}, np.bincount(y, minlength=int(votes.max(initial=0)) + 1) / max(1, len(y))
    for name, column in zip(sources, votes, strict=True):
        cast = np.flatnonzero(column != ABSTAIN)
        right = int((column[cast] == y[cast]).sum())
        chance = share[column[cast]].mean() if len(cast) else 1.0
        if limits(right, len(cast), len(sources))[0] > chance:
            found[name] = (right, len(cast))
    return found
