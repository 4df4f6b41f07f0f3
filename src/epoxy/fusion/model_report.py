"""The report of the default model: what each part is worth, and whether probabilities mean what they say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..diagnostics import (
    Column,
    Finding,
    Report,
    interval,
    not_heard,
    part_table,
    reliability_table,
    scores,
)
from ..diagnostics.report import Table
from ..diagnostics.unheard import defended_by
from ..engines import Details, Outcome, held_out_reliability, report_of
from ..sequences.layout import layout_of
from ..votes import ABSTAIN, Split
from .explanation import copies
from .sequence import LabelChain
from .unlabelled import tells

if TYPE_CHECKING:
    from .engine import FusionEngine
    from .fusion import Fusion


def write_report(engine: FusionEngine, outcome: Outcome, at: int, positive: str | None) -> Report:
    """What each source and part does on a split of a session, and how good its labels are."""
    rows, model = engine.seen(outcome).rows, outcome.model
    said = model.fitted_.parts(rows[at])
    details = Details(
        "Fusion",
        balance=model.class_balance_,
        distance=_distances(outcome, at),
        notes=tuple(_notes(model, said)),
        tables=(_parts(model, said, outcome.workspace.split(at)), *held_out_reliability(outcome)),
    )
    found, chain = report_of(outcome, at, positive, details), model.chain_
    if chain is None:
        return found
    layout = layout_of(model.train_.votes, None)
    about = {"sequences": len(layout.starts), "longest": layout.longest}
    return replace(
        found,
        summary={**found.summary, "sequences": about},
        findings=(*found.findings, _words(chain)),
        tables=(*found.tables, _table(chain, model.train_.classes)),
    )


def model_report(model: Fusion, split: Split, positive: str | None) -> Report:
    """Headline numbers, the reliability curve, and one line per part, of any split.

    Rows that taught the model are scored by models that did not learn from them.
    """
    rows = model.rows_of(split)
    said, proba = model.fitted_.parts(rows), model.predict_proba(split)
    notes = _notes(model, said)
    taught, numbers = _taught(model, split)
    if len(taught):
        if model.held_out_ is None:
            notes.append(
                f"{len(taught)} of these rows taught the model, so the scores flatter it; give rows it has "
                "not seen, or ask the session"
            )
        else:
            proba[taught] = model.held_out_[numbers]
    summary: dict[str, Any] = {
        "rows": split.n_rows,
        "hand labels": 0 if model.hand_ is None else model.hand_.n_rows,
        "covered by votes": float(split.votes.covered.mean()) if split.n_rows else 0.0,
        "class balance": dict(zip(split.classes, model.class_balance_.tolist(), strict=True)),
    }
    known = split.truth != ABSTAIN
    tables = [_parts(model, said, split)]
    if known.any():
        guess = model.decide(proba)
        summary["scores"] = scores(proba, split.y, split.classes, positive=positive, decided=guess)
        right = interval(int((guess[known] == split.truth[known]).sum()), int(known.sum()))
        assert right is not None  # some are known
        summary["accuracy interval"] = {"low": right["low"], "high": right["high"]}
        tables.append(reliability_table(proba[known], split.truth[known]))
    return Report("Fusion", summary, findings=(*_not_heard(model), *notes), tables=tuple(tables))


def _not_heard(model: Fusion) -> list[Finding]:
    """Sources that vectors contradict, and what the hand labels the model learned from say of them."""
    unheard, hand = model.fitted_.unheard(model.train_.votes.sources), model.hand_
    if not unheard or hand is None:
        return not_heard(unheard)
    names = [each for each in hand.votes.sources if each in unheard]
    return not_heard(unheard, defended_by(hand.votes.only(names).matrix.T, hand.truth, names))


def _taught(model: Fusion, split: Split) -> tuple[np.ndarray, np.ndarray]:
    """Rows of `split` whose label taught the model, and their numbers among the hand labels.

    They are known by what they say: votes, vector, and id where both have one.
    """
    hand, known = model.hand_, np.flatnonzero(split.truth != ABSTAIN)
    nothing = np.empty(0, dtype=np.intp)
    if hand is None or not len(known):
        return nothing, nothing
    named = hand.ids is not None and split.ids is not None
    numbers = {key: number for number, key in enumerate(_contents(hand, named))}
    found = [numbers.get(key, -1) for key in _contents(split.rows(known), named)]
    at = np.array(found, dtype=np.intp)
    return known[at >= 0], at[at >= 0]


def _contents(split: Split, named: bool) -> list[tuple[bytes, bytes, str]]:
    votes = np.ascontiguousarray(split.votes.matrix)
    vectors = np.empty((split.n_rows, 0)) if split.vectors is None else split.vectors
    ids = [""] * split.n_rows if not named or split.ids is None else map(str, split.ids)
    rows = zip(votes, np.ascontiguousarray(vectors), ids)
    return [(vote.tobytes(), vector.tobytes(), name) for vote, vector, name in rows]


def _parts(model: Fusion, said: dict[str, np.ndarray], split: Split) -> Table:
    """One line per part; of labels it is not said how right they are, which they are judged by."""
    table = part_table(model.weights_, said, prior=model.class_balance_, y=split.y)
    fair = ({**row, "right": None} if row["part"] == "labels" else row for row in table.rows)
    return replace(table, rows=tuple(fair))


def _distances(outcome: Outcome, at: int) -> np.ndarray | None:
    if outcome.workspace.near.spaces is None or not outcome.workspace.active:
        return None
    return np.stack([each.loans[at].distance for each in outcome.workspace.active], axis=1)


def _guessed(model: Fusion) -> str:
    """The class balance as far as votes tell it, in words."""
    if model.class_balance is not None:
        return ""
    balance = model.fitted_.balance
    named = zip(model.train_.classes, balance.shares, balance.low, balance.high)
    ranked = sorted(named, key=lambda each: -each[1])
    shown = [f"{name!r} {share:.0%} ({low:.0%} to {high:.0%})" for name, share, low, high in ranked]
    more = f" and {len(shown) - 5} more" if len(shown) > 5 else ""
    return f", and the class balance is guessed from the votes: {', '.join(shown[:5])}{more}"


def _notes(model: Fusion, said: dict[str, np.ndarray]) -> list[str]:
    found = []
    train, hand = model.train_, model.hand_
    if hand is None:
        found.append(f"no hand labels{_guessed(model)}; 50 labelled rows would correct it")
    else:
        missing = [name for at, name in enumerate(train.classes) if at not in set(hand.truth)]
        if missing:
            found.append(f"no row is labelled {missing}; label a few to find these classes")
    if train.vectors is None:
        found.append("no vectors: only the votes speak; embed the rows to use near and like rows")
    elif not tells(model.fitted_):
        found.append(
            "vectors do not foretell the votes of rows left out, so nothing was learned from them; "
            "check that vectors and rows are aligned, or embed with another encoder"
        )
    repeated = copies(model)
    if repeated:
        told = [f"{name!r} of {of!r}" for name, of in list(repeated.items())[:5]]
        more = f" and {len(repeated) - 5} more" if len(repeated) > 5 else ""
        found.append(f"sources that repeat others: {', '.join(told)}{more}; they count once")
    silent = ~(np.ptp(np.stack(list(said.values())), axis=2) > 1e-9).any(axis=0)
    if silent.any() and model.chain_ is None:
        found.append(
            f"nothing is known about {int(silent.sum())} rows; they have the class balance"
        )
    return found


def _words(chain: LabelChain) -> str:
    where = f"votes and {chain.counted} neighbouring hand labels" if chain.counted else "votes"
    return (
        f"labels use the order of rows: how they follow each other is learned from {where}, and what "
        f"neighbours say counts {chain.trust:.0%}"
    )


def _table(chain: LabelChain, classes: Sequence[str]) -> Table:
    columns = (Column("label", "label"), *(Column(f"next {n}", n, "share") for n in classes))
    rows: list[dict[str, Any]] = [
        {"label": name} | {f"next {n}": float(p) for n, p in zip(classes, moves)}
        for name, moves in zip(classes, chain.transitions)
    ]
    return Table("how labels follow each other", columns, tuple(rows))
