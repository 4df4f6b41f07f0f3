"""`epoxy demo`: the point of it all, on real data, offline, in seconds."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import StoreError
from .output import say, write_json

if TYPE_CHECKING:
    from ..votes import Split, Votes

T = TypeVar("T")

CONFIG = """\
# Handwritten digits (scikit-learn's), labelled by 16 functions that talk about holes and strokes.

[rows]
file = "rows.parquet"
id = "id"
label = "label"        # rows that have one are the dev set

[classes]
names = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]

[vectors]
encoder = "vectors.npy"   # the pixels; any encoder would do: lsa, text:MODEL, image:MODEL
metric = "cosine"

[model]
kind = "fusion"
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `epoxy demo`."""
    parser.add_argument(
        "folder",
        type=Path,
        nargs="?",
        default=Path("epoxy-demo"),
        metavar="DIR",
        help="where to write the project (default: epoxy-demo)",
    )


def run(options: argparse.Namespace) -> None:
    """Label the digits before and after extension, and show the difference on test rows."""
    from .. import neighbors
    from ..datasets import load
    from ..fusion import Fusion
    from ..label_models import kernels
    from ..model import Epoxy
    from ..tuning import tune

    data = load("digits")
    folder = write_project(data, options.folder)
    train, dev, test = data.prepare(_functions())
    say(
        f"{train.n_rows} unlabelled digits, {dev.n_rows} labelled by hand, {test.n_rows} to test on"
    )
    coverage = train.votes.coverage.mean()
    say(f"{train.votes.n_sources} labeling functions vote on {coverage:.1%} of the rows each")

    kernels.warm()  # compiled once per machine, and not what the seconds below are about
    neighbors.warm()
    plain = _timed(lambda: Epoxy(radius={}).fit(train))
    model = _timed(lambda: tune(train, dev))
    fusion = _timed(lambda: Fusion().fit(train, dev))
    lines = [
        _line("functions alone", *plain, test.votes, test),
        _line("extended (Epoxy)", *model, model[0].extend(test), test),
        _line("fused (Fusion)", *fusion, fusion[0].extend(test), test),
    ]
    _show(lines)
    say()
    say("Why one of them has its label:")
    say(fusion[0].explain(test, _telling_row(model[0], fusion[0], test)))
    say()
    say(f"The project is in {folder}. Go on from there:")
    say(f"  epoxy report {folder}      what each function does")
    say(f"  epoxy watch {folder}       edit {folder / 'lfs.py'} and see every label change")
    say(f"  epoxy studio {folder}      the same in a browser, row by row on a map")
    write_json({"folder": str(folder), "results": lines}, options.json)


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    start = time.perf_counter()
    made = work()
    return made, time.perf_counter() - start


def _line(name: str, model: Any, seconds: float, votes: Votes, test: Split) -> dict[str, Any]:
    """How a model does on the test rows, and how many votes it had to go by."""
    from ..diagnostics import scores

    assert test.y is not None
    return {
        "method": name,
        "covered": float(votes.covered.mean()),
        "votes_per_row": float(votes.cast.sum(axis=1).mean()),
        "accuracy": scores(model.predict_proba(test), test.y, test.classes)["accuracy"],
        "seconds": seconds,
    }


def _show(lines: list[dict[str, Any]]) -> None:
    say()
    say(f"{'':<18} {'rows with a vote':>17} {'votes per row':>14} {'right':>7} {'seconds':>8}")
    for line in lines:
        say(
            f"{line['method']:<18} {line['covered']:>16.1%} {line['votes_per_row']:>14.2f} "
            f"{line['accuracy']:>7.1%} {line['seconds']:>8.2f}"
        )


def write_project(data: Any, folder: Path) -> Path:
    """Write the digits as a project folder; a folder that holds another project is left alone."""
    from importlib.resources import files

    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet

    config = folder / "epoxy.toml"
    if config.exists() and config.read_text("utf-8") != CONFIG:
        raise StoreError(f"{folder} is a project already; give another folder: epoxy demo DIR")
    folder.mkdir(parents=True, exist_ok=True)
    tables = []
    for name in ("train", "dev"):
        split, table = data.split(name), data.rows(name)
        known = split.y if split.y is not None else np.full(split.n_rows, -1)
        labels = [None if each < 0 else data.classes[each] for each in known]
        tables.append(table.append_column("label", pa.array(labels, pa.string())))
    pyarrow.parquet.write_table(pa.concat_tables(tables), folder / "rows.parquet")
    vectors = np.concatenate([data.split(name).vectors for name in ("train", "dev")])
    np.save(folder / "vectors.npy", vectors)
    if not (folder / "lfs.py").exists():
        source = files("epoxy.datasets").joinpath("digits_lfs.py").read_text("utf-8")
        (folder / "lfs.py").write_text(source, "utf-8")
    config.write_text(CONFIG, "utf-8")
    return folder


def _functions() -> list[Any]:
    from ..datasets import digits_lfs
    from ..functions.define import LabelingFunction

    return [each for each in vars(digits_lfs).values() if isinstance(each, LabelingFunction)]


def _telling_row(model: Any, fused: Any, test: Any) -> int:
    """The first row that no function votes on, that got votes lent, and that Fusion gets right."""
    import numpy as np

    extended = model.extend(test)
    right = fused.predict_proba(test).argmax(axis=1) == test.y
    rows = np.flatnonzero(~test.votes.covered & (extended.cast.sum(axis=1) > 1) & right)
    return int(rows[0]) if len(rows) else 0
