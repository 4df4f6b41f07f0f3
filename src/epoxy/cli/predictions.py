"""`epoxy theory` and `epoxy synthetics`: prediction beside outcome."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Option

from ..errors import EpoxyError, ParameterError
from .options import All, Home, Json, app, folder_of, open_project
from .screen import bar, say, table, write_json

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
