"""Fusion in plain numpy and float64: the whole model, one formula after the other.

Nothing is kept between two fits, nothing is blocked or compiled, neighbours are found by comparing all
pairs, and each convex round is solved by dense Newton steps. Only features of vectors are taken from
`epoxy.fusion`, and only what the triplet model learns from votes from elsewhere in the package.
"""

from __future__ import annotations

import hashlib
import warnings
from contextlib import suppress
from itertools import combinations
from typing import Any

import numpy as np
from scipy import optimize, stats
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from epoxy import Split, Triplet, Votes
from epoxy.errors import NotIdentifiable
from epoxy.fusion.features import View
from epoxy.label_models.moments import moments
from epoxy.label_models.readings import read
from epoxy.label_models.solvers import SOLVERS
from epoxy.label_models.triplet import solve_units

WEIGHT = {"majority": 0.51, "reach": 0.425, "agreement": 0.35}
WEIGHT |= {"pupil": 0.34, "regions": 0.6, "echo": 0.65, "neighbours": 0.15}
RIDGE = dict.fromkeys(WEIGHT, 12.0) | {"neighbours": 6.0}
LIFTS = (0.8, 0.4, 0.1, 0.0)


class Oracle:
    """Fits when it is made; `radii` holds a distance per source, inf for its own rule, NaN for none."""

    def __init__(
        self,
        train: Split,
        hand: Split | None = None,
        *,
        scoring: str = "accuracy",
        positive: int = 1,
        metric: str = "cosine",
        radii: Any = None,
        class_balance: Any = None,
        noise: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.metric, self.n_classes = metric, len(train.classes)
        n_labels = 0 if hand is None else int(hand.labelled.sum())
        slips = min(0.05, max(0.01, 1 / max(1, n_labels)))
        most = 0.95 * (self.n_classes - 1) / self.n_classes
        self.rho, self.told = min(max(slips, noise), most), min(noise, most)
        matrix = train.votes.matrix
        self.columns = distinct(matrix, train.votes.sources)
        every = np.full(matrix.shape[1], np.inf) if radii is None else np.asarray(radii, float)
        self.radii = every[self.columns]
        self.votes, self.vectors = matrix[:, self.columns].astype(int), train.vectors
        names = [train.votes.sources[at] for at in self.columns]
        given = None if class_balance is None else np.asarray(class_balance, float)
        known = (given, 0.0, given) if given is not None else None

        def by_sources(kept: np.ndarray) -> tuple[Any, float, Any]:
            some = [name for name, one in zip(names, kept) if one]
            return known or balance(self.votes[:, kept], some, train.classes)

        self.by_sources = by_sources
        self.prior, self.trust, self.agreed = by_sources(np.ones(len(names), dtype=bool))
        self.vote_mean = one_hot(self.votes, self.n_classes).mean(axis=0)
        self.view = self.corrected = self.held = self.cut = self.divisors = None
        self.loud: Any = 1.1
        self.heard, self.support = np.ones(len(self.columns), dtype=bool), None
        if train.vectors is not None:
            self._learn_from_vectors(seed)
        if not self.heard.all():
            everybody = (self.votes, self.prior, self.trust, self.agreed, self.radii)
            self.prior, self.trust, self.agreed = by_sources(self.heard)
            self.votes = np.where(self.heard, self.votes, -1)
            self.radii = np.where(self.heard, self.radii, np.nan)
            self.view = None
            self._learn_from_vectors(seed)
            if self.view is None:  # without them vectors tell nothing: then all are heard
                self.heard[:] = True
                self.votes, self.prior, self.trust, self.agreed, self.radii = everybody
                self._learn_from_vectors(seed, judge=False)
        if self.view is None:
            self.vectors = None  # vectors that tell nothing lend nothing
        self.triplet = None
        if self.view is None:
            with warnings.catch_warnings(), suppress(NotIdentifiable):
                warnings.simplefilter("ignore")
                given = Votes(self.votes, names, train.classes)
                self.triplet = Triplet(class_balance=self.prior).fit(given)
        quiet = (1.0, 1.0) if self.triplet is None else (0.73, 1.0)
        self.first = self.scales = quiet if self.view is None else (0.9, 1.35)
        far = self.loans(self.votes, self.vectors)[1]
        far = far[(self.votes < 0) & np.isfinite(far) & self.heard]
        self.edges = np.quantile(far, [0.25, 0.5, 0.75]) if len(far) else np.zeros(3)
        self.lean = np.zeros(self.n_classes)
        if self.trust:
            self.lean = self.trust * self._lean(train)
        labelled = None if hand is None else hand.rows(hand.labelled)
        if labelled is not None and labelled.n_rows:
            self._learn_from_labels(labelled)
            self._choose_rule(train, labelled, scoring, positive)
        elif scoring == "f1":
            none = np.empty(0), np.empty(0, bool)
            self._cut(self.parts(train), self.proba(train), positive, *none)

    # experts without labels

    def loans(self, votes: np.ndarray, vectors: Any) -> tuple[np.ndarray, np.ndarray]:
        """Vote and distance of the nearest train row each source votes on, for each row."""
        lent = np.full(votes.shape, -1)
        far = np.full(votes.shape, np.inf)
        if vectors is None or self.vectors is None:
            return lent, far
        table = distances(self.metric, vectors, self.vectors).astype(np.float32)
        for source in range(votes.shape[1]):
            backs = self.votes[:, source] >= 0
            if backs.all() or not np.isfinite(table[:, backs]).any():
                continue
            nearest = np.where(backs, table, np.inf).argmin(axis=1)  # the first of equals
            far[:, source] = np.where(backs, table, np.inf).min(axis=1)
            lent[:, source] = self.votes[nearest, source]
        return lent, far

    def _learn_from_vectors(self, seed: int, judge: bool = True) -> None:
        view, made = View.over(self.vectors, seed, apart=self.metric == "cosine")
        x = made.matrix.astype(np.float64)
        inverse = np.linalg.inv(x.T @ x + 5.0 * np.eye(x.shape[1]))
        target = softmax(np.log(self.prior) + self.counts(self.votes))
        self.base = target.mean(axis=0)
        weights = inverse @ (x.T @ (target - self.base))
        if (self.votes >= 0).any() and not foretells(x, inverse, weights, target - self.base):
            if judge and self.heard.all():
                self._judge_without_a_broad_one(view, x, inverse)
            return
        self.view, self.features, self.pupil = view, x, weights
        self.landmarks = landmarks(view, self.vectors)
        belongs = membership(x, self.landmarks) if len(self.landmarks) else None
        if judge and self.heard.all():
            self.heard, self.support = self._judged(x, inverse, belongs, self.heard)
        pooled = np.log(self.prior) + WEIGHT["majority"] * self.majority(self.votes)
        pooled += WEIGHT["pupil"] * evidence(x @ weights + self.base, self.base)
        taught = softmax(pooled)
        self.echo_base = taught.mean(axis=0)
        self.echo = inverse @ (x.T @ (taught - self.echo_base))
        if belongs is not None:
            total = belongs.T @ taught + 2 * self.echo_base
            self.thought = total / (belongs.sum(axis=0) + 2)[:, None]

    def _judge_without_a_broad_one(self, view: View, x: np.ndarray, inverse: np.ndarray) -> None:
        """Where one of the four broadest sources hides that vectors foretell what the others vote."""
        cast = (self.votes >= 0).sum(axis=0).tolist()
        for out in sorted(range(len(cast)), key=lambda at: -cast[at])[: 4 if len(cast) > 2 else 0]:
            others = np.array([at != out for at in range(len(cast))])
            prior = self.by_sources(others)[0]
            target = softmax(np.log(prior) + self.counts(self.votes[:, others]))
            target = target - target.mean(axis=0)
            if foretells(x, inverse, inverse @ (x.T @ target), target):
                marks = landmarks(view, self.vectors)
                belongs = membership(x, marks) if len(marks) else None
                self.heard, self.support = self._judged(x, inverse, belongs, others)
                return

    def _judged(self, x: np.ndarray, inverse: np.ndarray, belongs: Any, first: np.ndarray) -> Any:
        """Whom others speak for through rows like theirs, each source left out and all fitted anew."""

        def readings(votes: np.ndarray, prior: Any) -> tuple[np.ndarray, list[np.ndarray]]:
            target = softmax(np.log(prior) + self.counts(votes))
            base = target.mean(axis=0)
            found = [x @ (inverse @ (x.T @ (target - base))) + base]
            if belongs is not None:
                total = belongs.T @ (target - base)
                found.append(belongs @ (total / (belongs.sum(axis=0) + 2)[:, None]) + base)
            return base, found

        votes = self.votes
        cast = [votes[:, at] >= 0 for at in range(votes.shape[1])]
        kept = first
        for _ in range(4):
            found, prior = [], self.by_sources(kept)[0]
            spread = [each.std(axis=0) for each in readings(votes[:, kept], prior)[1]]
            for at, mine in enumerate(cast):
                others = np.arange(votes.shape[1]) != at
                base, ways = readings(votes[:, kept & others], prior)
                said, best = votes[mine, at], (0.0, 0.0)
                if mine.any():
                    labels, times = np.unique(said, return_counts=True)
                    share, both = times / times.sum(), []
                    for way, deviation in zip(ways, spread):
                        mean = [way[mine][said == label, label].mean() for label in labels]
                        mean, whole = (np.clip(each, 0.02, 0.98) for each in (mean, base[labels]))
                        gain = np.log(mean / (1 - mean)) - np.log(whole / (1 - whole))
                        error = deviation[labels] / np.sqrt(times) / (mean * (1 - mean))
                        both.append((share @ gain, np.sqrt(((share * error) ** 2).sum())))
                    best = max(both, key=lambda each: each[0] / max(each[1], 1e-12))
                found.append(best)
            support, error = np.array(found).T
            usual = support[[each.sum() >= 10 for each in cast]]
            before, kept = kept, np.ones(len(kept), dtype=bool)
            if len(usual) >= 3 and np.quantile(usual, 0.75) > 0:
                q, e = np.quantile(usual, 0.75), np.maximum(error, 1e-12)
                nothing = stats.norm.logpdf(np.maximum(support, 0), 0, e)
                other = stats.norm.logpdf(np.minimum(support, q), q, np.sqrt(q**2 / 4 + e**2))
                kept = ~((nothing > other + np.log(50)) & [each.any() for each in cast])
                for label in range(self.n_classes):
                    who = [at for at in range(len(kept)) if (votes[:, at] == label).any()]
                    if who and not kept[who].any():
                        several = [len(set(votes[cast[at], at])) for at in range(len(kept))]
                        kept[min(who, key=lambda at: (several[at], -support[at]))] = True
            if (kept == before).all():
                break
        return kept, support

    def counts(self, votes: np.ndarray) -> np.ndarray:
        return np.stack([(votes == k).sum(axis=1) for k in range(self.n_classes)], 1).astype(float)

    def majority(self, votes: np.ndarray) -> np.ndarray:
        counts = self.counts(votes)
        shares = (counts + self.prior) / (counts.sum(axis=1, keepdims=True) + 1)
        return loud(np.log(shares) - np.log(self.prior))

    def reach(self, votes: np.ndarray, lent: np.ndarray, far: np.ndarray) -> np.ndarray:
        raw = self.counts(votes)
        borrows = (votes < 0) & np.isfinite(far) & (far <= self.radii)
        grade = (far[:, :, None] > self.edges).sum(axis=2)
        for at, lift in enumerate(LIFTS):
            raw += lift * np.sqrt(self.counts(np.where(borrows & (grade == at), lent, -1)))
        return loud(raw)

    def parts(self, split: Split) -> dict[str, Any]:
        """Evidence of the experts without labels, features and φ, of any rows."""
        cast = split.votes.matrix[:, self.columns].astype(int)
        votes = np.where(self.heard, cast, -1)
        said = {
            "majority": self.majority(votes),
            "reach": self.reach(votes, *self.loans(votes, split.vectors)),
        }
        if self.triplet is not None:
            tables = self.triplet.log_likelihood_
            each = [[tables[s, 1 + v] for s, v in enumerate(row)] for row in votes]
            said["agreement"] = loud(np.array(each).sum(axis=1))
        phi = 0.5 * (one_hot(cast, self.n_classes) - self.vote_mean)
        x = None
        if self.view is not None:
            x = np.zeros((len(votes), self.features.shape[1]))
            names = ("pupil", "regions", "echo") if len(self.landmarks) else ("pupil", "echo")
            said |= {name: np.zeros((len(votes), self.n_classes)) for name in names}
            if split.vectors is not None:
                x = self.view.of(split.vectors).astype(np.float64)
                said["pupil"] = evidence(x @ self.pupil + self.base, self.base)
                said["echo"] = evidence(x @ self.echo + self.echo_base, self.echo_base)
            if split.vectors is not None and len(self.landmarks):
                belongs = membership(x, self.landmarks)
                silent = (1 - belongs.sum(axis=1, keepdims=True)) * self.echo_base
                said["regions"] = evidence(belongs @ self.thought + silent, self.echo_base)
        return {"votes": votes, "said": said, "x": x, "voted": phi}

    def phi(self, parts: dict[str, Any]) -> np.ndarray:
        """What labels teach: features as loud as they are, and votes."""
        if parts["x"] is None:
            return parts["voted"]
        return np.hstack([self.loud * parts["x"], parts["voted"]])

    def ways(self) -> list[Any]:
        """How loud features may be: 1.1; or, of few dimensions, columns as they are."""
        if self.view is None or not len(self.view.phase) or not self.view.axes.any():
            return [1.1]
        s = np.sqrt((self.view.axes**2).sum(axis=0))
        real = s > 0.03 * s.max()
        flat = np.where(real, 1 / np.where(real, s, 1), 0)
        flat *= np.sqrt((s[real] ** 6).sum() / (s[real] ** 4).sum())
        none = np.zeros(len(self.view.phase))
        return [1.1, *(np.r_[loud * flat, none] for loud in (2, 8, 32))]

    def _lean(self, train: Split) -> np.ndarray:
        """What makes the mean posterior of rows of which something is known the class balance."""
        parts = self.parts(train)
        known = np.any(kinds(parts), axis=0)
        if not known.any():
            return self.lean
        logits = self.before(parts)[known]
        scale = self.scaled(np.ones_like(logits), parts, self.first, known)

        def excess(free: np.ndarray) -> np.ndarray:
            lean = np.append(free, -free.sum())
            return (softmax(scale * (logits + lean)).mean(axis=0) - self.prior)[:-1]

        found = optimize.root(excess, np.zeros(self.n_classes - 1), tol=1e-13).x
        return np.append(found, -found.sum())

    def before(self, parts: dict[str, Any]) -> np.ndarray:
        """Logits of the model without labels, at scale 1."""
        said = sum(WEIGHT[name] * each for name, each in parts["said"].items())
        return np.log(self.prior) + said + self.leaning(parts)

    def leaning(self, parts: dict[str, Any]) -> np.ndarray:
        return np.any(kinds(parts), axis=0)[:, None] * self.lean

    def scaled(
        self, logits: np.ndarray, parts: dict[str, Any], scales: Any, some: Any = slice(None)
    ) -> np.ndarray:
        """Logits as loud as rows with votes, and rows known by their vector alone, are to be."""
        with_votes, without = (each[some, None] for each in kinds(parts))
        return logits * np.where(with_votes, scales[0], np.where(without, scales[1], 1.0))

    # hand labels

    def _learn_from_labels(self, hand: Split) -> None:
        parts = self.parts(hand)
        self.y, m = hand.y, hand.n_rows
        offset, said = self.before(parts), dict(parts["said"])
        groups = np.arange(m)
        self.asked = None
        if parts["x"] is not None:
            mine, theirs = (likeness(each, parts["x"]) for each in (parts["x"], self.features))
            groups = grouped(mine, theirs, hand.vectors)
            if m >= 5:
                self.asked = least_hashes(hand.vectors)
                self.labelled_x = parts["x"][self.asked]
                own = groups[:, None] == groups[self.asked]
                said["neighbours"] = self.neighbours(parts["x"], own)
                offset = offset + WEIGHT["neighbours"] * said["neighbours"]
        weight = len(np.unique(groups)) / m
        ways = self.ways()
        for _ in ("with neighbours", "without, where their weight would be negative"):
            experts = np.stack(list(said.values()))
            ridges = np.array([RIDGE[name] for name in said])
            tried = []
            for at, loud in enumerate(ways):
                self.loud = loud
                phi = self.phi(parts)
                left, size, right = np.linalg.svd(phi, full_matrices=False)
                root = left * size
                logits = offset
                for _ in range(2):
                    q = believed(softmax(logits), self.y, self.rho)
                    off, bias, learned = newton(offset, experts, root, q, weight, ridges)
                    logits = offset + np.tensordot(off, experts, 1) + bias + root @ learned
                size_of_all = ridges @ off**2 + 3 * bias @ bias + (learned**2).sum()
                real = probable(logits, self.y, self.rho, experts, phi, weight, ridges)
                value = real - size_of_all / 2 + 2 * (at == 0)
                tried.append((value, loud, off, bias, right.T @ learned, logits, q, phi))
            _, self.loud, off, bias, theta, logits, q, phi = max(tried, key=lambda each: each[0])
            if "neighbours" not in said or WEIGHT["neighbours"] + off[-1] >= 0:
                break
            del said["neighbours"]
            self.asked, offset, ways = None, self.before(parts), [self.loud]
        self.corrected = (dict(zip(said, off)), bias, theta)
        held = left_out(logits, q, experts, phi, groups, weight, ridges)
        q = believed(softmax(held), self.y, self.told)
        many = 120 if "pupil" in said else 40
        self.scales = tuple(
            best_scale(held[rows], q[rows], start, many) if rows.any() else start
            for rows, start in zip(kinds(parts), self.scales)
        )
        self.held = softmax(self.scaled(held, parts, self.scales))

    def neighbours(self, x: np.ndarray, forbidden: Any = False) -> np.ndarray:
        """Evidence of the five likest labelled rows."""
        like = np.where(forbidden, -np.inf, likeness(x, self.labelled_x))
        near = np.argsort(-like, axis=1, kind="stable")[:, :5]
        s = np.take_along_axis(like, near, axis=1)
        c = np.clip(s, 0, 1)
        weight = np.where(np.isfinite(s), c**2 / (1.02 - c), 0.0)
        voices = np.eye(self.n_classes)[self.y[self.asked]][near]
        shares = np.einsum("nk,nkc->nc", weight, voices) + 2 * self.prior
        return evidence(shares / (weight.sum(axis=1, keepdims=True) + 2), self.prior)

    # answers

    def proba(self, split: Split) -> np.ndarray:
        """Class probabilities; (n_rows, n_classes)."""
        parts = self.parts(split)
        said = parts["said"]
        if self.corrected is None:
            return softmax(self.scaled(self.before(parts), parts, self.scales))
        off, bias, theta = self.corrected
        if self.asked is not None:
            silent = np.zeros((split.n_rows, self.n_classes))
            said["neighbours"] = silent if split.vectors is None else self.neighbours(parts["x"])
        logits = np.log(self.prior) + bias + self.phi(parts) @ theta + self.leaning(parts)
        logits = logits + sum((WEIGHT[n] + off[n]) * each for n, each in said.items())
        return softmax(self.scaled(logits, parts, self.scales))

    def _choose_rule(self, train: Split, hand: Split, scoring: str, positive: int) -> None:
        rows, mine = self.parts(train), self.parts(hand)
        words = [None] * hand.n_rows if hand.chosen is None else hand.chosen.tolist()
        unknown = np.array([word is None for word in words])
        drawn = np.array([word == "random" for word in words])
        margins = [ahead(self.scaled(self.before(each), each, self.first)) for each in (mine, rows)]
        if unknown.any() and not looks_chosen(
            margins[0][unknown], margins[1], mine["votes"][unknown], rows["votes"],
            None if mine["x"] is None else mine["x"][unknown], rows["x"],
        ):  # fmt: skip
            drawn |= unknown
        self.drawn = drawn
        proba = self.proba(train)
        if scoring == "f1_macro" and drawn.any():
            self.divisors = proba.mean(axis=0) ** (0.5 * drawn.sum() / (drawn.sum() + 10))
        if scoring == "f1":
            shown, right = self.held[drawn, positive], self.y[drawn] == positive
            self._cut(rows, proba, positive, shown, right, len(self.y))

    def _cut(
        self,
        rows: dict[str, Any],
        proba: np.ndarray,
        positive: int,
        shown: Any,
        right: Any,
        taught: int = 0,
    ) -> None:
        two = self.n_classes == 2 and self.agreed is not None and self.triplet is None
        agreed = self.agreed[positive] if two else None
        given = (positive, agreed, shown, right, taught)
        self.cut = f1_cut(proba, softmax(self.before(rows)), *given)

    def labels(self, proba: np.ndarray, positive: int = 1) -> np.ndarray:
        """Class indices by the rule."""
        if self.divisors is not None:
            return (proba / self.divisors).argmax(axis=1)
        if self.cut is None:
            return proba.argmax(axis=1)
        others = np.where(np.arange(self.n_classes) == positive, -np.inf, proba)
        return np.where(proba[:, positive] >= self.cut, positive, others.argmax(axis=1))


# small formulas


def softmax(logits: np.ndarray) -> np.ndarray:
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


def one_hot(votes: np.ndarray, n_classes: int) -> np.ndarray:
    return np.hstack([votes == k for k in range(n_classes)]).astype(float)


def loud(scores: np.ndarray) -> np.ndarray:
    """Mean zero in each row, at most four nats."""
    scores = np.clip(scores - scores.mean(axis=1, keepdims=True), -4, 4)
    return scores - scores.mean(axis=1, keepdims=True)


def evidence(shares: np.ndarray, base: np.ndarray) -> np.ndarray:
    """What class shares say beyond the shares `base`: the gain in logit."""

    def logit(p: np.ndarray) -> np.ndarray:
        p = np.clip(p, 0.02, 0.98)
        return np.log(p / (1 - p))

    return loud(logit(shares) - logit(base))


def landmarks(view: View, vectors: np.ndarray) -> np.ndarray:
    """Features, at length one, of vectors evenly apart in the order of those that differ."""
    some = vectors[np.linspace(0, len(vectors) - 1, min(len(vectors), 3000)).astype(int)]
    differ = np.array(sorted(set(map(tuple, some.tolist()))), dtype=vectors.dtype)
    count = min(256, len(vectors) // 6, len(differ))
    if not count:
        return np.zeros((0, 1))
    x = view.of(differ[np.linspace(0, len(differ) - 1, count).astype(int)]).astype(np.float64)
    x = x[(x != 0).any(axis=1)]
    return x / np.linalg.norm(x, axis=1, keepdims=True) if len(x) > 8 else x[:0]


def membership(x: np.ndarray, marks: np.ndarray) -> np.ndarray:
    """How far rows belong to each landmark: by how much liker they are to it than to the ninth likest."""
    like = x @ marks.T
    ninth = np.sort(like, axis=1)[:, [-9]]
    gap = np.maximum(like - ninth, 0.0)
    total = gap.sum(axis=1, keepdims=True)
    return np.divide(gap, total, out=np.zeros_like(gap), where=total > 0)


def ahead(logits: np.ndarray) -> np.ndarray:
    top = np.sort(softmax(logits), axis=1)
    return top[:, -1] - top[:, -2]


def distances(metric: str, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """All pairs in float64, summed in 32 running sums folded in halves; inf without a direction."""
    x, z = left.astype(np.float64)[:, None], right.astype(np.float64)[None]

    def total(terms: np.ndarray) -> np.ndarray:
        missing = -terms.shape[-1] % 32
        terms = np.pad(terms, [(0, 0)] * (terms.ndim - 1) + [(0, missing)])
        sums = np.zeros((*terms.shape[:-1], 32))
        for at in range(0, terms.shape[-1], 32):
            sums = sums + terms[..., at : at + 32]
        while sums.shape[-1] > 1:
            half = sums.shape[-1] // 2
            sums = sums[..., :half] + sums[..., half:]
        return sums[..., 0]

    if metric == "euclidean":
        return np.sqrt(total((x - z) ** 2))
    lengths = np.sqrt(total(x * x) * total(z * z))
    cosine = total(x * z) / np.where(lengths > 0, lengths, 1.0)
    return np.where(lengths > 0, np.maximum(0.0, 1 - cosine), np.inf)


def likeness(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Cosines of features, rounded so that twins are equal."""

    def unit(x: np.ndarray) -> np.ndarray:
        return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)

    return np.round(unit(left) @ unit(right).T, 10)


# sources, class balance, gate


def distinct(votes: np.ndarray, names: Any) -> np.ndarray:
    """Sources that share less than 75 % of their (row, vote) pairs with each one kept before.

    Those with fewer than ten pairs go where two kept before share all of them.
    """
    pairs = [{(row, vote) for row, vote in enumerate(v.tolist()) if vote >= 0} for v in votes.T]
    kept: list[int] = []
    for at in sorted(range(len(pairs)), key=lambda at: (-len(pairs[at]), names[at])):
        alike = [len(pairs[at] & pairs[k]) / max(1, len(pairs[at] | pairs[k])) for k in kept]
        equals = sum(each == 1.0 for each in alike)
        few = len(pairs[at]) < 10
        if not pairs[at] or (equals < 2 if few else all(each < 0.75 for each in alike)):
            kept.append(at)
    return np.sort(np.array(kept, dtype=int))


def balance(votes: np.ndarray, names: Any, classes: Any) -> tuple[np.ndarray, float, Any]:
    """Shares, how far third moments tell them, and what how sources agree says of them.

    Voters: the shares nearest to equal that their errors allow, corrected by third moments. Others:
    three witnesses, their logarithms averaged.
    """
    n_classes = len(classes)
    equal = np.full(n_classes, 1 / n_classes)
    counts = np.stack([(votes == k).sum(axis=1) for k in range(n_classes)], axis=1)
    spoken = counts.sum(axis=1) > 0
    if not spoken.any():
        return equal, 0.0, None
    shares = counts[spoken] / counts[spoken].sum(axis=1, keepdims=True)
    cast = shares.mean(axis=0)
    errors = errors_of_voters(votes, names, classes)
    if errors is not None:
        apart = np.abs(cast - equal).sum() / 2
        guess = equal if apart <= errors else cast + errors / apart * (equal - cast)
        found = np.array([third_moments(votes, k, n_classes) for k in range(n_classes)])
        told = share(found[:, 0]) / share(found[:, 0]).sum()
        precision = np.stack([1 / found[:, 1] ** 2, np.full(n_classes, 1 / 0.5**2)])
        both = np.average(np.stack([skew(told), skew(guess)]), axis=0, weights=precision)
        pi = share(both) / share(both).sum()
        return pi, float(pi @ (precision[0] / precision.sum(axis=0))), pi
    witnesses, learned = [equal, cast], None
    with warnings.catch_warnings(), suppress(NotIdentifiable):
        warnings.simplefilter("ignore")
        fitted = Triplet(class_balance="learn").fit(Votes(votes, names, classes))
        learned = fitted.class_balance_
        witnesses.append(learned)
    together = np.prod(np.maximum(witnesses, 0.2 / n_classes), axis=0) ** (1 / len(witnesses))
    return together / together.sum(), 0.0, learned


def share(skewness: Any) -> Any:
    return (1 - skewness / np.hypot(2, skewness)) / 2


def skew(shares: np.ndarray) -> np.ndarray:
    shares = np.clip(shares, 1e-4, 1 - 1e-4)
    return (1 - 2 * shares) / np.sqrt(shares * (1 - shares))


def third_moments(votes: np.ndarray, named: int, n_classes: int) -> tuple[float, float]:
    """Skewness of a class and its standard error, triple by triple."""
    x = np.where(votes == named, 1.0, np.where(votes < 0, 0.0, -1 / (n_classes - 1)))
    spread = x.std(axis=0)
    z = (x - x.mean(axis=0)) / np.where(spread > 1e-9, spread, np.inf)
    b = one_factor(np.array([[(one * other).mean() for other in z.T] for one in z.T]))
    triples = [list(each) for each in combinations(range(z.shape[1]), 3)]
    rows = sum(b[t].prod() * z[:, t].prod(axis=1) for t in triples)
    whole = sum(b[t].prod() ** 2 for t in triples)
    if whole <= 1e-9:
        return 0.0, np.inf
    return rows.mean() / whole, rows.std() / np.sqrt(len(rows)) / whole


def one_factor(met: np.ndarray) -> np.ndarray:
    """b with b_i b_j nearest to what sources i ≠ j have in common, halfway from equal loadings each time.

    Where sources contradict each other there are several such b, and the rounds decide which it is.
    """
    each = range(len(met))
    common = [abs(met[i, j]) for i, j in combinations(each, 2)]
    b = [float(np.sqrt(max(np.mean(common), 1e-6))) if common else 1.0 for _ in each]
    for _ in range(100_000):
        best = []
        for i in each:
            others = [j for j in each if j != i]
            whole = max(sum(b[j] ** 2 for j in others), 1e-9)
            best.append(min(1.0, max(-1.0, sum(met[i, j] * b[j] for j in others) / whole)))
        moved = [(now + then) / 2 for now, then in zip(b, best)]
        apart = max((abs(now - then) for now, then in zip(b, moved)), default=0.0)
        b = moved
        if apart < 1e-10:
            break
    return np.array(b)


def errors_of_voters(votes: np.ndarray, names: Any, classes: Any) -> float | None:
    """How often sources that name every class err, where three or more of them cast most votes."""
    named = np.stack([(votes == k).sum(axis=0) for k in range(len(classes))], axis=1)
    total = named.sum(axis=1)
    voters = (total > 0) & (named.min(axis=1) >= 0.1 * total / len(classes))
    if voters.sum() < 3 or total[voters].sum() < total.sum() / 2:
        return None
    with warnings.catch_warnings(), suppress(NotIdentifiable):
        warnings.simplefilter("ignore")
        readings = read(
            moments(Votes(votes, names, classes)), np.full(len(classes), 1 / len(classes))
        )
        theta = np.nan_to_num(solve_units(readings, SOLVERS["median"])[0])
        right = {int(s): t for s, t in zip(readings.source, theta)}
        wrong = [(1 - 1 / len(classes)) * (1 - right[s]) for s in np.flatnonzero(voters)]
        return float(np.average(wrong, weights=total[voters]))
    return None


def foretells(x: np.ndarray, inverse: np.ndarray, weights: np.ndarray, t: np.ndarray) -> bool:
    """Whether leave-one-out predictions of the votes are worth anything."""
    leverage = np.einsum("ij,jk,ik->i", x, inverse, x, optimize=True) + 1 / len(x)
    out = t - (t - x @ weights) / np.maximum(1 - leverage, 1e-9)[:, None]
    both, own, whole = (t * out).sum(), (out * out).sum(), (t * t).sum()
    if own <= 0 or whole <= 0:
        return False
    return both / own > 0.25 and both / np.sqrt(own * whole) * np.sqrt(len(x)) > 4


# the correction


def least_hashes(vectors: np.ndarray) -> np.ndarray:
    key = [hashlib.blake2b(each.tobytes(), digest_size=8).digest() for each in vectors]
    return np.sort(sorted(range(len(key)), key=lambda at: (key[at], at))[:1000])


def grouped(like: np.ndarray, to_train: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Groups left out together, as many as make a held-out row as lonely as a train row is."""
    m = len(like)
    enough = np.median(to_train.max(axis=1)) + 0.02
    alone = np.where(np.eye(m, dtype=bool), -np.inf, like)
    if m < 10 or np.median(alone.max(axis=1)) <= enough:
        return np.arange(m)
    keys = [each.tobytes() for each in vectors]  # rows with equal vectors stay together
    first = [at for at in range(m) if keys.index(keys[at]) == at]
    number = np.array([first.index(keys.index(key)) for key in keys])
    if len(first) < 2:
        return number
    near = like[np.ix_(first, first)]
    apart = np.where(np.eye(len(first), dtype=bool), 0.0, np.clip(1 - near, 0, 2))
    tree = linkage(squareform(apart, checks=False), "average")

    def too_easy(count: int) -> bool:
        groups = fcluster(tree, count, "maxclust")
        other = np.where(groups[:, None] == groups, -np.inf, near)
        return bool(np.median(other.max(axis=1)[number]) > enough)

    low, high = min(10, len(first)), len(first)
    while low < high:
        count = (low + high + 1) // 2
        low, high = (low, count - 1) if too_easy(count) else (count, high)
    return fcluster(tree, low, "maxclust")[number]


def believed(p: np.ndarray, y: np.ndarray, rho: float) -> np.ndarray:
    """Classes of the labelled rows by Bayes' rule, for labels that are wrong at rate rho."""
    said = np.eye(p.shape[1])[y]
    q = p * np.where(said == 1, 1 - rho, rho / (p.shape[1] - 1))
    return q / q.sum(axis=1, keepdims=True)


def kinds(parts: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Rows with votes, and rows without of which the vector says something."""
    with_votes = (parts["votes"] >= 0).any(axis=1)
    nothing = np.zeros((len(with_votes), 1))
    return with_votes, ~with_votes & (parts["said"].get("pupil", nothing) != 0).any(axis=1)


def best_scale(logits: np.ndarray, q: np.ndarray, start: float, many: int) -> float:
    """The scale at which held-out logits foretell q best, `many` rows more having found `start`."""
    p = softmax(logits)
    bend = (p * (logits - (p * logits).sum(axis=1, keepdims=True)) ** 2).sum(axis=1).mean()

    def loss(scale: float) -> float:
        found = -(q * np.log(np.maximum(softmax(scale * logits), 1e-300))).sum()
        return float(found + many / 2 * bend * (scale - start) ** 2)

    found = optimize.minimize_scalar(
        loss, bounds=(0.25, 4), method="bounded", options={"xatol": 1e-9}
    )
    return float(found.x) if bend > 1e-12 else start


def newton(
    offset: np.ndarray, experts: np.ndarray, root: np.ndarray, q: np.ndarray, weight: float,
    ridges: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """The convex problem with soft targets q, by full Newton steps with a dense Hessian."""
    m, k = offset.shape
    e, r = len(experts), root.shape[1]
    design = np.zeros((m, k, e + k + r * k))  # of logits by parameters
    design[:, :, :e] = experts.transpose(1, 2, 0)
    for label in range(k):
        design[:, label, e + label] = 1
        design[:, label, e + k + label :: k] = root
    flat = design.reshape(m * k, -1)
    ridge = np.r_[ridges, np.full(k, 3.0), np.ones(r * k)]
    point = np.zeros(len(ridge))

    def loss(at: np.ndarray) -> float:
        logits = offset + (flat @ at).reshape(m, k)
        top = logits.max(axis=1, keepdims=True)
        total = top[:, 0] + np.log(np.exp(logits - top).sum(axis=1))
        return float(weight * (total.sum() - (q * logits).sum()) + 0.5 * ridge @ (at * at))

    for _ in range(100):
        p = softmax(offset + (flat @ point).reshape(m, k))
        slope = weight * flat.T @ (p - q).ravel() + ridge * point
        if np.abs(slope).max() < 1e-12:
            break
        bend = np.einsum("ik,kl->ikl", p, np.eye(k)) - p[:, :, None] * p[:, None]
        curved = np.einsum("ikl,ilp->ikp", bend, design).reshape(m * k, -1)
        step = np.linalg.solve(weight * flat.T @ curved + np.diag(ridge), -slope)
        length, now = 1.0, loss(point)
        while loss(point + length * step) > now + 1e-9 and length > 1e-6:
            length /= 2
        point = point + length * step
    return point[:e], point[e : e + k], point[e + k :].reshape(r, k)


def probable(
    logits: np.ndarray, y: np.ndarray, rho: float, experts: np.ndarray, phi: np.ndarray,
    weight: float, ridges: np.ndarray,
) -> float:  # fmt: skip
    """How probable labels are, and less by the room that what is learned has, as large for each class."""
    p = softmax(logits)
    m, k = p.shape
    own = p[np.arange(m), y]
    fits = weight * np.log((1 - rho) * own + rho / (k - 1) * (1 - own)).sum()
    kernel = phi @ phi.T + 1 / 3
    for said, ridge in zip(experts, ridges):
        kernel += said @ said.T / ((k - 1) * ridge)
    w = weight * (1 - (p * p).sum(axis=1)) / (k - 1)
    return float(fits - (k - 1) / 2 * np.linalg.slogdet(np.eye(m) + w[:, None] * kernel)[1])


def left_out(
    logits: np.ndarray, q: np.ndarray, experts: np.ndarray, phi: np.ndarray, groups: np.ndarray,
    weight: float, ridges: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Each group's logits without its labels: one Newton step with the same curvature for all classes."""
    p = softmax(logits)
    m, k = p.shape
    w = np.maximum(weight * (1 - (p * p).sum(axis=1)) / np.sqrt(k - 1), 1e-12)
    kernel = phi @ phi.T + 1 / 3
    for said, ridge in zip(experts, ridges):
        kernel += said @ said.T / ((k - 1) * ridge)
    spread = kernel @ np.linalg.inv(np.eye(m) + w[:, None] * kernel)  # (A⁻¹ + W)⁻¹
    found = logits.copy()
    for group in np.unique(groups):
        g = np.flatnonzero(groups == group)
        own = spread[np.ix_(g, g)]
        found[g] += np.linalg.solve(np.eye(len(g)) - own * w[g], own @ (weight * (p - q)[g]))
    return found


# decisions


def looks_chosen(
    margin: np.ndarray, margins: np.ndarray, votes: np.ndarray, train_votes: np.ndarray, x: Any,
    train_x: Any,
) -> bool:  # fmt: skip
    """Whether labelled rows differ from train rows in sureness, votes, conflicts, or place."""
    n = len(margin)
    if n < 10:
        return False
    cast = [(each >= 0).sum(axis=1) for each in (votes, train_votes)]
    if min(stats.ks_2samp(margin, margins).pvalue, stats.ks_2samp(*cast).pvalue) < 1e-6:
        return True
    split = [
        np.array([len(set(row[row >= 0].tolist())) > 1 for row in each])
        for each in (votes, train_votes)
    ]
    table = np.array([[each.sum(), (~each).sum()] for each in split])
    if (table.sum(axis=0) > 0).all() and stats.chi2_contingency(table, correction=False)[1] < 1e-6:
        return True
    if x is None:
        return False
    mean, covariance = x.mean(axis=0), train_x.T @ train_x / len(train_x)
    whole = np.trace(covariance)
    high = whole / n + 5 * np.sqrt(2 * (covariance**2).sum()) / n
    return bool((mean @ mean - x.var(axis=0).sum() / n) / whole > 0.03 and mean @ mean > high)


def f1_cut(
    proba: np.ndarray, before: np.ndarray, positive: int, agreed: float | None, shown: np.ndarray,
    right: np.ndarray, taught: int,
) -> float | None:  # fmt: skip
    """The probability from which rows are called positive; None for the most probable class."""
    own, n = proba[:, positive], len(proba)

    def odds(share: float) -> float:
        inside = min(max(share, 0.5 / n), 1 - 0.5 / n)
        return inside / (1 - inside)

    share = float((before.argmax(axis=1) == positive).mean())
    if agreed is not None and agreed < share:
        both = np.sqrt(odds(share) * odds(agreed))
        share = both / (1 + both)
    if len(right):
        places = np.unique(np.r_[own, shown])
        places = (np.r_[0.0, places[:-1]] + places) / 2
        known = right.sum() / (right.sum() + 100)
        curve = [
            (1 - known) * f1(own[own >= t].sum(), (own >= t).sum(), own.sum())
            + known * f1(right[shown >= t].sum(), (shown >= t).sum(), right.sum())
            for t in places
        ]
        cut = places[int(np.argmax(curve))]
        heard = min(taught, 4 * len(right))
        trust = heard / (heard + 20)
        both = odds(share) ** (1 - trust) * odds((own >= cut).mean()) ** trust
        share = both / (1 + both)
    called = round(share * n)
    if called == 0:
        return None
    ends = np.unique([(own >= value).sum() for value in own])  # rows in a tie are called together
    called = int(ends[np.argmin([abs(np.log(end / called)) for end in ends])])
    falling = np.append(np.sort(own)[::-1], 0.0)
    return float((falling[called - 1] + falling[called]) / 2)


def f1(both: float, said: float, real: float) -> float:
    return 2 * both / max(said + real, 1e-12)
