"""`epoxy tune`: what the project's model leaves open, chosen on the hand labels."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from ..errors import ParameterError
from .output import say, write_json
from .project import folder_argument, model_argument, open_project, say_notes

if TYPE_CHECKING:
    from ..session import Session


def arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `epoxy tune`."""
    folder_argument(parser)
    model_argument(parser)
    parser.add_argument(
        "--scoring",
        default=None,
        help="accuracy, f1, f1_macro, log_loss or a scorer's name of scikit-learn",
    )
    parser.add_argument("--shared", action="store_true", help="one radius for all functions")
    parser.add_argument(
        "--balance", action="store_true", help="tune the class balance of a given label model too"
    )


def run(options: argparse.Namespace) -> None:
    """Let the model choose, and say what it chose and what that is worth."""
    from ..progress import bar

    start = time.perf_counter()
    session = open_project(options)
    _check(options, session)
    found = session.tune(
        options.scoring,
        progress=bar("tuning", line=2.0),
        shared=options.shared,
        class_balance="tune" if options.balance else None,
    )
    say(f"{found} ({time.perf_counter() - start:.1f} s)")
    for name, radius in found.facts.get("radii", {}).items():
        far = f"{radius:.4g}" if isinstance(radius, float) else (radius or "not extended")
        say(f"  {name}: {far}")
    say_notes(session)
    write_json(found.facts | {"seconds": time.perf_counter() - start}, options.json)


def _check(options: argparse.Namespace, session: Session) -> None:
    """Options about the search for radii say nothing to a model that does not search for them."""
    if session.engine.name == "epoxy":
        return
    for name in ("scoring", "shared", "balance"):
        if getattr(options, name):
            model = type(session.model_template).__name__
            raise ParameterError(
                f"--{name} is about tuning radii, which {model} does not need; add --model epoxy"
            )
