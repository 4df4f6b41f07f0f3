from __future__ import annotations

import subprocess
import sys

import pytest

import epoxy


def test_every_public_name_can_be_had_and_the_list_is_sorted():
    assert epoxy.__all__ == sorted(epoxy.__all__)
    for name in epoxy.__all__:
        assert getattr(epoxy, name) is not None
    assert set(epoxy.__all__) <= set(dir(epoxy))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        epoxy.nonsense  # noqa: B018


def test_importing_epoxy_loads_nothing_heavy():
    code = "import sys, epoxy; print(*sys.modules)"

    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()

    heavy = {"torch", "faiss", "sklearn", "scipy", "numba", "pandas", "starlette", "matplotlib"}
    assert heavy.isdisjoint(loaded)


def test_a_session_loads_neither_scikit_learn_nor_pandas():
    code = """
import sys, numpy as np, epoxy
rng = np.random.default_rng(0)
votes = epoxy.Votes(rng.integers(-1, 2, (60, 4)))
for model in (epoxy.Fusion(), epoxy.Epoxy(epoxy.Triplet(), 0.1)):
    session = epoxy.Session(epoxy.Split(votes, rng.normal(size=(60, 3))), model=model)
    session.label(3, "1")
    session.set_votes("new", [0, 1] * 30)
print(*sys.modules)
"""

    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()

    assert {"sklearn", "pandas"}.isdisjoint(loaded)
    assert "epoxy.fusion.fusion" in loaded


def test_errors_are_one_tree():
    for name in epoxy.errors.__all__:
        error = getattr(epoxy.errors, name)
        assert issubclass(error, epoxy.EpoxyError | Warning)
    assert issubclass(epoxy.EpoxyError, ValueError)
