"""Run `epoxy demo` from a wheel on every Python at hand, with the newest and the oldest dependencies.

That loops were compiled is read off the compiler's own cache, which starts empty for each run.
Usage: python tests/wheels.py dist/*.whl
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VERSIONS = ("3.11", "3.12", "3.13")
ROOT = Path(__file__).parents[1]


def main(wheel: Path) -> int:
    """Return how many runs failed; a Python that is not here is said and counts as none."""
    failed = 0
    for version in VERSIONS:
        found = subprocess.run(
            [*UV, "python", "find", "--no-python-downloads", version],
            capture_output=True,
            text=True,
            check=False,
        )
        if found.returncode:
            print(f"{version}: no such Python here, not tried")
            continue
        for resolution in ("highest", "lowest-direct"):
            with tempfile.TemporaryDirectory() as folder:
                told = run(found.stdout.strip(), resolution, wheel.resolve(), Path(folder))
            print(f"{version} {resolution}: {told}")
            failed += not told.endswith("loops compiled")
    return failed


def run(python: str, resolution: str, wheel: Path, folder: Path) -> str:
    """What one run of the demo says of itself."""
    made, pins = folder / "venv", folder / "pins.txt"
    inside = made / "bin" / "python"
    wheels = ("--only-binary", ":all:")
    call([*UV, "venv", "--quiet", "--python", python, str(made)])
    source = str(ROOT / "pyproject.toml")
    call(
        [
            *UV,
            "pip",
            "compile",
            "--quiet",
            "--python",
            str(inside),
            *wheels,
            "--resolution",
            resolution,
            source,
            "--output-file",
            str(pins),
        ]
    )
    call(
        [
            *UV,
            "pip",
            "install",
            "--quiet",
            "--python",
            str(inside),
            *wheels,
            "--requirement",
            str(pins),
            str(wheel),
        ]
    )
    cache = folder / "compiled"
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [str(made / "bin" / "epoxy"), "demo", "digits"],
        cwd=folder,
        env={**clean, "NUMBA_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode or "fused (Fusion)" not in done.stdout:
        return f"failed: {done.stderr.strip()[-300:]}"
    count = len(list(cache.rglob("*.nbc")))
    return f"{count} loops compiled" if count else "failed: nothing was compiled"


def call(command: list[str]) -> None:
    """Run, silent unless it fails."""
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


UV = [shutil.which("uv", path=str(Path(sys.executable).parent)) or "uv"]

if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
