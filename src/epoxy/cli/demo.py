"""`epoxy demo`: the point of it all, on real data, offline, in seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from typer import Argument

from ..errors import StoreError
from .options import Json, app
from .screen import bar, say, table, write_json

if TYPE_CHECKING:
    from ..votes import Split, Votes

T = TypeVar("T")

CONFIG = """\
# Handwritten digits (scikit-learn's), labelled by 16 functions that talk about holes and strokes.

[rows]
file = "rows.parquet"
id = "id"
label = "label"        # rows that have one are the dev set
chosen = "random"      # and how they were chosen

[classes]
names = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]

[vectors]
encoder = "vectors.npy"   # the pixels; any encoder would do: lsa, text:MODEL, image:MODEL
metric = "cosine"

[model]
kind = "fusion"
"""


@app.command()
def demo(
    folder: Annotated[Path, Argument(metavar="[DIR]", help="where to write the project")] = Path(
        "epoxy-demo"
    ),
    json: Json = None,
) -> None:
    """The whole loop on real data, offline, in seconds.

    Writes a project folder with 1,797 handwritten digits and 16 labeling functions, labels it
    before and after extension, and shows what extension gained. Go on from there:

    \b
      epoxy report epoxy-demo     epoxy watch epoxy-demo     epoxy studio epoxy-demo
    """
    from .. import neighbors
    from ..datasets import load
    from ..fusion import Fusion
    from ..label_models import kernels
    from ..model import Epoxy
    from ..tuning import tune

    data = load("digits")
    made = write_project(data, folder)
    train, dev, test = data.prepare(_functions())
    kernels.warm()  # compiled once per machine, and not what the seconds below are about
    neighbors.warm()
    plain = _timed(lambda: Epoxy(radius={}).fit(train))
    model = _timed(lambda: tune(train, dev))
    fusion = _timed(lambda: Fusion().fit(train, dev))
    results = [
        _line("functions alone", *plain, test.votes, test),
        _line("extended (Epoxy)", *model, model[0].extend(test), test),
        _line("fused (Fusion)", *fusion, fusion[0].extend(test), test),
    ]
    say(
        f"{train.n_rows:,} digits without a label, {dev.n_rows} labelled by hand, "
        f"{train.votes.n_sources} functions that look at holes and strokes",
        style="bold",
    )
    say("", _results(results, test.n_rows))
    row = _quarrel(train)
    say(f"\nA digit that two functions quarrel over:  epoxy explain {made} {row}", whole=True)
    say("Next:")
    nexts = (
        ("report", "your functions, the worst first"),
        ("studio", "see it, label, move a radius, in a browser"),
        ("watch", f"edit {made / 'lfs.py'} and see every label change"),
    )
    say(table(["", ""], [(f"epoxy {verb} {made}", what) for verb, what in nexts], indent=2))
    write_json({"folder": str(made), "results": results}, json)


def _results(lines: list[dict[str, Any]], n_test: int) -> Any:
    names = {
        "functions alone": "functions alone",
        "extended (Epoxy)": "+ lent to rows nearby",
        "fused (Fusion)": "+ vectors and labels (default)",
    }
    rows = [
        (
            names[each["method"]],
            f"{each['accuracy']:.0%}",
            bar(each["accuracy"], 20),
            f"{each['covered']:.0%}",
            f"{each['votes_per_row']:.1f}",
            f"{each['seconds']:.2f} s",
        )
        for each in lines
    ]
    head = ["~", ">right", "", ">with a vote", ">votes a row", ">fitted in"]
    return table(head, rows, title=f"on {n_test} digits that no model saw")


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    start = time.perf_counter()
    made = work()
    return made, time.perf_counter() - start


def _line(name: str, model: Any, seconds: float, votes: Votes, test: Split) -> dict[str, Any]:
    """How a model does on the test rows, and how many votes it had to go by."""
    from ..scoring import scores

    assert test.y is not None
    return {
        "method": name,
        "covered": float(votes.covered.mean()),
        "votes_per_row": float(votes.cast.sum(axis=1).mean()),
        "accuracy": scores(model.predict_proba(test), test.y, test.classes)["accuracy"],
        "seconds": seconds,
    }


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


def _quarrel(train: Split) -> Any:
    """The first row on which two functions name different classes."""
    from ..suggest.search import in_conflict

    return train.id_of(int(in_conflict(list(train.votes.matrix.T), train.n_rows).argmax()))
