"""What belongs in each class, in a sentence: the `[classes]` of ask.toml, which `epoxy ask` sends."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

from ..errors import EpoxyError, StoreError, UnknownName
from ..storage import write_whole

if TYPE_CHECKING:
    from ..session import Session


def read(session: Session) -> dict[str, str]:
    """The notes by class; those that nobody wrote are left out."""
    from ..asking.prompt import FILE, read_task

    if session.folder is None:
        return {}
    try:
        told = read_task(session.folder.project.folder / FILE, session.classes).classes
    except EpoxyError:  # `epoxy ask` says what is wrong with it
        return {}
    return {name: note for name, note in told.items() if note}


def write(session: Session, label: str, text: str) -> None:
    """Put a note in its line, all else as it is; the file is begun where there is none."""
    from ..asking.prompt import FILE, write_task
    from ..project.create import with_setting

    if label not in session.classes:
        raise UnknownName.of("class", label, session.classes)
    path = session.need_folder("a note on a class").project.folder / FILE
    texts = session.texts
    columns = [] if texts is None else [texts.column] if texts.column else list(texts.columns)
    write_task(path, session.classes, columns)
    made = with_setting(path.read_text("utf-8"), "classes", label, text)
    try:
        if tomllib.loads(made)["classes"][label] != text:
            raise ValueError
    except (ValueError, KeyError):
        raise StoreError(f"the note cannot be put into {path}; write it there yourself") from None
    write_whole(path, made.encode())
