"""Attacks on everything that is written or read: nothing lost, nothing wrong without a word.

A small part runs by default. `EPOXY_ATTACKS=1 pytest tests/test_attacks.py -m slow -s` makes the counts
in docs/research/robustness.md; a smaller number makes proportionally fewer attacks.
"""

from __future__ import annotations

import os
import sys

import pytest

import epoxy
from attacks import fuzz, models, projects, soak

SHARE = float(os.environ.get("EPOXY_ATTACKS", "0.1"))
pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="forks, signals and pipes"),
    pytest.mark.filterwarnings("ignore"),
]


def assert_no_harm(what, tally):
    sys.stdout.write(f"\n{what} | {tally}\n")
    assert tally.attacks > 0
    assert tally.harm == []


def test_flipped_models_answer_as_before_or_are_refused(tmp_path):
    assert_no_harm("flips of model files", models.flip_models(tmp_path, 24))


def test_models_made_on_purpose_are_refused_or_answer_with_distributions(tmp_path):
    assert_no_harm("hostile model folders", models.hostile_models(tmp_path, 40))


def test_a_bomb_takes_no_memory(tmp_path):
    for name, (folder, _) in models.saved(tmp_path).items():
        if name in ("majority", "fusion"):
            models.odd_files(folder, "bomb")
            before = soak.resident()
            with pytest.raises(epoxy.errors.StoreError, match="parts are larger than the whole"):
                epoxy.load(folder)
            assert soak.resident() - before < 20


def test_odd_arguments_get_a_distribution_or_a_sentence():
    assert_no_harm("fuzz", fuzz.fuzz(180))


@pytest.mark.parametrize("edits", [50, pytest.param(round(SHARE * 10_000), marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "model", [epoxy.Epoxy(radius=0.1), epoxy.Fusion()], ids=["epoxy", "fusion"]
)
def test_an_edited_session_equals_one_told_everything_at_once(model, edits):
    session = epoxy.Session(soak.small(), model=model)
    sys.stdout.write(f"\n{soak.course(session, edits)}\n")

    gap, changed = soak.distance_to_a_fit(session, model)

    assert gap <= (0.0 if isinstance(model, epoxy.Epoxy) else 1e-6)
    assert changed == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attack", "count"),
    [
        (models.flip_models, 220),
        (models.hostile_models, 400),
        (projects.flip_projects, 80),
        (projects.kill_writers, 200),
        (projects.many_editors, 160),
    ],
)
def test_attacks_do_no_harm(attack, count, tmp_path):
    assert_no_harm(attack.__name__, attack(tmp_path, max(10, round(SHARE * count))))


@pytest.mark.slow
def test_a_full_disk_does_no_harm(tmp_path):
    assert_no_harm("full disk", projects.full_disk(tmp_path))


@pytest.mark.slow
def test_a_read_only_folder_does_no_harm(tmp_path):
    try:
        tally = projects.read_only(tmp_path)
    except OSError as error:
        pytest.skip(str(error))
    assert_no_harm("read-only", tally)


@pytest.mark.slow
def test_the_whole_fuzz_does_no_harm():
    assert_no_harm("fuzz", fuzz.fuzz(round(SHARE * 5000), seed=1))


@pytest.mark.slow
@pytest.mark.parametrize(
    "model", [epoxy.Epoxy(radius=0.1), epoxy.Fusion()], ids=["epoxy", "fusion"]
)
def test_thousands_of_edits_take_no_memory_and_do_not_slow_down(model, shared_data):
    train, dev = soak.spouse(shared_data / "spouse")
    edits = round(SHARE * (5000 if isinstance(model, epoxy.Epoxy) else 1500))

    found = soak.course(epoxy.Session(train, dev, model), edits)

    sys.stdout.write(f"\n{found}\n")
    assert found.grown < 100
    assert found.late < 2 * found.early
