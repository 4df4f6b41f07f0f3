"""Before work is sent: that all workers have what the driver has, and see its files."""

from __future__ import annotations

import sys
import uuid
from pathlib import Path

from distributed import Client

from ..errors import ClusterError, StoreError

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


def check_files(client: Client, folder: Path) -> None:
    """Every worker sees the folder where arrays lie."""
    mark = folder / f"seen-{uuid.uuid4().hex}"
    mark.write_text(mark.name, "utf-8")
    found = client.run(sees, str(mark), on_error="return")
    mark.unlink()
    for worker, problem in sorted(found.items()):
        if isinstance(problem, str):
            raise StoreError(
                f"worker {worker} does not see {folder} ({problem}); put the project folder on a file "
                "system that all workers share, under the same path"
            )
        if isinstance(problem, BaseException) and not isinstance(problem, OSError):
            raise problem  # one that has ended meanwhile is no matter


def sees(name: str) -> str | None:
    """On a worker: why a file is not as the driver sees it; None where it is."""
    mark = Path(name)
    try:
        return None if mark.read_text("utf-8") == mark.name else "another folder is there"
    except OSError as error:
        return error.strerror or str(error)
