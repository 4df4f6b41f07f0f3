"""Projects of the studio's benchmark: one of real rows where they exist, three that are made up.

Every project is a folder as `epoxy new` makes it: a parquet file of rows, a `.npy` file of vectors, and
`lfs.py`. Votes that come from a matrix stand in columns of the rows and are read by `epoxy.from_column`;
those of the project with a thousand sources are keyword functions.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from epoxy.project.create import new_project
from speed_data import SHARED, mixture, rules


@dataclass(frozen=True)
class Case:
    """A project: how many train rows and sources, how long its vectors are, and under which model."""

    name: str
    n: int
    sources: int
    dimension: int = 384
    kind: str = "epoxy"
    n_dev: int = 500

    @property
    def label(self) -> str:
        return f"{self.name}: {self.n:,} rows x {self.sources:,} sources, {self.kind}"


CASES = {
    case.name: case
    for case in [
        Case("spouse", 22_070, 9),
        Case("spouse-fusion", 22_070, 9, kind="fusion"),
        Case("hundred", 100_000, 10),
        Case("million", 1_000_000, 10, dimension=64),
        Case("thousand", 22_070, 1_000),
        Case("sources", 5_000, 1_000),
        Case("sources-fusion", 5_000, 1_000, kind="fusion"),
    ]
}


def make(case: Case, home: Path) -> Path:
    """The project's folder, made once under `home`."""
    folder = home / case.name
    if (folder / "epoxy.toml").exists():
        return folder
    home.mkdir(parents=True, exist_ok=True)
    table, vectors, classes, positive, lfs = (
        _spouse(case) if case.name.startswith("spouse") else _made_up(case)
    )
    files = home / f"{case.name}.parquet", home / f"{case.name}.npy"
    pq.write_table(table, files[0])
    np.save(files[1], vectors)
    options = {"encoder": str(files[1]), "kind": case.kind, "positive": positive}
    new_project(folder, files[0], classes=classes, options=options, lfs=lfs)
    return folder


Parts = tuple[pa.Table, np.ndarray, list[str], str, str]


def _spouse(case: Case) -> Parts:
    """The real candidates of the spouse relation, their nine functions' votes, dev rows labelled."""
    home = SHARED / "spouse"
    if not home.is_dir():
        raise SystemExit(f"there is no {home}; name the data's folder: EPOXY_SHARED_DATA")
    meta = json.loads((home / "meta.json").read_text())
    splits = "train", "dev"
    rows = [pq.read_table(home / f"{each}.parquet") for each in splits]
    text = pa.concat_tables([each.select(["id", "text"]) for each in rows])
    label = [None] * rows[0].num_rows + rows[1].column("label").to_pylist()
    votes = np.concatenate([np.load(home / f"votes-{each}.npy") for each in splits])
    vectors = np.concatenate([np.load(home / f"vectors-{each}.npy") for each in splits])
    table = text.append_column("label", pa.array(label, pa.string()))
    table = _with_votes(table, votes, meta["sources"], meta["classes"])
    return table, vectors, meta["classes"], meta["positive"], _from_columns(meta["sources"])


def _made_up(case: Case) -> Parts:
    """Rows around 200 centres, with words of their centre; the last rows are labelled."""
    n = case.n + case.n_dev
    vectors, cluster = mixture(n, case.dimension, 0)
    rng = np.random.default_rng(1)
    side = (vectors @ vectors[0] > np.median(vectors @ vectors[0])).astype(int)
    word = rng.integers(0, 5, size=(n, 4)) + 5 * cluster[:, None]
    text = [" ".join(f"w{each}" for each in line) for line in word.tolist()]
    label = [None] * case.n + [f"c{each}" for each in side[case.n :]]
    names = ["id", "text", "label"]
    ids = [f"r{each}" for each in range(n)]
    table = pa.table([ids, text, pa.array(label, pa.string())], names=names)
    if case.sources >= 1_000:
        # each function knows one word; a word's class is the one most of its rows are on
        about = [side[cluster == each // 5] for each in range(case.sources)]
        classes = [int(2 * each.sum() > len(each)) for each in about]
        lines = [
            f'about_{each:03d} = epoxy.keywords("c{classes[each]}", "w{each}", name="about_{each:03d}")'
            for each in range(case.sources)
        ]
        lfs = "import epoxy\n\n" + "\n".join(lines) + "\n"
    else:
        sources = [f"rule_{each}" for each in range(case.sources)]
        votes = rules(vectors, cluster, case.sources, (0.02, 0.1), 0)
        table, lfs = _with_votes(table, votes, sources, ["c0", "c1"]), _from_columns(sources)
    return table, vectors.astype(np.float16), ["c0", "c1"], "c1", lfs


def _with_votes(
    table: pa.Table, votes: np.ndarray, sources: list[str], classes: list[str]
) -> pa.Table:
    for at, name in enumerate(sources):
        column = pa.DictionaryArray.from_arrays(
            pa.array(votes[:, at], mask=votes[:, at] < 0), pa.array(classes)
        )
        table = table.append_column(name, column.cast(pa.string()))
    return table


def _from_columns(sources: list[str]) -> str:
    lines = [f'{name} = epoxy.from_column("{name}")' for name in sources]
    return "import epoxy\n\n" + "\n".join(lines) + "\n"
