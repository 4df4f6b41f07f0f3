from __future__ import annotations

import json
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import epoxy
from epoxy.agent.tools import Tools
from epoxy.cli import demo, main
from epoxy.cli.live import refresh, saves
from epoxy.cli.main import command as command_line
from epoxy.errors import AlignmentError, ParameterError, StoreError
from epoxy.project.create import new_project
from epoxy.session import Radii, Switch
from epoxy.studio import showing
from epoxy.studio.frames import as_json

SPAM = [
    "check out my channel",
    "subscribe to my channel",
    "free money now",
    "money for free",
    "win money",
]
HAM = [
    "lovely song",
    "this song moves me to tears",
    "what a voice",
    "the lyrics are poetry",
    "song of tears",
]
LFS = """
import epoxy

channel = epoxy.keywords("spam", "channel", name="channel")
money = epoxy.keywords("spam", "money", name="money")
free = epoxy.regex("spam", r"free|win", name="free")
song = epoxy.keywords("ham", "song", name="song")
tears = epoxy.keywords("ham", "tears", "voice", name="tears")


@epoxy.labeling_function
def poetic(row):
    return "ham" if "lyrics" in row.text or "poetry" in row.text else None
"""


def write_rows(path: Path, copies: int = 12, labelled: int = 20) -> Path:
    lines = ["id,text,label"]
    for at in range(copies * 10):
        words, label = (SPAM, "spam") if at % 2 else (HAM, "ham")
        text = f"{words[(at // 2) % 5]} {['wow', 'yes', 'ok', 'oh'][at % 4]}"
        lines.append(f"r{at},{text},{label if at < labelled else ''}")
    path.write_text("\n".join(lines) + "\n")
    return path


def write_project(folder: Path) -> Path:
    rows = write_rows(folder / "rows.csv")
    new_project(folder / "spam", rows, options={"positive": "spam"}, lfs=LFS)
    return folder / "spam"


def write_plain_project(folder: Path) -> Path:
    """The same without a positive class."""
    new_project(folder / "spam", write_rows(folder / "rows.csv"), lfs=LFS)
    return folder / "spam"


@pytest.fixture
def fresh(tmp_path, capsys) -> Path:
    """A project that the command made and nobody has opened."""
    rows = write_rows(tmp_path / "rows.csv")
    assert main(["new", str(tmp_path / "spam"), "--rows", str(rows), "--positive", "spam"]) == 0
    (tmp_path / "spam" / "lfs.py").write_text(LFS)
    capsys.readouterr()
    return tmp_path / "spam"


@pytest.fixture
def project(voted, tmp_path) -> Path:
    return voted(write_project, tmp_path)


def edit_config(project: Path, old: str, new: str) -> None:
    path = project / "epoxy.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_new_project_is_legible_and_points_at_its_rows(fresh):
    text = (fresh / "epoxy.toml").read_text()

    assert 'file = "../rows.csv"' in text
    assert 'names = ["ham", "spam"]' in text
    assert 'label = "label"' in text
    assert 'column = "text"' in text
    assert sorted(path.name for path in fresh.iterdir()) == ["epoxy.toml", "labels", "lfs.py"]


def said_json(capsys) -> dict:
    return json.loads(capsys.readouterr().out)


def labelled(project: Path):
    return pq.read_table(project / "labels" / "labels.parquet").to_pandas()


def test_label_tune_and_report_say_the_same_scores(project, capsys):
    found = {}
    for command in ("tune", "label", "report"):
        assert main([command, str(project), "--json", "-"]) == 0
        found[command] = said_json(capsys)

    assert found["label"]["scores"] == found["tune"]["scores"]
    assert found["label"]["scores"] == found["report"]["summary"]["scores"]
    assert found["label"]["scores"]["f1"] > 0.9  # epoxy.toml names a positive class


@pytest.fixture
def without_positives(project) -> Path:
    """Twenty labelled rows, ten of each class, of which those that are spam lose their label."""
    rows = project.parent / "rows.csv"
    rows.write_text(rows.read_text().replace(",spam\n", ",\n"))
    return project


def test_where_no_scored_row_is_positive_every_door_says_that_f1_is_not_known(
    without_positives, capsys
):
    told = {}
    for command in ("report", "label", "tune"):
        assert main([command, str(without_positives), "--json", "-"]) == 0
        said = capsys.readouterr()
        found = json.loads(said.out)
        told[command] = found["summary"]["scores"] if command == "report" else found["scores"]
        assert "nan" not in said.err.lower()
    session = epoxy.Session.open(without_positives)
    seen = json.loads(as_json(showing.comparison(session)))
    asked = Tools(session).call("report", {})

    assert [(each["recall"], each["f1"]) for each in told.values()] == [(None, None)] * 3
    assert {each["rows"] for each in told.values()} == {10}
    assert math.isnan(session.scores["f1"])
    assert [each["f1"] for each in seen] == [None] * 3
    assert asked["summary"]["scores"]["f1"] is None
    assert "no scored row is 'spam', so its F1 is not known" in session.scores.why
    assert asked["why"] == session.scores.why
    for text in (str(session.report()), session.scores.line(), str(session.switch("free", False))):
        assert "f1 –" in text
    assert "  –  " in str(session.comparison())


def test_tuning_by_f1_asks_for_a_row_that_is_positive(without_positives, capsys):
    assert main(["tune", str(without_positives), "--model", "epoxy"]) == 2

    said = capsys.readouterr().err
    assert "tuning by f1 needs rows that are 'spam', and none of the 10 it may choose by is" in said
    assert main(["tune", str(without_positives), "--model", "epoxy", "--scoring", "accuracy"]) == 0
    capsys.readouterr()
    assert main(["theory", str(without_positives)]) == 0
    assert "On 10 dev rows accuracy goes from" in capsys.readouterr().out


def test_label_writes_every_row_in_the_order_of_its_file(fresh, capsys):
    assert main(["label", str(fresh), "--json", "-"]) == 0

    table = labelled(fresh)
    assert table.id.tolist() == [f"r{at}" for at in range(120)]
    assert list(table.columns) == [
        "id",
        "label",
        "probability",
        "p_ham",
        "p_spam",
        "votes",
        "lent_votes",
        "hand_labelled",
        "truth",
    ]
    np.testing.assert_allclose(table.p_ham + table.p_spam, 1)
    truth = np.where(np.arange(120) % 2, "spam", "ham")
    assert (table.label == truth).mean() > 0.9
    assert table.hand_labelled.tolist() == [at < 20 for at in range(120)]
    assert table.truth[:20].tolist() == truth[:20].tolist()
    assert table.truth[20:].isna().all()
    assert (table.label == table.truth)[:20].all()
    assert said_json(capsys)["rows"] == 120


@pytest.mark.parametrize("model", ["epoxy", "fusion"])
def test_the_model_can_be_chosen(model, project, capsys):
    assert main(["label", str(project), "--model", model]) == 0

    said = capsys.readouterr().out
    assert f"with {model.capitalize()}" in said


def test_a_row_is_explained_by_its_id_where_ids_are_numbers(tmp_path, capsys):
    rows = write_rows(tmp_path / "rows.csv")
    rows.write_text(rows.read_text().replace("\nr", "\n"))  # r40 becomes 40
    assert main(["new", str(tmp_path / "spam"), "--rows", str(rows)]) == 0
    (tmp_path / "spam" / "lfs.py").write_text(LFS)
    asked = str(epoxy.Session.open(tmp_path / "spam").split().ids[30])
    capsys.readouterr()

    assert main(["explain", str(tmp_path / "spam"), asked]) == 0

    assert capsys.readouterr().out.startswith(f"{asked} → ")


def test_a_session_explains_a_dev_row_by_its_id_and_says_where_a_row_is(project):
    session = epoxy.Session.open(project)

    why = session.explain("r3")

    assert (why.row, why.truth) == ("r3", "spam")
    assert str(why) == str(session.explain("r3", "dev"))
    with pytest.raises(AlignmentError, match=r"row 'r3' is a dev row; add split='dev'"):
        session.label("r3", "ham")


def test_a_number_that_names_a_dev_row_is_no_position_in_train(tmp_path):
    rows = write_rows(tmp_path / "rows.csv")
    rows.write_text(rows.read_text().replace("\nr", "\n"))  # r3 becomes 3
    assert main(["new", str(tmp_path / "spam"), "--rows", str(rows)]) == 0
    (tmp_path / "spam" / "lfs.py").write_text(LFS)
    session = epoxy.Session.open(tmp_path / "spam")

    assert session.explain(3).truth == "spam"
    with pytest.raises(AlignmentError, match=r"row '3' is a dev row"):
        session.label(3, "ham")


def test_report_and_explain_speak_of_the_functions(project, capsys, tmp_path):
    page = tmp_path / "report.html"

    assert (
        main(["report", str(project), "--json", str(tmp_path / "r.json"), "--html", str(page)]) == 0
    )
    report = capsys.readouterr().out
    assert main(["explain", str(project), "r40"]) == 0
    why = capsys.readouterr().out

    assert "poetic" in report
    assert "functions, worst first; right on 20 hand labels" in report
    assert "confusion" in report
    assert json.loads((tmp_path / "r.json").read_text())["sources"][0]["source"] == "channel"
    assert "<table>" in page.read_text()
    assert why.startswith("r40 → ham")
    assert "lovely song" in why, "the text of the row"
    assert "log-odds" in why


def test_tune_leaves_radii_where_hand_labels_show_no_gain(project, capsys):
    assert main(["tune", str(project)]) == 0

    assert "every radius stays as it is: on 20 hand labels" in capsys.readouterr().out


def test_tune_needs_hand_labels(tmp_path, capsys):
    rows = write_rows(tmp_path / "rows.csv", labelled=0)
    new_project(tmp_path / "spam", rows, classes=["ham", "spam"], lfs=LFS)

    assert main(["tune", str(tmp_path / "spam")]) == 0

    assert "0 trusted hand labels are too few to choose by" in capsys.readouterr().out


@pytest.mark.parametrize("option", [["--shared"], ["--balance"], ["--scoring", "f1"]])
def test_options_about_radii_need_the_model_that_tunes_them(option, project, capsys):
    assert f"{option[0]} is about tuning the paper's pipeline" in fails(
        capsys, "tune", str(project), *option
    )


def test_tune_keeps_the_radii_for_the_next_command(project, capsys):
    assert main(["tune", str(project), "--model", "epoxy", "--json", "-"]) == 0
    radii = said_json(capsys)["radii"]

    again = epoxy.Session.open(project, model=epoxy.Epoxy())

    assert again.radii == radii
    assert again.folder.log.records()[-1].what == "tune"


def test_radii_tuned_for_the_papers_pipeline_do_not_bind_fusion(project, capsys):
    before = epoxy.Session.open(project)

    assert main(["tune", str(project), "--model", "epoxy"]) == 0

    said = capsys.readouterr().out
    assert "kept for the paper's pipeline, which labels with --model epoxy" in said
    assert "Fusion, the project's model, does not read it" in said
    after = epoxy.Session.open(project)
    assert after.radii == before.radii == dict.fromkeys(before.sources, "auto")
    np.testing.assert_array_equal(after.probabilities, before.probabilities)


def test_scores_on_the_rows_that_chose_the_radii_are_said_to_flatter(project, capsys):
    flatters = "were chosen on labelled rows, so that its scores on these flatter it"
    for command in (["report"], ["report", "--model", "epoxy"], ["label", "--model", "epoxy"]):
        main([command[0], str(project), *command[1:]])
        assert flatters not in capsys.readouterr().out
    main(["tune", str(project), "--model", "epoxy"])
    capsys.readouterr()

    for command in (["report"], ["report", "--model", "epoxy"], ["label", "--model", "epoxy"]):
        main([command[0], str(project), *command[1:]])
        assert flatters in capsys.readouterr().out
    main(["label", str(project)])
    assert flatters not in capsys.readouterr().out  # Fusion does not read them


def test_the_papers_pipeline_is_compared_as_it_was_tuned(project):
    epoxy.Session.open(project, model=epoxy.Epoxy()).tune()

    pipeline = epoxy.Session.open(project, model=epoxy.Epoxy())
    fused = epoxy.Session.open(project)

    assert fused.comparison()["epoxy"] == pipeline.scores


def test_a_radius_set_by_hand_binds_every_model_and_is_taken_back_for_every_model(project):
    session = epoxy.Session.open(project, model=epoxy.Epoxy())
    session.tune()
    tuned = session.radii

    session.set_radius("money", 0.25)
    bound = epoxy.Session.open(project).radii["money"]
    paper = session.radii["money"]
    session.undo()

    assert (bound, paper) == (0.25, 0.25)
    assert session.radii == tuned
    assert epoxy.Session.open(project, model=epoxy.Epoxy()).radii == tuned
    assert epoxy.Session.open(project).radii["money"] == "auto"


def test_a_renamed_function_keeps_what_tuning_chose_for_the_papers_pipeline(project):
    session = epoxy.Session.open(project, model=epoxy.Epoxy())
    session.apply(Radii({"money": 0.4}, "tune", tuned=True))
    text = (project / "lfs.py").read_text()

    (project / "lfs.py").write_text(text.replace('"money", name="money"', '"money", name="cash"'))
    session.reload()

    assert session.radii["cash"] == 0.4
    assert epoxy.Session.open(project, model=epoxy.Epoxy()).radii["cash"] == 0.4
    assert epoxy.Session.open(project).radii["cash"] == "auto"


BROKEN = """
hma = epoxy.keywords("hma", "song", name="hma")
txet = epoxy.keywords("ham", "song", column="txet", name="txet")


@epoxy.labeling_function
def typo(row):
    return "ham" if "lyrics" in row.tetx else None


@epoxy.labeling_function
def wrong(row):
    return "hamm" if "lyrics" in row.text else None


@epoxy.labeling_function
def patchy(row):
    return "ham" if "song" in row.text else row.tetx
"""


@pytest.mark.parametrize("command", [["label"], ["export", "--to", "labels.csv"]])
def test_functions_that_fail_whole_make_the_exit_code(command, project, capsys, monkeypatch):
    monkeypatch.chdir(project)
    (project / "lfs.py").write_text(LFS + BROKEN)

    assert main([command[0], ".", *command[1:]]) == 2

    said = capsys.readouterr()
    assert "without 4 labeling functions that failed and have no vote: hma, txet, typo, wrong;" in (
        said.err
    )
    assert "! labeling function 'txet' failed: no column named 'txet'" in said.out
    assert (project / ("labels/labels.parquet" if command == ["label"] else "labels.csv")).exists()
    assert main([command[0], ".", *command[1:], "--allow-errors"]) == 0


def test_the_functions_without_a_vote_are_in_the_json(project, capsys):
    (project / "lfs.py").write_text(LFS + BROKEN)

    assert main(["label", str(project), "--allow-errors", "--json", "-"]) == 0

    assert said_json(capsys)["failed"] == ["hma", "txet", "typo", "wrong"]


@pytest.mark.parametrize("command", ["label", "report"])
def test_functions_switched_off_are_listed(command, project, capsys):
    epoxy.Session.open(project).switch("money", False)

    assert main([command, str(project)]) == 0

    assert "! switched off, and so without a say: money" in capsys.readouterr().out


def test_a_removed_function_is_said_to_come_back_and_undo_to_end_with_the_session(project):
    session = epoxy.Session.open(project)

    session.remove("money")

    assert "removed here, and still in lfs.py: money; opening the project" in session.notes[-1]
    again = epoxy.Session.open(project)
    assert "money" in again.sources
    assert again.notes == ()
    with pytest.raises(ParameterError, match="what earlier ones decided stays until"):
        again.undo()


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_labels_are_exported_in_every_format(ending, project, capsys, tmp_path):
    target = tmp_path / f"labels.{ending}"

    assert main(["export", str(project), "--to", str(target), "--model", "epoxy"]) == 0

    assert "wrote 120 rows" in capsys.readouterr().out
    if ending == "jsonl":
        assert json.loads(target.read_text().splitlines()[0])["label"] in ("ham", "spam")
    else:
        assert target.stat().st_size > 100


def test_hugging_face_datasets_are_written_where_the_extra_is(project, capsys, tmp_path):
    code = main(
        [
            "export",
            str(project),
            "--to",
            str(tmp_path / "out"),
            "--format",
            "huggingface",
            "--model",
            "epoxy",
        ]
    )

    try:
        import datasets  # noqa: F401
    except ImportError:
        assert code == 2
        assert "pip install 'epoxy-ws[datasets]'" in capsys.readouterr().err
    else:
        assert code == 0


def fails(capsys, *arguments: str) -> str:
    code = main(list(arguments))
    text = capsys.readouterr().err
    assert code == 2
    assert "Traceback" not in text
    return text


def test_the_first_score_of_a_project_is_not_compared_with_nothing(project):
    path = project.parent / "rows.csv"
    path.write_text(path.read_text().replace(",ham\n", ",\n").replace(",spam\n", ",\n"))
    session = epoxy.Session.open(project)

    said = str(session.label("r0", "ham", chosen="random"))

    assert "held-out accuracy 1.000 on 1 rows" in said
    assert "nan" not in said


def test_a_file_in_place_of_a_project_folder_is_told_how_to_become_one(tmp_path, capsys):
    rows = write_rows(tmp_path / "rows.csv")

    said = fails(capsys, "report", str(rows))

    assert f"{rows} is a file, and a project is a folder; make one of its rows with: epoxy" in said
    assert f"epoxy new {tmp_path / 'rows'} --rows {rows}" in said


def test_errors_are_one_sentence_on_standard_error(project, capsys, tmp_path):
    assert "is not a project folder" in fails(capsys, "label", str(tmp_path))
    assert "no row 'r999'" in fails(capsys, "explain", str(project), "r999")
    assert "format of" in fails(capsys, "export", str(project), "--to", "labels.xyz")
    assert "is a project already" in fails(
        capsys, "new", str(project), "--rows", str(tmp_path / "rows.csv")
    )


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("rows.txt", "a", "no kind of rows file named '.txt'"),
        ("rows.parquet", "not parquet", "cannot be read as .parquet"),
        ("rows.csv", "a\n" + "1,2," * 2000, "cannot be read as .csv"),
        ("rows.csv", "id,text\n", "has no rows"),
        ("rows.csv", "id,text\n1,hello\n", "shows no classes"),
        (
            "rows.csv",
            "ID,Text,Class\n1,hi,ham\n",
            "--label, one of ID, Text, Class), or the classes",
        ),
        (
            "rows.csv",
            "id,text,label\n1,hi,ham\n",
            "shows only 'ham' in its column 'label'; name all",
        ),
        ("rows.csv", "id,text,label\n1,hi,\n", "shows no class in its column 'label'; name all"),
    ],
)
def test_a_wrong_file_of_rows_is_refused(name, content, message, capsys, tmp_path):
    (tmp_path / name).write_text(content)

    said = fails(capsys, "new", str(tmp_path / "p"), "--rows", str(tmp_path / name))
    assert message in said
    assert len(said) < 600
    assert "cannot be read" not in said or said.rstrip().endswith("the ending of what it holds")
    assert not (tmp_path / "p").exists()


def test_a_place_that_cannot_be_written_is_named(project, capsys, tmp_path):
    (tmp_path / "taken").write_text("a file, and no folder")

    for command in (
        ["demo", str(tmp_path / "taken")],
        ["report", str(project), "--html", str(tmp_path / "nowhere" / "page.html")],
    ):
        said = fails(capsys, *command)
        assert "cannot be used" in said
        assert command[-1] in said
        assert "name another place" in said


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('names = ["ham", "spam"]', 'names = ["ham"]', "names 1 classes"),
        ('metric = "cosine"', 'metrik = "cosine"', "did you mean 'metric'"),
        ('metric = "cosine"', 'metric = "cosine', "cannot be read"),
        ('label = "label"', 'label = "gold"', "no column of"),
        ('names = ["ham", "spam"]', 'names = ["spam", "eggs"]', "has the label 'ham'"),
        ('names = ["ham", "spam"]', 'names = ["ham", "eggs"]', "epoxy.toml: no class named 'spam'"),
        ('names = ["ham", "spam"]', 'names = ["ham", ""]', "none empty"),
        ('names = ["ham", "spam"]', 'names = "ham"', "sets names = 'ham'.*expected a list"),
        ('encoder = "auto"', "encoder = 5", r"sets encoder = 5 .*expected a text"),
        ('encoder = "auto"', 'encoder = "lse"', "epoxy.toml: .*'lse'"),
        ('file = "../rows.csv"', "file = 5", r"sets file = 5 .*expected a text"),
        ('kind = "fusion"', 'kind = "fuson"', "epoxy.toml: no model named 'fuson'; did you mean"),
        ("[vectors]", "[vektors]", "no section in"),
    ],
)
def test_what_is_wrong_in_epoxy_toml_is_said(old, new, message, project, capsys):
    edit_config(project, old, new)

    assert re.search(message, fails(capsys, "label", str(project)))


def test_a_radius_set_at_the_terminal_is_kept_and_can_be_taken_back(project, capsys):
    before = epoxy.Session.open(project)

    assert main(["set", str(project), "money", "--radius", "0.5", "--json", "-"]) == 0

    told = capsys.readouterr()
    after = epoxy.Session.open(project)
    assert after.radii == before.radii | {"money": 0.5}
    assert before.catch_up() == ("radius of money",)
    assert np.allclose(before.probabilities, after.probabilities, atol=1e-6)
    assert "radius of money: " in told.err
    assert f"back: epoxy set {project} money --radius auto" in told.err
    assert json.loads(told.out)["edit"] == {"kind": "radii", "radii": {"money": 0.5}}


@pytest.mark.parametrize("model", ["fusion", "epoxy"])
def test_the_way_back_that_is_printed_leads_back(project, capsys, model):
    for words in (["--radius", "none"], ["--radius", "0.3"], ["--radius", "auto"], ["--off"]):
        opened = epoxy.Session.open(project, model=model)
        capsys.readouterr()

        assert main(["set", str(project), "song", *words, "--model", model]) == 0
        back = re.search(r"^back: epoxy (.*)$", capsys.readouterr().out, re.MULTILINE)
        assert back is not None
        assert main(shlex.split(back[1])) == 0

        again = epoxy.Session.open(project, model=model)
        assert again.radii == opened.radii
        assert again.switched_off == opened.switched_off
        assert np.array_equal(again.probabilities, opened.probabilities)
        assert main(["set", str(project), "song", *words]) == 0  # so that the next starts elsewhere


@pytest.mark.parametrize("model", ["fusion", "epoxy"])
def test_a_source_set_at_the_terminal_is_as_if_a_session_had_set_it(project, capsys, model):
    session = epoxy.Session.open(project, model=model)
    said = [session.preview(Radii({"song": 0.6})), session.preview(Switch("tears", False))]

    assert main(["set", str(project), "song", "--radius", "0.6", "--model", model]) == 0
    first = capsys.readouterr().out
    assert main(["set", str(project), "song", "--radius", "auto", "--model", model]) == 0
    capsys.readouterr()
    assert main(["set", str(project), "tears", "--off", "--model", model]) == 0
    second = capsys.readouterr().out

    for change, text in zip(said, (first, second), strict=True):
        assert text.startswith(str(change).rpartition(", ")[0])  # all but the milliseconds
    assert epoxy.Session.open(project, model=model).switched_off == ("tears",)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["mony", "--off"], "no source named 'mony'; did you mean 'money'?"),
        (["mony", "--radius", "1"], "no source named 'mony'; did you mean 'money'?"),
        (["money", "--radius", "-0.1"], "'money' is -0.1; a radius is a distance of at least 0"),
        (["money", "--radius", "far"], "'money' is 'far'; give a distance of at least 0, None"),
        (["money", "--radius", "nan"], "'money' is 'nan'; give a distance of at least 0, None"),
    ],
)
def test_what_cannot_be_set_is_said_and_nothing_is_kept(project, capsys, words, message):
    assert message in fails(capsys, "set", str(project), *words)

    assert epoxy.Session.open(project).folder.log.records() == []


def test_a_radius_needs_vectors_and_a_switch_does_not(project, capsys):
    edit_config(project, 'encoder = "auto"', 'encoder = "none"')

    text = fails(capsys, "set", str(project), "money", "--radius", "0.2")

    assert "--radius 0.2 says how far 'money' lends to near rows, and the rows of" in text
    assert "have no vectors; choose an encoder under [vectors] in epoxy.toml" in text
    assert main(["set", str(project), "money", "--off"]) == 0


@pytest.mark.parametrize("words", [[], ["--on", "--off"], ["--on", "--radius", "0.1"]])
def test_one_thing_is_set_at_a_time(project, capsys, words):
    assert "one of --radius, --on and --off" in fails(capsys, "set", str(project), "money", *words)


def test_rows_that_two_files_share_are_named(tmp_path, capsys):
    rows = write_rows(tmp_path / "rows.csv", labelled=0)
    dev = tmp_path / "dev.csv"
    dev.write_text(
        "id,text,label\nr5,another,spam\nr6,one more,ham\nz1,win money oh,spam\nz2,new,ham\n"
    )
    made = ["new", str(tmp_path / "spam"), "--rows", str(rows), "--dev", str(dev)]
    assert main([*made, "--classes", "ham,spam"]) == 0
    (tmp_path / "spam" / "lfs.py").write_text(LFS)

    assert main(["label", str(tmp_path / "spam")]) == 0

    said = capsys.readouterr().out
    assert "! 2 ids are in the rows file and in the dev file (r5, r6); they name two rows" in said
    assert "! 1 dev rows say what a row of the rows file says (z1); a model trained on" in said


def test_watch_shows_what_another_session_decides_without_a_save(project):
    session = epoxy.Session.open(project)
    home = session.folder
    assert not home.changed()

    epoxy.Session.open(project).switch("money", False)

    assert home.changed()
    heard: list[str] = []
    refresh(session, lambda text: heard.append(str(text)))
    assert heard[0] == "  another session: off money"
    assert heard[-1].startswith("6 functions, ")
    assert session.switched_off == ("money",)
    assert not home.changed()


def test_catching_up_needs_a_project():
    votes = epoxy.Votes([[0, 1, 1], [1, 0, 1]] * 5)
    session = epoxy.Session(epoxy.Split(votes), model=epoxy.Epoxy(radius={}))

    with pytest.raises(ParameterError, match=r"catch_up is about a project folder, and this"):
        session.catch_up()


def test_votes_of_functions_that_were_finished_outlast_an_interrupt(fresh):
    def stop(done: int, total: int) -> None:
        if done > 3 * 100:  # in the fourth function of six, on 100 train rows
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        epoxy.Session.open(fresh, progress=lambda what: stop)

    assert len(list((fresh / ".epoxy" / "votes").iterdir())) >= 3


def test_a_function_that_failed_whole_on_train_is_not_asked_about_dev(fresh):
    asked = fresh / "asked"
    (fresh / "lfs.py").write_text(
        f"{LFS}\n\n@epoxy.labeling_function\ndef wrong(row):\n"
        f"    open({str(asked)!r}, 'a').write(row.id + ' ')\n    return 'hma'\n"
    )

    epoxy.Session.open(fresh)

    assert set(asked.read_text().split()) == {f"r{at}" for at in range(20, 120)}


def test_unchanged_functions_are_not_run_again(fresh):
    epoxy.Session.open(fresh)
    kept = {path.name: path.stat().st_mtime_ns for path in (fresh / ".epoxy" / "votes").iterdir()}
    (fresh / "lfs.py").write_text(LFS.replace('"lyrics"', '"lyric"'))

    epoxy.Session.open(fresh)

    now = {path.name: path.stat().st_mtime_ns for path in (fresh / ".epoxy" / "votes").iterdir()}
    assert len(kept) == 12  # six functions on two splits
    assert {name: now[name] for name in kept} == kept
    assert len(now) == 14


def test_vectors_learned_from_the_rows_are_kept_while_the_rows_stay(fresh, monkeypatch):
    before = epoxy.Session.open(fresh)
    kept = list((fresh / ".epoxy" / "vectors").glob("learned-*"))

    with monkeypatch.context() as patch:
        patch.setattr("epoxy.encoders.lsa.Lsa.fit", None)
        again = epoxy.Session.open(fresh)
    rows = fresh.parent / "rows.csv"
    rows.write_text(rows.read_text().replace("free", "new"))
    other = epoxy.Session.open(fresh)

    for name in ("train", "dev"):
        one, two = (each.split(name).vectors for each in (before, again))
        assert one.dtype == two.dtype == np.float32
        np.testing.assert_array_equal(one, two)
    assert not np.array_equal(other.split().vectors, before.split().vectors)
    now = list((fresh / ".epoxy" / "vectors").glob("learned-*"))
    assert len(kept) == len(now) == 1 != len({*kept, *now}), "those of other rows are swept away"


def test_a_damaged_cache_is_made_again(fresh):
    before = epoxy.Session.open(fresh).probabilities
    for path in (fresh / ".epoxy").rglob("*.np*"):
        path.write_bytes(path.read_bytes()[:40])

    assert (epoxy.Session.open(fresh).probabilities == before).all()


def test_labels_radii_and_switches_survive_a_restart(project):
    session = epoxy.Session.open(project)
    session.set_radius("song", 0.31)
    session.set_radius("money", None)
    session.switch("free", False)
    session.label("r50", "ham")
    session.label("r52", "ham")
    session.undo()

    again = epoxy.Session.open(project)

    assert again.radii["song"] == 0.31
    assert again.radii["money"] is None
    assert again.switched_off == ("free",)
    train = again.split("train")
    assert [train.ids[row] for row in np.flatnonzero(train.labelled)] == ["r50"]
    assert again.scores == pytest.approx(session.scores)
    assert np.abs(again.probabilities - session.probabilities).max() < 1e-6
    assert (again.labels == session.labels).all()
    assert (again.probabilities == session.refit().proba[0]).all()  # what export writes


def test_a_dev_file_of_its_own_is_used(tmp_path, capsys):
    rows = write_rows(tmp_path / "rows.csv", labelled=0)
    dev = write_rows(tmp_path / "dev.csv", copies=2, labelled=20)
    main(
        [
            "new",
            str(tmp_path / "p"),
            "--rows",
            str(rows),
            "--dev",
            str(dev),
            "--classes",
            "ham,spam",
        ]
    )
    (tmp_path / "p" / "lfs.py").write_text(LFS)

    session = epoxy.Session.open(tmp_path / "p")

    assert session.split("train").n_rows == 120
    assert session.scores["rows"] == 20


def test_vectors_may_come_from_a_file(project, capsys):
    np.save(project / "v.npy", np.random.default_rng(0).normal(size=(120, 4)))
    edit_config(project, 'encoder = "auto"', 'encoder = "v.npy"')

    assert epoxy.Session.open(project).split("train").vectors.shape == (100, 4)

    np.save(project / "v.npy", np.ones((7, 4)))
    assert "has 7 vectors for 120 rows" in fails(capsys, "label", str(project))


def test_a_project_of_pairs_names_the_columns_of_both_mentions(project, capsys, monkeypatch):
    from epoxy.encoders import Pair

    def embed(self, rows):  # stands in for the network: the lengths of what it was given
        return np.array([[1.0, *map(len, row)] for row in rows], dtype=np.float32)

    monkeypatch.setattr(Pair, "_embed", embed)
    monkeypatch.setattr(Pair, "identity", None)  # nothing is kept on disk
    edit_config(project, 'encoder = "auto"', 'encoder = "pair"\nmentions = ["id", "text"]')

    vectors = epoxy.Session.open(project).split("train").vectors
    rows = [("this song moves me to tears wow", "r22", "this song moves me to tears wow")]
    assert [1.0, *map(len, rows[0])] in vectors.tolist()

    edit_config(project, '["id", "text"]', '["id", "texd"]')
    assert "'texd'; did you mean 'text'" in fails(capsys, "label", str(project))


def test_every_command_teaches(capsys):
    for name in command_line().commands:
        assert main([name, "--help"]) == 0
        text = capsys.readouterr().out
        assert "--json" in text
        assert len(text) > 300


def test_watching_sees_edits_of_every_kind(project):
    session = epoxy.Session.open(project)
    heard: list[str] = []

    refresh(session, lambda text: heard.append(str(text)))
    assert heard == ["  nothing changed"]
    (project / "lfs.py").write_text(
        LFS.replace('"money", name="money"', '"money", "channel", name="money"').replace(
            'song = epoxy.keywords("ham", "song", name="song")\n', ""
        )
    )
    heard.clear()
    refresh(session, lambda text: heard.append(str(text)))

    assert heard[0].startswith("  votes of money, remove song: ")
    assert "ms]" in heard[-1]
    assert "song" not in session.sources


def test_watching_says_that_a_broken_file_was_mended(project):
    session = epoxy.Session.open(project)
    heard: list[str] = []
    (project / "lfs.py").write_text(LFS + "\nmoney =")
    with pytest.raises(epoxy.errors.CodeError, match=r"lfs\.py"):
        refresh(session, heard.append)
    refresh(session, heard.append)  # still broken: nothing is said of it being mended
    assert heard == ["  nothing changed"]

    (project / "lfs.py").write_text(LFS)
    heard.clear()
    refresh(session, heard.append)

    assert heard == ["  lfs.py runs again", "  nothing changed"]
    heard.clear()
    refresh(session, heard.append)
    assert heard == ["  nothing changed"]


def test_a_save_is_told_as_often_as_it_is_not_taken_up():
    answers = iter([False, True, True, False, True])
    slept = []

    watched = saves(lambda: next(answers), 0.5, slept.append)
    for _ in range(3):
        next(watched)

    assert len(slept) == 5


@pytest.mark.slow
def test_watch_runs_in_a_terminal_and_ends_with_ctrl_c(fresh):
    process = subprocess.Popen(
        [sys.executable, "-m", "epoxy", "watch", str(fresh)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    lines = [process.stdout.readline() for _ in range(4)]
    (fresh / "lfs.py").write_text(LFS.replace('"song"', '"song", "oh"', 1))
    lines.append(process.stdout.readline())
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)

    assert (process.returncode, errors.count("Traceback")) == (130, 0), (lines, errors)
    assert "voting, embedding, finding neighbours" in lines[0]
    assert "watching" in lines[1]
    assert "how the labelled rows were chosen is not known" in lines[2]
    assert "votes of song" in lines[4]
    assert "Traceback" not in errors


def test_the_demo_runs_offline_and_leaves_a_project(tmp_path, capsys):
    assert main(["demo", str(tmp_path / "digits"), "--json", str(tmp_path / "d.json")]) == 0

    out = capsys.readouterr().out
    assert len(out.splitlines()) <= 30
    assert max(map(len, out.splitlines())) <= 100 + len(str(tmp_path))
    results = {r["method"]: r for r in json.loads((tmp_path / "d.json").read_text())["results"]}
    assert results["extended (Epoxy)"]["accuracy"] > results["functions alone"]["accuracy"] + 0.05
    assert results["extended (Epoxy)"]["covered"] > results["functions alone"]["covered"]
    quarrel = re.search(r"epoxy explain \S+ (digit-\d+)", out)
    assert quarrel is not None
    assert main(["explain", str(tmp_path / "digits"), quarrel[1]]) == 0
    why = capsys.readouterr().out
    assert "▀" in why, "the picture of the row"
    assert len(re.findall(r"^ \S+ says \d", why, re.MULTILINE)) >= 2
    data = epoxy.datasets.load("digits")
    train, dev, test = data.prepare(demo._functions())
    lent = epoxy.Fusion().fit(train, dev).extend(test)
    assert results["fused (Fusion)"]["votes_per_row"] == lent.cast.sum(axis=1).mean()
    assert results["fused (Fusion)"]["covered"] == lent.covered.mean()
    session = epoxy.Session.open(tmp_path / "digits")
    assert len(session.sources) == 16
    (tmp_path / "digits" / "epoxy.toml").write_text("# mine")
    with pytest.raises(StoreError, match="is a project already"):
        demo.write_project(epoxy.datasets.load("digits"), tmp_path / "digits")
    shutil.rmtree(tmp_path / "digits")


@pytest.mark.parametrize("kind", ["fusion", "epoxy"])
def test_a_session_opened_under_a_model_by_name_has_what_that_model_labels(project, kind, tmp_path):
    edit_config(project, 'metric = "cosine"', 'metric = "euclidean"')
    assert main(["tune", str(project), "--model", "epoxy"]) == 0
    assert main(["label", str(project), "--model", kind]) == 0

    session = epoxy.Session.open(project, model=kind)

    written = labelled(project).set_index("id").loc[session.split().ids, ["p_ham", "p_spam"]]
    np.testing.assert_array_equal(session.probabilities, written)
    with pytest.raises(epoxy.EpoxyError, match="no model named 'fusoin'; did you mean 'fusion'"):
        epoxy.Session.open(project, model="fusoin")


def test_theory_compares_prediction_with_outcome_and_draws(project, capsys, tmp_path):
    code = main(
        [
            "theory",
            str(project),
            "--figures",
            str(tmp_path / "f"),
            "--json",
            str(tmp_path / "t.json"),
        ]
    )

    out = capsys.readouterr().out
    data = json.loads((tmp_path / "t.json").read_text())
    assert code == 0
    assert "Near rows carry different labels" in out
    assert len(data["sources"]) == 6
    assert len(list((tmp_path / "f").glob("*.png"))) == 6


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_theory_says_the_radii_that_tune_chooses_by_the_metric_of_the_project(
    project, capsys, metric
):
    edit_config(project, 'metric = "cosine"', f'metric = "{metric}"')
    half = {"channel": "yes", "money": "yes", "free": "yes", "song": "wow", "tears|voice": "wow"}
    (project / "lfs.py").write_text(
        "import epoxy\n"
        + "".join(
            f"s{at} = epoxy.regex({'spam' if end == 'yes' else 'ham'!r}, '({word}).* {end}', name='s{at}')\n"
            for at, (word, end) in enumerate(half.items())
        )
    )

    assert main(["theory", str(project), "--json", "-"]) == 0
    theory = said_json(capsys)
    assert main(["tune", str(project), "--model", "epoxy", "--json", "-"]) == 0
    tuned = said_json(capsys)

    assert any(radius is not None for radius in tuned["radii"].values())
    assert {each["source"]: each["radius"] for each in theory["sources"]} == tuned["radii"]
    assert theory["expected"] == tuned["expected"]


def test_theory_says_that_it_does_not_read_the_order_of_rows(project, capsys):
    rows = project.parent / "rows.csv"
    header, *lines = rows.read_text().splitlines()
    rows.write_text("\n".join([f"{header},film", *(f"{line},one" for line in lines)]) + "\n")
    edit_config(project, "[rows]", '[rows]\nsequence = "film"')

    assert main(["theory", str(project)]) == 0

    assert "their order is not read here" in capsys.readouterr().out


def test_synthetics_states_and_checks_its_claims(capsys, tmp_path):
    figure = tmp_path / "s.svg"

    code = main(["synthetics", "--rows", "400", "--seed", "100", "--figure", str(figure)])

    lines = [
        line for line in capsys.readouterr().out.splitlines() if line[:5] in ("holds", "FAILS")
    ]
    assert len(lines) == 5
    assert code == (2 if any(line.startswith("FAILS") for line in lines) else 0)
    assert figure.stat().st_size > 1000


@pytest.mark.parametrize("kind", ["linear", "knn"])
def test_an_end_model_is_trained_saved_and_used_on_new_rows(kind, project, capsys, tmp_path):
    new, out = write_rows(tmp_path / "new.csv", copies=2, labelled=0), tmp_path / "out.csv"
    arguments = ["train", str(project), "--model", kind, "--labels", "epoxy"]

    assert main([*arguments, "--predict", str(new), "--to", str(out)]) == 0

    head = epoxy.heads.load(project / "model")
    dev = epoxy.Session.open(project).split("dev")
    assert (head.predict_proba(dev.vectors).argmax(axis=1) == dev.y).mean() > 0.9
    lines = out.read_text().splitlines()
    assert len(lines) == 21
    assert "on dev: accuracy" in capsys.readouterr().out


def test_bench_refuses_nonsense(capsys):
    assert "needs data folders" in fails(capsys, "bench")
    assert "--class-balance got 'half'" in fails(
        capsys, "bench", "--data", "x", "--class-balance", "half"
    )


def test_a_project_of_sequences_uses_a_chain(tmp_path, capsys):
    rng = np.random.default_rng(0)
    y = np.repeat(rng.integers(0, 2, 60), 6)
    lines = ["id,clip,frame,a,b,c,label"]
    for at, truth in enumerate(y):
        said = ["yes" if (truth if rng.random() < 0.7 else 1 - truth) else "no" for _ in range(3)]
        label = ("no", "yes")[truth] if at >= 300 else ""
        lines.append(f"{at},{at // 60},{at % 60},{','.join(said)},{label}")
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    folder = tmp_path / "video"
    main(
        [
            "new",
            str(folder),
            "--rows",
            str(tmp_path / "rows.csv"),
            "--sequence",
            "clip",
            "--position",
            "frame",
        ]
    )
    config = (folder / "epoxy.toml").read_text()
    config = config.replace('encoder = "auto"', 'encoder = "none"').replace(
        'kind = "fusion"', 'kind = "epoxy"\nlabel_model = "chain"'
    )
    (folder / "epoxy.toml").write_text(config)
    (folder / "lfs.py").write_text(
        "import epoxy\n" + "".join(f"{s} = epoxy.from_column('{s}')\n" for s in "abc")
    )

    session = epoxy.Session.open(folder)
    train = session.split()
    plain = epoxy.Session(train, model=epoxy.Epoxy(epoxy.Triplet()), labels=train)

    assert type(session.model_template.label_model).__name__ == "Chain"
    assert session.scores["accuracy"] > plain.scores["accuracy"] + 0.05
    why = session.explain(session.split().ids[3])
    assert why.additive
    assert why.log_odds == pytest.approx(why.start + sum(voice.weight for voice in why.voices))
    assert main(["label", str(folder)]) == 0


def test_classes_in_another_order_are_voted_for_anew(project):
    before = epoxy.Session.open(project).split()
    names = np.array(before.classes)
    said = {source: names[before.votes.column(source)] for source in before.votes.sources}
    edit_config(project, 'names = ["ham", "spam"]', 'names = ["spam", "ham"]')

    after = epoxy.Session.open(project).split()

    names = np.array(after.classes)
    assert after.classes == before.classes[::-1]
    for source in after.votes.sources:
        cast = before.votes.column(source) >= 0
        assert (names[after.votes.column(source)] == said[source])[cast].all()
