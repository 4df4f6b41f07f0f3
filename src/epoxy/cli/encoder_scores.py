"""Vectors of a project's rows by other encoders than its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ..errors import StoreError

if TYPE_CHECKING:
    from ..project.settings import Project
    from ..session import Session


def with_encoders(project: Project, names: Iterable[str]) -> dict[str, Project]:
    """The project with each of these encoders; one that cannot be is refused before any row is embedded.

    A file is looked for in the project folder, and then where the person is.
    """
    from ..encoders import resolve
    from ..project.settings import FILES

    made = {}
    for name in names:
        encoder = name
        if name.endswith(FILES):
            places = (project.folder / name, Path(name))
            found = next((each for each in places if each.is_file()), None)
            if found is None:
                raise StoreError(
                    f"there is no file {name} in {project.folder} or here; check the path of the vectors"
                )
            encoder = str(found)
        elif not name.startswith("column:") and name != "none":
            resolve(name, cache=False)
        made[name] = replace(project, encoder=encoder)
    return made


def vectors_by(session: Session, projects: Mapping[str, Project]) -> dict[str, list[Any]]:
    """Vectors of every split by each encoder, aligned with the session's rows."""
    from ..progress import bar
    from ..project.project import PATIENCE
    from ..project.read import read_vectors

    assert session.folder is not None  # commands open folders
    rows, count = session.folder.rows, session.n_rows
    return {
        name: read_vectors(each, rows, bar(f"embedding by {name}", rows=count, line=PATIENCE))
        for name, each in projects.items()
    }
