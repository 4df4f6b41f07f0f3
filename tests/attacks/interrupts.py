"""Ctrl-C at random moments of edits: session, log and other processes stay in step."""

from __future__ import annotations

import json
import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import epoxy
from attacks.tally import Tally

SOURCES = tuple("abcdef")


def make(home: Path, kind: str, n_rows: int = 80) -> Path:
    """A project whose votes and vectors are files, so that it opens in no time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, n_rows)
    ids = [f"r{at}" for at in range(n_rows)]
    cast = rng.random((n_rows, len(SOURCES))) < 0.5
    votes = np.where(cast, np.where(rng.random(cast.shape) < 0.8, y[:, None], 1 - y[:, None]), -1)
    truth = [str("xy"[k]) if at % 4 == 0 else None for at, k in enumerate(y)]
    home.mkdir(parents=True)
    pq.write_table(pa.table({"id": ids, "label": truth}), home / "rows.parquet")
    columns = {name: votes[:, at] for at, name in enumerate(SOURCES)}
    pq.write_table(pa.table({"id": ids, **columns}), home / "votes.parquet")
    np.save(home / "v.npy", rng.normal(size=(n_rows, 4)) + 2 * y[:, None])
    (home / "epoxy.toml").write_text(
        '[rows]\nfile = "rows.parquet"\nid = "id"\nlabel = "label"\n[classes]\nnames = ["x", "y"]\n'
        '[votes]\nfile = "votes.parquet"\n[vectors]\nencoder = "v.npy"\n'
        f'[model]\nkind = "{kind}"\n'
    )
    return home


def decisions(session: epoxy.Session) -> Any:
    """All that was decided, as plain values."""
    given = {
        f"{each.ids[row]}": int(each.truth[row])
        for each in map(session.split, session.names)
        for row in np.flatnonzero(each.labelled)
    }
    return [session.radii, sorted(session.switched_off), given]


def interrupt_edits(home: Path, kind: str, count: int, seed: int = 0, every: int = 1) -> Tally:
    """Interrupt edits, and look each time, and with a fresh session each `every`th time."""
    tally, rng = Tally(), np.random.default_rng(seed)
    project = make(home, kind)
    session, other = epoxy.Session.open(project), epoxy.Session.open(project)
    span = 0.0
    for at in range(3):  # loads compiled loops, and says how long an edit takes
        span = session.set_radius("a", 0.1 * at).seconds
        session.undo()
    while tally.attacks < count:
        edit = _edit(session, rng)
        if not _interrupted(edit, float(rng.uniform(0, 1.3 * span)), tally):
            continue
        what = f"interrupt {tally.attacks}"
        shown = decisions(session)
        with sqlite3.connect(project / ".epoxy" / "state.sqlite", timeout=0) as db:
            db.execute("BEGIN IMMEDIATE")  # locked out, it raises
            db.rollback()
        if tally.attacks % every == 0 and decisions(epoxy.Session.open(project)) != shown:
            tally.lost.append(f"{what}: a fresh session shows something else")
        row, label = f"r{int(rng.integers(1, 20)) * 4 + 1}", "xy"[int(rng.integers(2))]
        other.label(row, label)
        session.switch("f", bool(rng.integers(2)))
        other.catch_up()
        if decisions(session) != decisions(other) or decisions(session)[2][row] != "xy".index(
            label
        ):
            tally.different.append(f"{what}: the next edits are not in step")
    again = epoxy.Session.open(project)
    if decisions(again) != decisions(session):
        tally.lost.append("at the end: a fresh session shows something else")
    if not np.allclose(again.probabilities, session.probabilities, atol=1e-6):
        tally.different.append("at the end: other probabilities")
    return tally


def _edit(session: epoxy.Session, rng: np.random.Generator) -> Callable[[], object]:
    row, name = f"r{4 * int(rng.integers(20)) + 2}", SOURCES[int(rng.integers(len(SOURCES)))]
    kind = int(rng.integers(6))
    if kind == 0 and session.undoable:
        return session.undo
    if kind == 1 and session.redoable:
        return session.redo
    if kind == 2:
        return lambda: session.set_radius(name, round(float(rng.random()), 3))
    if kind == 3:
        return lambda: session.switch("e", "e" in session.switched_off)  # four at least are on
    return lambda: session.label(row, "xy"[int(rng.integers(2))])


def _interrupted(edit: Callable[[], object], seconds: float, tally: Tally) -> bool:
    """Whether an edit was cut short by what a timer raises."""
    armed = True

    def strike(number: int, frame: object) -> None:
        nonlocal armed
        if armed:
            armed = False
            raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, strike)
    try:
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-5))
        edit()
        armed = False
    except KeyboardInterrupt:
        tally.attacks += 1
        return True
    except epoxy.errors.ParameterError:  # undo of what the other session decided anew
        armed = False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return False


if __name__ == "__main__":
    place, kind, count, seed, every = sys.argv[1:]
    found = interrupt_edits(Path(place), kind, int(count), int(seed), int(every))
    sys.stdout.write(json.dumps([found.attacks, found.lost, found.different]))
