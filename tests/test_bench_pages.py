"""Tables and pages are functions of the result alone."""

from __future__ import annotations

import pytest

from epoxy import bench
from epoxy.bench import tables


def entry(data, method, mean, *, seconds=0.01, sd=0.0, seeds=1, margin=None, dev_rows=None):
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
    }


@pytest.fixture
def results():
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
        "format": 2,
        "created": "2026-11-15T00:00:00+00:00",
        "commit": "abc",
        "settings": {"seeds": 5, "quick": False, "class_balance": None, "dev_rows": [None]},
        "machine": {"processor": "a|b", "cores": 2, "system": "Linux"},
        "versions": {"python": "3.11"},
        "data": [{"data": name, **data} for name in ("spam", "other")],
        "results": [
            entry("spam", "Epoxy", 89.6),
            entry("spam", "Epoxy-fixed-r", 88.0),
            entry("spam", "WS-LM", 83.6),
            entry("spam", "DP-LM", 90.0, seconds=50.0, sd=4.1, seeds=5),
            entry("other", "Epoxy", 70.0),
            entry("other", "WS-LM", 72.0),
        ],
        "skipped": [{"data": "other", "method": "TS-NFT", "reason": "no | dev"}],
        "notes": [],
    }


def table(results, title):
    return next(each for each in tables(results) if each.title == title)


def row_of(results, title, index=0):
    return table(results, title).cells.iloc[index]


def best(results):
    return list(table(results, "Scores").best.values())


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
    [(0.5, 3.5, "Fusion"), (-0.5, 4.5, None)],
    ids=["significant", "a lead by chance"],
)
def test_first_is_stressed_only_where_the_lead_is_significant(results, low, high, first):
    results["results"] = compared(("WS-LM", 80.0, 5.0, 2.0, 8.0), ("MV-LM", 83.0, 2.0, low, high))

    assert best(results) == [first]
    assert row_of(results, "Is Fusion first?")["all labels"] == (
        f"+2.0 [{low:+.1f}, {high:+.1f}] MV-LM: {'first' if first else 'level'}"
    )


def test_where_another_column_leads_significantly_it_is_first_and_ours_behind(results):
    results["results"] = compared(("WS-LM", 80.0, -3.0, -5.0, -1.0), ("MV-LM", 60.0, 17, 10, 20))

    assert best(results) == ["WS-LM"]
    assert row_of(results, "Is Fusion first?")["all labels"].endswith("WS-LM: behind")


def test_what_was_not_compared_may_not_be_beaten_unseen(results):
    results["results"] = [*compared(("WS-LM", 80.0, 5.0, 2.0, 8.0)), entry("spam", "TS-FT", 90.0)]

    assert row_of(results, "Scores")["TS-FT"] == "90.0"
    assert best(results) == [None]


def test_amounts_of_labels_have_a_table_each(results, tmp_path):
    results["results"] = [
        each
        for dev_rows, mean in ((0, 70.0), (20, 80.0), (None, 85.0))
        for each in compared(
            ("LR-xv", mean, 5.0, 2.0, 8.0), ("MV-LM", 60, 1, 0, 2), dev_rows=dev_rows
        )
    ]

    page = bench.write_page(results, tmp_path).read_text("utf-8")

    titles = [each.title for each in tables(results) if each.title.startswith("Scores")]
    assert titles == ["Scores", "Scores with 0 labels", "Scores with 20 labels"]
    assert all(f"## {title}" in page for title in titles)


def test_names_of_data_and_notes_never_become_tags(results):
    for each in (*results["results"], *results["data"]):
        each["data"] = each["data"].replace("spam", "<script>alert(1)</script>\n| x |")
    results["notes"] = ["<img src=x onerror=alert(1)>"]

    page = bench.markdown(results)
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;" in page


def test_the_terminal_shows_scores_one_method_per_line_a_few_sets_at_a_time(results):
    results["data"] = [results["data"][0] | {"data": f"set{index}"} for index in range(7)]
    results["results"] = [entry(f"set{index}", "WS-LM", 80.0) for index in range(7)]

    lines = bench.text(results).splitlines()

    assert lines[0] == "Scores"
    assert max(map(len, lines)) < 120
    assert sum(line.startswith("WS-LM") for line in lines) == 2
