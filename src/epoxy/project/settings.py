"""A project folder: everything a person wrote, legible without us.

epoxy.toml    which rows, which columns, which classes, which encoder, which model
lfs.py        the labeling functions
labels/       what `epoxy label` wrote
.epoxy/       what can be made again (votes, vectors, neighbours), and the log of decisions
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ..errors import EpoxyError, ParameterError, StoreError, UnknownName
from ..loans import Neighbours, check_neighbours
from ..neighbors import Settings
from ..storage import read_whole

FILE, MOST_BYTES = "epoxy.toml", 1 << 22
MOST_CLASSES = 32_767  # votes are int16
GIBIBYTE = 2**30
FILES = (".npy", ".parquet")
"""What vectors come in that were made elsewhere."""

MODELS: dict[str, frozenset[str]] = {
    "fusion": frozenset({"scoring", "radius", "balance"}),
    "epoxy": frozenset({"radius", "balance", "label_model", "solve", "length"}),
}
"""The settings each kind of model reads."""
LABEL_MODELS: dict[str, frozenset[str]] = {
    "triplet": frozenset({"solve", "balance"}),
    "majority": frozenset({"balance"}),
    "dawid-skene": frozenset({"balance"}),
    "chain": frozenset({"solve", "length", "balance"}),
}


def _at(place: str, default: Any = None) -> Any:
    """A field that is read from a key of a section."""
    return msgspec.field(name=place, default=default)


class Project(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a project folder, checked; each names its section and key."""

    folder: Path
    rows: Path = msgspec.field(name="rows.file")
    id: str | None = _at("rows.id")
    label: str | None = _at("rows.label")
    dev: Path | None = _at("rows.dev")
    sequence: str | None = _at("rows.sequence")
    position: str | None = _at("rows.position")
    chosen: str | None = _at("rows.chosen")
    by: str | None = _at("rows.by")
    classes: Annotated[tuple[str, ...], Meta(max_length=MOST_CLASSES)] = _at("classes.names", ())
    positive: str | None = _at("classes.positive")
    votes: Path | None = _at("votes.file")
    encoder: str = _at("vectors.encoder", "auto")
    metric: str = _at("vectors.metric", "cosine")
    column: str | None = _at("vectors.column")
    mentions: tuple[str, ...] = _at("vectors.mentions", ())
    dev_vectors: Path | None = _at("vectors.dev")
    vector_ids: Path | None = _at("vectors.ids")
    found: str = _at("vectors.neighbours", "auto")
    recall: Annotated[float, Meta(gt=0, le=1)] | None = _at("vectors.recall")
    model: str = _at("model.kind", "fusion")
    scoring: str | None = _at("model.scoring")
    radius: float | str | dict[str, float | str] | None = _at("model.radius")
    balance: list[float] | dict[str, float] | None = _at("model.balance")
    label_model: str | None = _at("model.label_model")
    solve: str | None = _at("model.solve")
    length: int | None = _at("model.length")
    seconds: Annotated[float, Meta(gt=0, le=1e7)] = _at("limits.seconds", 60.0)
    gibibytes: Annotated[float, Meta(gt=0, le=1e6)] = _at("limits.memory", 4.0)
    labellers: dict[str, Annotated[float, Meta(gt=0, le=1)]] = {}

    @classmethod
    def read(cls, folder: str | Path) -> Project:
        """Read and check `epoxy.toml`."""
        home = Path(folder)
        path = home / FILE
        try:
            text = read_whole(path, MOST_BYTES).decode("utf-8")
        except (FileNotFoundError, NotADirectoryError):
            if home.is_file():
                raise StoreError(
                    f"{home} is a file, and a project is a folder; make one of its rows with: "
                    f"epoxy new {home.with_suffix('')} --rows {home}"
                ) from None
            raise StoreError(
                f"{home} is not a project folder: no {FILE} in it; "
                f"make one with: epoxy new {home} --rows FILE"
            ) from None
        except (UnicodeDecodeError, OSError) as error:
            raise StoreError(f"{path} cannot be read: {error}; correct it there") from error
        return cls.of(home, text)

    @classmethod
    def of(cls, home: Path, text: str) -> Project:
        """The settings that a file `epoxy.toml` with this text would hold, checked."""
        path = home / FILE
        told = _told(text, path)
        if "rows.file" not in told:
            raise StoreError(f'{path} names no rows; add file = "…" under [rows]')
        encoder, names = told.get("vectors.encoder"), told.get("classes.names")
        if isinstance(encoder, str) and encoder.endswith(FILES):
            told["vectors.encoder"] = str(home / encoder)
        if isinstance(names, list):
            told["classes.names"] = [f"{n}" if isinstance(n, int | float) else n for n in names]
        try:
            made = msgspec.convert(
                {"folder": home, **told},
                cls,
                dec_hook=lambda _, it: home / it if isinstance(it, str) else it,
            )
        except msgspec.ValidationError as error:
            what, _, place = str(error).partition(" - at `$.")
            key = next((each for each in told if place.startswith(each)), "labellers")
            section, _, name = key.partition(".")
            raise StoreError(
                f"{path} sets {name or 'a share'} = {told[key]!r:.80} under [{section}]; "
                f"{_plain(what)}"
            ) from None
        made.check()
        return made

    def check(self) -> None:
        """Refuse settings that no model or encoder could use, before anything is computed."""
        from ..encoders import resolve
        from ..neighbors.space import metric_named

        path, names = self.folder / FILE, self.classes
        if self.position is not None and self.sequence is None:
            raise StoreError(
                f"{path} names positions and no sequences they are in; "
                'add sequence = "…" under [rows], or take position out'
            )
        if len(names) < 2 or len(set(names)) < len(names) or not all(map(str.strip, names)):
            raise StoreError(
                f"{path} names {len(names)} classes ({list(names)!s:.200}); "
                "give at least 2, all different and none empty, under [classes]"
            )
        try:
            metric_named(self.metric)
            check_neighbours(self.neighbours)
            if not self.encoder.endswith(FILES) and self.vector_column is None and self.embeds:
                resolve(self.encoder, cache=False)
            self._check_joined()
            if self.positive is not None and self.positive not in self.classes:
                raise UnknownName.of("class", self.positive, self.classes)
            self.make_model()
        except EpoxyError as error:
            raise type(error)(f"{path}: {error}") from None

    def _check_joined(self) -> None:
        """Refuse files that are to be joined by an id that is not there, or in two ways at once."""
        apart = self.votes is not None or self.encoder.endswith(".parquet")
        if self.id is None and (apart or self.vector_ids is not None):
            raise StoreError(
                "votes and vectors in files of their own are joined by id, and [rows] "
                'names no id; add id = "…"'
            )
        if self.vector_ids is None:
            return
        if not self.encoder.endswith(".npy"):
            raise StoreError(
                "ids under [vectors] says whose the vectors of a .npy file are, and encoder is "
                f"{self.encoder!r}; take ids out"
            )
        if self.dev_vectors is not None:
            raise StoreError(
                "ids under [vectors] finds the vectors of the dev file's rows too, and dev names "
                "another file for them; take one of the two out"
            )

    def make_model(self, kind: str | None = None) -> Any:
        """The model that labels the rows; a setting it does not read is an error."""
        chosen = self.model if kind is None else kind
        if chosen not in MODELS:
            raise UnknownName.of("model", chosen, MODELS)
        options = dict(self.options) if kind in (None, self.model) else self._shared(chosen)
        for key in options:
            if key not in MODELS[chosen]:
                raise ParameterError(
                    f"[model] of {self.folder / FILE} sets {key}, which {chosen} does not read; "
                    f"it reads {sorted(MODELS[chosen])}: take {key} out, or choose another kind"
                )
        return self._fusion(options) if chosen == "fusion" else self._epoxy(options)

    def _shared(self, kind: str) -> dict[str, Any]:
        return {key: value for key, value in self.options.items() if key in MODELS[kind]}

    def _fusion(self, options: Mapping[str, Any]) -> Any:
        from ..fusion import Fusion

        default = "accuracy" if self.positive is None else "f1"
        return Fusion(
            scoring=options.get("scoring", default),
            positive=self.positive,
            metric=self.metric,
            radius=options.get("radius", "auto"),
            class_balance=options.get("balance"),
        ).checked(self.classes)

    def _epoxy(self, options: Mapping[str, Any]) -> Any:
        from ..model import Epoxy

        named = options.get("label_model")
        name = named or ("chain" if self.sequence is not None else "triplet")
        if name not in LABEL_MODELS:
            raise UnknownName.of("label model", name, LABEL_MODELS)
        about = {key: options[key] for key in ("solve", "length", "balance") if key in options}
        for key in about:
            if key not in LABEL_MODELS[name]:
                raise ParameterError(
                    f"[model] of {self.folder / FILE} sets {key}, which the label model {name} does "
                    f"not read; it reads {sorted(LABEL_MODELS[name])}: take {key} out"
                )
        made = None
        if named is not None or about or name == "chain":
            made = _label_model(name, about, self.classes)
        return Epoxy(made, options.get("radius"), metric=self.metric)

    @property
    def options(self) -> dict[str, Any]:
        """What is set of the model."""
        keys = {key: getattr(self, key) for key in KEYS["model"] if key != "kind"}
        return {key: value for key, value in keys.items() if value is not None}

    @property
    def neighbours(self) -> Neighbours:
        """How neighbours are found; a recall is read where they are approximate."""
        if self.recall is None:
            return self.found
        if self.found != "approximate":
            raise StoreError(
                "it sets recall under [vectors], which is read only with "
                'neighbours = "approximate"; add that, or take recall out'
            )
        return Settings(recall=self.recall)

    @property
    def memory(self) -> int:
        """Bytes that a function may take."""
        return int(self.gibibytes * GIBIBYTE)

    @property
    def embeds(self) -> bool:
        """Whether rows have vectors at all."""
        return self.encoder not in ("", "none")

    @property
    def naming(self) -> tuple[str | None, ...]:
        """The columns whose cells are names: of rows, classes and sequences."""
        return self.id, self.label, self.sequence

    @property
    def vector_column(self) -> str | None:
        """The column of the rows that holds their vectors, where there is one."""
        kind, _, name = self.encoder.partition(":")
        return name if kind == "column" and name else None

    @property
    def encoded(self) -> str | list[str] | None:
        """What the encoder reads of a row: a column, or for pairs a text and what it mentions."""
        if not self.mentions or self.column is None:
            return self.column
        return [self.column, *self.mentions]

    @property
    def cache(self) -> Path:
        """Where what can be made again is kept."""
        return self.folder / ".epoxy"

    @property
    def labels(self) -> Path:
        """Where labels are written."""
        return self.folder / "labels"


def _label_model(name: str, about: dict[str, Any], classes: tuple[str, ...]) -> Any:
    from ..label_models import DawidSkene, MajorityVote, Triplet
    from ..sequences import Chain
    from ..shares import checked_shares

    given = dict(about)
    balance = given.pop("balance", None)
    shares = None if balance is None else checked_shares(balance, classes, "[model]").tolist()
    kinds: dict[str, Any] = {
        "triplet": Triplet,
        "majority": MajorityVote,
        "dawid-skene": DawidSkene,
        "chain": Chain,
    }
    return kinds[name](class_balance=shares, **given)


def _plain(what: str) -> str:
    """What msgspec expects, in words a person knows."""
    words = {"str": "a text", "Path": "a text", "array": "a list", "object": "a table"}
    words |= {"int": "a whole number", "float": "a number", "bool": "true or false"}

    def said(found: re.Match[str]) -> str:
        kinds = [each for each in found[1].split(" | ") if each != "null"]
        return " or ".join(words.get(each, each) for each in kinds)

    return re.sub(r"`([^`]*)`", said, f"{what[0].lower()}{what[1:]}")


def _told(text: str, path: Path) -> dict[str, Any]:
    """What a file sets, by section and key, all of which are known; labellers are called as they are."""
    try:
        raw = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: a number of too many digits
        why = str(error).split(";")[0]
        raise StoreError(f"{path} cannot be read: {why}; correct it there") from error
    found: dict[str, Any] = {"labellers": raw.get("labellers", {})}
    for section, values in raw.items():
        if section not in KEYS:
            raise UnknownName.of(f"section in {path}", section, KEYS)
        if not isinstance(values, dict):
            raise StoreError(
                f"{path} sets {section} = {values!r:.80}; write a section: [{section}]"
            )
        for key, value in values.items() if section != "labellers" else ():
            if key not in KEYS[section]:
                raise UnknownName.of(f"key in [{section}] of {path}", key, KEYS[section])
            found[f"{section}.{key}"] = value
    return found


KEYS: dict[str, list[str]] = {}
"""The keys of each section."""
for _field in msgspec.structs.fields(Project)[1:]:
    _section, _, _key = _field.encode_name.partition(".")
    KEYS.setdefault(_section, []).extend([_key] if _key else [])
