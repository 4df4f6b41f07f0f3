"""Pooled features of a pre-trained image network, by timm."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import FrameError, StoreError, UnknownName
from ..progress import Progress, silent
from .encoder import Plain, Rows, as_vectors, check_positive, listed
from .pretrained import (
    IMAGE_PACKAGES,
    first_line,
    hub_revision,
    need,
    package_folder,
    tensor_fingerprint,
)

SHORT_NAMES = {
    # torchvision's ImageNet weights: what "ResNet-101 pre-trained on ImageNet" meant in the paper;
    # timm's own default for the bare name is another training recipe
    "resnet101": "resnet101.tv_in1k",
    "resnet50": "resnet50.tv_in1k",
    "resnet18": "resnet18.tv_in1k",
    # BiT-M is Big Transfer trained on ImageNet-21k; the paper took the ResNet-50x1
    "bit-m": "resnetv2_50x1_bit.goog_in21k",
    "bit-m-r50x1": "resnetv2_50x1_bit.goog_in21k",
    "bit-m-r50x3": "resnetv2_50x3_bit.goog_in21k",
    "bit-m-r101x1": "resnetv2_101x1_bit.goog_in21k",
    "bit-m-r101x3": "resnetv2_101x3_bit.goog_in21k",
    "bit-m-r152x2": "resnetv2_152x2_bit.goog_in21k",
    "bit-m-r152x4": "resnetv2_152x4_bit.goog_in21k",
    "efficientnet-lite0": "tf_efficientnet_lite0.in1k",
}
"""Names people use, and the timm models they mean; any other name is timm's own."""


class Image(Plain):
    """Pre-trained image features, pooled to one vector per image.

    Rows are paths, PIL images, or uint8 arrays of shape (height, width) or (height, width, 3); a
    whole array (n, height, width) or (n, height, width, 3) is rows as well.

    Parameters
    ----------
    model
        One of `SHORT_NAMES`, or any model timm knows.
    weights
        A checkpoint file to load instead of asking the model hub.
    pretrained
        False leaves the weights random: for trying a pipeline out, never stored on disk.
    device
        As torch names it.

    Examples
    --------
    >>> Image("bit-m").name
    'image:resnetv2_50x1_bit.goog_in21k'
    """

    slow = True

    def __init__(
        self,
        model: str = "resnet101",
        *,
        weights: str | Path | None = None,
        pretrained: bool = True,
        device: str = "cpu",
        batch_size: int = 32,
    ) -> None:
        check_positive("Image", batch_size=batch_size)
        self.model = SHORT_NAMES.get(model.lower(), model)
        self.weights = weights
        self.pretrained = pretrained
        self.device = device
        self.batch_size = batch_size
        self.name = f"image:{self.model}"

    @cached_property
    def identity(self) -> str | None:  # type: ignore[override]
        """The revision of the weights, or a hash of the loaded ones; none for random weights."""
        if not self.pretrained:
            return None
        known = self._revision
        if known is None:
            loaded, _ = self._network  # may download the weights, and so give them a revision
            known = self._downloaded() or tensor_fingerprint(loaded)
        return f"image {self.model} weights={known}"

    @cached_property
    def _revision(self) -> str | None:
        """What was downloaded earlier; loading asks for just that, or the identity would lie."""
        return self._downloaded()

    def _downloaded(self) -> str | None:
        if self.weights is not None:
            return None
        return hub_revision(f"timm/{self.model}", "model.safetensors")

    @cached_property
    def _network(self) -> tuple[Any, Any]:
        """The network without its classifier, and the transform its weights were trained with."""
        timm = need("timm", f"encoder {self.name!r}", "timm, torch and Pillow", "image")
        overlay, packed = None, self._packed()
        if self.weights is not None:
            overlay = {"file": str(self.weights)}
        elif self.pretrained and self._revision is not None:
            overlay, packed = {"hf_hub_id": f"timm/{self.model}@{self._revision}"}, None
        fetched = self.pretrained and packed is None
        try:
            options = {"pretrained": fetched, "pretrained_cfg_overlay": overlay}
            network = timm.create_model(self.model, num_classes=0, **options)
        except RuntimeError as error:
            if "Unknown model" not in str(error) and "Invalid pretrained tag" not in str(error):
                raise
            known = [*SHORT_NAMES, *timm.list_models(pretrained=True)]
            raise UnknownName.of("image model", self.model, known) from error
        except OSError as error:
            raise StoreError(
                f"the weights of image model {self.model!r} could not be had "
                f"({first_line(error)}); connect to the model hub once, or "
                "pass weights=FILE with a downloaded checkpoint"
            ) from error
        if packed is not None:
            _load_in_order(network, packed)
        config = timm.data.resolve_model_data_config(network)
        transform = timm.data.create_transform(**config, is_training=False)
        return network.eval().to(self.device), transform

    def _packed(self) -> Path | None:
        """The weights that an installed package carries for this model."""
        if self.weights is not None or not self.pretrained:
            return None
        for name, package in IMAGE_PACKAGES.items():
            if SHORT_NAMES[name] == self.model and (folder := package_folder(package)) is not None:
                return next(folder.glob("models/*.pth"), None)
        return None

    def prepare(self, rows: Any) -> Rows:
        """Check that each row is an image or the path of a file that exists."""
        if isinstance(rows, np.ndarray) and rows.dtype.kind not in "OUT":
            _check_pixels(rows, rows.ndim - 1, f"an array of shape {rows.shape}", rows.shape[1:])
            return rows
        return [_image(row, position) for position, row in enumerate(listed(rows))]

    def encode(self, rows: Any, *, progress: Progress = silent) -> np.ndarray:
        """Run the network over the images; (n_rows, dim)."""
        wanted = self.prepare(rows)
        network, transform = self._network
        import torch

        vectors = np.empty((len(wanted), int(network.num_features)), dtype=np.float32)
        with torch.inference_mode():
            for start in range(0, len(wanted), self.batch_size):
                part = range(start, min(start + self.batch_size, len(wanted)))
                batch = torch.stack([transform(_picture(wanted[row], row)) for row in part])
                pooled = network(batch.to(self.device))
                vectors[part.start : part.stop] = pooled.float().cpu().numpy()
                progress(part.stop, len(wanted))
        return as_vectors(vectors, f"encoder {self.name!r}", len(wanted))

    def __repr__(self) -> str:
        return f"Image({self.model!r})"


def _load_in_order(network: Any, file: Path) -> None:
    """Load weights that go by other names, in the order of the layers; those of no layer are left out."""
    import torch

    given = torch.load(file, map_location="cpu", weights_only=True)
    network.load_state_dict(dict(zip(network.state_dict(), given.values())))


def _image(row: Any, position: int) -> Any:
    if isinstance(row, (str, Path)):
        path = Path(row).expanduser()
        if not path.is_file():
            raise FrameError(
                f"row {position} names the image {str(row)!r}, and there is no such file; "
                "give paths that are absolute or relative to the current folder"
            )
        return path
    if isinstance(row, np.ndarray):
        _check_pixels(row, row.ndim, f"row {position}", row.shape)
        return row
    if hasattr(row, "convert") and hasattr(row, "tobytes"):
        return row
    raise FrameError(
        f"row {position} is a {type(row).__name__}; "
        "expected a path, a PIL image or a uint8 array of pixels"
    )


def _check_pixels(array: np.ndarray, n_axes: int, where: str, shape: tuple[int, ...]) -> None:
    shaped = n_axes == 2 or (n_axes == 3 and shape[-1] == 3)
    if not shaped or array.dtype != np.uint8:
        raise FrameError(
            f"{where} holds {array.dtype} values of shape {shape} per image; "
            "expected uint8 pixels of shape (height, width) or (height, width, 3)"
        )


def _picture(row: Any, position: int) -> Any:
    from PIL import Image as Pillow
    from PIL import UnidentifiedImageError

    if isinstance(row, np.ndarray):
        return Pillow.fromarray(row).convert("RGB")
    if not isinstance(row, Path):
        return row.convert("RGB")
    try:
        with Pillow.open(row) as opened:
            return opened.convert("RGB")
    except (UnidentifiedImageError, OSError) as error:
        raise FrameError(
            f"row {position} names {str(row)!r}, which cannot be read as an image ({error}); "
            "replace or drop that row"
        ) from error
