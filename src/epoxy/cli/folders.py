"""`epoxy new`, `label` and `export`: a project folder is made, and its labels are written."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from ..errors import ParameterError, VoteError
from .options import AllowErrors, Home, Json, Model, app, listed, open_project
from .screen import complain, say, table, write_json

if TYPE_CHECKING:
    from ..cluster import Dask
    from ..diagnostics.report import Finding
    from ..project.settings import Project
    from ..session import Session


@app.command()
def new(
    folder: Annotated[Path, Argument(metavar="DIR", help="where to make the project")],
    rows: Annotated[Path, Option(metavar="FILE", help="the rows to label")],
    classes: Annotated[
        str | None, Option(metavar="A,B,…", help="class names; else those of the label column")
    ] = None,
    text: Annotated[
        str | None, Option(metavar="COLUMN", help="the column to embed (default: text)")
    ] = None,
    id: Annotated[  # noqa: A002  (the option's name)
        str | None, Option(metavar="COLUMN", help="the column that names rows (default: id)")
    ] = None,
    label: Annotated[
        str | None, Option(metavar="COLUMN", help="true labels where known (default: label)")
    ] = None,
    dev: Annotated[
        str | None, Option(metavar="FILE", help="a separate file of rows with true labels")
    ] = None,
    chosen: Annotated[
        str | None,
        Option(
            metavar="HOW",
            help="how the labelled rows were chosen: random, or the column that says it",
        ),
    ] = None,
    sequence: Annotated[
        str | None, Option(metavar="COLUMN", help="sequence ids, for rows in order")
    ] = None,
    position: Annotated[
        str | None, Option(metavar="COLUMN", help="places of rows in their sequence")
    ] = None,
    encoder: Annotated[
        str | None,
        Option(help="auto (default), static, lsa, text:MODEL, image:MODEL, or a .npy file"),
    ] = None,
    positive: Annotated[
        str | None, Option(metavar="CLASS", help="the class F1 is of (two classes)")
    ] = None,
    json: Json = None,
) -> None:
    """Make a project folder around a file of rows.

    The folder holds epoxy.toml (which rows, columns, classes), lfs.py (your labeling functions)
    and labels/ (what comes out). Rows come as .parquet, .csv, .tsv or .jsonl. Rows that have a
    true label become the dev set; a hundred are a good start. Say --chosen random where they were
    drawn at random: only such rows tell how right labels are.

    \b
      epoxy new spam/ --rows comments.csv --classes ham,spam --text text
    """
    from ..encoders import choose
    from ..project.create import new_project

    given = {"id": id, "label": label, "dev": dev, "sequence": sequence, "position": position}
    given |= {"encoder": encoder, "positive": positive, "column": text, "chosen": chosen}
    names = None if classes is None else listed(classes)
    made = new_project(folder, rows, classes=names, options=given)
    found = _made(made, rows)
    choice = None
    if encoder is None and made.column is not None:
        choice = choose(images=made.encoder != "auto")
        say(f"encoder: {choice.encoder}, because {choice.why}")
    if choice is not None and choice.better:
        say(f"  better may be: {choice.better}")
    if made.sequence is not None:
        say(f"labels will use the order of rows within each {made.sequence}")
    say(f"\nwrite labeling functions in {made.folder / 'lfs.py'} while one of these runs:")
    say(f"  epoxy watch {made.folder}     epoxy studio {made.folder}")
    say(f"then: epoxy label {made.folder}")
    data = {"folder": str(made.folder), "classes": list(made.classes), "encoder": made.encoder}
    write_json(data | found | ({} if choice is None else {"took": asdict(choice)}), json)


def _made(made: Project, file: Path) -> dict[str, Any]:
    """Say what the rows are, by class where they are labelled."""
    from ..project.read import read_project

    rows = read_project(made)
    known = Counter(str(each) for y in rows.y if y is not None for each in y if each is not None)
    total, labelled = sum(each.num_rows for each in rows.tables), known.total()
    say(f"made {made.folder}: {total:,} rows of {file}, {labelled:,} of them labelled")
    say(table(["class", ">labelled"], [(each, f"{known[each]:,}") for each in made.classes]))
    uses = {made.id: "names rows", made.label: "true labels", made.column: "is embedded"}
    uses |= {made.chosen: "how labelled rows were chosen"}
    columns = [
        f"{name} ({uses[name]})" if name in uses else name for name in rows.tables[0].column_names
    ]
    say(f"columns: {', '.join(columns)}")
    if labelled and made.chosen is None:
        say(
            "! how the labelled rows were chosen is not known, so scores may mislead; if they were "
            'drawn at random, write chosen = "random" under [rows] in epoxy.toml'
        )
    return {"rows": total, "labelled": labelled, "columns": list(rows.tables[0].column_names)}


@app.command()
def label(
    folder: Home,
    model: Model = None,
    allow_errors: AllowErrors = False,
    memory: Annotated[
        str | None,
        Option(metavar="SIZE", help="label within so much memory, such as 4GB"),
    ] = None,
    cluster: Annotated[
        Literal["local"] | None,
        Option(help="label in several processes of this machine; --memory is of each"),
    ] = None,
    scheduler: Annotated[
        str | None,
        Option(
            metavar="ADDRESS",
            help="label on the Dask cluster at tcp://… or tls://…; --memory is of each worker",
        ),
    ] = None,
    workers: Annotated[
        int | None, Option(metavar="N", help="processes of --cluster local; default: the CPUs")
    ] = None,
    new: Annotated[
        Path | None, Option(metavar="FILE", help="label the rows of FILE by the project's model")
    ] = None,
    vectors: Annotated[
        Path | None, Option(metavar="FILE", help="vectors of the rows of --new, a .npy file")
    ] = None,
    to: Annotated[Path | None, Option(metavar="FILE", help="where to write (.parquet)")] = None,
    json: Json = None,
) -> None:
    """Vote, embed, extend, combine: write labels for every row.

    Writes labels/labels.parquet, a line for every row of the rows file: id, label, its probability,
    the probability of each class, how many votes (own and lent) it rests on, whether a person
    labelled it and what as. A label that is trusted is the label; one of a labeller who may be wrong
    is evidence, and has no truth. Votes and vectors are kept and only made again when a function or a
    row changes. Where a function failed and has no vote at all, the labels are written without it and
    the exit code is 2, unless --allow-errors.

    --memory keeps what does not fit into it on the disk: the labels are the same. What takes long (votes,
    vectors, neighbours) is kept, and a killed run goes on from it. --new FILE labels the rows of FILE by
    the project's model.
    """
    from ..blocks.label import opened
    from ..diagnostics.outcomes import unlike
    from ..progress import bar
    from ..project.project import PATIENCE
    from .inspection import functions_table

    if workers is not None and cluster is None:
        raise ParameterError("--workers is the number of processes of --cluster local; add it")
    if cluster is not None and scheduler is not None:
        raise ParameterError("--cluster and --scheduler are two places to work at; give one")
    options: dict[str, Any] = {"memory": memory, "new": new, "vectors": vectors, "to": to}
    start = time.perf_counter()
    with ExitStack() as until:
        if cluster is not None or scheduler is not None:
            options["run"] = until.enter_context(_runner(scheduler, workers, memory))
        report = lambda what: bar(what, line=PATIENCE)  # noqa: E731
        made = opened(folder, model=model, progress=report, **options)
        session, write = until.enter_context(made)
        if session.problem:  # functions that failed are often why
            say_notes(session)
        began = time.perf_counter()
        found = write()
        seconds = time.perf_counter() - start
        took = f"{began - start:.1f} s to vote, embed and fit, {time.perf_counter() - began:.1f} s to write"
        say(
            f"labelled {found.rows:,} rows with {found.model} in {seconds:.1f} s ({took}): {found.path}"
        )
        for line in found.lines():
            say(line)
        if session.sources:
            say("", functions_table(session, most=12))
        found_out: Iterator[Finding] = iter(())
        if "run" not in options and memory is None:  # it reads all vectors
            train = session.split()
            labelled = session.hand_labelled() or train
            found_out = unlike(train, labelled, session.engine.metric)
        for each in islice(found_out, 1):
            say(f"! vectors seem not to fit: {each.text}")
            say(f"  {each.command.replace('DIR', str(folder))}", style="cyan", whole=True)
    write_json(found.to_dict() | {"seconds": seconds}, json)
    _check_failed(found.failed, allow_errors)


@contextmanager
def _runner(scheduler: str | None, workers: int | None, memory: str | None) -> Iterator[Dask]:
    """Connect or start, and say where to watch; it ends with the block."""
    from ..cluster import connect, local

    made = connect(scheduler) if scheduler is not None else local(workers, memory=memory)
    with made as runner:
        count = len(runner.client.nthreads())
        complain(f"{count} workers, dashboard: {runner.client.dashboard_link}")
        yield runner


@app.command()
def export(
    folder: Home,
    to: Annotated[Path, Option(metavar="FILE", help="where to write")],
    model: Model = None,
    allow_errors: AllowErrors = False,
    format: Annotated[  # noqa: A002
        str | None,
        Option(help="parquet, csv, jsonl or huggingface; default: by the ending of FILE"),
    ] = None,
    columns: Annotated[
        str | None, Option(metavar="A,B,…", help="columns of the rows file to write as well")
    ] = None,
    raw: Annotated[
        bool, Option("--raw", help="CSV cells as they are, also those a spreadsheet would run")
    ] = False,
    json: Json = None,
) -> None:
    """Write the labels as Parquet, CSV, JSON lines or a Hugging Face dataset.

    The kind follows from the file's ending, or from --format. --columns adds columns of the rows,
    such as the text. In CSV, a quote is put before cells that a spreadsheet would take for formulas
    (those that begin with =, +, -, @ or a tab), unless --raw.

    \b
      epoxy export spam/ --to labels.csv --columns text,url
    """
    from ..session.export import Labelled, format_of
    from ..session.export import export as write

    kind = format_of(to, format)
    session = open_project(folder, model)
    path = write(session, to, kind, columns=() if columns is None else listed(columns), raw=raw)
    say(f"wrote {Labelled.of(session, path).rows:,} rows to {path}")
    say_notes(session)
    write_json({"file": str(path), "format": kind}, json)
    _check_failed(session.failed, allow_errors)


def _check_failed(failed: Sequence[str], allowed: bool) -> None:
    """Labels are written without functions that failed whole, and the exit code says so."""
    if failed and not allowed:
        raise VoteError(
            f"labels were written without {len(failed)} labeling functions that failed and have "
            f"no vote: {', '.join(failed)}; correct them (see ! above), or add --allow-errors"
        )


def say_notes(session: Session, said: Collection[str] = ()) -> None:
    """What a person should know, but for what was `said`: functions that failed, or are not heard."""
    for note in session.notes:
        if note not in said:
            say(f"! {note}")
    if session.problem:
        say(f"! {session.problem}")
