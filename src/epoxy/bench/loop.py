"""The one loop: every column on every data set, cell by cell, and the sums of it."""

from __future__ import annotations

import datetime
import importlib
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import neighbors
from ..errors import EpoxyError, ParameterError
from ..label_models import kernels
from ..progress import Progress, silent
from ..storage import make_folder, plain, write_whole
from . import environment
from .cells import Cell, Cells
from .columns import columns
from .context import Column, Context, Memory, Settings
from .margins import add_margins
from .task import Judge, Task, open_task

FORMAT = 1
_KEYS = ("created", "commit", "settings", "machine", "versions", "data", "results", "skipped")


def run(
    folders: Iterable[str | Path],
    out: str | Path,
    settings: Settings | None = None,
    *,
    progress: Progress = silent,
    said: Callable[[str], None] = lambda sentence: None,
    fresh: bool = False,
    earlier: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Run the columns on the data sets and return the results, also written to `out`/bench.json.

    Where nothing could be scored, nothing is written, so that earlier results stay.

    Parameters
    ----------
    folders
        Data folders: meta.json, votes, vectors and labels by split.
    out
        Where finished cells are kept (`cells/`) and the result is written; started again with the
        same `out`, a benchmark does only what is missing.
    settings
        Which columns, how many seeds; see `Settings`.
    progress
        Called with (done, total) in estimated milliseconds of what is not done yet.
    said
        Called with one sentence for each thing that could not be done, and why.
    fresh
        Do every cell of the columns asked for again.
    earlier
        The results of another run; what it has of these data sets and is not measured here is taken
        over, marked with that run's commit and day.
    """
    settings = _checked(settings or Settings())
    home = make_folder(out, "results")
    bench = _Bench(Cells(home / "cells"), settings, said, fresh)
    tasks = bench.open(folders)
    results = bench.run(tasks, progress, earlier)
    if results["results"]:
        write_whole(home / "bench.json", _lines(results).encode())
    return results


def _lines(results: Mapping[str, Any]) -> str:
    """JSON with one line for each result, so that two runs can be compared."""
    entries = ",\n".join(map(json.dumps, results["results"]))
    rest = json.dumps({**results, "results": []}, indent=1)
    return rest.replace('"results": []', f'"results": [\n{entries}\n]', 1) + "\n"


def read(path: str | Path) -> dict[str, Any]:
    """Read what `run` wrote, for the tables."""
    try:
        found = json.loads(Path(path).read_text("utf-8"))
        made = found["format"]
        missing = [key for key in _KEYS if key not in found]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ParameterError(
            f"{path} is not a benchmark result ({type(error).__name__}); run the benchmark again"
        ) from None
    if made != FORMAT:
        raise ParameterError(f"{path} has format {made!r}, this version reads {FORMAT}; run again")
    if missing:
        raise ParameterError(f"{path} lacks {', '.join(missing)}; run the benchmark again")
    for each in found["results"]:
        each.setdefault("dev_rows", None)
    return dict(found)


def run_cell(
    cell: Cell, judge: Judge, memory: Memory | None = None, progress: Progress = silent
) -> dict[str, Any]:
    """One column, one seed: predict without the truth, then let the judge score it, once."""
    if cell.column.loads is not None:
        with suppress(ImportError):  # importing is not training; what is missing, the column says
            importlib.import_module(cell.column.loads)
    context = Context(
        cell.task,
        cell.settings,
        cell.seed,
        memory,
        progress,
        dev_rows=cell.dev_rows,
        gold=judge.gold if "gold" in cell.column.needs else None,
    )
    prediction = cell.column.run(context)
    scoring = context.task.scoring
    labels = None if context.task.dev is None else context.task.dev.y
    guess = prediction.guess
    if guess is None:
        guess = scoring.labels(prediction.test, scoring.threshold(prediction.dev, labels))
    return {
        "scores": judge.score(guess),
        "guess": np.asarray(guess).tolist(),
        "seconds": {stage: round(spent, 6) for stage, spent in context.seconds.items()},
        "facts": plain(dict(prediction.facts)),
        "commit": environment.commit(),
    }


@dataclass
class _Bench:
    cells: Cells
    settings: Settings
    said: Callable[[str], None]
    fresh: bool

    def __post_init__(self) -> None:
        self.skipped: list[dict[str, Any]] = []
        self.notes: list[str] = []

    def open(self, folders: Iterable[str | Path]) -> list[tuple[Task, Judge]]:
        """Every folder that can be scored; the others are named with the reason."""
        tasks: list[tuple[Task, Judge]] = []
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
        self,
        tasks: list[tuple[Task, Judge]],
        progress: Progress,
        earlier: Mapping[str, Any] | None,
    ) -> dict[str, Any]:
        plan = [(judge, self._planned(task)) for task, judge in tasks]
        total = max(1, sum(cell.cost for _, cells in plan for cell in cells))
        if any(cells for _, cells in plan):
            kernels.warm()  # compiled once per machine: no method's seconds
            neighbors.warm()
        done = 0
        for judge, cells in plan:
            memory: Memory = {}
            for cell in cells:
                self._do(cell, judge, memory, _part(progress, done, cell.cost, total))
                done += cell.cost
                progress(done, total)
        return self._collect(tasks, earlier)

    def _planned(self, task: Task) -> list[Cell]:
        self._note_few_rows(task)
        found = []
        for column in columns(self.settings.methods):
            reason = column.lacks(task)
            if reason:
                self._skip(task.name, column.name, reason)
            else:
                found += [cell for each in self._amounts() for cell in self._of(task, column, each)]
        return [cell for cell in found if self.fresh or self.cells.read(cell) is None]

    def _amounts(self) -> tuple[int | None, ...]:
        return tuple(dict.fromkeys(self.settings.dev_rows))

    def _of(self, task: Task, column: Column, dev_rows: int | None) -> list[Cell]:
        if not column.takes(dev_rows):
            return []
        drawn = dev_rows != 0 and task.with_dev_rows(dev_rows, 0) is not task
        n_seeds = 1 if self.settings.quick else self.settings.seeds
        seeds = range(n_seeds if column.random or drawn else 1)
        return [Cell(task, column, seed, self.settings, dev_rows) for seed in seeds]

    def _do(self, cell: Cell, judge: Judge, memory: Memory, progress: Progress) -> None:
        try:
            result = run_cell(cell, judge, memory, progress)
        except EpoxyError as error:
            self._skip(cell.task.name, cell.column.name, str(error))
        else:
            self.cells.write(cell, result)

    def _note_few_rows(self, task: Task) -> None:
        have = 0 if task.dev is None else task.dev.n_rows
        for asked in self._amounts():
            if asked and 0 < have <= asked:
                note = f"{task.name}: {asked} dev rows were asked for and there are {have}; all are used"
                self.notes.append(note)
                self.said(note)

    def _skip(self, data: str, method: str | None, reason: str) -> None:
        entry = {"data": data, "method": method, "reason": reason}
        if entry not in self.skipped:
            self.skipped.append(entry)
            self.said(f"{data}{'' if method is None else ' · ' + method}: {reason}")

    def _collect(
        self, tasks: list[tuple[Task, Judge]], earlier: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """Sum up every finished cell of these data sets, also of columns not asked for now."""
        results = []
        for task, judge in tasks:
            for dev_rows in self._amounts():
                found = {each.name: self._done(task, each, dev_rows) for each in columns(None)}
                entries = [
                    _sum_up(task, name, dev_rows, cells) for name, cells in found.items() if cells
                ]
                add_margins(entries, {name: _guesses(each) for name, each in found.items()}, judge)
                results += entries
        if earlier is not None:
            results += _carried(earlier, results, [task.name for task, _ in tasks])
        settings = asdict(self.settings)
        del settings["methods"]  # cells of columns not asked for now are in the results too
        settings["dev_rows"] = list(settings["dev_rows"])
        return {
            "format": FORMAT,
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "commit": environment.commit(),
            "settings": settings,
            "machine": environment.machine(),
            "versions": environment.versions(),
            "data": [task.describe() for task, _ in tasks],
            "results": results,
            "skipped": self.skipped,
            "notes": self.notes,
        }

    def _done(
        self, task: Task, column: Column, dev_rows: int | None
    ) -> dict[int, Mapping[str, Any]]:
        found = {cell.seed: self.cells.read(cell) for cell in self._of(task, column, dev_rows)}
        return {seed: each for seed, each in found.items() if each is not None}


def _guesses(cells: Mapping[int, Mapping[str, Any]]) -> list[np.ndarray]:
    return [np.array(cell["guess"]) for cell in cells.values()]


def _carried(
    earlier: Mapping[str, Any], results: list[dict[str, Any]], names: list[str]
) -> list[dict[str, Any]]:
    """What another run has of these data sets and this one does not, marked as that run's."""
    known = {(each["data"], each["method"], each["dev_rows"]) for each in results}
    mark = {"commit": earlier["commit"], "created": earlier["created"]}
    return [
        {"as_of": mark, **each, "margin": None}
        for each in earlier["results"]
        if each["data"] in names and (each["data"], each["method"], each["dev_rows"]) not in known
    ]


def _part(progress: Progress, done: int, cost: int, total: int) -> Progress:
    """Progress inside one cell, as a part of the whole."""
    return lambda some, every: progress(done + round(cost * some / max(1, every)), total)


def _sum_up(
    task: Task, method: str, dev_rows: int | None, cells: Mapping[int, Mapping[str, Any]]
) -> dict[str, Any]:
    """Mean and standard deviation over seeds; the spread of one run is 0, not unknown."""
    every = [cell["scores"]["score"] for cell in cells.values()]

    def mean(of: str, name: str) -> float:
        return round(float(np.mean([cell[of].get(name, 0.0) for cell in cells.values()])), 6)

    return {
        "data": task.name,
        "method": method,
        "dev_rows": dev_rows,
        "metric": task.scoring.name,
        "mean": mean("scores", "score"),
        "sd": float(np.std(every, ddof=1)) if len(every) > 1 else 0.0,
        "seeds": len(every),
        "seconds": mean("seconds", "training"),
        "tuning_seconds": mean("seconds", "tuning"),
        "preprocessing_seconds": mean("seconds", "preprocessing"),
        **{name: mean("scores", name) for name in ("accuracy", "precision", "recall", "f1")},
        "runs": [_run(seed, cell, dev_rows) for seed, cell in cells.items()],
    }


def _run(seed: int, cell: Mapping[str, Any], dev_rows: int | None) -> dict[str, Any]:
    """One run without what it said of each row; of few dev rows the scores alone."""
    kept = ("scores", "commit", "seconds", "facts") if dev_rows is None else ("scores", "commit")
    return {"seed": seed, **{name: cell[name] for name in kept}}


def _checked(settings: Settings) -> Settings:
    columns(settings.methods)
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
