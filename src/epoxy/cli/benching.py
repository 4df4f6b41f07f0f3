"""`epoxy bench`: the paper's tables on data folders."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Literal

from ..errors import ParameterError
from .output import complain, say, write_json


def arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `epoxy bench`."""
    parser.add_argument("--data", nargs="+", metavar="FOLDER", default=[], help="data folders")
    parser.add_argument(
        "--out",
        metavar="DIR",
        default="epoxy-bench",
        help="cells, results and pages; default: %(default)s",
    )
    parser.add_argument("--methods", metavar="NAME,NAME", help="only these columns")
    parser.add_argument(
        "--seeds", type=int, default=5, help="runs of what is random; default: %(default)s"
    )
    parser.add_argument("--quick", action="store_true", help="one seed")
    parser.add_argument(
        "--class-balance",
        metavar="SHARES",
        help="0.4,0.6 in the order of the classes, dev, or tune",
    )
    parser.add_argument(
        "--dev-rows",
        metavar="N,N,all",
        default="all",
        help="amounts of random dev rows, drawn per seed; default: %(default)s",
    )
    parser.add_argument(
        "--earlier", metavar="FILE", help="a result to take over what is not measured here"
    )
    parser.add_argument("--fresh", action="store_true", help="do every cell again")
    parser.add_argument("--render", metavar="FILE", help="only make the pages of a result")


def run(options: argparse.Namespace) -> None:
    """Run what is missing, print the tables, write JSON and pages."""
    from .. import bench

    if options.json not in (None, "-") and not Path(options.json).absolute().parent.is_dir():
        raise ParameterError(f"--json {options.json} is in no folder; make it first")
    if options.render:
        results = bench.read(options.render)
    elif not options.data:
        raise ParameterError("bench needs data folders; give --data FOLDER…")
    else:
        results = _measure(options)
    if not results["results"]:
        write_json(results, options.json)
        raise ParameterError("nothing could be scored, for the reasons above; nothing was written")
    say(bench.text(results))
    for path in bench.write_pages(results, Path(options.out)):
        say(f"wrote {path}")
    write_json(results, options.json)


def _measure(options: argparse.Namespace) -> dict[str, Any]:
    from .. import bench
    from ..progress import bar

    settings = bench.Settings(
        methods=_names(options.methods),
        seeds=options.seeds,
        quick=options.quick,
        class_balance=_balance(options.class_balance),
        dev_rows=_amounts(options.dev_rows),
    )
    try:
        return bench.run(
            options.data,
            options.out,
            settings,
            progress=bar("bench"),
            said=_warn,
            fresh=options.fresh,
            earlier=bench.read(options.earlier) if options.earlier else None,
        )
    except KeyboardInterrupt:
        again = "the same command without --fresh" if options.fresh else "the same command again"
        _warn(f"finished cells are in {Path(options.out) / 'cells'}; {again} goes on from there")
        raise


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
