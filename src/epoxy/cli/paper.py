"""`epoxy theory`, `synthetics` and `bench`: what the paper claims, on your data and on its own."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Option

from ..errors import EpoxyError, ParameterError
from .options import All, Home, Json, app, folder_of, open_project
from .screen import bar, complain, say, table, write_json

if TYPE_CHECKING:
    from ..session import Session
    from ..votes import Split


TELLING, LINES = 10, 30
"""Labelled rows that got a lent vote from which a share says something, and functions that are shown."""


@app.command()
def theory(
    folder: Home,
    figures: Annotated[
        Path | None, Option(metavar="DIR", help="draw one figure per function here")
    ] = None,
    kind: Annotated[Literal["png", "svg"], Option(help="of the figures")] = "png",
    everything: All = False,
    json: Json = None,
) -> None:
    """What the theory predicts for your functions, and what happens on dev.

    For each function at the radius chosen for it: how far it lends, how many rows that covers, how
    often lent votes are predicted and found to be right; and a plain verdict on whether lending will
    help. Functions of which fewer than ten labelled rows tell are left to --all. --figures DIR draws
    one picture each.
    """
    from .. import theory as tools
    from ..label_models.label_model import AdditiveModel
    from ..tuning import tune

    session = open_project(folder)
    train, dev = session.split("train"), session.hand_labelled()
    if dev is None:
        raise ParameterError(
            f"theory needs rows with a true label, and {folder} has none; "
            "fill the label column of some rows, or name a dev file in epoxy.toml"
        )
    paper = folder_of(session).project.make_model("epoxy")
    readable: Any = paper.label_model if isinstance(paper.label_model, AdditiveModel) else None
    scoring = _scoring(session, dev)
    chosen = tune(train, dev, scoring, readable, positive=session.positive, metric=paper.metric)
    found = tools.verdict(chosen, dev)
    say(found.text)
    if train.votes.sequences is not None:
        say(
            "The theory is about rows one by one: their order is not read here, and epoxy tune "
            "--model epoxy, which reads it, may choose other radii."
        )
    data: dict[str, Any] = found.to_dict()
    say("", _lent(data["sources"], everything))
    if figures is not None:
        data["figures"] = [str(each) for each in _draw(found, figures, kind)]
        say(f"\n{len(data['figures'])} figures in {figures}")
    write_json(data, json)


def _lent(sources: list[dict[str, Any]], everything: bool) -> Any:
    """What each function lends, as predicted and as found; those that few rows tell of in one line."""
    told = [each for each in sources if each["chosen"] and each["chosen"]["new_rows"] >= TELLING]
    shown = (
        sources
        if everything
        else sorted(told, key=lambda each: -each["chosen"]["new_rows"])[:LINES]
    )
    lines = []
    for each in shown:
        at = each["chosen"] or {}
        found, seen = at.get("new_accuracy"), at.get("new_rows", 0)
        lines.append(
            (
                each["source"],
                "lends nothing" if each["radius"] is None else f"{each['radius']:.3f}",
                _share(at.get("coverage", each["coverage"])),
                _share(at.get("predicted_accuracy")),
                f"{_share(found)} of {seen}" if seen else "–",
                bar(found, 10) if seen and found is not None else "",
            )
        )
    left = len(sources) - len(shown)
    more = f"{left} more: too few rows to tell, or nothing lent (--all)" if left else ""
    head = ["~function", ">radius", ">covers", ">lent predicted right", ">and found", ""]
    return table(head, lines, more=more)


def _share(value: float | None) -> str:
    return "–" if value is None or value != value else f"{value:.0%}"


@app.command()
def synthetics(
    rows: Annotated[int, Option(help="points in the unit square")] = 10_000,
    seed: Annotated[int, Option(help="of the draw")] = 0,
    figure: Annotated[
        Path | None, Option(metavar="FILE", help="draw both experiments (.png, .svg)")
    ] = None,
    json: Json = None,
) -> None:
    """The paper's two synthetic experiments, with their claims checked.

    10,000 points in the unit square, three functions, the first extended: four accuracies on a
    checkerboard, and four label distributions from smooth to random. About ten seconds.
    """
    from ..theory import synthetics as experiments

    makers = (experiments.by_accuracy, experiments.by_smoothness)
    both = [make(rows, seed=seed) for make in makers]
    claims = experiments.claims(*both)
    for claim in claims:
        say(f"{'holds' if claim.holds else 'FAILS'}  {claim.text}: {claim.evidence}")
    if figure is not None:
        from ..theory import figures

        say(f"drawn in {figures.save(figures.draw_synthetics(both), figure)}")
    write_json({"claims": [asdict(claim) for claim in claims]}, json)
    if not all(claim.holds for claim in claims):
        raise EpoxyError("not every claim of the paper holds on this draw; see above")


def _scoring(session: Session, dev: Split) -> str:
    """What radii are judged by: F1 where a class is named for it and rows show it, else accuracy."""
    from ..tuning import counting_rows

    if session.positive is None:
        return "accuracy"
    shown = dev.truth[counting_rows(dev)] == dev.classes.index(session.positive)
    return "f1" if shown.any() else "accuracy"


def _draw(found: Any, folder: Path, kind: str) -> list[Path]:
    from ..theory import figures

    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for judged in found.sources:
        name = "".join(c if c.isalnum() else "_" for c in judged.source)
        figure = figures.draw_source(found, judged.source)
        paths.append(figures.save(figure, folder / f"{name}.{kind}"))
    return paths


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
    """The paper's tables on your data: the main baselines, one protocol.

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
