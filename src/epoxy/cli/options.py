"""The application that commands register with, and the options that several of them take."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

from .screen import speak_aside

if TYPE_CHECKING:
    from ..project.project import Folder
    from ..session import Session

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"max_content_width": 100},
    help="Label rows with functions you write: each function's votes are extended to rows that are "
    "near in embedding space, and combined into probabilities within a second of each edit. No "
    "network is trained; labels given by hand teach the model which parts to believe.\n\n"
    "Start with: epoxy demo. Then: epoxy new spam/ --rows comments.csv --classes ham,spam",
)

Home = Annotated[Path, Argument(metavar="DIR", help="a project folder (see epoxy new)")]
Model = Annotated[
    Literal["fusion", "epoxy"] | None, Option("--model", help="default: as epoxy.toml says")
]
Json = Annotated[
    str | None,
    Option(
        "--json",
        metavar="FILE",
        help="also write the result as JSON; - for standard output",
        callback=speak_aside,
    ),
]
Purpose = Annotated[
    Literal["mix", "teach", "score", "cover", "conflict", "check"],
    Option(help="what rows are chosen for"),
]
AllowErrors = Annotated[
    bool, Option("--allow-errors", help="exit with 0 although functions failed to vote")
]
All = Annotated[bool, Option("--all", help="every line, also those that hardly matter")]


def open_project(folder: Path, model: str | None = None, **given: Any) -> Session:
    """A session over the project."""
    from ..session import Session

    return Session.open(folder, model=model, **given)


def folder_of(session: Session) -> Folder:
    """The project folder of a session that was opened from one."""
    assert session.folder is not None  # commands open folders
    return session.folder


def listed(text: str) -> list[str]:
    """Names separated by commas."""
    return [each.strip() for each in text.split(",")]
