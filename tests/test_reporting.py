from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import epoxy
from epoxy.datasets import SyntheticSource, synthetic
from epoxy.diagnostics import Column, Finding, Report, Table, part_table, reliability_table
from epoxy.diagnostics.doctor import diagnose, diagnose_case
from epoxy.engines import Details, held_out_reliability, report_of
from epoxy.engines.reporting import case_of
from epoxy.session import Session

HEALTHY = [SyntheticSource(0.85, 0.4)] * 6


@pytest.fixture(scope="module")
def data():
    return synthetic(800, sources=[*HEALTHY, SyntheticSource(0.2, 0.5)], seed=1)


@pytest.fixture(scope="module")
def session(data):
    return Session(data.train, data.dev, epoxy.Epoxy(radius=0.02))


class Shares:
    """A model of somebody else's making: shares of the votes, whatever is labelled."""

    def fit(self, train, dev=None):
        self.majority = epoxy.MajorityVote().fit(train.votes)
        return self

    def predict_proba(self, split):
        return self.majority.predict_proba(split.votes)


def saying(outcome, labels, proba=None):
    """The outcome of another model, which says these labels of the labelled rows."""
    held = np.eye(len(outcome.workspace.classes))[labels] if proba is None else proba
    return replace(outcome, held_out=held, held_out_labels=np.asarray(labels))


def kinds(report):
    return {each.kind for each in report.findings if isinstance(each, Finding)}


# scores


def test_the_report_of_a_session_shows_the_scores_of_the_session(session):
    report = session.report()

    assert report.summary["scores"] == dict(session.scores)
    assert report.summary["basis"] == session.scores.basis == "unknown"
    assert report.summary["why"] == session.scores.why
    low, high = report.summary["accuracy interval"].values()
    assert low < session.scores["accuracy"] < high


def test_scores_are_those_of_models_that_did_not_learn_from_the_row(data):
    dev = data.dev.rows(slice(0, 12))
    session = Session(data.train, dev, epoxy.Epoxy(radius=0.02))

    left_out = [np.arange(12) != row for row in range(12)]
    held = [
        epoxy.Epoxy(radius=0.02).fit(data.train, dev.rows(rest)).predict_proba(dev.rows(~rest))[0]
        for rest in left_out
    ]

    loss = -np.log(np.asarray(held)[np.arange(12), dev.y]).mean()
    assert session.report().summary["scores"]["log_loss"] == pytest.approx(loss)


def test_hand_labels_are_counted_by_how_they_were_chosen(data):
    session = Session(data.train, model=epoxy.Epoxy(radius=0.02))
    for row, chosen in enumerate(["random", "random", "uncertain", None]):
        session.label(row, "class_0", chosen=chosen)

    found = session.report("train").summary["hand labels"]

    assert found == {"labelled": 4, "random": 2, "chosen": 1, "unknown": 1}


def test_without_a_row_drawn_at_random_the_report_says_why_there_are_no_scores(data):
    session = Session(data.train, model=epoxy.Epoxy(radius=0.02))
    session.label(0, "class_0", chosen="uncertain")

    summary = session.report("train").summary

    assert "scores" not in summary
    assert summary["basis"] == "none"
    assert "every labelled row was chosen" in summary["why"]


def test_a_report_on_rows_nobody_votes_on_has_no_holes(data):
    silent = data.dev.with_votes(
        data.dev.votes.with_matrix(np.full_like(data.dev.votes.matrix, -1))
    )

    report = Session(data.train, silent, epoxy.Epoxy(radius={})).report()

    assert report.summary["covered after"] == 0
    assert "majority vote" in report.summary


# any model


def test_a_model_of_another_kind_is_reported_and_examined_too(data):
    session = Session(data.train, data.dev, Shares())

    report = session.report()

    assert report.title == report.summary["model"] == "Shares"
    assert report.summary["scores"] == dict(session.scores)
    assert report.summary["scores"]["accuracy"] == report.summary["majority vote"]["accuracy"]
    assert [row["source"] for row in report.rows] == list(data.train.votes.sources)
    assert {row["accuracy_learned"] for row in report.rows} == {None}
    assert [each.sources for each in report.findings if each.sources] == [("source_6",)]
    assert "class balance" not in report.summary


def test_a_model_is_not_judged_by_rows_it_learned_from(session, data):
    nothing = np.full((data.dev.n_rows, 2), np.nan)
    unseen = saying(session.outcome, 1 - data.dev.y, nothing)

    report = report_of(unseen, 1, None, Details("Fake"))

    assert kinds(report) == {"worse-than-random"}
    assert held_out_reliability(unseen) == ()


def test_a_model_is_not_judged_by_rows_that_were_chosen(session, data):
    case = case_of(saying(session.outcome, 1 - data.dev.y), 1, None, Details("Fake"))
    chosen = epoxy.Split(
        data.dev.votes, data.dev.vectors, data.dev.y, chosen=["uncertain"] * data.dev.n_rows
    )

    found = {each.kind for each in diagnose_case(replace(case, split=chosen))}

    assert found == {"worse-than-random"}


def test_a_class_balance_is_not_doubted_by_rows_that_were_chosen(data):
    model = epoxy.Epoxy(epoxy.Triplet([0.9, 0.1]), radius=0.02).fit(data.train)
    chosen = epoxy.Split(
        data.dev.votes, data.dev.vectors, data.dev.y, chosen=["uncertain"] * data.dev.n_rows
    )

    doubted = {each.text.split(",")[0] for each in diagnose(model, data.dev)}
    kept = " ".join(map(str, diagnose(model, chosen)))

    assert any(text.startswith("The class balance in use says") for text in doubted)
    assert "the true labels say" not in kept


def test_the_cure_for_a_wrong_balance_names_the_model_that_has_it(data):
    uneven = [0.97, 0.03]
    fused = epoxy.Session(data.train, data.dev, epoxy.Fusion(class_balance=uneven))
    pipeline = epoxy.Session(data.train, data.dev, epoxy.Epoxy(epoxy.Triplet(uneven), radius=0.02))

    cures = [
        each.cure
        for session in (fused, pipeline)
        for each in session.report().findings
        if getattr(each, "kind", "") == "class-balance"
    ]

    assert len(cures) == 2
    assert cures[0].startswith("Tell Fusion the shares if you know them: class_balance=…")
    assert cures[1] == "Give the label model class_balance=dev, or the shares you know."


def test_a_balance_the_engine_knows_is_shown_and_compared_with_the_labels(session):
    report = report_of(session.outcome, 1, None, Details("Fake", balance=np.array([0.95, 0.05])))

    assert report.summary["class balance"] == {"class_0": 0.95, "class_1": 0.05}
    assert "class-balance" in kinds(report)


# radii


def test_radii_are_numbers_where_they_are_known_and_words_where_the_model_decides(data):
    paper = Session(data.train, data.dev, epoxy.Epoxy())
    paper.set_radius("source_1", 0.05)
    paper.set_radius("source_2", None)
    other = Session(data.train, data.dev, Shares())
    bare = Session(epoxy.Split(data.train.votes), epoxy.Split(data.dev.votes), Shares())

    numbers = [row["radius"] for row in paper.report().rows]

    assert numbers[0] == pytest.approx(paper.outcome.radii[0])
    assert numbers[1:3] == [0.05, None]
    assert {row["radius"] for row in other.report().rows} == {"auto"}
    assert {row["radius"] for row in bare.report().rows} == {None}
    assert "auto" in str(other.report())
    graded = Session(data.train, data.dev)  # Fusion grades loans by distance
    graded.set_radius("source_1", 0.05)
    assert [row["radius"] for row in graded.report().rows][:3] == ["auto", 0.05, "auto"]


# tables


def test_tables_beside_the_sources_are_printed_rendered_and_turned_into_a_dict():
    inner = Table(
        "Parts <i>", (Column("a", "part <b>"), Column("n", "size", "number")), ({"a": "<u>"},)
    )
    report = Report("R", {"k": "<s>"}, findings=("look <here>",), tables=(inner,))

    text, page, plain = str(report), report._repr_html_(), report.to_dict()

    assert [line.split() for line in text.splitlines()[-3:]] == [
        ["Parts", "<i>"],
        ["part", "<b>", "size"],
        ["<u>", "–"],
    ]
    for raw in ("<i>", "<b>", "<u>", "<s>", "<here>"):
        assert raw not in page
        assert raw.replace("<", "&lt;").replace(">", "&gt;") in page
    assert plain["tables"] == [{"title": "Parts <i>", "rows": [{"a": "<u>"}]}]
    assert plain["sources"] == []
    assert plain["findings"] == [{"text": "look <here>"}]
    json.dumps(plain)


def test_a_part_is_shown_with_its_weight_where_it_speaks_and_what_it_gets_right_alone():
    evidence = np.zeros((2, 4, 2))
    evidence[0, :2] = [[1.0, -1.0], [-2.0, 2.0]]
    y = np.array([0, 0, 1, -1])

    said = dict(zip(("votes", "<none>"), (0.5 * evidence[0], evidence[1])))
    table = part_table({"votes": 0.5, "<none>": 1.0}, said, prior=np.array([0.5, 0.5]), y=y)

    votes, silent = table.rows
    assert (votes["part"], votes["weight"], votes["speaks"]) == ("votes", 0.5, 0.5)
    assert votes["loudness"] == pytest.approx(0.5 * (2 + 4) / 2)
    assert (votes["right"]["value"], votes["right"]["n"]) == (0.5, 2)
    assert (silent["loudness"], silent["speaks"], silent["right"]) == (0.0, 0.0, None)
    assert "&lt;none&gt;" in table._repr_html_()


def test_reliability_counts_rows_by_how_sure_they_are():
    proba = np.array([[0.95, 0.05], [0.05, 0.95], [0.6, 0.4], [1.0, 0.0]])

    low, high = reliability_table(proba, np.array([0, 0, 0, 0])).rows

    assert (low["sure"], low["right"]["value"], low["right"]["n"]) == (0.6, 1.0, 1)
    assert high["sure"] == pytest.approx(2.9 / 3)
    assert (high["right"]["value"], high["right"]["n"]) == (pytest.approx(2 / 3), 3)


def test_the_reliability_of_a_session_is_that_of_rows_held_out(session):
    (table,) = held_out_reliability(session.outcome)

    assert sum(row["right"]["n"] for row in table.rows) == session.scores["rows"]
