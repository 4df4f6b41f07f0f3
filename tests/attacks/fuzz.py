"""Odd arguments to public functions: every answer is finite and sums to one, or there is a sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import epoxy
from attacks.models import is_distribution, rows
from attacks.tally import Tally
from epoxy.encoders import embed
from epoxy.heads import LinearHead, NearestNeighbors
from epoxy.sequences import Chain

TRAIN, DEV = rows(40), rows(20, seed=1)
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 127, 128, 10**12, -(10**12), 0.5, -0.0, 1e-320, 3e38, -3e38),
    *(
        1e308,
        float("nan"),
        float("inf"),
        float("-inf"),
        "",
        "auto",
        "ham",
        "x" * 5000,
        "\x00",
        "\ud800",
    ),
    *(
        b"ham",
        [],
        [[]],
        [None],
        {},
        {"a": 1},
        (),
        set(),
        object(),
        lambda row: row,
        1j,
        np.array(3),
    ),
    *(np.zeros((0, 3)), np.zeros((3, 0)), np.array(["a", None], dtype=object), np.ma.masked),
    *(np.datetime64("2020"), Exception, epoxy.Votes([[0], [1]]), TRAIN, DEV, range(3)),
)


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def array(rng: np.random.Generator) -> Any:
    """Votes or vectors that are nearly right."""
    shape = tuple(rng.integers(0, 6, int(rng.integers(0, 4))))
    made = [
        lambda: rng.integers(-2, 4, shape),
        lambda: rng.normal(size=shape) * 10.0 ** rng.integers(-320, 308),
        lambda: rng.choice([np.nan, np.inf, -np.inf, 3e38, -3e38, 0.0, 1.0], shape),
        lambda: rng.integers(-1, 2, (40, 4)),
        lambda: np.full((40, 3), rng.choice([0.0, 1.0, 3e38, -3e38, 1e-300, 1e18])),
        lambda: rng.normal(size=(40, 3)).astype(rng.choice(["f2", "f4", "f8", "i1", "U3", "O"])),
        lambda: rng.integers(-1, 2, (int(rng.integers(0, 9)), int(rng.integers(0, 4)))).tolist(),
    ]
    return made[int(rng.integers(len(made)))]()


def odd(rng: np.random.Generator) -> Any:
    """Anything."""
    return array(rng) if rng.random() < 0.3 else ODD[int(rng.integers(len(ODD)))]


def maybe(rng: np.random.Generator, usual: Any, share: float = 0.5) -> Any:
    """What is usual, or anything."""
    return usual if rng.random() > share else odd(rng)


def fails(row: Any) -> str:
    raise Unprintable


def cases(rng: np.random.Generator) -> dict[str, Callable[[], Any]]:
    """Calls with odd arguments; those that give probabilities return them."""

    def votes() -> epoxy.Votes:
        return epoxy.Votes(maybe(rng, TRAIN.votes.matrix), maybe(rng, None), maybe(rng, None))

    def split() -> epoxy.Split:
        return epoxy.Split(votes(), maybe(rng, TRAIN.vectors), maybe(rng, TRAIN.y))

    radius = maybe(rng, 0.2)
    balance = maybe(rng, [0.5, 0.5])
    name = maybe(rng, TRAIN.votes.sources[0])

    def fit(model: Any, *given: Any) -> Any:
        return model.fit(*given).predict_proba(given[0])

    def head(kind: Any) -> Any:
        vectors = maybe(rng, TRAIN.vectors)
        return kind.fit(vectors, maybe(rng, TRAIN.y)).predict_proba(maybe(rng, vectors))

    def edit() -> Any:
        session = epoxy.Session(TRAIN, DEV, epoxy.Epoxy(radius=0.2))
        for call in rng.choice(5, 3):
            (
                lambda: session.set_radius(name, radius),
                lambda: session.switch(name, maybe(rng, False)),
                lambda: session.label(maybe(rng, 3), maybe(rng, "1"), maybe(rng, "train", 0.1)),
                lambda: session.set_votes(name, maybe(rng, TRAIN.votes.matrix[:, 0])),
                lambda: session.remove(name),
            )[call]()
        return session.probabilities if session.sources and not session.problem else None

    text = {"text": maybe(rng, ["a b", "b c", "", "d"])}
    word = [epoxy.keywords(maybe(rng, "ham", 0.2), maybe(rng, "a", 0.2), name="f")]
    return {
        "Votes": votes,
        "Split": split,
        "from_signed": lambda: epoxy.Votes.from_signed(odd(rng)),
        "Triplet": lambda: fit(epoxy.Triplet(class_balance=balance), votes()),
        "MajorityVote": lambda: fit(epoxy.MajorityVote(balance), votes()),
        "DawidSkene": lambda: fit(epoxy.DawidSkene(balance), votes()),
        "Chain": lambda: fit(Chain(maybe(rng, 4), class_balance=maybe(rng, None)), votes()),
        "Epoxy": lambda: fit(epoxy.Epoxy(None, radius, metric=maybe(rng, "cosine", 0.2)), split()),
        "Fusion": lambda: fit(
            epoxy.Fusion(radius=radius, class_balance=maybe(rng, None), noise=maybe(rng, 0.0, 0.2)),
            split(),
            maybe(rng, DEV, 0.2),
        ),
        "reach": lambda: epoxy.reach(split()).extend(maybe(rng, 0.2)) and None,
        "extend": lambda: epoxy.reach(TRAIN).extend(odd(rng)) and None,
        "apply": lambda: epoxy.apply(word, text, classes=maybe(rng, ["ham", "spam"])) and None,
        "apply fails": lambda: (
            epoxy.apply(
                [epoxy.labeling_function(fails)], text, classes=["a", "b"], on_error="abstain"
            )
            and None
        ),
        "embed": lambda: embed("lsa", odd(rng), cache=False) and None,
        "LinearHead": lambda: head(LinearHead(maybe(rng, 1.0, 0.2))),
        "NearestNeighbors": lambda: head(NearestNeighbors(maybe(rng, 3, 0.2))),
        "load": lambda: epoxy.load(odd(rng)) and None,
        "Session": edit,
    }


def fuzz(count: int, seed: int = 0) -> Tally:
    """Call public functions with odd arguments."""
    tally = Tally()
    for at in range(count):
        rng = np.random.default_rng((seed, at))
        try:
            calls = cases(rng)
        except epoxy.EpoxyError:  # `keywords` refuses what it is given at once
            tally.attacks, tally.refused = tally.attacks + 1, tally.refused + 1
            continue
        except Exception as error:  # noqa: BLE001 — to count them is the point
            tally.attacks += 1
            tally.raw.append(f"keywords {at}: {type(error).__name__}: {error}"[:300])
            continue
        name = list(calls)[at % len(calls)]
        tally.check(
            f"{name} {at}",
            calls[name],
            lambda found: not isinstance(found, np.ndarray) or is_distribution(found),
        )
    return tally
