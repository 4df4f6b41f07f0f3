"""Where a benchmark ran: machine, versions and commit, without names that identify a person."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

_PACKAGES = "epoxy-ws numpy scipy scikit-learn numba pyarrow torch transformers timm snorkel"


def machine() -> dict[str, Any]:
    """Processor, cores and memory."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": _memory(),
        "system": platform.system(),
    }


def versions() -> dict[str, str]:
    """Python and the packages whose version can change a figure; those not installed are left out."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES.split():
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def commit() -> str | None:
    """The commit the package's source is at, with `+` if it differs; None outside a repository."""
    home = Path(__file__).parent
    try:
        head = _git(home, "rev-parse", "--short=12", "HEAD")
        changed = _git(home, "status", "--porcelain", "--", str(home.parent))
    except (OSError, subprocess.SubprocessError):
        return None
    return head + ("+" if changed else "")


def _git(home: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(home), *words], capture_output=True, text=True, check=True, timeout=10
    )
    return done.stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _memory() -> float | None:
    try:
        pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
    return round(pages * size / 2**30, 1)
