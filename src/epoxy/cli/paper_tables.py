"""`epoxy bench`: the paper's tables on data folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Option

from ..errors import ParameterError
from .options import Json, app
from .screen import complain, say, write_json


@app.command()
def bench(
    data: Annotated[list[str] | None, Option(metavar="FOLDER …", help="data folders")] = None,
    out: Annotated[Path, Option(metavar="DIR", help="cells, results and pages")] = Path(
        "epoxy-bench"
    ),
    methods: Annotated[str | None, Option(metavar="NAME,NAME", help="only these columns")] = None,
    seeds: Annotated[int, Option(help="runs of what is random")] = 5,
    quick: Annotated[bool, Option("--quick", help="one seed")] = False,
    class_balance: Annotated[
        str | None,
        Option(metavar="SHARES", help="0.4,0.6 in the order of the classes, dev, or tune"),
    ] = None,
    dev_rows: Annotated[
        str, Option(metavar="N,N,all", help="amounts of random dev rows, drawn per seed")
    ] = "all",
    fresh: Annotated[bool, Option("--fresh", help="do every cell again")] = False,
    render: Annotated[
        str | None, Option(metavar="FILE", help="only make the pages of a result")
    ] = None,
    json: Json = None,
) -> None:
    """The paper's tables on your data: every baseline, one protocol.

    Data folders in the form of train/dev/test.parquet with votes-*.npy, vectors-*.npy and meta.json.
    Train labels are never read, dev labels tune and fit, test labels are read once. A killed run
    continues where it stopped.
    """
    from .. import bench as tools
    from ..progress import bar

    if json not in (None, "-") and not Path(json or "").absolute().parent.is_dir():
        raise ParameterError(f"--json {json} is in no folder; make it first")
    if render:
        results = tools.read(render)
    elif not data:
        raise ParameterError("bench needs data folders; give --data FOLDER…")
    else:
        settings = tools.BenchSettings(
            methods=_names(methods),
            seeds=seeds,
            quick=quick,
            class_balance=_balance(class_balance),
            dev_rows=_amounts(dev_rows),
        )
        try:
            results = tools.run(data, out, settings, progress=bar("bench"), said=_warn, fresh=fresh)
        except KeyboardInterrupt:
            again = "the same command without --fresh" if fresh else "the same command again"
            _warn(f"finished cells are in {out / 'cells'}; {again} goes on from there")
            raise
    _tell(results, out, json)


def _tell(results: dict[str, Any], out: Path, json: str | None) -> None:
    from .. import bench as tools

    if not results["results"]:
        write_json(results, json)
        raise ParameterError("nothing could be scored, for the reasons above; nothing was written")
    say(tools.text(results))
    say(f"wrote {tools.write_page(results, out)}")
    write_json(results, json)


def _warn(sentence: str) -> None:
    complain(f"epoxy bench: {sentence}")


def _names(given: str | None) -> tuple[str, ...] | None:
    return tuple(name.strip() for name in given.split(",")) if given else None


def _balance(given: str | None) -> tuple[float, ...] | Literal["dev", "tune"] | None:
    if given is None:
        return None
    if given == "dev":
        return "dev"
    if given == "tune":
        return "tune"
    try:
        return tuple(float(each) for each in given.split(","))
    except ValueError:
        raise ParameterError(
            f"--class-balance got {given!r}; expected shares such as 0.4,0.6, dev, or tune"
        ) from None


def _amounts(given: str) -> tuple[int | None, ...]:
    words = [each.strip() for each in given.split(",")]
    if not all(each == "all" or each.isdigit() for each in words):
        raise ParameterError(f"--dev-rows got {given!r}; expected amounts such as 0,20,100,all")
    return tuple(None if each == "all" else int(each) for each in words)
