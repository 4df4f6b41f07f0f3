"""What a type checker tells a user of the installed package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import epoxy

pytest.importorskip("mypy")

# of the libraries behind ours nothing is told here, and reading them is nine tenths of the time
SETTINGS = """\
[mypy]
strict = true
follow_imports = silent

[mypy-anyio.*,dask.*,distributed.*,httpx.*,matplotlib.*,mcp.*,narwhals.*,numpy.*,pyarrow.*,scipy.*,\
sklearn.*,starlette.*,torch.*,uvicorn.*,watchfiles.*,websockets.*]
follow_imports = skip
follow_imports_for_stubs = true
"""
PAGE = """\
import epoxy

split: epoxy.Split = epoxy.Split(epoxy.Votes([[0, 1]]))
a: int = epoxy.Fusion().fit(split)
b: int = epoxy.Epoxy().fit(split)
c: int = epoxy.Triplet().fit(split.votes)
d: int = epoxy.Session.open("folder")
e: int = epoxy.tune(split)
f: int = epoxy.apply([], [])
g: int = epoxy.heads.LinearHead().fit([[0.0]], [0])
epoxy.Session.open("folder", grpah=False)
epoxy.Fusoin()
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory) -> dict[str, str]:
    """What mypy says of each line of a user's two files, in one run."""
    folder = tmp_path_factory.mktemp("user")
    (folder / "page.py").write_text(PAGE)
    names = "".join(f"reveal_type(epoxy.{name})\n" for name in epoxy.__all__)
    (folder / "names.py").write_text(f"import epoxy\n{names}")
    (folder / "mypy.ini").write_text(SETTINGS)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", os.devnull, "page.py", "names.py"],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(Path(epoxy.__file__).parents[1])},
    )
    said: dict[str, str] = {}
    for line in done.stdout.splitlines():
        place, _, text = line.partition(": ")
        said[place] = said.get(place, "") + text
    return said


def test_what_is_fitted_or_opened_is_not_taken_for_a_number(told):
    lines = PAGE.splitlines()

    wrong = [at for at, line in enumerate(lines, 1) if ": int" in line]

    for at in wrong:
        assert 'variable has type "int"' in told.get(f"page.py:{at}", "nothing"), lines[at - 1]


def test_names_and_arguments_that_do_not_exist_are_errors(told):
    assert 'Unexpected keyword argument "grpah"' in told["page.py:11"]
    assert 'Module has no attribute "Fusoin"' in told["page.py:12"]


def test_no_public_name_is_of_an_unknown_type(told):
    revealed = {name: told[f"names.py:{at}"] for at, name in enumerate(epoxy.__all__, 2)}

    assert [name for name, text in revealed.items() if text.endswith('type is "Any"')] == []
    assert all("Revealed type is" in text for text in revealed.values())
