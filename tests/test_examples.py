"""The notebooks are run, cell by cell, in an empty folder; what they print is for who reads them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
DATA = Path(os.environ.get("EPOXY_SHARED_DATA", EXAMPLES.parents[1] / "shared" / "data")).resolve()
SLOW = {"cluster.ipynb"}  # starts two workers


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(each, marks=[pytest.mark.slow] * (each.name in SLOW), id=each.name)
        for each in sorted(EXAMPLES.glob("*.ipynb"))
    ],
)
def test_a_notebook_runs(path, tmp_path, monkeypatch, capsys):
    text = path.read_text("utf-8")
    if "EPOXY_SHARED_DATA" in text and not (DATA / "spam").is_dir():
        pytest.skip(f"no data in {DATA}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EPOXY_SHARED_DATA", str(DATA))
    names = {"__name__": "notebook"}

    for cell in json.loads(text)["cells"]:
        if cell["cell_type"] == "code":
            assert not cell["outputs"], "save notebooks without outputs"
            exec(compile("".join(cell["source"]), path.name, "exec"), names)

    assert capsys.readouterr().out
