"""Before work is sent: that all workers have what the driver has, and see the same files."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from distributed import Client

from ..errors import ClusterError, StoreError
from ..shards import Kept, Shard
from ..shards.shard import cannot_write

PACKAGE = "epoxy-ws"


def check_versions(client: Client) -> None:
    """The same epoxy and the same Python on the scheduler and on every worker.

    Tasks travel pickled: another version may read them as something else, or give other answers.
    """
    found = client.get_versions(packages=[PACKAGE])
    wanted = found["client"]["packages"]
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    others = {"the scheduler": found["scheduler"]}
    others |= {f"worker {address}": told for address, told in sorted(found["workers"].items())}
    for who, told in others.items():
        if not isinstance(told, dict):  # it ended meanwhile
            continue
        packages = told["packages"]
        if not packages["python"].startswith(f"{python}."):
            theirs = ".".join(packages["python"].split(".")[:2])
            raise ClusterError(
                f"{who} runs Python {theirs}, and the driver {python}; "
                "start it from an environment with the same Python"
            )
        if packages[PACKAGE] != wanted[PACKAGE] and wanted[PACKAGE] is not None:
            theirs = packages[PACKAGE]
            has = "has no epoxy" if theirs is None else f"has epoxy {theirs}"
            raise ClusterError(
                f"{who} {has}, and the driver {wanted[PACKAGE]}; "
                f"run there: pip install 'epoxy-ws[cluster]=={wanted[PACKAGE]}'"
            )


def check_files(
    client: Client, shards: Sequence[Shard], constants: Sequence[Any], checked: set[str]
) -> None:
    """Every worker sees the rows as they are here, and can write where stages keep their arrays."""
    files = {piece.file for shard in shards for piece in shard.pieces} - checked
    homes = {str(each.folder.parent) for each in constants if isinstance(each, Kept)} - checked
    if not files and not homes:
        return
    sizes = {each: Path(each).stat().st_size for each in sorted(files)}
    marks = {home: _mark(Path(home)) for home in sorted(homes)}
    try:
        found = client.run(look, sizes, {str(each): each.name for each in marks.values()})
    finally:
        for mark in marks.values():
            mark.unlink(missing_ok=True)
    for worker, problem in sorted(found.items()):
        if problem is not None:
            raise StoreError(
                f"worker {worker} {problem}; put the project folder and its rows on a file system "
                "that all workers share and may write to, under the same path"
            )
    checked |= files | homes


def _mark(home: Path) -> Path:
    """A file that only who shares this folder can see."""
    mark = home / f"seen-{uuid.uuid4().hex}"
    try:
        home.mkdir(parents=True, exist_ok=True)
        mark.write_text(mark.name, "utf-8")
    except OSError as error:
        raise cannot_write(mark, error) from error
    return mark


def look(sizes: dict[str, int], marks: dict[str, str]) -> str | None:
    """On a worker: what is not as the driver sees it; None where all is."""
    for name, size in sizes.items():
        try:
            mine = Path(name).stat().st_size
        except OSError as error:
            return f"does not see {name} ({error.strerror})"
        if mine != size:
            return f"sees {name} with {mine} bytes, and the driver with {size}"
    for name, text in marks.items():
        mark = Path(name)
        try:
            if mark.read_text("utf-8") != text:
                return f"sees another folder at {mark.parent}"
            own = mark.with_name(f"{mark.name}-{uuid.uuid4().hex}")
            own.write_bytes(b"")
            own.unlink()
        except OSError as error:
            seen = "cannot write to" if mark.exists() else "does not see"
            return f"{seen} {mark.parent} ({error.strerror})"
    return None
