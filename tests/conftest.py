from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

# before NumPy: as many threads as everywhere, but in some hundred processes that start and end at once
# a third of the processor time of `import numpy` would go to threads that wait in a loop
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")

os.environ.pop("COLUMNS", None)  # pytest-xdist sets it, and commands would break sentences there

import pytest
from scipy import linalg  # noqa: F401 — its BLAS is limited below once it is loaded
from threadpoolctl import threadpool_limits

SHARED = Path(
    os.environ.get("EPOXY_SHARED_DATA", Path(__file__).parents[2] / "shared" / "data")
).resolve()


gc.disable()  # until all modules are imported, see below


def pytest_collection_finish() -> None:
    """What is imported by now stays: no collection needs to look at it again."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data sets; tests that need it skip where it is missing."""
    if not SHARED.is_dir():
        pytest.skip(f"the real data sets are not on this machine (looked in {SHARED})")
    return SHARED


@pytest.fixture(scope="session", autouse=True)
def _cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test writes to the user's cache."""
    os.environ["EPOXY_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def voted(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[Callable[[Path], Path], Path], Path]:
    """Makes a project in a folder as `make` would, with votes and vectors that were kept before.

    For tests that are not about the first time: nothing was decided or labelled, and functions are
    loaded and need not vote.
    """
    import epoxy

    made: dict[Callable[[Path], Path], Path] = {}

    def copy(make: Callable[[Path], Path], folder: Path) -> Path:
        if make not in made:
            made[make] = make(tmp_path_factory.mktemp("voted"))
            session = epoxy.Session.open(made[make])
            session.folder.runner.close()
            session.folder.log.close()
            for each in (made[make] / ".epoxy").glob("state.sqlite*"):
                each.unlink()
        shutil.copytree(made[make].parent, folder, dirs_exist_ok=True)
        return folder / made[make].name

    return copy


@pytest.fixture(scope="session", autouse=True)
def _one_thread_of_blas() -> Iterator[None]:
    """Tests run side by side, and a second thread costs their small products more than it gains.

    The threads that the library starts itself, and processes of their own, are as everywhere.
    """
    with threadpool_limits(1, "blas"):
        yield
