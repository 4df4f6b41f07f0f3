"""A studio that is killed in the middle of labels has lost none that it answered."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("websockets")
pytest.importorskip("watchfiles")
pytest.importorskip("httpx")

import httpx
import numpy as np

import epoxy
from studio_client import Caller, messages


def killed_while_labelling(folder, seed: int) -> dict[str, str]:
    """Label rows one after the other until the server is killed; those it answered.

    It is killed at a moment nobody chose, within some labels of the fifth.
    """
    made = subprocess.Popen(
        [sys.executable, "-m", "epoxy", "studio", str(folder), "--no-open", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    found = re.search(r":(\d+)/\?token=(\S+)", made.stdout.readline())
    answered: dict[str, str] = {}
    rng = np.random.default_rng(seed)
    timer = threading.Timer(rng.random() / 5, made.send_signal, [signal.SIGKILL])
    with Caller(int(found[1]), found[2]) as call:
        try:
            while True:
                if len(answered) == 4 and timer.ident is None:
                    timer.start()
                row, label = int(rng.integers(128)), str(rng.choice(["ham", "spam"]))
                name = call("label", row=row, label=label, chosen="random")["what"]
                answered[name.removeprefix("label of ")] = label
        except httpx.TransportError:
            pass
    made.wait()
    made.stdout.close()
    return answered


@pytest.mark.parametrize(
    "times", [2, pytest.param(100, marks=pytest.mark.slow)], ids=["twice", "a hundred times"]
)
def test_no_label_is_lost_that_was_answered(tmp_path, times):
    folder = messages(tmp_path)
    known: dict[str, str] = {}
    for at in range(times):
        known |= killed_while_labelling(folder, seed=at)

        session = epoxy.Session.open(folder, graph=False)
        y, ids = session.split().truth, session.split().ids
        now = {str(name): session.classes[each] for name, each in zip(ids, y) if each >= 0}
        # one more may have been written and not answered yet
        wrong = {name for name in known if now.get(name) != known[name]}
        assert set(known) <= set(now)
        assert len(wrong) <= 1
        known = now
    assert len(known) >= 4
