"""How fast, against whom, and how far from the machine's limit: one command, one run.

    python benchmarks/speed.py [--quick] [--sizes spam spouse ...] [--scaling]
                               [--reference-python PATH] [--out FOLDER]

Every figure of a run is measured on the same machine in the same run, ours and the references',
next to the rate of a plain float32 matrix multiplication and the memory bandwidth. References that
are not installed are named as missing. Writes speed.csv (and, with --scaling,
scaling.csv and scaling.png) to the folder. A quiet machine is assumed; nothing here is a test.

Rates: an inner product of length d counts 2d operations. "Executed" counts what was multiplied
(half of n² pairs for a symmetric graph, distinct vectors only); "plain" what n² pairs of all rows
would have been. Cold extension counts distinct rows × rows any source votes on, once for all
sources.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import speed_data
from kept import write_cases
from speed_data import SIZES, Size

HERE = Path(__file__).resolve().parent
CORES = ("", "Haswell", "Zen", "SkylakeX")
QUICK = ("weather", "spam", "spouse")
TORCH_LIMIT = 25_000  # rows; beyond, all similarities at once do not fit in memory
Result = dict[str, Any]


class Bench:
    """One data set in a folder, and the two Pythons that measure on it."""

    def __init__(self, size: Size, folder: Path, reference: str) -> None:
        self.size = size
        self.folder = folder
        self.reference_python = reference
        vectors, votes, self.notes = speed_data.load(size)
        np.save(folder / "vectors.npy", vectors)
        np.save(folder / "votes.npy", votes)
        self.core = ""

    def ours(self, task: str, *more: object) -> Result:
        return _child([sys.executable, HERE / "speed_ours.py", task, self.folder, *more], {})

    def reference(self, task: str) -> Result:
        environment = {"OPENBLAS_CORETYPE": self.core} if self.core else {}
        command = [self.reference_python, HERE / "speed_reference.py", task, self.folder]
        return _child(command, environment)

    def tune(self) -> Result:
        """Choose the kernels with which faiss's own BLAS is fastest here."""
        rates = {}
        for core in CORES:
            self.core = core
            rates[core or "as installed"] = self.reference("calibrate").get("gflops", 0.0)
        best = max(rates, key=lambda name: rates[name])
        self.core = "" if best == "as installed" else best
        return {"gflops": rates, "chosen": best}


def _child(command: list[object], environment: dict[str, str]) -> Result:
    done = subprocess.run(
        [str(part) for part in command],
        env={**os.environ, "PYTHONWARNINGS": "ignore", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1:] or done.returncode}
    result: Result = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def section_limits(bench: Bench) -> Result:
    return bench.ours("limits")


def section_cold(bench: Bench) -> Result:
    """Exact extension of all sources, nothing prepared."""
    result = {"ours": bench.ours("cold"), "faiss": bench.reference("faiss_cold")}
    if bench.size.n <= TORCH_LIMIT:
        result["pytorch"] = bench.reference("torch_cold")
    else:
        result["pytorch"] = {"missing": "all similarities at once do not fit in memory"}
    return result


def section_graph(bench: Bench) -> Result:
    return {f"k={k}": bench.ours("graph", k) for k in sorted({64, bench.size.k})}


def section_edits(bench: Bench) -> Result:
    """Reach alone after an edit, and whether it was right."""
    return bench.ours("edits", bench.size.k)


def section_session(bench: Bench) -> Result:
    """From an edit to new scores; and the search of the reference's way, whose rest is label models."""
    return {"ours": bench.ours("session"), "reference": bench.reference("edit")}


def section_fusion(bench: Bench) -> Result:
    """From an edit to new scores under the default model, beside a refit from scratch."""
    bench.ours("neighbours")
    return bench.ours("fusion")


def section_label_models(bench: Bench) -> Result:
    others = {name: bench.reference(name) for name in ("flyingsquid", "snorkel")}
    return {"ours": bench.ours("label_model"), **others}


SECTIONS = {
    "limits": section_limits,
    "cold": section_cold,
    "graph": section_graph,
    "edits": section_edits,
    "session": section_session,
    "fusion": section_fusion,
    "label_models": section_label_models,
}


def run(sizes: list[Size], reference: str, sections: list[str], out: Path) -> Result:
    results: Result = {"machine": machine(), "sizes": {}}
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench(size, Path(folder), reference)
            print(f"{size.label} ({', '.join(bench.notes) or 'real'})", file=sys.stderr)
            found: Result = {"label": size.label, "notes": bench.notes, "faiss_core": bench.tune()}
            for name in sections:
                found[name] = SECTIONS[name](bench)
                print(f"  {name}: {json.dumps(found[name])[:300]}", file=sys.stderr)
            results["sizes"][size.name] = found
            write(results, out)
    return results


def write(results: Result, out: Path) -> None:
    """Written after each size: what was measured survives an interruption."""
    write_cases(out / "speed.csv", {"machine": results["machine"], **results["sizes"]})


def machine() -> Result:
    model = ""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = [line for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = lines[0].split(":")[1].strip() if lines else ""
    return {
        "cpu": model,
        "cpus": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "load_before": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }


COLD = "| data | ours | share of sgemm | faiss, best BLAS kernels | ratio | pytorch path | ratio |"
GRAPH = "| data | k | distinct | seconds | executed GFLOP/s | share of sgemm | plain | peak MB |"
EDIT = "| data | radius | edit | radius move | wrong |"
LOOP = "| data | radius | radius moved | votes changed | reference edit | ratio |"
FUSION = (
    "| data | hand labels | votes changed | radius moved | one more label | refit | ratio | "
    "open, neighbours given | peak MB | apart |"
)
MODEL = "| data | ours | flyingsquid | ratio | snorkel | ratio |"


def table(results: Result) -> str:
    """The run as Markdown: ratios and fractions of the limit."""
    host, sizes = results["machine"], list(results["sizes"].values())
    graphs = [_graph_row(each, graph) for each in sizes for graph in each.get("graph", {}).values()]
    lines = [
        "# Speed",
        "",
        f"{host['cpu']}, {host['cpus']} CPUs, Python {host['python']}, numpy {host['numpy']}.",
        "Made by `python benchmarks/speed.py`; every ratio is within one run.",
        *_table(
            "Cold exact extension of all sources (seconds, extra MB)",
            COLD,
            [_cold_row(found) for found in sizes if "cold" in found],
        ),
        *_table("Neighbour graph", GRAPH, graphs),
        *_table(
            "The loop: from an edit to new votes, probabilities and scores (ms; p50 / worst of 24)",
            LOOP,
            [row for found in sizes for row in _loop_rows(found)],
        ),
        *_table(
            "The same under Fusion, the default model (ms; p50 / worst of 20)",
            FUSION,
            [row for found in sizes for row in _fusion_rows(found)],
        ),
        *_table(
            "One source edited: its exact reach alone (ms; p50 / worst of 24 edits)",
            EDIT,
            [row for found in sizes for row in _edit_rows(found)],
        ),
        *_table(
            "Label models (seconds, fit / predict)",
            MODEL,
            [_model_row(found) for found in sizes if "label_models" in found],
        ),
    ]
    return "\n".join(lines) + "\n"


def _table(title: str, head: str, rows: list[str]) -> list[str]:
    if not rows:
        return []
    return ["", f"## {title}", "", head, "|---" * (head.count("|") - 1) + "|", *rows]


def _model_row(found: Result) -> str:
    models = found["label_models"]
    ours = models["ours"]
    cells = [found["label"], _pair(ours)]
    for name in ("flyingsquid", "snorkel"):
        ratio = f"{_both(models[name]) / _both(ours):,.0f}" if "fit_seconds" in models[name] else ""
        cells += [_pair(models[name]), ratio]
    return "| " + " | ".join(cells) + " |"


def _both(result: Result) -> float:
    return float(result["fit_seconds"] + result["predict_seconds"])


def _missing(result: Result) -> str:
    return f"missing: {result.get('missing') or result.get('failed')}"


def _pair(result: Result) -> str:
    if "fit_seconds" not in result:
        return _missing(result)
    return f"{result['fit_seconds']:.3g} / {result['predict_seconds']:.3g}"


def _cold_row(found: Result) -> str:
    cold, limit = found["cold"], found["limits"]["sgemm_gflops"]
    ours = cold["ours"]
    cells = [
        found["label"],
        f"{ours['seconds']:.4g} s, {ours['extra_mb']:.0f} MB",
        f"{ours['gflops'] / limit:.0%}",
    ]
    for other in (cold["faiss"], cold["pytorch"]):
        if "seconds" in other:
            cells.append(f"{other['seconds']:.4g} s, {other['extra_mb']:.0f} MB")
            cells.append(f"{other['seconds'] / ours['seconds']:.1f}")
        else:
            cells += [_missing(other), ""]
    return "| " + " | ".join(cells) + " |"


def _graph_row(found: Result, graph: Result) -> str:
    limit = found["limits"]["sgemm_gflops"]
    return (
        f"| {found['label']} | {graph['k']} | {graph['distinct']:,} | {graph['seconds']:.3g} | "
        f"{graph['gflops_executed']:.0f} | {graph['gflops_executed'] / limit:.0%} | "
        f"{graph['gflops_plain_equivalent'] / limit:.0%} | {graph['peak_mb']:.0f} |"
    )


def _loop_rows(found: Result) -> list[str]:
    ours = found.get("session", {}).get("ours", {})
    search = found.get("session", {}).get("reference", {}).get("search_seconds")
    model = found.get("label_models", {}).get("flyingsquid", {})
    theirs = 1e3 * (search + _both(model)) if search and "fit_seconds" in model else None
    rows = []
    for radius, each in ours.items():
        if not isinstance(each, dict):
            continue
        cells = [found["label"], radius, _times(each["radius_ms"]), _times(each["edit_ms"])]
        cells.append("missing" if theirs is None else f"{theirs:,.0f}")
        cells.append("" if theirs is None else f"{theirs / each['edit_ms']['p50']:,.0f}")
        rows.append("| " + " | ".join(cells) + " |")
    return rows


def _fusion_rows(found: Result) -> list[str]:
    rows = []
    fusion = found.get("fusion", {})
    for labels, each in fusion.items():
        if not isinstance(each, dict):
            continue
        cells = [found["label"], labels.split()[0]]
        cells += [_times(each[name]) for name in ("edit_ms", "radius_ms", "label_ms")]
        refit = 1e3 * each["refit_seconds"]
        cells += [f"{refit:,.0f}", f"{refit / each['edit_ms']['p50']:,.0f}"]
        cells += [f"{each['open_seconds']:.1f} s", f"{each['open_peak_mb']:,.0f}"]
        cells.append(f"{each['apart_from_refit']:.0e}, {each['labels_apart']} labels")
        rows.append("| " + " | ".join(cells) + " |")
    return rows


def _edit_rows(found: Result) -> list[str]:
    rows = []
    for radius, each in found.get("edits", {}).items():
        if "edit_ms" in each:
            cells = [found["label"], radius]
            cells += [_times(each[name]) for name in ("edit_ms", "radius_ms")]
            cells.append(str(each["wrong_in_sample"]))
            rows.append("| " + " | ".join(cells) + " |")
    return rows


def _times(summary: Result) -> str:
    return f"{summary['p50']:.2f} / {summary['worst']:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK)}")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, help="which data sets")
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--scaling", action="store_true", help="cost against rows, with a plot")
    parser.add_argument(
        "--reference-python",
        default=os.environ.get("EPOXY_REFERENCE_PYTHON", sys.executable),
        help="a Python that has faiss, torch, flyingsquid and snorkel",
    )
    parser.add_argument("--out", type=Path, default=HERE / "results")
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    if chosen.scaling:
        import speed_scaling

        speed_scaling.run(chosen.out, quick=chosen.quick)
        return
    names = chosen.sizes or (QUICK if chosen.quick else list(SIZES))
    sizes = [SIZES[name] for name in names]
    print(table(run(sizes, chosen.reference_python, chosen.sections, chosen.out)))


if __name__ == "__main__":
    main()
