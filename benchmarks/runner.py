"""The one runner of all studies: cells measured in processes of their own, one tidy CSV, resumed.

A study is a function `measure(data, cells)` that yields one row, a dict, for each cell it was given; a
cell names what is measured (`{"data": "spam", "labels": "20", "draw": 3}`), a row is the cell with its
figures. The cells of one data set share a process, which imports the package of one source tree. Every
row goes to the CSV as soon as it is there, with the tree it was measured on (its commit, and a digest of
its sources where they differ from it); a cell that the CSV holds is not measured again. `--again` forgets
what was kept of these cells.

With `--tree A --tree B` the same cells run on both trees and are compared, cell by cell. A tree is any
checkout that has `src/epoxy`; the Python, and everything else it imports, is the one that runs this.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("EPOXY_SHARED_DATA", HERE.parents[1] / "shared" / "data")).resolve()
RESULTS = HERE / "results"
Row = dict[str, Any]
Measure = Callable[[str, list[Row]], Iterable[Row]]
CHILD = "EPOXY_MEASURE"


def arguments(description: str | None) -> argparse.ArgumentParser:
    """What every study is asked: which sets and trees, and where the CSV is."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="*", help="names of data sets; all unless told otherwise")
    parser.add_argument(
        "--tree", action="append", help="a checkout to measure; several are compared with the first"
    )
    parser.add_argument("--out", help="the CSV that keeps the rows (build/STUDY.csv)")
    parser.add_argument("--again", action="store_true", help="measure what the CSV has as well")
    parser.add_argument("--jobs", type=int, default=1, help="data sets measured at once")
    return parser


def sets() -> list[str]:
    """The data sets that have vectors, and dev and test rows with true labels."""
    folders = sorted(path.parent.name for path in DATA.glob("*/vectors-test.npy"))
    return [name for name in folders if (DATA / name / "dev.parquet").is_file()]


def run(measure: Measure, cells: Sequence[Row], options: argparse.Namespace) -> Any:
    """Measure the cells on every tree; returns their rows as a frame, with `tree` and the keys as text."""
    import pandas as pd

    if CHILD in os.environ:
        _answer(measure)
        sys.exit()
    study = Path(sys.argv[0]).stem
    out = Path(options.out or HERE.parent / "build" / f"{study}.csv")
    trees = {tree_name(Path(each)): Path(each).resolve() for each in options.tree or [HERE.parent]}
    keys = ["tree", *cells[0]]
    wanted = {_key({"tree": tree, **cell}, keys): (tree, cell) for tree in trees for cell in cells}
    store = _Store(out, keys, wanted if options.again else ())
    work: dict[tuple[str, str], list[Row]] = {}
    for key, (tree, cell) in wanted.items():
        if key not in store.rows:
            work.setdefault((cell["data"], tree), []).append(cell)
    with ThreadPoolExecutor(options.jobs) as pool:
        codes = list(
            pool.map(lambda item: _child(item[0], trees[item[0][1]], item[1], store), work.items())
        )
    kept = [store.rows[key] for key in wanted if key in store.rows]
    frame = pd.DataFrame([_key(row, keys) for row in kept], columns=keys)
    for name in [name for name in (kept[0] if kept else ()) if name not in keys]:
        frame[name] = [row.get(name) for row in kept]
        numbers = pd.to_numeric(frame[name], errors="coerce")
        if numbers.notna().any():
            frame[name] = numbers
    if any(codes):
        print(f"{sum(map(bool, codes))} data sets failed; run again to go on", file=sys.stderr)
    return frame


def compare(frame: Any, by: str, figures: Sequence[str], *, scale: Row | None = None) -> None:
    """Print means over data sets by one key, and each further tree's difference from the first.

    Behind a difference: its standard error over draws, and in brackets that over data sets.
    """
    trees, order = list(dict.fromkeys(frame["tree"])), list(dict.fromkeys(frame[by]))
    draws = ["draw"] if "draw" in frame else []
    whole = frame.set_index(["tree", by, "data", *draws])
    for tree in trees:
        print(f"\n{tree}" + ("" if tree == trees[0] else f" against {trees[0]}"))
        for at in order:
            mine = whole.loc[tree].xs(at, level=by)
            line = [f"{at:>12}"]
            for name in figures:
                times = (scale or {}).get(name, 1)
                mean = times * mine[name].groupby(level="data").mean().mean()
                line.append(f"{name} {mean:8.3f}")
                if tree != trees[0]:
                    gap = times * (mine[name] - whole.loc[trees[0]].xs(at, level=by)[name]).dropna()
                    each = gap.groupby(level="data").mean()
                    chance = gap.groupby(level="data").var() / gap.groupby(level="data").size()
                    error = chance.fillna(0).sum() ** 0.5 / len(each)
                    line.append(f"({each.mean():+.3f} ± {error:.3f} ({each.sem():.3f}))")
            print("  ".join(line))


def spread(frame: Any, by: str, figure: str, *, worst: float = 0.5) -> None:
    """Print one figure by data set and key for each tree, and where a later tree is clearly below."""
    trees, order = list(dict.fromkeys(frame["tree"])), list(dict.fromkeys(frame[by]))
    table = frame.pivot_table(figure, ["data", "tree"], by, sort=False)[order]
    print(f"\n{figure}\n{table.round(1).to_string()}")
    for tree in trees[1:]:
        gap = table.xs(tree, level="tree") - table.xs(trees[0], level="tree")
        low = gap.stack()
        low = low[low < -worst].sort_values()
        print(f"\n{tree} below {trees[0]} by more than {worst}:")
        print(
            "  ".join(f"{data} at {at} {each:+.1f}" for (data, at), each in low.items()) or "none"
        )


def tree_name(tree: Path) -> str:
    """The commit of a checkout, and a digest of its sources where they are not those of the commit."""

    def git(*words: str) -> str:
        said = subprocess.run(["git", "-C", tree, *words], capture_output=True, text=True)
        return said.stdout.strip()

    name = git("rev-parse", "--short=7", "HEAD") or "none"
    if name != "none" and not git("status", "--porcelain", "src"):
        return name
    total = hashlib.sha256()
    for path in sorted((tree / "src").rglob("*.py")):
        total.update(path.read_bytes())
    return f"{name}+{total.hexdigest()[:6]}"


class _Store:
    """The rows of a study, in memory and in its CSV."""

    def __init__(self, path: Path, keys: list[str], forget: Iterable[tuple[str, ...]]) -> None:
        self.path, self.keys, self.lock = path, keys, Lock()
        self.rows: dict[tuple[str, ...], Row] = {}
        if path.is_file():
            with path.open(newline="") as file:
                self.rows = {_key(row, keys): row for row in csv.DictReader(file)}
        for key in forget:
            self.rows.pop(key, None)

    def add(self, row: Row) -> None:
        """Keep a row; the file is replaced whole, so that it is never half written."""
        with self.lock:
            self.rows[_key(row, self.keys)] = row
            names = list(dict.fromkeys(name for each in self.rows.values() for name in each))
            self.path.parent.mkdir(parents=True, exist_ok=True)
            part = self.path.with_suffix(".part")
            with part.open("w", newline="") as file:
                table = csv.DictWriter(file, names, lineterminator="\n")
                table.writeheader()
                table.writerows(self.rows.values())
            part.replace(self.path)


def _key(row: Row, keys: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(row.get(name, "")) for name in keys)


def _child(of: tuple[str, str], path: Path, cells: list[Row], store: _Store) -> int:
    """Measure some cells of one data set on one tree; its rows come back as lines of JSON."""
    data, tree = of
    source = os.pathsep.join(filter(None, [str(path / "src"), os.environ.get("PYTHONPATH")]))
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"} | os.environ
    child = subprocess.Popen(
        [sys.executable, *sys.argv],
        env=threads | {"PYTHONPATH": source, CHILD: json.dumps([data, cells])},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    for line in child.stdout:
        if not line.startswith('{"data"'):
            print(line, end="", file=sys.stderr)
            continue
        row = json.loads(line)
        store.add({"tree": tree, **row})
        print(tree, *_words(row), flush=True, file=sys.stderr)
    return child.wait()


def _answer(measure: Measure) -> None:
    data, cells = json.loads(os.environ[CHILD])
    for row in measure(data, cells):
        print(json.dumps({"data": data, **row}), flush=True)


def _words(row: Row) -> Iterator[str]:
    for name, value in row.items():
        yield f"{name} {value:.3f}" if isinstance(value, float) else str(value)
