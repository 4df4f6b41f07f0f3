"""Commands on a project folder; all they do is ask the session and print what it says."""

from __future__ import annotations

import argparse
import time
from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import VoteError
from . import clustering
from .output import say, write_json

if TYPE_CHECKING:
    from ..project.project import Folder
    from ..session import Session
    from ..session.export import Labelled
    from ..shards import Runner


def folder_argument(parser: argparse.ArgumentParser) -> None:
    """The project folder every command but `new` and `demo` starts from."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="a project folder (see epoxy new)")


def model_argument(parser: argparse.ArgumentParser) -> None:
    """Another model than the project's, for this once."""
    parser.add_argument("--model", choices=("fusion", "epoxy"), help="default: as epoxy.toml says")


def new_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `epoxy new`."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="where to make the project")
    parser.add_argument(
        "--rows", type=Path, required=True, metavar="FILE", help="the rows to label"
    )
    parser.add_argument(
        "--classes", metavar="A,B,…", help="class names; else those of the label column"
    )
    parser.add_argument("--text", metavar="COLUMN", help="the column to embed (default: text)")
    parser.add_argument("--id", metavar="COLUMN", help="the column that names rows (default: id)")
    parser.add_argument(
        "--label", metavar="COLUMN", help="true labels where known (default: label)"
    )
    parser.add_argument("--dev", metavar="FILE", help="a separate file of rows with true labels")
    parser.add_argument("--sequence", metavar="COLUMN", help="sequence ids, for rows in order")
    parser.add_argument("--position", metavar="COLUMN", help="places of rows in their sequence")
    parser.add_argument(
        "--encoder", help="auto (default), static, lsa, text:MODEL, image:MODEL, or a .npy file"
    )
    parser.add_argument("--positive", metavar="CLASS", help="the class F1 is of (two classes)")


def new(options: argparse.Namespace) -> None:
    """Make a project folder."""
    from ..encoders import choose
    from ..project.create import new_project

    classes = None if options.classes is None else _listed(options.classes)
    names = ("id", "label", "dev", "sequence", "position", "encoder", "positive")
    given = {name: getattr(options, name) for name in names} | {"column": options.text}
    made = new_project(options.folder, options.rows, classes=classes, options=given)
    say(f"made {made.folder}: write labeling functions in {made.folder / 'lfs.py'}, then")
    say(f"  epoxy label {made.folder}")
    choice = None
    if options.encoder is None and made.column is not None:
        choice = choose(images=made.encoder != "auto")
        say(f"encoder: {choice.encoder}, because {choice.why}")
    if choice is not None and choice.better:
        say(f"  better may be: {choice.better}")
    if made.sequence is not None:
        say(f"labels will use the order of rows within each {made.sequence}")
    data = {"folder": str(made.folder), "classes": list(made.classes), "encoder": made.encoder}
    write_json(data | ({} if choice is None else {"took": asdict(choice)}), options.json)


def errors_argument(parser: argparse.ArgumentParser) -> None:
    """For commands that write labels: whether functions without a vote are an error."""
    parser.add_argument(
        "--allow-errors", action="store_true", help="exit with 0 although functions failed to vote"
    )


def label_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `epoxy label`."""
    folder_argument(parser)
    model_argument(parser)
    errors_argument(parser)
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        help="label in shards within so much memory, such as 4GB; rows are Parquet then",
    )
    clustering.arguments(parser)
    parser.add_argument(
        "--new", type=Path, metavar="FILE", help="label the rows of FILE by the project's model"
    )
    parser.add_argument(
        "--vectors", type=Path, metavar="FILE", help="vectors of the rows of --new, a .npy file"
    )
    parser.add_argument("--to", type=Path, metavar="FILE", help="where to write (.parquet)")


def label(options: argparse.Namespace) -> None:
    """Label every row of a project."""
    if clustering.asked_for(options):
        with clustering.runner_of(options) as runner:
            label_in_shards(options, runner)
    elif any(each is not None for each in (options.memory, options.new, options.vectors)):
        label_in_shards(options)
    else:
        _label_in_memory(options)


def _label_in_memory(options: argparse.Namespace) -> None:
    from ..session.export import Labelled

    start = time.perf_counter()
    session = open_project(options)
    opened = time.perf_counter()
    if session.problem:  # functions that failed are often why
        say_notes(session)
    target = folder_of(session).project.labels / "labels.parquet"
    path = session.export(target if options.to is None else options.to)
    done = time.perf_counter()
    how = f"({opened - start:.1f} s to vote, embed and fit, {done - opened:.1f} s to write)"
    _say_labelled(Labelled.of(session, path), done - start, how, options)


def _say_labelled(found: Labelled, seconds: float, how: str, options: argparse.Namespace) -> None:
    say(f"labelled {found.rows} rows with {found.model} in {seconds:.1f} s {how}: {found.path}")
    for line in found.lines():
        say(line)
    write_json(found.to_dict() | {"seconds": seconds}, options.json)
    _check_failed(found.failed, options)


def label_in_shards(options: argparse.Namespace, runner: Runner | None = None) -> None:
    """Label a project past memory, or other rows by its model; `runner` works on the shards."""
    from ..progress import bar
    from ..project.project import PATIENCE
    from ..project.settings import Project
    from ..shards.labelling import label as label_project

    start = time.perf_counter()
    kind = options.model
    found = label_project(
        options.folder,
        memory=options.memory,
        model=None if kind is None else Project.read(options.folder).make_model(kind),
        runner=runner,
        progress=lambda what: bar(what, line=PATIENCE),
        new=options.new,
        vectors=options.vectors,
        to=options.to,
    )
    how = f"over {found.shards} shard{'s' * (found.shards > 1)}"
    _say_labelled(found, time.perf_counter() - start, how, options)


def report_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `epoxy report`."""
    folder_argument(parser)
    model_argument(parser)
    parser.add_argument("--split", choices=("train", "dev"), default="dev", help="default: dev")
    parser.add_argument("--html", metavar="FILE", help="also write the report as a page")


def report(options: argparse.Namespace) -> None:
    """Print the report of the session's model, and how others would do on the same rows."""
    session = open_project(options)
    found = session.report(options.split)
    say(found)
    beside = session.comparison()
    say(f"\nBeside other models, on rows held out\n{beside}" if any(beside.values()) else "")
    say_notes(session, said={str(each) for each in found.findings})
    if options.html is not None:
        Path(options.html).write_text(_page(found), "utf-8")
    comparison = {name: dict(scored) for name, scored in beside.items()}
    write_json(found.to_dict() | {"comparison": comparison}, options.json)


def explain_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `epoxy explain`."""
    folder_argument(parser)
    model_argument(parser)
    number = "its number, counted through train and then dev as in the studio"
    parser.add_argument("row", metavar="ROW", help=f"the id of a row, or {number}")
    parser.add_argument("--split", choices=("train", "dev"), help="default: where the row is found")


def explain(options: argparse.Namespace) -> None:
    """Explain one row."""
    session = open_project(options)
    found = session.explain(options.row, options.split)
    say(found)
    write_json(found.to_dict(), options.json)


def export_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `epoxy export`."""
    folder_argument(parser)
    model_argument(parser)
    errors_argument(parser)
    parser.add_argument("--to", type=Path, required=True, metavar="FILE", help="where to write")
    parser.add_argument(
        "--format", help="parquet, csv, jsonl or huggingface; default: by the ending of FILE"
    )
    parser.add_argument(
        "--columns", metavar="A,B,…", help="columns of the rows file to write as well"
    )
    parser.add_argument(
        "--raw",
        action="store_true",
        help="CSV cells as they are, also those a spreadsheet would run",
    )


def export(options: argparse.Namespace) -> None:
    """Write labels in another format."""
    from ..session.export import Labelled, format_of
    from ..session.export import export as write

    kind = format_of(options.to, options.format)
    session = open_project(options)
    columns = () if options.columns is None else _listed(options.columns)
    path = write(session, options.to, kind, columns=columns, raw=options.raw)
    say(f"wrote {Labelled.of(session, path).rows} rows to {path}")
    say_notes(session)
    write_json({"file": str(path), "format": kind}, options.json)
    _check_failed(session.failed, options)


def _check_failed(failed: Sequence[str], options: argparse.Namespace) -> None:
    """Labels are written without functions that failed whole, and the exit code says so."""
    if failed and not options.allow_errors:
        raise VoteError(
            f"labels were written without {len(failed)} labeling functions that failed and have "
            f"no vote: {', '.join(failed)}; correct them (see ! above), or add --allow-errors"
        )


def open_project(options: argparse.Namespace, **given: Any) -> Session:
    """A session over the project, without the neighbours only edits need."""
    from ..session import Session

    model = getattr(options, "model", None)
    return Session.open(options.folder, model=model, **{"graph": False, **given})


def _listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",")]


def folder_of(session: Session) -> Folder:
    """The project folder of a session that was opened from one."""
    assert session.folder is not None  # commands open folders
    return session.folder


def say_notes(session: Session, said: Collection[str] = ()) -> None:
    """What a person should know, but for what was `said`: functions that failed, or are not heard."""
    for note in session.notes:
        if note not in said:
            say(f"! {note}")
    if session.problem:
        say(f"! {session.problem}")


def _page(found: Any) -> str:
    style = (
        "body{font:15px/1.5 system-ui;margin:2rem auto;max-width:70rem;color-scheme:light dark}"
        "table{border-collapse:collapse}td,th{padding:.2rem .7rem;text-align:left;"
        "border-bottom:1px solid #8884}dt{font-weight:600}dd{margin:0 0 .4rem}"
    )
    body = found._repr_html_()
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{found.title}</title>"
        f"<style>{style}</style>{body}</html>"
    )
