"""Why one row got its label: what each part adds, and the functions and rows behind it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..diagnostics import Explanation, Voice, vote_shares
from ..sequences.layout import layout_of
from ..votes import ABSTAIN, Split
from .constants import AGREEMENT, LIKEST_WEIGHT, LOUD_FEATURES, LOUD_VOTES, VOICES
from .fitted import Fitted, SeenRows
from .likest import weights
from .tally import counted

if TYPE_CHECKING:
    from .fusion import Fusion

SHOWN = 5
"""Rows named behind what was learned from many."""
LEAST = 0.005
"""What moves log-odds by less is not listed by itself."""


def explain_row(
    model: Fusion,
    split: Split,
    at: int,
    row: SeenRows,
    proba: np.ndarray,
    decided: int | None = None,
) -> Explanation:
    """Take one row's log-odds apart; `row` holds it alone, and the weights of voices and start add up."""
    fitted = model.fitted_
    label = int(fitted.rule(proba[None])[0]) if decided is None else decided
    other = int(np.argsort(np.where(np.arange(len(proba)) == label, -np.inf, proba))[-1])
    said, scale = fitted.parts(row), float(fitted.scale(row)[0])

    def gain(evidence: np.ndarray) -> float:
        return scale * float(evidence[label] - evidence[other])

    parts = {name: gain(each[0]) for name, each in said.items()}
    voices = _votes(model, split, row, (label, other), scale)
    _rest(voices, "votes", parts["votes"], "what the silence of functions says")
    if "vectors" in parts:
        name = split.classes[label]
        detail = (
            f"a line through all rows: what functions call rows with such vectors, for {name!r}"
        )
        voices.append(
            Voice("vectors", None, "rest", weight=parts["vectors"], detail=detail, part="vectors")
        )
        voices.append(_neighbours(model, row, parts["neighbours"], (label, other)))
    if "labels" in parts:
        voices += _labels(model, row, (label, other), scale)
        _rest(voices, "labels", parts["labels"], "all other hand labels together")
    voices = [each for each in voices if each.origin != "rest" or abs(each.weight) >= LEAST]
    voices += _silenced(model, split, at)
    floor = np.log(np.maximum(proba, 1e-300))
    log_odds = float(floor[label] - floor[other])
    names, truth = split.classes, int(split.truth[at])
    return Explanation(
        row=split.id_of(at),
        label=names[label],
        against=names[other],
        probabilities=dict(zip(names, proba.tolist(), strict=True)),
        majority=vote_shares(split.votes.matrix[at], names),
        # log π with the lean, and what is too small to be listed
        start=log_odds - sum(each.weight for each in voices),
        log_odds=log_odds,
        voices=tuple(sorted(voices, key=lambda voice: -abs(voice.weight))),
        truth=None if truth == ABSTAIN else names[truth],
        notes=tuple(_notes(fitted, row, said, names, proba, label, truth)),
    )


def _notes(
    fitted: Fitted,
    row: SeenRows,
    said: dict[str, np.ndarray],
    names: tuple[str, ...],
    proba: np.ndarray,
    label: int,
    truth: int,
) -> list[str]:
    found = []
    likeliest = int(proba.argmax())
    if likeliest != label and truth != label:
        found.append(
            f"{names[likeliest]!r} is more probable; the rule that serves scoring says {names[label]!r}"
        )
    if not fitted.known(row, said)[0] and fitted.corrected is None:
        silent = (row.own != ABSTAIN).any()
        but = ", but by functions that do not count" if silent else ""
        found.append(f"nothing is known about this row{but}: it has the class balance")
    return found


def _votes(
    model: Fusion, split: Split, row: SeenRows, pair: tuple[int, int], scale: float
) -> list[Voice]:
    """Votes for one class share what the class gains by them: log(C + 2π) − log(2π)."""
    fitted, (label, other) = model.fitted_, pair
    own, said = row.own[:, 0], row.votes[:, 0].astype(np.intp)
    counts = counted(row.votes[fitted.heard], len(fitted.prior))[0]
    each_vote = np.log1p(counts / (VOICES * fitted.prior)) / np.maximum(counts, 1)
    number, voices = np.cumsum(fitted.heard) - 1, []
    for column in np.flatnonzero(fitted.heard & (said != ABSTAIN)):
        vote = int(said[column])
        weight = float(each_vote[vote]) * ((vote == label) - (vote == other))
        if fitted.likelihood is not None:
            part = AGREEMENT * fitted.likelihood[number[column], 1 + vote]
            weight += float(part[label] - part[other])
        source = model.train_.votes.sources[int(fitted.columns[column])]
        name, origin, lender, far = split.classes[vote], "own", None, None
        detail = f"votes {name!r}"
        if own[column] == ABSTAIN:
            loan = row.loans[column]
            origin, far = "lent", float(loan.distance[0])
            lender = model.train_.id_of(int(loan.lender[0]))
            detail = f"votes {name!r}, lent by row {lender} at distance {far:.3f}"
        weight *= scale * fitted.weight("votes")
        behind = () if lender is None else (lender,)
        voices.append(Voice(source, name, origin, lender, far, weight, detail, "votes", behind))
    return voices


def _neighbours(model: Fusion, row: SeenRows, part: float, pair: tuple[int, int]) -> Voice:
    """The train rows around it, those that say most first."""
    sight, lists = model.fitted_.sight, row.lists
    assert sight is not None
    assert lists is not None
    label, other = pair
    node = lists.node[lists.at[0]] if lists.at[0] >= 0 else np.empty(0, np.int32)
    node = node[(node >= 0) & (sight.thought.count[node] > 0)]
    table = sight.thought.table[node]
    order = np.argsort(-np.abs(table[:, label] - table[:, other]), kind="stable")[:SHOWN]
    shown = tuple(model.row_at(int(each)) for each in node[order])
    share = float(table[:, label].sum() / (len(node) + VOICES) + sight.thought.base[label])
    name, count = model.train_.classes[label], len(node)
    detail = (
        f"of the rows around it {count} have votes, and {share:.0%} of what these say is {name!r}"
    )
    return Voice("neighbours", None, "rest", None, None, part, detail, "neighbours", shown)


def _labels(model: Fusion, row: SeenRows, pair: tuple[int, int], scale: float) -> list[Voice]:
    """The hand-labelled rows that moved the answer most: φ(x)·φ_i times what row i taught, and the likest."""
    fitted, (label, other) = model.fitted_, pair
    taught, hand = fitted.corrected, model.hand_
    assert taught is not None
    assert hand is not None
    kernel = LOUD_VOTES**2 * (taught.votes @ fitted.spread(row)[0])
    if taught.features is not None and row.features is not None:
        kernel = kernel + LOUD_FEATURES**2 * (taught.features @ row.features[0])
    pulls = scale * kernel * (taught.dual[:, label] - taught.dual[:, other])
    likeness = np.zeros(len(pulls))
    if taught.asks and row.likest is not None:
        number, like = row.likest.number[0], row.likest.likeness[0]
        known = number >= 0
        number, like = number[known], like[known]
        heavy = weights(like) * ((taught.y[number] == label) * 1.0 - (taught.y[number] == other))
        said = row.likest.evidence(taught.y, fitted.prior)[0]
        total = LIKEST_WEIGHT + taught.moved["likest"]
        total *= scale * float(said[label] - said[other])
        if abs(heavy.sum()) > 1e-12:
            pulls[number] += total * heavy / heavy.sum()
        likeness[number] = like
    voices = []
    for at in np.argsort(-np.abs(pulls), kind="stable")[:SHOWN]:
        if abs(pulls[at]) < LEAST:
            break
        name, place = hand.classes[int(taught.y[at])], hand.id_of(int(at))
        far = 1 - float(likeness[at]) if likeness[at] else None
        detail = f"hand-labelled row {place} is {name!r}"
        weight = float(pulls[at])
        voices.append(
            Voice("hand labels", name, "hand", place, far, weight, detail, "labels", (place,))
        )
    return voices


def _rest(voices: list[Voice], part: str, total: float, detail: str) -> None:
    """What a part adds beyond the voices that are named."""
    rest = total - sum(each.weight for each in voices if each.part == part)
    if abs(rest) > 1e-9:
        source = "hand labels" if part == "labels" else part
        voices.append(Voice(source, None, "rest", weight=rest, detail=detail, part=part))


def copies(model: Fusion) -> dict[str, str]:
    """Sources that do not count because they vote as another does, and which one each repeats."""
    votes, kept = model.train_.votes, model.fitted_.columns
    total, found = votes.cast.sum(axis=0), {}
    for at in np.setdiff1d(np.arange(votes.n_sources), kept):
        alike = (votes.matrix[:, kept] == votes.matrix[:, [at]]) & votes.cast[:, kept]
        same = alike.sum(axis=0)
        share = same / np.maximum(1, total[at] + total[kept] - same)
        found[votes.sources[at]] = votes.sources[int(kept[share.argmax()])] if len(kept) else ""
    return found


def _silenced(model: Fusion, split: Split, at: int) -> list[Voice]:
    """The votes of sources that do not count, and why."""
    why = {name: ("copy", f"counts once, with {of}") for name, of in copies(model).items()}
    by_hand = "" if model.fitted_.corrected is None else " but by hand labels, whose part holds it"
    unlike = f"is not heard{by_hand}: rows like those it votes on are otherwise called"
    unheard = model.fitted_.unheard(model.train_.votes.sources)
    why |= dict.fromkeys(unheard, ("contradicted", unlike))
    voices = []
    for name, (origin, reason) in why.items():
        vote = int(split.votes.matrix[at, split.votes.sources.index(name)])
        if vote != ABSTAIN:
            said = split.classes[vote]
            voices.append(Voice(name, said, origin, detail=f"votes {said!r}, and {reason}"))
    return voices


def with_sequence(
    found: Explanation, added: np.ndarray, split: Split, row: int, given: np.ndarray | None
) -> Explanation:
    """An explanation whose start holds what a sequence added, with that part named; `added` is (2, K)."""
    label, other = (split.classes.index(name) for name in (found.label, found.against))
    parts = (added[:, label] - added[:, other]).tolist()
    layout = layout_of(split.votes, None)
    sequence = int(np.searchsorted(layout.starts, row, side="right")) - 1
    start = int(layout.starts[sequence])
    sides = (range(row - 1, start - 1, -1), range(row + 1, start + int(layout.lengths[sequence])))
    voices = [
        Voice(
            "sequence",
            None,
            "sequence",
            weight=part,
            detail=_side(word, rows, split, given),
            part="sequence",
        )
        for word, rows, part in zip(("before", "after"), sides, parts)
        if len(rows)
    ]
    total = sum(parts)
    return replace(
        found,
        start=found.start - total,
        voices=tuple(sorted((*found.voices, *voices), key=lambda voice: -abs(voice.weight))),
    )


def _side(word: str, rows: range, split: Split, given: np.ndarray | None) -> str:
    """How many rows stand on one side, nearest first in `rows`, and the nearest hand label there."""
    text = f"{len(rows)} {'row' if len(rows) == 1 else 'rows'} {word} it in its sequence"
    nearest = next((row for row in rows if given is not None and given[row] != ABSTAIN), None)
    if nearest is None or given is None:
        return text
    name = split.classes[int(given[nearest])]
    return f"{text}, of which row {split.id_of(nearest)} is hand-labelled {name!r}"
