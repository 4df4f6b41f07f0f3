"""The one loop: every column on every data set, cell by cell, and the sums of it.

A cell is one run of one column. It is kept as a file of its own, whose name carries a hash of all that
determines it, so that a killed benchmark goes on where it was. Errors are not kept: what was missing may
be there next time.
"""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__, neighbors
from ..errors import EpoxyError, ParameterError
from ..label_models import kernels
from ..progress import Progress, silent
from ..storage import make_folder, plain, write_whole
from .context import BenchColumn, BenchSettings, Context
from .methods import COLUMNS, OURS, columns
from .page import need_pandas
from .task import RESAMPLES, BenchTask, HiddenLabels, open_task

FORMAT = 2
_PACKAGES = "epoxy-ws numpy scipy scikit-learn numba pyarrow torch transformers timm snorkel"
_STAGES = {
    "training": "seconds",
    "tuning": "tuning_seconds",
    "preprocessing": "preprocessing_seconds",
}


@dataclass(frozen=True)
class Cell:
    """One run to do: a column on a task with a seed."""

    task: BenchTask
    column: BenchColumn
    seed: int
    settings: BenchSettings
    dev_rows: int | None = None

    @property
    def path(self) -> Path:
        """Where the result is kept, below the folder of cells."""
        identity = {
            "format": FORMAT,
            "version": __version__,
            "data": self.task.fingerprint,
            "method": self.column.name,
            "variant": self.column.variant,
            "seed": self.seed,
            "class_balance": plain(self.settings.class_balance),
            "dev_rows": self.dev_rows,
        }
        key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]
        return Path(self.task.name) / f"{self.column.name}-{self.seed}-{key}.json"

    def read(self, home: Path) -> dict[str, Any] | None:
        """What was kept of it; None if it is not there or was cut off while being written."""
        try:
            found = json.loads((home / self.path).read_text("utf-8"))
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) and "guess" in found else None

    def write(self, home: Path, result: dict[str, Any]) -> None:
        """Keep it, whole or not at all."""
        path = home / self.path
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(result).encode())

    def run(self, judge: HiddenLabels) -> dict[str, Any]:
        """Predict without the truth, then let the judge score it, once."""
        context = Context(self.task, self.settings, self.seed, dev_rows=self.dev_rows)
        prediction = self.column.run(context)
        scoring, guess = context.task.scoring, prediction.guess
        if guess is None:
            labels = None if context.task.dev is None else context.task.dev.y
            guess = scoring.labels(prediction.test, scoring.threshold(prediction.dev, labels))
        return {
            "scores": judge.score(guess),
            "guess": np.asarray(guess).tolist(),
            "seconds": {stage: round(spent, 6) for stage, spent in context.seconds.items()},
            "facts": plain(dict(prediction.facts)),
            "commit": commit(),
        }


def run(
    folders: Iterable[str | Path],
    out: str | Path,
    settings: BenchSettings | None = None,
    *,
    columns: Sequence[BenchColumn] | None = None,
    progress: Progress = silent,
    said: Callable[[str], None] = lambda sentence: None,
    fresh: bool = False,
) -> dict[str, Any]:
    """Run the columns on the data sets and return the results.

    They are also written to `out`: bench.json, and every single run to bench.csv. Where nothing could be
    scored, nothing is written, so that earlier results stay.

    Parameters
    ----------
    folders
        Data folders: meta.json, votes, vectors and labels by split.
    out
        Where finished cells are kept (`cells/`) and the result is written; started again with the
        same `out`, a benchmark does only what is missing.
    settings
        Which columns, how many seeds; see `BenchSettings`.
    columns
        The columns there are; `COLUMNS` and your own.
    progress
        Called with (done, total) cells.
    said
        Called with one sentence for each thing that could not be done, and why.
    fresh
        Do every cell of the columns asked for again.
    """
    known = COLUMNS if columns is None else columns
    settings = _checked(settings or BenchSettings(), known)
    home = make_folder(out, "results")
    bench = _Bench(home / "cells", settings, known, said)
    tasks = bench.open(folders)
    bench.run(tasks, progress, fresh)
    results, runs = bench.collect(tasks)
    if results["results"]:
        write_whole(home / "bench.json", _lines(results).encode())
        write_whole(home / "bench.csv", runs.to_csv(index=False).encode())
    return results


def read(path: str | Path) -> dict[str, Any]:
    """Read what `run` wrote, for the tables."""
    try:
        found = dict(json.loads(Path(path).read_text("utf-8")))
        if found["format"] != FORMAT:
            raise ValueError(f"format {found['format']!r}, and this version reads {FORMAT}")
        return found
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ParameterError(
            f"{path} is not a benchmark result ({type(error).__name__}: {error}); "
            "run the benchmark again"
        ) from None


@dataclass
class _Bench:
    home: Path
    settings: BenchSettings
    known: Sequence[BenchColumn]
    said: Callable[[str], None]
    skipped: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def open(self, folders: Iterable[str | Path]) -> list[tuple[BenchTask, HiddenLabels]]:
        """Every folder that can be scored; the others are named with the reason."""
        tasks: list[tuple[BenchTask, HiddenLabels]] = []
        for folder in folders:
            try:
                tasks.append(open_task(folder))
            except EpoxyError as error:
                self._skip(Path(folder).name, None, str(error))
        names = [task.name for task, _ in tasks]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ParameterError(f"two data folders are called {twice[0]!r}; rename one of them")
        return tasks

    def run(
        self, tasks: list[tuple[BenchTask, HiddenLabels]], progress: Progress, fresh: bool
    ) -> None:
        """Do what is missing."""
        cells = [(cell, judge) for task, judge in tasks for cell in self._planned(task)]
        cells = [(cell, judge) for cell, judge in cells if fresh or cell.read(self.home) is None]
        if cells:
            kernels.warm()  # compiled once per machine: no method's seconds
            neighbors.warm()
        for done, (cell, judge) in enumerate(cells, 1):
            try:
                cell.write(self.home, cell.run(judge))
            except EpoxyError as error:
                self._skip(cell.task.name, cell.column.name, str(error))
            progress(done, len(cells))

    def collect(self, tasks: list[tuple[BenchTask, HiddenLabels]]) -> tuple[dict[str, Any], Any]:
        """Sum up every finished cell of these data sets, also of columns not asked for now."""
        results, runs = [], []
        for task, judge in tasks:
            for dev_rows in dict.fromkeys(self.settings.dev_rows):
                entries, guesses = [], {}
                for column in self.known:
                    found = [
                        {"seed": cell.seed, **kept}
                        for cell in self._of(task, column, dev_rows)
                        if (kept := cell.read(self.home)) is not None
                    ]
                    if found:
                        about = {"data": task.name, "method": column.name, "dev_rows": dev_rows}
                        flat = [_flat(each) for each in found]
                        runs += [about | each for each in flat]
                        entries.append({**about, "metric": task.scoring.name, **_over_seeds(flat)})
                        guesses[column.name] = [np.array(each["guess"]) for each in found]
                add_margins(entries, guesses, judge)
                results += entries
        settings = asdict(self.settings)
        del settings["methods"]  # cells of columns not asked for now are in the results too
        return {
            "format": FORMAT,
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "commit": commit(),
            "settings": plain(settings),
            "machine": machine(),
            "versions": versions(),
            "data": [task.describe() for task, _ in tasks],
            "results": results,
            "skipped": self.skipped,
            "notes": self.notes,
        }, need_pandas().DataFrame(runs)

    def _planned(self, task: BenchTask) -> list[Cell]:
        have, found = 0 if task.dev is None else task.dev.n_rows, []
        for asked in dict.fromkeys(self.settings.dev_rows):
            if asked and 0 < have <= asked:
                self.notes.append(
                    f"{task.name}: {asked} dev rows were asked for and there are {have}; all are used"
                )
                self.said(self.notes[-1])
        for column in columns(self.settings.methods, self.known):
            reason = column.lacks(task)
            if reason:
                self._skip(task.name, column.name, reason)
                continue
            for dev_rows in dict.fromkeys(self.settings.dev_rows):
                found += self._of(task, column, dev_rows)
        return found

    def _of(self, task: BenchTask, column: BenchColumn, dev_rows: int | None) -> list[Cell]:
        if not column.takes(dev_rows):
            return []
        drawn = dev_rows != 0 and task.with_dev_rows(dev_rows, 0) is not task
        seeds = 1 if self.settings.quick or not (column.random or drawn) else self.settings.seeds
        return [Cell(task, column, seed, self.settings, dev_rows) for seed in range(seeds)]

    def _skip(self, data: str, method: str | None, reason: str) -> None:
        entry = {"data": data, "method": method, "reason": reason}
        if entry not in self.skipped:
            self.skipped.append(entry)
            self.said(f"{data}{'' if method is None else ' · ' + method}: {reason}")


def _flat(cell: Mapping[str, Any]) -> dict[str, Any]:
    """One run as a row: scores, seconds by stage, and what else it told as JSON."""
    seconds = {name: cell["seconds"].get(stage, 0.0) for stage, name in _STAGES.items()}
    told = {"commit": cell["commit"], "facts": json.dumps(cell["facts"])}
    return {"seed": cell["seed"], **cell["scores"], **seconds, **told}


def _over_seeds(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Mean and standard deviation over seeds; the spread of one run is 0, not unknown."""
    frame = need_pandas().DataFrame(runs).drop(columns=["seed", "commit", "facts"])
    mean = frame.mean().round(6).to_dict()
    spread = float(frame["score"].std()) if len(frame) > 1 else 0.0
    return {"mean": mean.pop("score"), "sd": spread, "seeds": len(frame), **mean}


def add_margins(
    entries: Sequence[dict[str, Any]],
    guesses: Mapping[str, Sequence[np.ndarray]],
    judge: HiddenLabels,
) -> None:
    """Write into each entry by how much our column leads it: margin, 95 % interval, standard error.

    Test rows are drawn with replacement, the same for both columns; where dev rows were drawn at random,
    those draws are drawn again too, so that an interval covers both sources of chance. Five draws are
    few, and intervals over so few are a little too narrow.
    """
    means = {each["method"]: each["mean"] for each in entries}
    ours = np.array([judge.resampled(each) for each in guesses.get(OURS, ())])
    for entry in entries:
        entry["margin"] = None
        if len(ours) and entry["method"] != OURS:
            theirs = np.array([judge.resampled(each) for each in guesses[entry["method"]]])
            lead = _redrawn(ours) - _redrawn(theirs)  # the same seed: equal draws stay paired
            low, high = np.quantile(lead, (0.025, 0.975))
            found = (means[OURS] - entry["mean"], low, high, lead.std())
            entry["margin"] = [round(float(each), 3) for each in found]


def _redrawn(scores: np.ndarray) -> np.ndarray:
    """The mean over draws of dev, themselves drawn with replacement; (draws, B) to (B,)."""
    count = len(scores)
    drawn = np.random.default_rng(0).integers(count, size=(count, RESAMPLES))
    return np.asarray(np.take_along_axis(scores, drawn, axis=0).mean(axis=0))


def _lines(results: Mapping[str, Any]) -> str:
    """JSON with one line for each result, so that two runs can be compared."""
    entries = ",\n".join(map(json.dumps, results["results"]))
    rest = json.dumps({**results, "results": []}, indent=1)
    return rest.replace('"results": []', f'"results": [\n{entries}\n]', 1) + "\n"


def _checked(settings: BenchSettings, known: Sequence[BenchColumn]) -> BenchSettings:
    columns(settings.methods, known)
    if settings.seeds < 1:
        raise ParameterError(f"a benchmark needs at least 1 seed, got seeds={settings.seeds}")
    if not settings.dev_rows or any(each is not None and each < 0 for each in settings.dev_rows):
        raise ParameterError(
            f"got dev_rows={settings.dev_rows!r}; expected amounts from 0 on, or None for all"
        )
    balance = settings.class_balance
    if isinstance(balance, str) and balance not in ("dev", "tune"):
        raise ParameterError(
            f"got class_balance={balance!r}; expected shares by class, 'dev' or 'tune'"
        )
    return settings


def machine() -> dict[str, Any]:
    """Processor and cores, without names that identify a person."""
    processor = platform.processor() or platform.machine()
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
        named = next(line for line in lines if line.startswith("model name"))
        processor = named.split(":", 1)[1].strip()
    return {"processor": processor, "cores": os.cpu_count(), "system": platform.system()}


def versions() -> dict[str, str]:
    """Python and the packages whose version can change a figure; those not installed are left out."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES.split():
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def commit() -> str | None:
    """The commit the package's source is at, with `+` if it differs; None outside a repository."""
    git = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--abbrev=12"]
    told = {"capture_output": True, "text": True, "check": True, "timeout": 10}
    try:
        named = subprocess.run([*git, "--exclude=*", "--dirty=+"], **told)  # type: ignore[call-overload]
    except (OSError, subprocess.SubprocessError):
        return None
    return str(named.stdout.strip())
