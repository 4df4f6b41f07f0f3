"""`epoxy set` and `epoxy tune`: how far each function lends, and which have a say."""

from __future__ import annotations

import shlex
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from ..errors import ParameterError, VectorError
from .folders import say_notes
from .options import Home, Json, Model, app, open_project
from .screen import say, table, write_json

if TYPE_CHECKING:
    from ..session import Change, Session


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
