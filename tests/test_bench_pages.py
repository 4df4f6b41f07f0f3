"""Tables and pages are functions of the result alone."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from epoxy import bench
from epoxy.bench.tabulate import tables

ROOT = Path(__file__).parents[1]
COMMITTED = ROOT / "benchmarks" / "results" / "bench.json"


def run(score, *, facts=None):
    return {"seed": 0, "scores": {"score": score}, "facts": facts or {}}


def entry(data, method, mean, *, seconds=0.01, sd=0.0, seeds=1, margin=None, dev_rows=None, **more):
    return {
        "data": data,
        "method": method,
        "dev_rows": dev_rows,
        "margin": margin,
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
            "dev_rows": [None],
            "network": None,
        },
        "machine": {"processor": "a|b", "cores": 2, "memory_gb": 23.0, "system": "Linux"},
        "versions": {"python": "3.11"},
        "data": [{"data": name, **data} for name in ("spam", "other")],
        "results": [
            entry("spam", "Epoxy", 89.6, facts=about),
            entry("spam", "Epoxy-fixed-r", 88.0),
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


def row_of(results, title, index=0):
    found = table(results, title)
    return dict(zip(found.header, found.rows[index]))


def compared(*columns, data="spam", dev_rows=None):
    """Entries of Fusion and of columns (name, mean, margin, low, high)."""
    ours = columns[0][1] + columns[0][2]
    return [
        entry(data, "Fusion", ours, dev_rows=dev_rows),
        *(
            entry(data, name, mean, margin=[margin, low, high, (high - low) / 4], dev_rows=dev_rows)
            for name, mean, margin, low, high in columns
        ),
    ]


def test_scores_show_the_spread_of_random_columns(results):
    assert row_of(results, "Scores")["data"] == "spam (accuracy)"
    assert row_of(results, "Scores")["Epoxy"] == "89.6"
    assert row_of(results, "Scores")["WS-FT"] == "90.0 ± 4.1"
    assert row_of(results, "Scores", 1)["WS-FT"] == "–"


def test_a_column_significantly_below_or_above_ours_is_marked(results):
    results["results"] = compared(
        ("WS-LM", 80.0, 5.0, 2.0, 8.0),
        ("MV-LM", 84.0, 1.0, -1.0, 3.0),
        ("TS-NFT", 89.0, -4.0, -6.0, -2.0),
    )

    row = row_of(results, "Scores")
    assert (row["WS-LM"], row["MV-LM"], row["TS-NFT"]) == ("80.0 ▼", "84.0", "89.0 ▲")


@pytest.mark.parametrize(
    ("low", "high", "first"),
    [(0.5, 3.5, {"Fusion"}), (-0.5, 4.5, set())],
    ids=["significant", "a lead by chance"],
)
def test_first_is_stressed_only_where_the_lead_is_significant(results, low, high, first):
    results["results"] = compared(("WS-LM", 80.0, 5.0, 2.0, 8.0), ("MV-LM", 83.0, 2.0, low, high))

    scores = table(results, "Scores")
    assert {scores.header[at] for at in scores.best[0]} == first
    assert row_of(results, "Is Fusion first?")["all labels"] == (
        f"+2.0 [{low:+.1f}, {high:+.1f}] MV-LM: {'first' if first else 'level'}"
    )


def test_where_another_column_leads_significantly_it_is_first_and_ours_behind(results):
    results["results"] = compared(("WS-LM", 80.0, -3.0, -5.0, -1.0), ("MV-LM", 60.0, 17, 10, 20))

    scores = table(results, "Scores")
    assert {scores.header[at] for at in scores.best[0]} == {"WS-LM"}
    assert row_of(results, "Is Fusion first?")["all labels"].endswith("WS-LM: behind")


def test_what_was_not_compared_is_marked_and_may_not_be_beaten_unseen(results):
    carried = entry("spam", "TS-FT", 90.0) | {"as_of": {"commit": "old", "created": "2026-01-02"}}
    results["results"] = [*compared(("WS-LM", 80.0, 5.0, 2.0, 8.0)), carried]

    scores = table(results, "Scores")
    assert dict(zip(scores.header, scores.rows[0]))["TS-FT"] == "90.0 †"
    assert scores.best[0] == frozenset()
    assert "† measured at commit `old`, 2026-01-02." in bench.markdown(results)


def test_the_mean_margin_over_a_column_counts_the_sets_ahead_and_behind(results):
    results["results"] = [
        *compared(("WS-LM", 80.0, 6.0, 4.0, 8.0)),
        *compared(("WS-LM", 70.0, -2.0, -4.0, -1.0), data="other"),
    ]

    # standard errors 1 and 0.75: 1.96·√(1 + 0.5625)/2 = 1.2
    assert row_of(results, "Fusion against each column")["all labels"] == "+2.0 ± 1.2 (1 / 1 / 2)"
    assert table(results, "Is Fusion first?").rows[-1] == ("mean margin", "+2.0")


def test_the_ceiling_is_no_baseline(results):
    results["results"] = [
        *compared(("WS-LM", 80.0, 5.0, 2.0, 8.0)),
        entry("spam", "Ceiling", 90.0, margin=[-5.0, -6.0, -4.0, 0.5]),
    ]

    scores = table(results, "Scores")
    assert {scores.header[at] for at in scores.best[0]} == {"Fusion"}
    assert row_of(results, "Is Fusion first?")["all labels"].endswith("WS-LM: first")
    assert row_of(results, "How much is left")["share of the way"] == "50.0"


def test_amounts_of_labels_have_a_table_each_and_a_figure(results, tmp_path):
    results["results"] = [
        each
        for dev_rows, mean in ((0, 70.0), (20, 80.0), (None, 85.0))
        for each in compared(
            ("LR-xv", mean, 5.0, 2.0, 8.0), ("MV-LM", 60, 1, 0, 2), dev_rows=dev_rows
        )
    ]

    paths = bench.write_pages(results, tmp_path)

    titles = [each.title for each in tables(results) if each.title.startswith("Scores")]
    assert titles == ["Scores", "Scores with 0 labels", "Scores with 20 labels"]
    assert [path.name for path in paths] == ["benchmarks.md", "benchmarks.svg"]
    assert "(benchmarks.svg)" in paths[0].read_text("utf-8")
    assert "They are by the clock, and grow with whatever else the machine does." in (
        paths[0].read_text("utf-8")
    )
    figure = ElementTree.parse(paths[1]).getroot()
    lines = figure.findall(".//{*}path[@stroke-dasharray]")
    assert len({line.get("stroke-dasharray") for line in lines}) == 6
    assert {each.text for each in figure.iter("{http://www.w3.org/2000/svg}text")} >= {
        *("spam", "0", "20", "all", "Fusion", "LR-xv")
    }


def test_with_one_amount_of_labels_there_is_no_figure(results, tmp_path):
    (path,) = bench.write_pages(results, tmp_path)

    assert path.name == "benchmarks.md"
    assert "svg" not in path.read_text("utf-8")


def test_the_papers_figures_stand_beside_ours(results):
    drift = [{"drift": {"similarity": each, "pre_pool": 0.5}} for each in (0.2, 0.4, 0.9)]
    results["data"] = [results["data"][0] | {"data": name} for name in ("spam", "other", "third")]
    results["results"] = [
        each
        for name, lift, facts in zip(("spam", "other", "third"), (1.0, 2.0, 4.5), drift)
        for each in (
            entry(name, "Epoxy", 80 + lift),
            entry(name, "WS-LM", 80.0),
            entry(name, "WS-FT", 85.0, facts=facts),
        )
    ]

    found = table(results, "Beside the paper")
    rows = {row[0]: dict(zip(found.header, row)) for row in found.rows}
    assert (rows["spam, paper"]["Epoxy"], rows["spam, ours"]["Epoxy"]) == ("89.6", "81.0")
    assert rows["Epoxy's mean lift, paper"]["WS-LM"] == "+4.1"
    assert rows["Epoxy's mean lift, ours"]["WS-LM"] == "+2.5"
    assert rows["training seconds, paper"]["WS-FT"] == "5,354"
    assert "0.692 in the paper (9 points), 1.000 here (3 points)" in found.note


def test_what_is_known_of_a_data_set_is_said_of_that_one_alone(results):
    imdb = {"data": "imdb", "train": 2500, "dev": 500, "test": 2000}
    results["data"][1] |= imdb
    assert "share films with each other and not with train" in bench.markdown(results)

    results["data"][1]["train"] = 20000
    assert "share films" not in bench.markdown(results)


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


def test_every_table_of_the_paper_is_there(results):
    assert [each.title for each in tables(results)] == [
        "Scores",
        "Beside the paper",
        "Lifts, and what explains them",
        "Precision, recall, F1",
        "What fine-tuning changes",
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

    assert table(results, "Scores").rows[-2:] == (
        ("mean of 2", "70.0", "85.0"),
        ("training seconds, mean", "0.010", "0.010"),
    )


def test_the_page_is_written_from_the_result_alone(results, tmp_path):
    results = json.loads(json.dumps(results))

    (path,) = bench.write_pages(results, tmp_path)

    page = path.read_text("utf-8")
    assert path == tmp_path / "benchmarks.md"
    assert "| 90.0 ± 4.1 |" in page
    assert "no \\| dev" in page


def test_sentences_are_set_as_words_and_numbers_as_numbers(results):
    page = bench.markdown(results)

    assert "| data | method | why |\n| --- | --- | --- |" in page
    assert (
        "| data | train | dev | test | sources | classes | covered | metric |\n| --- | ---:" in page
    )


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


def test_the_terminal_shows_nothing_but_scores(results):
    results["results"] = results["results"][2:3]

    titles = [line for line in bench.text(results).splitlines() if line and line[0].isupper()]

    assert [line for line in titles if "  " not in line] == ["Scores"]


def test_many_data_sets_are_shown_a_few_at_a_time(results):
    results["data"] = [results["data"][0] | {"data": f"set{index}"} for index in range(7)]
    results["results"] = [entry(f"set{index}", "WS-LM", 80.0) for index in range(7)]

    lines = bench.text(results).splitlines()

    assert max(map(len, lines)) < 120
    assert sum(line.startswith("WS-LM") for line in lines) == 2


@pytest.mark.skipif(not COMMITTED.is_file(), reason="no committed benchmark results yet")
def test_the_page_in_the_docs_is_made_from_the_committed_results(tmp_path):
    for made in bench.write_pages(bench.read(COMMITTED), tmp_path):
        assert (ROOT / "docs" / made.name).read_text("utf-8") == made.read_text("utf-8"), (
            f"docs/{made.name} is stale; make it again with epoxy bench --render"
        )
