"""Votes of example rows: how near every row of a session is to some rows named or pointed at."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import UnknownName, VectorError
from ..functions.apply import check_declared
from ..functions.declare import Like
from ..functions.define import as_labeling_function
from ..loans import Neighbourhood
from ..neighbors import Space, nearest
from ..votes import ABSTAIN
from .records import Place
from .state import RowNames

FEW = 10
"""A radius suggested for one row reaches about so many others."""
MOST_ASKED = 200


def like_votes(
    like: Like, names: RowNames, near: Neighbourhood, classes: tuple[str, ...]
) -> tuple[np.ndarray, ...]:
    """A column of class indices for every split: the label within the radius of an example, else −1."""
    check_declared([as_labeling_function(like)], classes)
    places = places_of(like, names)
    far = _nearest_of(near, places, f"labeling function {like.name!r}")
    vote = classes.index(like.label)
    columns = [np.where(each <= like.radius, vote, ABSTAIN).astype(np.int8) for each in far]
    if len(classes) > 127:
        columns = [each.astype(np.int16) for each in columns]
    for at, row in places:  # a row is like itself, with or without a direction
        columns[at][row] = vote
    return tuple(columns)


def places_of(like: Like, names: RowNames) -> list[Place]:
    """Where the example rows are, in whichever file."""
    found = []
    for row in like.rows:
        places = (names.find(file, row) for file in dict.fromkeys(names.files))
        place = next((each for each in places if each is not None), None)
        if place is None:
            raise UnknownName(
                f"labeling function {like.name!r} is like row {row!r}, and no row has that id; "
                "give ids of rows that are in the rows file"
            )
        found.append(place)
    return found


def distances_to(near: Neighbourhood, place: Place) -> list[np.ndarray]:
    """The distance of every row of every split from one row; inf for rows without a direction."""
    return _nearest_of(near, [place], "likeness")


def suggest_radius(near: Neighbourhood, places: Sequence[Place]) -> float:
    """A radius to begin with for "more like these".

    The median distance from one of the rows to the next of them, and no more than reaches some ten
    rows around each.
    """
    asked = [places[at] for at in np.linspace(0, len(places) - 1, MOST_ASKED).astype(int)]
    vectors = _vectors(near, list(dict.fromkeys(asked)), "a radius")
    mine = Space(vectors, near.metric)
    assert near.spaces is not None
    around = []
    for row in range(min(len(mine), FEW)):
        far = mine.distances(
            np.full(len(near.spaces[0]), row), near.spaces[0], np.arange(len(near.spaces[0]))
        )
        around.append(np.partition(far, min(FEW, len(far) - 1))[min(FEW, len(far) - 1)])
    reach = float(np.median(around))
    if len(mine) < 2:
        return reach
    every = np.arange(len(mine))
    between = [mine.distances(np.full(len(mine), row), mine, every) for row in every]
    table = np.array(between)
    np.fill_diagonal(table, np.inf)
    return min(reach, float(np.median(table.min(axis=1))))


def _nearest_of(near: Neighbourhood, places: Sequence[Place], who: str) -> list[np.ndarray]:
    """How far every row of every split is from the nearest of some rows."""
    vectors = _vectors(near, places, who)
    far = [np.full(size, np.inf) for size in near.sizes]
    if not len(vectors):
        return far
    examples = Space(vectors, near.metric)
    assert near.spaces is not None
    for at, space in enumerate(near.spaces):
        found = nearest(examples, np.ones((len(examples), 1), dtype=bool), space).distance[:, 0]
        rows = near.places[at]
        far[at][slice(None) if rows is None else rows] = found
    return far


def _vectors(near: Neighbourhood, places: Sequence[Place], who: str) -> np.ndarray:
    """The vectors of some rows; those without a direction are left out."""
    if near.spaces is None:
        raise VectorError(
            f"{who} needs vectors, and these rows have none; name an encoder under [vectors], "
            "or give the splits vectors"
        )
    found = []
    for at, row in places:
        kept = near.places[at]
        inside = row if kept is None else int(np.searchsorted(kept, row))
        if kept is None or (inside < len(kept) and kept[inside] == row):
            found.append(near.spaces[at].vectors[inside])
    return np.array(found, dtype=np.float32)
