from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from scipy import linalg  # noqa: F401 — its BLAS is limited below once it is loaded
from threadpoolctl import threadpool_limits

SHARED = Path(
    os.environ.get("EPOXY_SHARED_DATA", Path(__file__).parents[2] / "shared" / "data")
).resolve()


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


@pytest.fixture(scope="session", autouse=True)
def _one_thread_of_blas() -> Iterator[None]:
    """Tests run side by side, and a second thread costs their small products more than it gains.

    The threads that the library starts itself, and processes of their own, are as everywhere.
    """
    with threadpool_limits(1, "blas"):
        yield
