"""Tables and pages are functions of the result alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from epoxy import bench
from epoxy.bench.tabulate import tables

ROOT = Path(__file__).parents[1]
COMMITTED = ROOT / "benchmarks" / "results" / "bench.json"


def run(score, *, facts=None, dev_score=80.0):
    return {"seed": 0, "scores": {"score": score}, "facts": facts or {}, "dev_score": dev_score}


def entry(data, method, mean, *, seconds=0.01, sd=0.0, seeds=1, **more):
    return {
        "data": data,
        "method": method,
        "metric": "accuracy",
        "mean": mean,
        "sd": sd,
        "seeds": seeds,
        "seconds": seconds,
        "tuning_seconds": 0.5,
        "preprocessing_seconds": 0.25,
        "accuracy": mean,
        "precision": mean + 1,
        "recall": mean - 1,
        "f1": mean,
        "runs": [run(mean, **more)],
    }


@pytest.fixture
def results():
    sweep = [
        {"radius": 0.0, "coverage": 0.16, "dev_score": 80.0},
        {"radius": 0.2, "coverage": 0.3, "dev_score": 86.0},
        {"radius": 0.4, "coverage": 0.9, "dev_score": 70.0},
    ]
    about = {"coverage_before": 0.162, "coverage_after": 0.229}
    drift = {"drift": {"similarity": 0.735, "pre_pool": 0.313, "smallest": 0.1}}
    data = {
        "metric": "accuracy",
        "classes": ["ham", "spam"],
        "sources": 10,
        "train": 1586,
        "dev": 120,
        "test": 250,
        "dimension": 384,
        "covered": 0.87,
        "coverage": 0.162,
        "source_accuracy": 82.8,
    }
    return {
        "format": 1,
        "created": "2026-11-15T00:00:00+00:00",
        "commit": "abc",
        "settings": {
            "seeds": 5,
            "quick": False,
            "class_balance": None,
            "dev_rows": None,
            "network": None,
        },
        "machine": {"processor": "a|b", "cores": 2, "memory_gb": 23.0, "system": "Linux"},
        "versions": {"python": "3.11"},
        "data": [{"data": name, **data} for name in ("spam", "other")],
        "results": [
            entry("spam", "Epoxy", 89.6, facts=about),
            entry("spam", "Epoxy-fixed-r", 88.0, facts={"sweep": sweep}),
            entry("spam", "WS-LM", 83.6),
            entry("spam", "TS-NFT", 78.5),
            entry("spam", "WS-NFT", 87.2),
            entry("spam", "WS-FT", 90.0, seconds=50.0, sd=4.1, seeds=5, facts=drift),
            entry("other", "Epoxy", 70.0, facts=about),
            entry("other", "WS-LM", 72.0),
        ],
        "skipped": [{"data": "other", "method": "TS-NFT", "reason": "no | dev"}],
    }


def table(results, title):
    return next(each for each in tables(results) if each.title == title)


def test_scores_show_the_spread_of_random_columns_and_stress_the_best(results):
    scores = table(results, "Scores")

    row = dict(zip(scores.header, scores.rows[0]))
    assert row["data"] == "spam (accuracy)"
    assert (row["Epoxy"], row["WS-FT"]) == ("89.6", "90.0 ± 4.1")
    assert [scores.header[each] for each in scores.best[0]] == ["WS-FT"]
    assert dict(zip(scores.header, scores.rows[1]))["WS-FT"] == "–"


def test_lifts_are_differences_of_the_shown_methods(results):
    explained = table(results, "Lifts, and what explains them")

    row = dict(zip(explained.header, explained.rows[0]))
    assert {key: row[key] for key in list(row)[1:]} == {
        "coverage WS-LM": "16.2",
        "coverage Epoxy": "22.9",
        "1 − d(PT, DN)": "0.735",
        "Epoxy vs WS-LM": "+6.0",
        "source accuracy": "82.8",
        "accuracy vs TS-NFT": "+4.3",
        "accuracy vs WS-NFT": "-4.4",
        "Epoxy vs TS-NFT": "+11.1",
        "Epoxy vs WS-NFT": "+2.4",
        "N_train / N_dev": "13.2",
        "Epoxy vs TS-FT": "–",
        "Epoxy vs WS-FT": "-0.4",
    }


def test_the_time_table_has_the_ratio_to_fine_tuning(results):
    times = table(results, "Training seconds")

    assert times.rows[0][-1] == "5,000 ×"
    assert times.rows[1][-1] == "–"


def test_every_table_of_the_paper_is_there(results):
    assert [each.title for each in tables(results)] == [
        "Scores",
        "Training seconds",
        "Lifts, and what explains them",
        "Precision, recall, F1",
        "What fine-tuning changes",
        "One radius or one per source",
        "One radius for all sources",
        "One-time preprocessing",
        "Data",
        "Not run",
    ]


def test_the_mean_row_counts_only_sets_with_every_light_column(results):
    results["results"] = [
        entry(data, method, score)
        for data, scores in (("spam", (80, 90)), ("other", (60, 80)))
        for method, score in zip(("WS-LM", "MV-LM"), scores)
    ]

    assert table(results, "Scores").rows[-1] == ("mean of 2", "70.0", "85.0")


def test_the_sweep_shows_the_best_shared_radius_on_dev(results):
    sweep = table(results, "One radius for all sources")

    assert sweep.rows == (("spam", "0.200", "86.0", "30.0"),)


def test_the_page_is_written_from_the_result_alone(results, tmp_path):
    results = json.loads(json.dumps(results))

    (path,) = bench.write_pages(results, tmp_path)

    page = path.read_text("utf-8")
    assert path == tmp_path / "benchmarks.md"
    assert "| **90.0 ± 4.1** |" in page
    assert "no \\| dev" in page


def test_sentences_are_set_as_words_and_numbers_as_numbers(results):
    page = bench.markdown(results)

    assert "| data | method | why |\n| --- | --- | --- |" in page
    assert "| data | Epoxy-fixed-r | Epoxy | lift |\n| --- | ---: | ---: | ---: |" in page


def test_a_quick_run_says_what_was_cut(results):
    assert "Run (5 seeds; class balance" in bench.markdown(results)

    results["settings"]["quick"] = True
    assert "Run (quick: one seed, fine-tuning cut to one epoch and 300 rows; class" in (
        bench.markdown(results)
    )


@pytest.mark.parametrize(
    ("asked", "named"),
    [(None, "all-MiniLM-L6-v2, images efficientnet-lite0"), ("bert-base-uncased",) * 2],
)
def test_the_fine_tuned_network_is_named(results, asked, named):
    results["settings"]["network"] = asked

    assert table(results, "What fine-tuning changes").note.endswith(f"Network: {named}.")


def test_the_page_holds_every_table(results):
    page = bench.markdown(results)

    titles = [line[3:] for line in page.splitlines() if line.startswith("## ")]
    assert titles == [each.title for each in tables(results)]


def test_names_of_data_and_notes_never_become_tags(results):
    for each in (*results["results"], *results["data"]):
        each["data"] = each["data"].replace("spam", "<script>alert(1)</script>\n| x |")
    results["notes"] = ["<img src=x onerror=alert(1)>"]

    page = bench.markdown(results)
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;" in page


def test_the_terminal_shows_one_method_per_line(results):
    lines = bench.text(results).splitlines()

    assert lines[0] == "Scores"
    assert lines[2].split() == ["Epoxy", "89.6", "70.0"]


def test_the_terminal_shows_nothing_but_scores_and_times(results):
    results["results"] = results["results"][2:3]

    titles = [line for line in bench.text(results).splitlines() if line and line[0].isupper()]

    assert [line for line in titles if "  " not in line] == ["Scores", "Training seconds"]


def test_many_data_sets_are_shown_a_few_at_a_time(results):
    results["data"] = [results["data"][0] | {"data": f"set{index}"} for index in range(7)]
    results["results"] = [entry(f"set{index}", "WS-LM", 80.0) for index in range(7)]

    lines = bench.text(results).splitlines()

    assert max(map(len, lines)) < 120
    assert sum(line.startswith("WS-LM") for line in lines) == 4


@pytest.mark.skipif(not COMMITTED.is_file(), reason="no committed benchmark results yet")
def test_the_page_in_the_docs_is_made_from_the_committed_results():
    page = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")

    assert page == bench.markdown(bench.read(COMMITTED)), (
        "docs/benchmarks.md is stale; make it again with epoxy.bench.write_pages"
    )
