"""Fusion in plain numpy and float64: the whole model, one formula after the other.

Nothing is kept between two fits, nothing is blocked or compiled, features are made anew, neighbours are
found by comparing all pairs, what a source's absence changes is computed without the source, and the
convex problem is solved by dense Newton steps. Constants are those of the model; of the rest of the
package only the triplet model is used, and of sequences what votes say of how labels follow each other.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import Any

import numpy as np
from scipy import optimize

from epoxy import Split, Triplet, Votes
from epoxy.errors import NotIdentifiable
from epoxy.fusion import constants as c
from epoxy.fusion.sequence import LEARNED, Steps

MOST_ASKED, FEWEST, FEWEST_LABELS, FEWEST_GROUPS = 1000, 3, 10, 5
PEOPLE, ROUNDS, INSIDE, APART = 60.0, 50, (0.02, 0.99), 8.0


class Oracle:
    """Fits when it is made; `radii` holds a distance per source, "auto", or None for none.

    `noise` is how often hand labels are wrong, `doubted` the same for each label, 0 for a trusted one.
    """

    def __init__(
        self,
        train: Split,
        hand: Split | None = None,
        *,
        radii: Any = None,
        metric: str = "cosine",
        class_balance: Any = None,
        noise: float = 0.0,
        doubted: Any = None,
        seed: int = 0,
    ) -> None:
        self.train, self.metric, self.classes = train, metric, train.classes
        self.n_classes, self.told = len(train.classes), class_balance
        matrix, names = train.votes.matrix.astype(int), train.votes.sources
        self.columns = distinct(matrix, names)
        self.votes = matrix[:, self.columns]
        self.names = [names[at] for at in self.columns]
        n_sources = len(self.columns)
        asked = ["auto"] * matrix.shape[1] if radii is None else list(radii)
        self.rule = np.array([asked[at] == "auto" for at in self.columns], dtype=bool)
        self.radii = np.array(
            [np.nan if asked[at] in ("auto", None) else asked[at] for at in self.columns], float
        )
        self.heard, self.support = np.ones(n_sources, dtype=bool), None
        self.features, self.directed = None, np.zeros(len(matrix), dtype=bool)
        self.line = self.around = 0.0
        if train.vectors is not None:
            self.vectors = train.vectors.astype(float)
            self.view = View(self.vectors, seed, metric == "cosine")
            self.features = self.view.of(self.vectors)
            self.directed = self.nodes_of(self.vectors)
            self.nodes, self.node = self._nodes()
            self.lists = self.near(self.vectors)
            if n_sources:
                self._judge()
        self.prior, self.kept, self.low, self.high = self.balance(self.heard)
        counts = self.counts(self.votes[:, self.heard])
        if self.features is not None:
            self._learn(counts)
        speaks = bool((counts > 0).any())
        self.blind = self.features is None or (speaks and max(self.line, self.around) < c.TELLS)
        self.tables = None
        if self.blind:
            self.line = self.around = 0.0
            if speaks:
                with warnings.catch_warnings(), suppress(NotIdentifiable):
                    warnings.simplefilter("ignore")
                    made = Triplet(class_balance=self.prior).fit(self._votes(self.heard))
                    self.tables = made.log_likelihood_
        if self.features is None:
            self.radii[:] = np.nan
        else:
            self.loans = self.borrowed(self.votes, self.vectors)
            if self.support is not None and not self.blind:
                for at in np.flatnonzero(self.rule & self.heard):
                    self.radii[at] = self._radius(int(at))
        self.radii[~self.heard] = np.nan
        mine = self.look(train)
        self.lean = np.zeros(self.n_classes)
        if self.kept:
            self._lean(mine)
        self.corrected: dict[str, Any] | None = None
        self.held = np.empty((0, self.n_classes))
        if hand is not None and hand.labelled.any():
            rows = hand.labelled
            self.doubted = np.zeros(int(rows.sum())) if doubted is None else np.asarray(doubted)
            self._learn_from_labels(hand.rows(rows), noise)
        self.chain = None
        if train.votes.sequences is not None:
            self._learn_order()

    # votes

    def counts(self, votes: np.ndarray) -> np.ndarray:
        return np.stack([(votes == k).sum(axis=1) for k in range(self.n_classes)], 1).astype(float)

    def _votes(self, heard: np.ndarray) -> Votes:
        names = [name for name, one in zip(self.names, heard) if one]
        return Votes(self.votes[:, heard], names, self.classes)

    def balance(self, heard: np.ndarray) -> tuple[np.ndarray, bool, np.ndarray, np.ndarray]:
        """π, whether rows together are called so, and the least and the most of each share."""
        k = self.n_classes
        if self.told is not None:
            told = np.asarray(self.told, float)
            return told, True, told, told
        counts, equal = self.counts(self.votes[:, heard]), np.full(k, 1 / k)
        cast = counts.sum(axis=1)
        if not cast.any():
            return equal, False, np.zeros(k), np.ones(k)
        share = (counts[cast > 0] / cast[cast > 0, None]).mean(axis=0)
        least = c.LEAST_SHARE / k
        columns = self.votes[:, heard].T
        several = sum((v >= 0).sum() for v in columns if len(set(v[v >= 0].tolist())) > 1)
        if several > (columns >= 0).sum() / 2:
            found = np.maximum(share, least) ** c.VOTER_POWER
            low, high = np.minimum(equal, share), np.maximum(equal, share)
            return found / found.sum(), True, low, high
        witnesses = [equal, share]
        with warnings.catch_warnings(), suppress(NotIdentifiable):
            warnings.simplefilter("ignore")
            witnesses.append(Triplet(class_balance="learn").fit(self._votes(heard)).class_balance_)
        pooled = np.prod([np.maximum(each, least) for each in witnesses], axis=0)
        pooled = pooled ** (1 / len(witnesses))
        low, high = np.min(witnesses, axis=0), np.max(witnesses, axis=0)
        return pooled / pooled.sum(), False, low, high

    def taught(self, counts: np.ndarray, prior: np.ndarray) -> np.ndarray:
        return (counts + c.VOICES * prior) / (counts.sum(axis=1, keepdims=True) + c.VOICES)

    # who is near whom

    def nodes_of(self, vectors: np.ndarray) -> np.ndarray:
        """Rows that have a direction."""
        return (vectors != 0).any(axis=1) | (self.metric != "cosine")

    def _nodes(self) -> tuple[np.ndarray, np.ndarray]:
        """The first row of each distinct vector, and the node of each row."""
        first: dict[bytes, int] = {}
        node = np.full(len(self.vectors), -1)
        for at in np.flatnonzero(self.directed):
            node[at] = first.setdefault(self.vectors[at].tobytes(), len(first))
        firsts = [int(np.flatnonzero(node == each)[0]) for each in range(len(first))]
        return np.array(firsts, dtype=int), node

    def distances(self, vectors: np.ndarray) -> np.ndarray:
        """To every train row, inf where one of both has no direction; equal vectors are at 0."""
        a, b = vectors.astype(float), self.vectors
        if self.metric == "cosine":
            a, b = unit(a), unit(b)
        found = np.array([((b - each) ** 2).sum(axis=1) for each in a]).reshape(len(a), len(b))
        found = found / 2 if self.metric == "cosine" else np.sqrt(found)
        found[~self.nodes_of(vectors)] = np.inf
        found[:, ~self.directed] = np.inf
        return found

    def near(self, vectors: np.ndarray) -> np.ndarray:
        """For each row its nearest nodes with other vectors; −1 for none."""
        listed = np.full((len(vectors), c.NEAREST), -1)
        if len(self.nodes):
            far = self.distances(vectors)[:, self.nodes]
            for row, each in enumerate(far):
                order = np.argsort(each, kind="stable")
                order = [at for at in order if np.isfinite(each[at]) and each[at] > 0][: c.NEAREST]
                listed[row, : len(order)] = order
        return listed

    def thought(self, taught: np.ndarray, voted: np.ndarray) -> tuple[np.ndarray, ...]:
        """Mean T of each node over its rows that have votes, whether it has some, and the mean of all."""
        seen = voted & (self.node >= 0)
        lies = (self.node == np.arange(len(self.nodes))[:, None]) & seen
        has = lies.any(axis=1)
        mean = lies @ taught / np.maximum(lies.sum(axis=1, keepdims=True), 1)
        base = (
            taught[seen].mean(axis=0) if seen.any() else np.full(self.n_classes, 1 / self.n_classes)
        )
        return mean, has, base

    def shares(self, listed: np.ndarray, thought: tuple[Any, ...]) -> np.ndarray:
        """What is thought around rows; the base where nobody is."""
        mean, has, base = thought
        heard = np.append(has, False)[listed].astype(float)
        total = np.einsum("nj,njk->nk", heard, np.vstack([mean, base])[listed])
        total += c.VOICES * base
        return total / (heard.sum(axis=1, keepdims=True) + c.VOICES)

    def borrowed(self, votes: np.ndarray, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Vote and distance of the nearest train row each source votes on, for each row."""
        lent, far = np.full(votes.shape, -1), np.full(votes.shape, np.inf)
        table = self.distances(vectors)
        for source, own in enumerate(self.votes.T):
            backs = own >= 0
            if backs.all() or not backs.any() or not len(table):
                continue
            reach = np.where(backs, table, np.inf)
            far[:, source] = reach.min(axis=1)
            lent[:, source] = own[reach.argmin(axis=1)]  # the first of equals
        return lent, far

    # who is heard, and who lends how far

    def supports(
        self, heard: np.ndarray, prior: np.ndarray, source: int, rows: Any, said: np.ndarray
    ) -> Any:
        """Of classes `said` on some rows by the other sources that are heard; and the mean T."""
        others = heard & (np.arange(len(heard)) != source)
        counts = self.counts(self.votes[:, others])
        voted = counts.sum(axis=1) > 0
        thought = self.thought(self.taught(counts, prior), voted)
        around = self.shares(self.lists[rows], thought)
        at = np.arange(len(rows))
        own = counts[rows]
        found = (own[at, said] + c.VOICES * around[at, said]) / (own.sum(axis=1) + c.VOICES)
        return found - thought[2][said], thought[2]

    def supported(self, heard: np.ndarray) -> np.ndarray:
        found = np.zeros(len(heard))
        for source, own in enumerate(self.votes.T):
            mine = np.flatnonzero(own >= 0)
            if not len(mine):
                continue
            each, base = self.supports(heard, self.first_prior, source, mine, own[mine])
            for label in set(own[mine].tolist()):
                some = own[mine] == label
                gain = logit(each[some].mean() + base[label]) - logit(base[label])
                found[source] += some.mean() * gain
        return found

    def _judge(self) -> None:
        """Whom the others are better supported without."""
        self.first_prior = self.balance(self.heard)[0]
        number = (self.votes >= 0).sum(axis=0)
        named = [
            int(np.argmax([(own == k).sum() for k in range(self.n_classes)]))
            for own in self.votes.T
        ]
        refused: set[int] = set()
        now = self.supported(self.heard)
        for _ in range(c.ASKED):
            maybe = []
            for at, own in enumerate(self.votes.T):
                rest = self.votes[:, self.heard & (np.arange(len(number)) != at)]
                alone = set(own[own >= 0].tolist()) - set(rest[rest >= 0].tolist())
                if self.heard[at] and now[at] < 0 and number[at] >= c.CHANCE and not alone:
                    maybe.append(at)
            maybe = [at for at in maybe if at not in refused]
            if not maybe:
                break
            worst = min(maybe, key=lambda at: now[at] * number[at])
            others = self.heard & (np.arange(len(number)) != worst)
            then = self.supported(others)
            gains: dict[int, list[float]] = {}
            for at in np.flatnonzero(others):
                gains.setdefault(named[at], []).append(then[at] - now[at])
            if np.mean([np.mean(each) for each in gains.values()]) > c.BETTER:
                self.heard, now = others, then
            else:
                refused.add(worst)
        self.support = now

    def _radius(self, source: int) -> float:
        """How far a source lends by rule, nearest first; NaN where it lends nothing."""
        own, (vote, far) = self.votes[:, source], (each[:, source] for each in self.loans)
        mine = np.flatnonzero(own >= 0)
        silent = [at for at in np.flatnonzero(own < 0) if np.isfinite(far[at]) and far[at] > 0]
        most = round(c.BUDGET * len(mine))
        if len(silent) < FEWEST or most < FEWEST:
            return np.nan
        order = sorted(silent, key=lambda at: far[at])[:most]
        rows = np.concatenate([mine, order]).astype(int)
        said = np.concatenate([own[mine], vote[order]])
        found = self.supports(self.heard, self.prior, source, rows, said)[0]
        level, best = found[: len(mine)].mean(), np.nan
        for count in range(FEWEST, len(order) + 1):
            mean = found[len(mine) : len(mine) + count].mean()
            if level > 0 and mean >= max(c.SUPPORTED * level, c.FLOOR):
                best = far[order[count - 1]]
        return best

    # the model without labels

    def _learn(self, counts: np.ndarray) -> None:
        """The line and the rows around, and how far both foretell votes of rows left out."""
        teach, voted, x = self.taught(counts, self.prior), counts.sum(axis=1) > 0, self.features
        self.base = teach.mean(axis=0)
        inverse = np.linalg.inv(x.T @ x + c.RIDGE * np.eye(x.shape[1]))
        self.weights = inverse @ (x.T @ (teach - self.base))
        hat = np.diagonal(x @ inverse @ x.T) + 1 / len(x)
        real = teach - self.base
        self.line = slope(real, real - (real - x @ self.weights) / (1 - hat)[:, None])
        self.thoughts = self.thought(teach, voted)
        seen = voted & (self.node >= 0)
        around = self.shares(self.lists, self.thoughts)[seen]
        self.around = slope(teach[seen] - self.thoughts[2], around - self.thoughts[2])

    def look(self, split: Split) -> dict[str, Any]:
        """Rows as the model sees them: votes own and lent, features, and what the parts say."""
        own = split.votes.matrix.astype(int)[:, self.columns]
        rows: dict[str, Any] = {"own": own, "lent": np.full(own.shape, -1), "x": None}
        rows["any"] = (own[:, self.heard] >= 0).any(axis=1)
        said = {}
        if self.features is not None:
            vectors = split.vectors.astype(float)
            lent, far = self.borrowed(own, vectors)
            within = (far <= self.radii) & np.isfinite(far) & (own < 0) & ~(self.rule & (far == 0))
            rows["lent"], rows["x"] = np.where(within, lent, -1), self.view.of(vectors)
            line = rows["x"] @ self.weights + self.base
            said["vectors"] = self.line * evidence(line, self.base)
            around = evidence(self.shares(self.near(vectors), self.thoughts), self.thoughts[2])
            around[~self.nodes_of(vectors)] = 0
            said["neighbours"] = c.AROUND * self.around * around
        counts = self.counts(own[:, self.heard])
        counts += self.counts(rows["lent"][:, self.heard])
        v = np.log((counts + c.VOICES * self.prior) / self.prior)
        if self.tables is not None:
            for table, mine, more in zip(
                c.AGREEMENT * self.tables, own[:, self.heard].T, rows["lent"][:, self.heard].T
            ):
                v += table[mine + 1] + (table[more + 1] - table[0])
        rows["said"] = {"votes": v - v.mean(axis=1, keepdims=True)} | said
        return rows

    def scale(self, rows: dict[str, Any]) -> Any:
        if self.features is None or self.tables is not None:
            return np.where(rows["any"], c.SCALES[1], 1.0)[:, None]
        return np.where(rows["any"], c.SCALES[1], c.SCALES[0])[:, None]

    def before(self, rows: dict[str, Any]) -> np.ndarray:
        """Logits without labels, not yet scaled."""
        return self.start(rows) + sum(rows["said"].values())

    def start(self, rows: dict[str, Any]) -> np.ndarray:
        known = rows["any"]
        if "vectors" in rows["said"]:
            known = known | rows["said"]["vectors"].any(axis=1)
        return np.log(self.prior) + known[:, None] * self.lean

    def _lean(self, rows: dict[str, Any]) -> None:
        """What makes the mean posterior of rows of which something is known the class balance."""
        self.lean = np.ones(self.n_classes)
        known = (self.start(rows) != np.log(self.prior)).all(axis=1)
        self.lean = np.zeros(self.n_classes)
        if not known.any():
            return
        logits, s = (
            self.before(rows)[known],
            np.broadcast_to(self.scale(rows), (len(known), 1))[known],
        )

        def excess(free: np.ndarray) -> np.ndarray:
            lean = np.append(free, -free.sum())
            return (softmax(s * (logits + lean)).mean(axis=0) - self.prior)[:-1]

        found = optimize.root(excess, np.zeros(self.n_classes - 1), tol=1e-13).x
        self.lean = np.append(found, -found.sum())

    # hand labels

    def spread(self, rows: dict[str, Any]) -> np.ndarray:
        return np.hstack([1.0 * (rows["own"] == k) for k in range(self.n_classes)])

    def kernel(self, one: Any, two: Any, sighted: bool) -> np.ndarray:
        """Of ψ: features and votes, as loud as they are."""
        votes = [c.LOUD_VOTES * self.spread(each) for each in (one, two)]
        found = votes[0] @ votes[1].T
        if sighted:
            found = found + c.LOUD_FEATURES**2 * one["x"] @ two["x"].T
        return found

    def likest(self, x: np.ndarray, forbidden: Any = False) -> np.ndarray:
        """What the labels of the likest labelled rows say."""
        like = unit(x) @ unit(self.hand["x"][self.asked]).T
        like = np.where(forbidden, 0, like)
        shares = np.tile(c.VOICES * self.prior, (len(x), 1))
        for row, each in enumerate(like):
            for at in np.argsort(-each, kind="stable")[: c.LIKEST]:
                s = min(each[at], 1.0)
                if s > 0:
                    shares[row, self.y[self.asked[at]]] += s**2 / (1 + c.TWIN - s)
        return evidence(shares / shares.sum(axis=1, keepdims=True), self.prior)

    def _learn_from_labels(self, hand: Split, noise: float) -> None:
        self.hand, self.y, m = self.look(hand), hand.y, hand.n_rows
        self.asked = asked_of(m)
        most = 0.95 * (self.n_classes - 1) / self.n_classes
        least = min(max(1 / m, c.SLIPS[0]), c.SLIPS[1])
        wrong = np.clip(np.maximum(self.doubted, noise), least, max(most, least))
        films = np.arange(m)
        if hand.votes.sequences is not None:
            films = np.unique(hand.votes.sequences, return_inverse=True)[1]
        ways = [(False, films)]
        if self.features is not None:
            twins = np.unique([each.tobytes() for each in hand.vectors], return_inverse=True)[1]
            sighted = (True, joined(twins, films))
            tells = not self.blind or not self.heard.any()
            ways = [sighted] if tells else [ways[0], sighted]
            ways = ways[:1] if m < FEWEST_LABELS else ways
        tried = [self._correct(*way, wrong) for way in ways]
        scale = self.scale(self.hand)
        best, held = tried[0], [softmax(scale * each["held"]) for each in tried]
        self.held = held[0]
        if len(tried) > 1:
            words = [None] * m if hand.chosen is None else hand.chosen.tolist()
            drawn = np.array([word in (None, "random") for word in words])
            drawn = drawn if drawn.any() else ~drawn
            said = [np.log(each[np.arange(m), self.y])[drawn] for each in held]
            gain = said[1] - said[0]
            if gain.mean() > 3 * gain.std() / np.sqrt(len(gain)):
                best, self.held = tried[1], held[1]
        self.corrected = best

    def _correct(self, sighted: bool, groups: np.ndarray, wrong: np.ndarray) -> dict[str, Any]:
        m, k, said = len(self.y), self.n_classes, self.hand["said"]
        sides = [(said["votes"], c.RIDGE_PART)]
        if "vectors" in said:
            sides.append((said["vectors"] + said["neighbours"], c.RIDGE_PART))
        offset, asks = self.before(self.hand), sighted and m >= c.LIKEST
        kernel = self.kernel(self.hand, self.hand, sighted) + 1 / c.RIDGE_BIAS
        with_likest, more = offset, []
        if asks:
            like = self.likest(self.hand["x"], groups[:, None] == groups[self.asked])
            with_likest, more = offset + c.LIKEST_WEIGHT * like, [(like, c.RIDGE_PART)]
        own = np.arange(k) == self.y[:, None]
        likelihood = np.where(own, 1 - wrong[:, None], wrong[:, None] / (k - 1))
        first, doubt = with_likest.copy(), self.doubted > 0
        if doubt.any():
            ridge = self._known_balance()
            logits = offset[doubt]
            if not doubt.all():
                some, q = ~doubt, normed(softmax(offset[~doubt]) * likelihood[~doubt])
                parts = [(each[some], ridge_) for each, ridge_ in sides]
                taught = solve(offset[some], parts, kernel[np.ix_(some, some)], q, groups[some])
                logits = logits + kernel[np.ix_(doubt, some)] @ taught["dual"]
                for (each, _), moved in zip(sides, taught["moved"]):
                    logits = logits + moved * each[doubt]
                held = softmax(taught["held"])
                ridge = ridge + (held * (1 - held)).sum(axis=0)
            likelihood[doubt], bias = confused(logits, self.y[doubt], wrong[doubt], ridge)
            first[doubt] = logits + bias
        q = normed(softmax(first) * likelihood)
        found = solve(with_likest, sides + more, kernel, q, groups)
        if asks and c.LIKEST_WEIGHT + found["moved"][-1] < 0:
            found, asks = solve(offset, sides, kernel, q, groups), False
        return found | {"sighted": sighted, "asks": asks}

    def _known_balance(self) -> np.ndarray:
        low, high = (logit(each, *INSIDE) for each in (self.low, self.high))
        deviation = np.maximum((high - low) / APART, 1e-6)
        return self.n_classes / (self.n_classes - 1) / deviation**2

    # answers

    def alone(self, split: Split) -> np.ndarray:
        """Class probabilities of rows on their own; (n_rows, n_classes)."""
        rows, taught = self.look(split), self.corrected
        logits = self.before(rows)
        if taught is not None:
            kernel = self.kernel(rows, self.hand, taught["sighted"]) + 1 / c.RIDGE_BIAS
            logits = logits + kernel @ taught["dual"] + taught["moved"][0] * rows["said"]["votes"]
            if "vectors" in rows["said"]:
                said = rows["said"]["vectors"] + rows["said"]["neighbours"]
                logits = logits + taught["moved"][1] * said
            if taught["asks"]:
                heavy = c.LIKEST_WEIGHT + taught["moved"][-1]
                logits = logits + heavy * self.likest(rows["x"])
        return softmax(self.scale(rows) * logits)

    def proba(self, split: Split) -> np.ndarray:
        """Class probabilities, by the order of rows where they have one; (n_rows, n_classes)."""
        found = self.alone(split)
        if self.chain is None or split.votes.sequences is None:
            return found
        return self.in_order(found, split.votes.sequences, *self.chain)

    # the order of rows; nobody of train is labelled here

    def _learn_order(self) -> None:
        rows = self.look(self.train)
        own = Votes(rows["own"], self.names, self.classes, sequences=self.train.votes.sequences)
        bare = softmax(self.scale(rows) * self.before(rows))
        self.steps = Steps.learn(own, bare)
        proba = self.alone(self.train)
        share = (proba.sum(axis=0) + 1 / self.n_classes) / (len(proba) + 1)
        pairs = LEARNED * self.steps.pairs / LEARNED
        for _ in range(1000):
            pairs = pairs * (share / pairs.sum(axis=1))[:, None]
            pairs = pairs * (share / pairs.sum(axis=0))
        self.chain = share, pairs, self.steps.trust

    def in_order(
        self, proba: np.ndarray, names: Any, share: np.ndarray, pairs: np.ndarray, trust: float
    ) -> np.ndarray:
        """Each row by all labellings of its sequence, forwards and backwards."""
        found, move = np.empty_like(proba), pairs / share[:, None]
        said = (proba / share) ** trust
        for name in dict.fromkeys(names.tolist()):
            rows = np.flatnonzero(names == name)
            before, after = np.tile(share, (len(rows), 1)), np.ones((len(rows), self.n_classes))
            for at in range(1, len(rows)):
                before[at] = normed((before[at - 1] * said[rows[at - 1]])[None])[0] @ move
                back = len(rows) - 1 - at
                after[back] = normed((move @ (after[back + 1] * said[rows[back + 1]]))[None])[0]
            found[rows] = normed(proba[rows] / share * before * after)
        return found


class View:
    """How vectors become features: scaled, turned into axes, stretched, of length one; waves; centred."""

    def __init__(self, vectors: np.ndarray, seed: int, apart: bool) -> None:
        self.apart, dimension = apart, vectors.shape[1]
        self.centre = vectors.mean(axis=0)
        off = vectors - self.centre
        deviation = np.sqrt((off**2).mean(axis=0))
        moves = deviation > np.maximum(1e-6 * np.abs(self.centre), 1e-9 * deviation.max())
        moves &= deviation > 1e-30
        self.scale = np.zeros(dimension)
        self.scale[moves] = 1 / deviation[moves]
        if self._in_principal_axes(off[:, moves], deviation[moves]):
            self.scale[moves] = 1 / np.sqrt((deviation[moves] ** 2).mean())
        standard = off * self.scale
        _, size, axes = np.linalg.svd(standard, full_matrices=True)
        variance = np.zeros(dimension)
        variance[: len(size)] = size**2 / len(vectors)
        kept = slice(0, min(c.AXES, dimension))
        self.axes = axes.T[:, kept] * (variance[kept] / max(variance[0], 1e-30)) ** c.BEND
        draw = np.random.default_rng(seed)
        n_waves = c.WAVES if dimension < c.FEW_DIMENSIONS else 0
        spread = max(2 * (standard**2).sum(axis=1).mean(), 1e-12)
        size = np.sqrt(2 * c.BANDWIDTH / spread)
        self.frequencies = draw.normal(size=(dimension, n_waves)) * size
        self.phase = draw.uniform(0, 2 * np.pi, n_waves)
        self.middle = 0.0
        self.middle = self._raw(vectors).mean(axis=0)

    def of(self, vectors: np.ndarray) -> np.ndarray:
        found = self._raw(vectors.astype(float)) - self.middle
        if self.apart:
            found[~(vectors != 0).any(axis=1)] = 0
        return found

    def _raw(self, vectors: np.ndarray) -> np.ndarray:
        standard = (vectors - self.centre) * self.scale
        found = unit(standard @ self.axes)
        if not len(self.phase):
            return found
        waves = np.cos(standard @ self.frequencies + self.phase) * np.sqrt(2 / len(self.phase))
        return np.hstack([found, waves])

    def _in_principal_axes(self, off: np.ndarray, deviation: np.ndarray) -> bool:
        n = len(deviation)
        if n < 8:
            return False
        falls = np.corrcoef(np.arange(n), np.argsort(np.argsort(deviation)))[0, 1] <= -0.85
        return bool(falls and n / (np.corrcoef(off.T) ** 2).sum() > 0.8)


# small formulas


def unit(rows: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(length > 0, length, 1)


def softmax(logits: np.ndarray) -> np.ndarray:
    return normed(np.exp(logits - logits.max(axis=1, keepdims=True)))


def normed(rows: np.ndarray) -> np.ndarray:
    return rows / rows.sum(axis=1, keepdims=True)


def logit(share: Any, low: float = c.FAINT, high: float | None = None) -> Any:
    inside = np.clip(share, low, 1 - low if high is None else high)
    return np.log(inside / (1 - inside))


def evidence(shares: np.ndarray, base: np.ndarray) -> np.ndarray:
    """What class shares say beyond the shares `base`, of mean zero."""
    found = logit(shares) - logit(base)
    return found - found.mean(axis=1, keepdims=True)


def slope(real: np.ndarray, foretold: np.ndarray) -> float:
    return float(np.clip((real * foretold).sum() / max((foretold**2).sum(), 1e-12), 0, 1))


def distinct(matrix: np.ndarray, names: Any) -> np.ndarray:
    """Sources that repeat no source with more votes; of equals the first by name."""
    number, kept = (matrix >= 0).sum(axis=0), list[int]()
    for at in sorted(range(len(names)), key=lambda at: (-number[at], names[at])):
        alike = 0
        for other in kept:
            same = ((matrix[:, at] == matrix[:, other]) & (matrix[:, at] >= 0)).sum()
            share = same / max(1, number[at] + number[other] - same)
            alike += share >= (c.COPY if number[at] >= c.CHANCE else 1.0)
        if not number[at] or alike <= (0 if number[at] >= c.CHANCE else 1):
            kept.append(at)
    return np.array(sorted(kept), dtype=int)


def asked_of(count: int) -> np.ndarray:
    """Labelled rows that are asked: those of one split, the least hashes of many."""
    least = sorted(range(count), key=lambda row: ((row * 2654435761 + 97) % 2**32, row))
    return np.sort(np.array(least[:MOST_ASKED], dtype=int))


def joined(twins: np.ndarray, films: np.ndarray) -> np.ndarray:
    """Groups of twins, joined until no film is in two of them, unless hardly any are left."""
    found = twins.copy()
    for _ in range(len(found)):
        for one, two in zip(films, found):
            for other in np.unique(found[films == one]):
                found[found == other] = min(two, found[films == one].min())
    if len(np.unique(films)) == len(films):
        return twins
    return found if len(np.unique(found)) >= FEWEST_GROUPS else twins


def solve(
    offset: np.ndarray, sides: Any, kernel: np.ndarray, q: np.ndarray, groups: np.ndarray
) -> dict[str, Any]:
    """The least of weight · cross entropy + ridges by dense Newton steps, and every group left out."""
    (m, k), weight = offset.shape, len(np.unique(groups)) / len(groups)
    every = np.kron(kernel, np.eye(k))
    for said, ridge in sides:
        every += np.outer(said.ravel(), said.ravel()) / ridge

    def value(dual: np.ndarray) -> float:
        moved = every @ dual
        logits = offset + moved.reshape(m, k)
        top = logits.max(axis=1)
        total = top + np.log(np.exp(logits - top[:, None]).sum(axis=1))
        return float(weight * (total.sum() - (q * logits).sum()) + dual @ moved / 2)

    dual = np.zeros(m * k)
    for _ in range(100):
        moved = every @ dual
        p = softmax(offset + moved.reshape(m, k))
        bent = np.zeros((m * k, m * k))
        for at in range(m):
            part = slice(at * k, at * k + k)
            bent[part, part] = weight * (np.diag(p[at]) - np.outer(p[at], p[at]))
        right = bent @ moved + weight * (q - p).ravel()
        step = np.linalg.solve(np.eye(m * k) + bent @ every, right) - dual
        length, start = 1.0, value(dual)
        while value(dual + length * step) > start + 1e-12 * abs(start) and length > 1e-6:
            length /= 2
        dual = dual + length * step
        if np.abs(step).max() < 1e-13:
            break
    logits = offset + (every @ dual).reshape(m, k)
    dual = dual.reshape(m, k)
    moved = [float((said * dual).sum()) / ridge for said, ridge in sides]
    p = softmax(logits)
    bend = np.maximum(weight * (1 - (p * p).sum(axis=1)) / np.sqrt(k - 1), 1e-12)
    whole = kernel + sum(said @ said.T / ((k - 1) * ridge) for said, ridge in sides)
    spread = whole @ np.linalg.inv(np.eye(m) + bend[:, None] * whole)  # (A⁻¹ + W)⁻¹
    held = logits.copy()
    for group in np.unique(groups):
        g = np.flatnonzero(groups == group)
        own = spread[np.ix_(g, g)]
        held[g] += np.linalg.solve(np.eye(len(g)) - own * bend[g], own @ (weight * (p - q)[g]))
    return {"dual": dual, "moved": moved, "held": held}


def confused(
    logits: np.ndarray, y: np.ndarray, wrong: np.ndarray, ridge: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Pr(label | class) with a rate for each class by expectation maximisation, and the bias of logits."""
    k, bias = logits.shape[1], np.zeros(logits.shape[1])
    own = np.arange(k) == y[:, None]
    found = np.where(own, 1 - wrong[:, None], wrong[:, None] / (k - 1))
    for _ in range(ROUNDS):
        said = softmax(logits + bias)
        q = normed(said * found)
        total, right, called = q.sum(axis=0), np.zeros((len(y), k)), np.zeros((k, k))
        for true in range(k):
            told = q[:, true] @ (1 - wrong) / total[true]
            counts = np.array([q[y == label, true].sum() for label in range(k)])
            rate = (counts[true] + PEOPLE * told) / (total[true] + PEOPLE)
            off = logit(1 - wrong, *INSIDE) + logit(rate, *INSIDE) - logit(told, *INSIDE)
            right[:, true] = np.clip(1 / (1 + np.exp(-off)), *INSIDE)
            others = np.arange(k) != true
            mistakes = (counts + PEOPLE * (1 - told) / (k - 1)) * others
            called[true] = mistakes / max(mistakes.sum(), 1e-12)
        found = np.where(own, right, (1 - right) * called[:, y].T)
        curve = np.diag(said.sum(axis=0) + ridge) - said.T @ said
        bias = bias + np.linalg.solve(curve, total - said.sum(axis=0) - ridge * bias)
    return found, bias
