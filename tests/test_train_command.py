"""`epoxy train` as a person runs it: train, save, label new rows now and later."""

from __future__ import annotations

import json

import numpy as np
import pytest
from pyarrow import parquet

import epoxy
from epoxy.cli import main
from epoxy.heads import finetuned
from test_cli import fails, write_project, write_rows


@pytest.fixture
def project(voted, tmp_path):
    return voted(write_project, tmp_path)


@pytest.fixture
def new(tmp_path):
    path = tmp_path / "new.csv"
    path.write_text("id,text\na,free money on my channel\nb,the lyrics move me to tears\n")
    return path


def labels(path):
    return parquet.read_table(path).column("label").to_pylist()


@pytest.mark.parametrize("kind", ["linear", "knn"])
def test_a_saved_model_labels_new_rows_without_training_again(kind, project, new, tmp_path):
    out = [tmp_path / f"{name}.parquet" for name in ("now", "later")]
    predict = ["--predict", str(new), "--to"]
    assert main(["train", str(project), "--model", kind, *predict, str(out[0])]) == 0
    before = (project / "model" / "model.npz").read_bytes()

    assert main(["train", str(project), "--saved", *predict, str(out[1])]) == 0

    assert labels(out[0]) == ["spam", "ham"]
    assert parquet.read_table(out[0]).equals(parquet.read_table(out[1]))
    assert (project / "model" / "model.npz").read_bytes() == before


def test_a_saved_model_is_refused_where_the_vectors_have_changed(project, new, capsys, tmp_path):
    predict = ["--predict", str(new), "--to", str(tmp_path / "out.csv")]
    main(["train", str(project)])
    rows = write_rows(tmp_path / "rows.csv", copies=14)
    assert rows.is_file()

    assert "vectors of another encoder or of other rows; train it again" in fails(
        capsys, "train", str(project), "--saved", *predict
    )


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_labels_are_written_as_the_ending_says(ending, project, new, tmp_path):
    out = tmp_path / f"out.{ending}"

    main(["train", str(project), "--predict", str(new), "--to", str(out)])

    if ending == "parquet":
        assert labels(out) == ["spam", "ham"]
    elif ending == "csv":
        assert out.read_text().startswith('"id","label","p_ham","p_spam"\n"a","spam"')
    else:
        assert [json.loads(line)["label"] for line in out.read_text().splitlines()] == [
            "spam",
            "ham",
        ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "linear:bert"], "--model linear:bert: only fine-tuned:NETWORK names"),
        (["--to", "out.csv"], "add --predict FILE"),
        (["--saved"], "add --predict FILE"),
        (["--predict", "nowhere.csv", "--to", "out.csv"], "nowhere.csv: there is no such file"),
        (["--predict", "x.csv", "--to", "out.xlsx"], "use .parquet, .csv, .jsonl"),
        (["--out", __file__], "is a file; name a folder for the model"),
    ],
)
def test_what_cannot_work_is_refused_before_training(arguments, message, project, capsys):
    assert message in fails(capsys, "train", str(project), *arguments)
    assert not (project / "model").exists()


def test_new_rows_without_the_column_are_refused_before_training(project, capsys, tmp_path):
    bare = tmp_path / "bare.csv"
    bare.write_text("id,body\n1,hello\n")
    predict = ["--predict", str(bare), "--to", str(tmp_path / "out.csv")]

    assert "no column named 'text'; known: id, body" in fails(
        capsys, "train", str(project), "--model", "fine-tuned", *predict
    )
    assert not (project / "model").exists()


def test_rows_no_function_speaks_for_do_not_teach_epoxys_end_model(project, capsys, tmp_path):
    with (tmp_path / "rows.csv").open("a") as file:
        file.write("x1,zebra quartz,\nx2,quartz zebra,\n")

    main(["train", str(project), "--labels", "epoxy"])

    session = epoxy.Session.open(project)
    assert session.split("train").n_rows == 102
    assert "trained linear on 100 labelled rows" in capsys.readouterr().out


def test_a_network_is_taught_texts_and_stops_on_dev(project, new, capsys, monkeypatch, tmp_path):
    taught = {}

    class StandIn(finetuned.FineTuned):
        def fit(self, rows, targets, *, dev=None):
            taught.update(rows=rows, targets=np.asarray(targets), dev=dev, network=self.network)
            return self

        def save(self, folder):
            folder.mkdir(parents=True)

        def predict_proba(self, rows):
            return np.eye(2)[[int("money" in row) for row in rows]]

    monkeypatch.setattr("epoxy.heads.FineTuned", StandIn)
    out = tmp_path / "out.parquet"

    code = main(
        [
            "train",
            str(project),
            "--model",
            "fine-tuned:tiny",
            "--predict",
            str(new),
            "--to",
            str(out),
        ]
    )

    assert code == 0
    assert taught["network"] == "tiny"
    assert len(taught["rows"]) == len(taught["targets"]) == 100
    assert len(taught["dev"][0]) == 20
    assert set(taught["dev"][1]) == {"ham", "spam"}
    assert labels(out) == ["spam", "ham"]
