"""`epoxy theory` and `epoxy synthetics`: prediction beside outcome."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..errors import EpoxyError, ParameterError
from .output import say, write_json
from .project import folder_argument, folder_of, open_project

if TYPE_CHECKING:
    from ..session import Session
    from ..votes import Split


def theory_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `epoxy theory`."""
    folder_argument(parser)
    parser.add_argument(
        "--figures", type=Path, metavar="DIR", help="draw one figure per function here"
    )
    parser.add_argument(
        "--kind", choices=("png", "svg"), default="png", help="of the figures (png)"
    )
    parser.add_argument(
        "--compare",
        nargs="+",
        metavar="ENCODER",
        help="rank other encoders of the same rows by how smooth labels are in them",
    )


def theory(options: argparse.Namespace) -> None:
    """Compare what theory predicts with what happens on dev."""
    from .. import theory as tools
    from ..label_models.base import AdditiveModel
    from ..tuning import tune

    session = open_project(options)
    train, dev = session.split("train"), session.hand_labelled()
    if dev is None:
        raise ParameterError(
            f"theory needs rows with a true label, and {options.folder} has none; "
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
    say()
    say(found.table())
    data: dict[str, Any] = found.to_dict()
    if options.figures is not None:
        data["figures"] = [str(each) for each in _draw(found, options)]
        say(f"\n{len(data['figures'])} figures in {options.figures}")
    if options.compare:
        data["encoders"] = _compare(session, options.compare, dev)
    write_json(data, options.json)


def synthetics_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `epoxy synthetics`."""
    parser.add_argument(
        "--rows", type=int, default=10_000, help="points in the unit square (10000)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the draw (0)")
    parser.add_argument(
        "--figure", type=Path, metavar="FILE", help="draw both experiments (.png, .svg)"
    )


def synthetics(options: argparse.Namespace) -> None:
    """Run both experiments and check their claims."""
    from ..theory import synthetics as experiments

    both = [
        make(options.rows, seed=options.seed)
        for make in (experiments.by_accuracy, experiments.by_smoothness)
    ]
    claims = experiments.claims(*both)
    for claim in claims:
        say(f"{'holds' if claim.holds else 'FAILS'}  {claim.text}: {claim.evidence}")
    if options.figure is not None:
        from ..theory import figures

        say(f"drawn in {figures.save(figures.draw_synthetics(both), options.figure)}")
    write_json({"claims": [asdict(claim) for claim in claims]}, options.json)
    if not all(claim.holds for claim in claims):
        raise EpoxyError("not every claim of the paper holds on this draw; see above")


def _scoring(session: Session, dev: Split) -> str:
    """What radii are judged by: F1 where a class is named for it and rows show it, else accuracy."""
    from ..tuning.search import counting_rows

    if session.positive is None:
        return "accuracy"
    shown = dev.truth[counting_rows(dev)] == dev.classes.index(session.positive)
    return "f1" if shown.any() else "accuracy"


def _draw(found: Any, options: argparse.Namespace) -> list[Path]:
    from ..theory import figures

    options.figures.mkdir(parents=True, exist_ok=True)
    paths = []
    for judged in found.sources:
        name = "".join(c if c.isalnum() else "_" for c in judged.source)
        figure = figures.draw_source(found, judged.source)
        paths.append(figures.save(figure, options.figures / f"{name}.{options.kind}"))
    return paths


def _compare(session: Session, encoders: list[str], dev: Any) -> list[dict[str, Any]]:
    from .. import theory as tools
    from ..encoders import embed

    home = folder_of(session)
    project, labels = home.project, session.state.workspace.labels
    vectors = {"this project's": dev.vectors}
    for name in encoders:
        column = project.encoded if name.startswith("pair") else project.column
        found = embed(name, *home.rows.tables, column=column)
        vectors[name] = labels.gather(found)
    ranked = tools.compare_embeddings(vectors, dev.y, scan=tools.Scan(cast(Any, project.metric)))
    say("\nencoders, smoothest first (share of unequal labels among the nearest 1 % of pairs):")
    for each in ranked:
        say(f"  {each.name}: {each.roughness:.1%} (chance {each.chance:.1%})")
    return [asdict(each) for each in ranked]
