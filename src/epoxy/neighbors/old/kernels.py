"""The inner loops of pairs, tiles and walks over a graph, compiled once and kept on disk.

Traps met and avoided, here and in the other modules of kernels: a signed index costs a wrap-around
test that stops vectorisation, so indices are unsigned; a builtin `max` and int64 counters do not
vectorise, conditional expressions on float32 and int32 do; nor does a loop whose trip count varies.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...compiling import U, compiled
from .metrics import LANES

STRIP = 16  # rows turned at a time: whole cache lines are written, and all stay in the cache


@compiled
def _fold(sums: Any) -> float:
    """Add the running sums in halves, the order that defines a distance."""
    width = LANES // 2
    while width > 0:
        for lane in range(width):
            sums[U(lane)] += sums[U(lane + width)]
        width //= 2
    return sums[0]  # type: ignore[no-any-return]


@compiled
def pair_dots(x: Any, z: Any, rows: Any, others: Any) -> Any:
    """Σ x z over the coordinates of the pairs (x[rows[p]], z[others[p]]), in float64.

    Four pairs at a time keep four streams from memory under way (1.7 times as fast).
    """
    count, dimension = len(rows), x.shape[1]
    whole = dimension - dimension % LANES
    out, sums = np.empty(count), np.empty((4, LANES))
    s0, s1, s2, s3 = sums[0], sums[1], sums[2], sums[3]
    for p0 in range(0, count, 4):
        p1, p2, p3 = min(p0 + 1, count - 1), min(p0 + 2, count - 1), min(p0 + 3, count - 1)
        x0, x1, x2, x3 = x[rows[p0]], x[rows[p1]], x[rows[p2]], x[rows[p3]]
        z0, z1, z2, z3 = z[others[p0]], z[others[p1]], z[others[p2]], z[others[p3]]
        sums[:] = 0.0
        for start in range(0, whole, LANES):
            for lane in range(LANES):
                at, to = U(start) + U(lane), U(lane)
                s0[to] += np.float64(x0[at]) * np.float64(z0[at])
                s1[to] += np.float64(x1[at]) * np.float64(z1[at])
                s2[to] += np.float64(x2[at]) * np.float64(z2[at])
                s3[to] += np.float64(x3[at]) * np.float64(z3[at])
        for lane in range(dimension - whole):
            at, to = U(whole) + U(lane), U(lane)
            s0[to] += np.float64(x0[at]) * np.float64(z0[at])
            s1[to] += np.float64(x1[at]) * np.float64(z1[at])
            s2[to] += np.float64(x2[at]) * np.float64(z2[at])
            s3[to] += np.float64(x3[at]) * np.float64(z3[at])
        out[p0], out[p1], out[p2], out[p3] = _fold(s0), _fold(s1), _fold(s2), _fold(s3)
    return out


@compiled
def pair_squares(x: Any, z: Any, rows: Any, others: Any) -> Any:
    """Σ (x − z)² over the coordinates of the pairs (x[rows[p]], z[others[p]]), in float64."""
    dimension = x.shape[1]
    whole = dimension - dimension % LANES
    out, sums = np.empty(len(rows)), np.empty(LANES)
    for p in range(len(rows)):
        mine, theirs = x[rows[p]], z[others[p]]
        sums[:] = 0.0
        for start in range(0, whole, LANES):
            for lane in range(LANES):
                at = U(start) + U(lane)
                gap = np.float64(mine[at]) - np.float64(theirs[at])
                sums[U(lane)] += gap * gap
        for lane in range(dimension - whole):
            gap = np.float64(mine[U(whole) + U(lane)]) - np.float64(theirs[U(whole) + U(lane)])
            sums[U(lane)] += gap * gap
        out[p] = _fold(sums)
    return out


@compiled
def best_two(tile: Any, chosen: Any, names: Any, best: Any, second: Any, winner: Any) -> None:
    """Keep, per column, the best score over the chosen tile rows, who has it, and the next best."""
    for at in range(len(chosen)):
        scores = tile[chosen[at]]
        name = names[at]
        for q in range(len(best)):
            score, top, next_best = scores[q], best[q], second[q]
            higher = score > top
            second[q] = top if higher else (score if score > next_best else next_best)
            winner[q] = name if higher else winner[q]
            best[q] = score if higher else top


@compiled
def scan(graph: Any, asked: Any, support: Any, radius: float, row: Any, distance: Any) -> Any:
    """Walk each asked node's neighbours to the first that supports the source.

    `graph` is (neighbour, distances, rungs, steps, later): from position `steps[l]` on, and beyond the
    list, everything is at least `rungs[:, l]` away, but for who came later (see `growing`). `support`
    is (lowest, bits): the lowest supporting row of each node, or −1, and a bit for each that has one,
    which stay in the cache where a million rows do not. Writes what is certain to the asked nodes'
    places in `row` and `distance` (−1 and inf for nobody) and returns a mask of those asked that the
    list cannot settle within `radius`.
    """
    neighbour, distances, rungs, steps, (start, later_node, later_distance) = graph
    supporting, bits = support
    unsettled = np.zeros(len(asked), np.bool_)
    for at in range(len(asked)):
        query = U(asked[at])
        hit, p = -1, 0
        for rung in range(len(steps)):
            while p < steps[rung]:
                node = np.uint32(neighbour[query, U(p)])
                if (bits[node >> np.uint32(3)] >> (node & np.uint32(7))) & np.uint32(1):
                    hit = p
                    break
                p += 1
            if hit >= 0 or rungs[query, U(rung)] > radius:
                break
        near, lowest = np.inf, -1
        if hit >= 0:
            near = distances[query, U(hit)]
            lowest = supporting[U(neighbour[query, U(hit)])]
            p = hit + 1
            while p < neighbour.shape[1] and distances[query, U(p)] == near:
                other = supporting[U(neighbour[query, U(p)])]
                if other >= 0 and other < lowest:
                    lowest = other
                p += 1
        known = near if hit >= 0 else rungs[query, U(rung)]  # nothing in the list is nearer
        for late in range(start[query], start[query + U(1)]):
            far = later_distance[U(late)]
            if far > known or far > near or (hit < 0 and far == known):
                break
            other = supporting[U(later_node[U(late)])]
            if other >= 0 and (far < near or other < lowest):
                near, lowest = far, other
        if lowest < 0:
            unsettled[at] = known <= radius
        elif near >= rungs[query, U(len(steps) - 1)]:
            unsettled[at] = near <= radius
            near, lowest = np.inf, -1
        if not unsettled[at]:
            row[query], distance[query] = lowest, near
    return unsettled


@compiled
def drop_stale(gone: Any, node: Any, limit: float, row: Any, distance: Any) -> Any:
    """Take back answers through nodes that are gone, and all beyond `limit`; a mask of the former."""
    lost = np.zeros(len(row), np.bool_)
    for at in range(len(row)):
        if row[at] >= 0:
            lost[at] = gone[U(node[U(row[at])])]
        if lost[at] or distance[at] > limit:
            row[at], distance[at] = -1, np.inf
    return lost


@compiled
def propagate(
    graph: Any, sources: Any, support: Any, radius: float, targets: Any, answers: Any
) -> None:
    """Let each source node offer itself to the nodes in its own list, up to `radius`.

    Distances are symmetric, so a source whose list ends beyond the radius reaches everybody it must.
    `targets` marks the nodes whose (row, distance) in `answers` may change; the nearer offer is
    taken, of equals the lower row.
    """
    neighbour, distances, _, _, (start, later_node, later_distance) = graph
    row, distance = answers
    for at in range(len(sources)):
        source = U(sources[at])
        offered = support[source]
        for p in range(neighbour.shape[1]):
            far = distances[source, U(p)]
            if far > radius:
                break
            _take_nearer(U(neighbour[source, U(p)]), far, offered, targets, row, distance)
        for late in range(start[source], start[source + U(1)]):
            far = later_distance[U(late)]
            if far > radius:
                break
            _take_nearer(U(later_node[U(late)]), far, offered, targets, row, distance)


@compiled
def _take_nearer(
    target: Any, far: float, offered: int, targets: Any, row: Any, distance: Any
) -> None:
    if targets[target] and (
        far < distance[target] or (far == distance[target] and offered < row[target])
    ):
        distance[target] = far
        row[target] = offered


def multiply(left: np.ndarray, right: np.ndarray, buffer: np.ndarray) -> np.ndarray:
    """The scores of all pairs of rows, in a buffer that is used again; (len(left), len(right))."""
    tile = buffer[: len(left) * len(right)].reshape(len(left), len(right))
    np.matmul(left, right.T, out=tile)
    return tile


def turned(tile: np.ndarray, buffer: np.ndarray) -> np.ndarray:
    """The transpose of a tile, in a buffer that is used again."""
    made = buffer[: tile.size].reshape(tile.shape[::-1])
    for top in range(0, len(tile), STRIP):
        made[:, top : top + STRIP] = tile[top : top + STRIP].T
    return made
