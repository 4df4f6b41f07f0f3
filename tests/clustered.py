"""Small projects whose rows are Parquet, for tests of labelling on a cluster."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from epoxy import Session
from epoxy.errors import AlignmentError, CodeError
from epoxy.neighbors.workers import n_threads

LFS = """
import epoxy
from words import MONEY

money = epoxy.keywords("spam", *MONEY, name="money")
hello = epoxy.keywords("ham", "hello", "song", name="hello")

@epoxy.labeling_function
def short(row):
    return "ham" if row.text.count(" ") < 3 else None

@epoxy.labeling_function
def link(row):
    return "spam" if "link" in row.text else None
"""
WORDS = "MONEY = ['money', 'free']\n"
SPAM, HAM, BOTH = ("money", "free", "link"), ("hello", "song"), ("the", "a", "now", "very", "you")


def text_of(rng: np.random.Generator, spam: bool) -> str:
    words = [*rng.choice(BOTH, rng.integers(1, 6))]
    if rng.random() < 0.6:
        words.append(rng.choice(SPAM if (rng.random() < 0.85) == spam else HAM))
    return " ".join(words)


def a_project(folder: Path, *, n_rows: int = 600, seed: int = 0, vectors: str = "") -> Path:
    """A folder with rows in two Parquet parts, a tenth of them labelled, vectors and four functions."""
    rng = np.random.default_rng(seed)
    truth = rng.random(n_rows) < 0.4
    (folder / "rows").mkdir(parents=True)
    table = pa.table(
        {
            "id": [f"r{row}" for row in range(n_rows)],
            "text": [text_of(rng, each) for each in truth],
            "label": [
                ("spam" if truth[row] else "ham") if row % 10 == 3 else None
                for row in range(n_rows)
            ],
        }
    )
    half = n_rows // 2 - 7
    pq.write_table(table.slice(0, half), folder / "rows" / "a.parquet")
    pq.write_table(table.slice(half), folder / "rows" / "b.parquet")
    drawn = rng.normal(size=(n_rows, 12)) + np.where(truth, 0.8, -0.8)[:, None]
    np.save(folder / "vectors.npy", drawn.astype(np.float32))
    (folder / "epoxy.toml").write_text(
        '[rows]\nfile = "rows"\nid = "id"\nlabel = "label"\n\n'
        '[classes]\nnames = ["ham", "spam"]\n\n'
        f'[vectors]\nencoder = "vectors.npy"\nmetric = "cosine"\n{vectors}\n',
        "utf-8",
    )
    (folder / "lfs.py").write_text(LFS, "utf-8")
    (folder / "words.py").write_text(WORDS, "utf-8")
    return folder


def decide(folder: Path) -> None:
    """Hand labels on train rows, a radius and one that lends nothing, by the project's own log."""
    session = Session.open(folder)
    for row in (1, 17, 230, 411):
        session.label(row, "spam" if row % 2 else "ham")
    session.set_radius("money", 0.3)
    session.set_radius("short", None)


def labels_of(folder: Path) -> pa.Table:
    return pq.read_table(folder / "labels" / "labels.parquet")


# what is done to a part, in tests of the map alone


def number(part: int) -> int:
    return part


@dataclass
class Plus:
    more: int

    def __call__(self, part: int) -> int:
        return part + self.more


def number_late(part: int) -> int:
    """The first parts take longest; only order among results can put them first."""
    time.sleep(0.3 if part < 2 else 0.0)
    return part


@dataclass
class EndOnce:
    """Kill workers with the signal that nothing can catch, each once, until so many have ended."""

    folder: Path
    most: int = 1

    def __call__(self, part: int) -> int:
        mark = self.folder / f"ended-{os.getpid()}"
        if len(list(self.folder.glob("ended-*"))) < self.most:
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return part


def end_worker(part: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


async def close_worker(dask_worker: Any) -> None:
    """What a worker does whose connection to the scheduler breaks: it ends, and its nanny too."""
    await dask_worker.close()


_HELD: list[np.ndarray] = []


def hold_memory(part: int) -> int:
    """Fill the memory of the process to three quarters of a limit of 800 MB and never give it back."""
    if not _HELD:
        used = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        _HELD.append(np.ones(670 * 10**6 - used, dtype=np.uint8))
    return part


def refuse(part: int) -> int:
    raise AlignmentError("rows and vectors differ; write them again")


def fail_to_load(part: int) -> int:
    raise CodeError("ModuleNotFoundError: No module named 'spacy'; correct it", "lfs.py", 3)


def fill_disk(part: int) -> int:
    raise OSError(errno.ENOSPC, "No space left on device", "votes.npy")


def miss_file(part: int) -> int:
    Path("nothing.npy").read_bytes()
    raise AssertionError


def use_all_memory(part: int) -> int:
    raise MemoryError


def threads(part: int) -> int:
    return n_threads()


class Running:
    """A scheduler and workers in processes of their own, as `dask scheduler` and `dask worker` start them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.processes = folder, list[subprocess.Popen[bytes]]()

    def __enter__(self) -> Running:
        place = self.folder / "scheduler.json"
        command = ["scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
        self._start(*command, "--scheduler-file", str(place))
        while not place.exists() or not place.read_text("utf-8").strip():
            time.sleep(0.05)
        self.address = json.loads(place.read_text("utf-8"))["address"]
        return self

    def worker(self, *before: str, **environment: str) -> subprocess.Popen[bytes]:
        """Start one without a nanny, which would start another in its place."""
        options = ["--no-nanny", "--nthreads", "1", "--no-dashboard", "--memory-limit", "2GB"]
        return self._start("worker", self.address, *options, before=before, **environment)

    def _start(self, *command: str, before: Any = (), **more: str) -> subprocess.Popen[bytes]:
        full = [*before, sys.executable, "-m", "dask", *command]
        paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
        place = {"cwd": self.folder, "env": {**os.environ, "PYTHONPATH": paths, **more}}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.processes.append(subprocess.Popen(full, **place, **quiet))
        return self.processes[-1]

    def __exit__(self, *error: object) -> None:
        for each in reversed(self.processes):
            each.kill()
            each.wait()
