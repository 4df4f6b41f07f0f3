"""`epoxy encoders`, `set` and `tune`: which vectors, how far functions lend, and which have a say."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from msgspec.structs import replace
from typer import Argument, Option

from ..errors import ParameterError, StoreError, VectorError
from ..progress import Progress
from .folders import say_notes
from .options import Home, Json, Model, app, open_project
from .screen import bar, say, table, write_json

if TYPE_CHECKING:
    from ..project.settings import Project
    from ..session import Change, Session


@app.command()
def encoders(
    folder: Home,
    tried: Annotated[
        list[str] | None,
        Option("--try", metavar="ENCODER …", help="others: text:MODEL, static:PATH, FILE.npy"),
    ] = None,
    take: Annotated[
        str | None, Option(metavar="ENCODER", help="write it to epoxy.toml, and compare nothing")
    ] = None,
    model: Model = None,
    json: Json = None,
) -> None:
    """How right the labels are with each encoder that is here, on your hand labels.

    The project's model is made anew with the vectors of each, and scored on rows labelled by hand by
    models that did not learn from them. Beside the score: by how much it differs from that of the
    project's own encoder (with an interval of 95 %), how often the nearest 1 % of pairs have unequal
    labels, and the seconds to embed all rows. Vectors that were made before are read back.

    \b
      epoxy encoders spam/ --try text:all-MiniLM-L6-v2 vectors.npy
      epoxy encoders spam/ --take lsa
    """
    from ..project.settings import Project

    project = Project.read(folder)
    if take is not None:
        write_json({"took": _take(project, take)}, json)
        return
    own = _own_name(project)
    names = dict.fromkeys([own, *(tried or ()), *_here(project)])
    others = with_encoders(project, [each for each in names if each != own])
    found = [_Tried.of(name, each, model) for name, each in {own: project, **others}.items()]
    lines = _compare(found)
    best = lines[0]
    rows = [
        (
            f"{at['encoder']} (this project's)" if at["encoder"] == own else at["encoder"],
            f"{at['right']:.1%}",
            bar(at["right"], 16),
            "" if at["encoder"] == own else _points(at),
            f"{at['unequal']:.0%}",
            f"{at['seconds']:.1f}",
        )
        for at in lines
    ]
    head = ["~encoder", f">{best['score']}", "", ">points more", ">unequal nearby", ">seconds"]
    say(table(head, rows, title=f"encoders on {best['rows']} hand labels, best first"))
    say(f"  unequal nearby: labels of the nearest 1 % of pairs; {best['chance']:.0%} by chance")
    if best["encoder"] != own:
        sure = best["low"] > 0
        say("better:" if sure else "better, or by chance:")
        say(f"  epoxy encoders {folder} --take {best['encoder']}", style="cyan", whole=True)
    write_json({"encoders": lines}, json)


@dataclass
class _Tried:
    """A project's model with the vectors of one encoder."""

    name: str
    session: Session
    took: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, project: Project, model: str | None) -> _Tried:
        """Open the project as if it named that encoder."""
        from ..progress import bar as shown
        from ..project.project import PATIENCE, open_session
        from ..session import Session

        took: dict[str, float] = {}

        def report(what: str) -> Progress:
            show, begun = shown(f"{name}: {what}", line=PATIENCE), time.perf_counter()

            def tell(done: int, total: int) -> None:
                took[what] = time.perf_counter() - begun
                show(done, total)

            return tell

        made = open_session(Session, project, model=model, progress=report)
        return cls(name, made, took)


def _compare(found: list[_Tried]) -> list[dict[str, Any]]:
    """A line per encoder, best first; the first of those found is the project's own."""
    import numpy as np

    from ..engines.scores import scored_rows
    from ..scoring import score_named
    from ..theory import compare_embeddings

    first = found[0].session
    labels = first.state.workspace.labels
    rows = np.ones(labels.count, dtype=bool)
    for each in found:
        held = each.session.outcome.held_out
        if held is None or not each.session.scores:
            raise ParameterError(f"{each.name} cannot be scored: {each.session.scores.why}")
        rows &= scored_rows(labels, held)
    y, classes, positive = labels.labels[rows], first.classes, first.positive
    scoring = "accuracy" if positive not in {classes[each] for each in y} else "f1"
    score = score_named(scoring, y, classes, positive=positive)
    said, vectors = [], {}
    for each in found:
        outcome, known = each.session.outcome, each.session.hand_labelled()
        assert outcome.held_out is not None  # else there were no scores
        assert known is not None
        decided = outcome.held_out_labels
        held = outcome.held_out.argmax(axis=1) if decided is None else decided
        said.append(np.eye(len(classes))[held[rows]])
        if known.vectors is not None:
            vectors[each.name] = known.vectors
    drawn = [score.scores(each) for each in said]
    ranks = compare_embeddings(vectors, first.hand_labelled())
    near = {each.name: each for each in ranks}
    lines = []
    for at, each in enumerate(found):
        low, high = np.quantile(drawn[at] - drawn[0], [0.025, 0.975]).tolist()
        right = score.score(said[at])
        lines.append(
            {
                "encoder": each.name,
                "score": scoring,
                "right": right,
                "rows": len(y),
                "more": right - score.score(said[0]),
                "low": low,
                "high": high,
                "unequal": near[each.name].roughness if each.name in near else float("nan"),
                "chance": ranks[0].chance,
                "seconds": each.took.get("embedding", 0.0),
            }
        )
    return sorted(lines, key=lambda line: -line["right"])


def _points(at: dict[str, Any]) -> str:
    return "{:+.1f} ({:+.1f} to {:+.1f})".format(*(100 * at[k] for k in ("more", "low", "high")))


def _own_name(project: Project) -> str:
    """What the project's encoder is called, with what `auto` stands for."""
    from ..encoders import choose
    from ..project.create import relative
    from ..project.settings import FILES

    if project.encoder.endswith(FILES):
        return str(relative(project.encoder, project.folder))
    return choose().encoder if project.encoder == "auto" else project.encoder


def _here(project: Project) -> list[str]:
    """Encoders of texts that need no download, where the project embeds texts."""
    from ..encoders import here

    other = project.mentions or project.encoder.startswith("image")
    return [] if project.column is None or other else here()


def with_encoders(project: Project, names: Iterable[str]) -> dict[str, Project]:
    """The project with each of these encoders; one that cannot be is refused before any row is embedded.

    A file is looked for in the project folder, and then where the person is.
    """
    from ..encoders import resolve
    from ..project.settings import FILES

    made = {}
    for name in names:
        encoder, ids = name, None
        if name.endswith(FILES):
            places = (project.folder / name, Path(name))
            found = next((each for each in places if each.is_file()), None)
            if found is None:
                raise StoreError(
                    f"there is no file {name} in {project.folder} or here; check the path of the vectors"
                )
            encoder, ids = str(found), project.vector_ids
        elif not name.startswith("column:") and name != "none":
            resolve(name, cache=False)
        made[name] = replace(project, encoder=encoder, vector_ids=ids, dev_vectors=None)
    return made


def _take(project: Project, name: str) -> str:
    """Write the encoder to epoxy.toml, in the place of the one that is there."""
    from ..project.create import relative, with_setting
    from ..project.settings import FILE, FILES, Project
    from ..storage import write_whole

    ((_, made),) = with_encoders(project, [name]).items()
    shown = str(relative(made.encoder, project.folder)) if name.endswith(FILES) else name
    path = project.folder / FILE
    text = with_setting(path.read_text("utf-8"), "vectors", "encoder", shown)
    Project.of(project.folder, text)  # refused before it is written
    write_whole(path, text.encode())
    say(f"{path} says encoder = {shown}")
    return shown


@app.command("set")
def set_source(
    folder: Home,
    source: Annotated[str, Argument(metavar="SOURCE", help="the name of a labeling function")],
    radius: Annotated[
        str | None,
        Option(
            metavar="R",
            help="a distance of at least 0, auto (the model's own rule) or none (it lends nothing)",
        ),
    ] = None,
    on: Annotated[bool, Option("--on", help="let it have its say again")] = False,
    off: Annotated[bool, Option("--off", help="leave it out; its votes stay known")] = False,
    model: Model = None,
    json: Json = None,
) -> None:
    """Set how far a function lends, or switch it off or on again.

    One decision, kept in the project's log as one of the studio or of a session is: all who have the
    project open follow it, and it holds until it is decided anew. Prints what it changed, and the
    command that takes it back. A radius set here binds every model, and takes the place of one that
    epoxy tune chose.

    \b
      epoxy set spam/ song --radius 0.2
      epoxy set spam/ song --off
    """
    if (radius is not None) + on + off != 1:
        raise ParameterError("one thing is set at a time; give one of --radius, --on and --off")
    session = open_project(folder, model)
    before, was_on = session.radii.get(source), source not in session.switched_off
    if radius is not None:
        change = _set_radius(session, folder, source, radius)
        back = f"--radius {'none' if before is None else before}"
    else:
        change = session.switch(source, on)
        back = "--on" if was_on else "--off"
    say(str(change))
    say(f"back: epoxy set {shlex.join([str(folder), source])} {back}", whole=True)
    say_notes(session)
    write_json(change.to_dict(), json)


def _set_radius(session: Session, folder: Path, source: str, radius: str) -> Change:
    if session.split().vectors is None:
        raise VectorError(
            f"--radius {radius} says how far {source!r} lends to near rows, and the "
            f"rows of {folder} have no vectors; choose an encoder under [vectors] in epoxy.toml"
        )
    return session.set_radius(source, _setting(radius))


def _setting(text: str) -> Any:
    """What a text means as a radius; one that means none is the session's to refuse."""
    if text.lower() == "none":
        return None
    with suppress(ValueError):
        radius = float(text)
        return radius if radius == radius else text  # NaN would be read as None
    return text


@app.command()
def tune(
    folder: Home,
    model: Model = None,
    scoring: Annotated[
        str | None,
        Option(help="accuracy, f1, f1_macro, log_loss or a scorer's name of scikit-learn"),
    ] = None,
    shared: Annotated[bool, Option("--shared", help="one radius for all functions")] = False,
    balance: Annotated[
        bool, Option("--balance", help="tune the class balance of a given label model too")
    ] = False,
    json: Json = None,
) -> None:
    """Choose on the labelled rows what the model leaves open, and say what that is worth.

    Fusion (the default): a radius for each function where hand labels held out are surely foretold
    better by it than by the model's own rule. With --model epoxy: how far each function may speak, one
    radius for all first, then one function at a time where the gain is beyond chance; prints what was
    tried and what the winning score is really worth, and keeps the radii for that model alone. Ctrl-C
    keeps the best so far.
    """
    from ..progress import bar

    start = time.perf_counter()
    session = open_project(folder, model)
    given = {"scoring": scoring, "shared": shared, "balance": balance}
    for name, value in given.items() if session.engine.name != "epoxy" else ():
        if value:
            kind = type(session.model_template).__name__
            raise ParameterError(
                f"--{name} is about tuning the paper's pipeline, not {kind}; add --model epoxy"
            )
    found = session.tune(
        scoring,
        progress=bar("tuning", line=2.0),
        shared=shared,
        class_balance="tune" if balance else None,
    )
    say(f"{found} ({time.perf_counter() - start:.1f} s)")
    radii = found.facts.get("radii", {})
    if radii:
        say(table(["~function", ">radius"], [(name, _far(each)) for name, each in radii.items()]))
    say_notes(session)
    write_json(found.facts | {"seconds": time.perf_counter() - start}, json)


def _far(radius: Any) -> str:
    return f"{radius:.4g}" if isinstance(radius, float) else (radius or "lends nothing")
