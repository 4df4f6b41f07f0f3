"""`epoxy report` and `epoxy explain`: how right labels and functions are, and why a row has its label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from ..errors import ParameterError, UnknownName
from .folders import say_notes
from .options import All, Home, Json, Model, app, open_project
from .row_view import full, glance, number_of
from .screen import bar, say, shorten, table, write_json

if TYPE_CHECKING:
    from ..diagnostics import Explanation, Report, Voice
    from ..session import Session

FEW, SUSPECTS, ROWS = 8, 5, 5
"""Functions, hand labels that look wrong, and rows of a function that are shown without --all."""
WEIGHS = 0.005
"""What weighs less is 0.00."""
Split = Annotated[Literal["train", "dev"] | None, Option(help="default: where the row is found")]


@app.command()
def report(
    folder: Home,
    function: Annotated[
        str | None, Argument(metavar="[FUNCTION]", help="one function's wrong and missed rows")
    ] = None,
    model: Model = None,
    split: Annotated[
        Literal["train", "dev"], Option(help="the rows that functions are looked at on")
    ] = "dev",
    everything: All = False,
    detail: Annotated[
        bool, Option("--detail", help="the parts of the model, and findings whole")
    ] = False,
    html: Annotated[
        Path | None, Option(metavar="FILE", help="also write the report as a page")
    ] = None,
    json: Json = None,
) -> None:
    """How right the labels are, what each function does, worst first, and what to do next.

    Scores are of rows labelled by hand, by a model that did not learn from the row; "right" of a
    function is on such rows too, and says on which. --all lists every function, --detail what the
    model's parts are worth. With the name of a function: its wrong rows, the rows it misses, and
    the rows on which others contradict it.

    \b
      epoxy report spam/
      epoxy report spam/ money
    """
    session = open_project(folder, model)
    found = session.report(split)
    if function is not None:
        write_json(_one_function(session, found, function, folder, everything), json)
        return
    beside = session.comparison()
    _headline(session, found, beside, folder)
    say("", functions_table(session, found.rows, most=None if everything else FEW))
    _confusion(found)
    _suspects(session, found, everything)
    _findings(session, found, folder, everything or detail)
    if detail:
        say(str(found))
    say_notes(session, said={str(each) for each in found.findings})
    if html is not None:
        html.write_text(_page(found), "utf-8")
    comparison = {name: dict(scored) for name, scored in beside.items()}
    write_json(found.to_dict() | {"comparison": comparison}, json)


def _headline(session: Session, found: Report, beside: Mapping[str, Any], folder: Path) -> None:
    """How many rows, and how right their labels are beside those of other models."""
    hand = found.summary["hand labels"]
    rows, model = session.n_rows, type(session.model_template).__name__
    say(
        f"{folder}   {rows:,} rows, {len(session.sources)} functions, {hand['labelled']} hand labels, "
        f"labelled by {model}",
        style="bold",
    )
    scored = session.scores
    if scored:
        names = {"majority": "majority vote", "epoxy": "the paper's pipeline", "fusion": "Fusion"}
        lines = [
            (
                names.get(name, name),
                _percent(each["accuracy"]),
                bar(each["accuracy"], 20),
                _f1(each),
            )
            for name, each in beside.items()
            if each
        ]
        low, high = (found.summary["accuracy interval"][each] for each in ("low", "high"))
        head = (
            f"right on {scored['rows']:.0f} hand labels, each by a model that did not learn from it"
        )
        say(table(["~", ">right", "", ">F1"], lines, title=head))
        say(f"  95% interval of {names.get(session.engine.name, model)}: {low:.0%} to {high:.0%}")
        say(_sureness(found))
    why = getattr(beside, "why", "") or scored.why
    if why:
        say(f"! {why}")
    if scored.basis != "random":
        say(
            f"  label rows that are drawn at random: epoxy annotate {folder} --purpose score",
            whole=True,
        )


def _f1(scored: Mapping[str, float]) -> str:
    return "–" if scored["f1"] != scored["f1"] else f"{scored['f1']:.2f}"


def _sureness(found: Report) -> str:
    """How right the surest and the least sure labels are."""
    curve = next((each.rows for each in found.tables if each.title == "Reliability"), ())
    seen = [each for each in curve if each["right"]["n"] >= FEW] or list(curve)
    told = [
        f"sure {each['sure']:.0%} → right {each['right']['value']:.0%} of {each['right']['n']}"
        for each in (seen[-1:] + seen[:1] if len(seen) > 1 else seen)
    ]
    return "  " + "    ".join(told)


def functions_table(
    session: Session, rows: Sequence[Mapping[str, Any]] | None = None, most: int | None = None
) -> Any:
    """What each function says, how often, and how right it is; the worst first."""
    from ..engines.reporting import sources_of

    every, basis = sources_of(session.outcome)
    found = every if rows is None else rows
    ranked = sorted(found, key=_worst_first)
    shown = ranked if most is None else ranked[:most]
    lines = [
        (
            each["source"],
            shorten(", ".join(each["polarity"]) or "nothing", 20),
            _percent(each["coverage"]),
            _of(each["accuracy_original"]),
            _bar_of(each["accuracy_original"]),
            _percent(max(0.0, each["coverage_extended"] - each["coverage"])),
            _of(each["accuracy_extended"]),
            _verdict(each["accuracy_original"]),
        )
        for each in shown
    ]
    left = len(ranked) - len(shown)
    more = f"{left} more: epoxy report --all" if left else ""
    head = ["~function", "~says", ">votes on", ">right", "", ">lent to", ">right", " "]
    title = "functions, worst first"
    if rows is None:
        covered = session.split().votes.covered
        title = (
            f"{len(ranked)} functions vote on {covered.sum():,} of {len(covered):,} unlabelled rows, "
            "the worst first"
        )
    return table(head, lines, title=f"{title}; {basis}", more=more)


def _worst_first(row: Mapping[str, Any]) -> tuple[float, float]:
    right = row["accuracy_original"]
    return (2.0 if right is None else right["value"], -row["coverage"])


def _verdict(right: Mapping[str, Any] | None) -> str:
    if right is None:
        return "not seen by a label"
    return "← mostly wrong" if right["value"] < 0.5 and right["n"] >= 3 else ""


def _of(right: Mapping[str, Any] | None) -> str:
    return "–" if right is None else f"{round(right['value'] * right['n'])} of {right['n']}"


def _bar_of(right: Mapping[str, Any] | None) -> str:
    return "" if right is None else bar(right["value"], 8)


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.0995 or not share else f"{share:.1%}"


def _confusion(found: Report) -> None:
    """The hand label of each row and what the model says, where the two differ."""
    matrix = next((each for each in found.tables if each.title == "Confusion"), None)
    if matrix is None:
        return
    names = [each.key for each in matrix.columns[1:]]
    if len(names) <= 12 and sum(min(len(name), 8) + 3 for name in names) < 80:
        lines = [
            [row["label"], *(_count(row[name], name == row["label"]) for name in names)]
            for row in matrix.rows
        ]
        say(
            "",
            table(
                ["~hand label ╲ model", *(f">{shorten(each, 8)}" for each in names)],
                lines,
                title="confusion",
            ),
        )
        return
    wrong = [
        (row[name], row["label"], name)
        for row in matrix.rows
        for name in names
        if name != row["label"]
    ]
    worst = [(label, said, str(n)) for n, label, said in sorted(wrong, reverse=True)[:FEW] if n]
    say("", table(["~hand label", "~model says", ">rows"], worst, title="confused most"))


def _count(count: int, right: bool) -> Any:
    from rich.text import Text

    return Text(str(count) if count else "·", "bold" if right else "yellow" if count else "dim")


def _suspects(session: Session, found: Report, everything: bool) -> None:
    suspects = next((each.rows for each in found.tables if each.title == "Suspect labels"), ())
    shown = suspects if everything else suspects[:SUSPECTS]
    lines = [
        (
            str(each["row"]),
            each["label"],
            f"{each['probability']:.1%}",
            each["says"],
            glance(session, each["row"], 50),
        )
        for each in shown
    ]
    if lines:
        more = f"{len(suspects) - len(shown)} more (--all)" if len(suspects) > len(shown) else ""
        head = ["row", "~labelled", ">probability", "~model says", "~text"]
        say(
            "",
            table(
                head,
                lines,
                title="hand labels that look wrong, the least probable first",
                more=more,
            ),
        )


def _findings(session: Session, found: Report, folder: Path, whole: bool) -> None:
    """What to do, with the command that does it."""
    told = []
    for each in found.findings:
        text, cure = (each, "") if isinstance(each, str) else (each.text, each.cure)
        command = "" if isinstance(each, str) else each.command.replace("DIR", str(folder))
        warns = getattr(each, "severity", "note") == "warning"
        short = text if whole else shorten(text.split(". ")[0].rstrip("."), 150)
        told.append((warns, short, command, cure))
    if not told:
        return
    say("\nwhat to look at", style="bold")
    for number, (warns, text, command, cure) in enumerate(told, 1):
        say(f" {number} {'! ' if warns else ''}{text}")
        if command:
            say(f"     {command}", style="cyan", whole=True)
        elif cure:
            say(f"     {cure}")


def _one_function(
    session: Session, found: Report, name: str, folder: Path, everything: bool
) -> dict[str, Any]:
    """A function's wrong rows, the rows of its classes that it misses, and its quarrels."""
    if name not in session.sources:
        raise UnknownName.of("source", name, session.sources)
    if name in session.switched_off:
        raise ParameterError(
            f"{name!r} is switched off; let it speak first: epoxy set {folder} {name} --on"
        )
    parts = rows_of_function(session, name)
    say(functions_table(session, [each for each in found.rows if each["source"] == name]))
    titles = {
        "wrong": "wrong: hand labels that its own vote contradicts",
        "missed": "missed: labelled by hand as a class it names, and it says nothing",
        "conflicts": "conflicts: other functions name another class",
    }
    for kind, title in titles.items():
        rows = parts[kind]
        shown = rows if everything else rows[:ROWS]
        more = f"{len(rows) - len(shown)} more (--all)" if len(rows) > len(shown) else ""
        head = ["row", "~it says", "~hand label", "~label now", "~text"]
        lines = [
            (e["row"], e["vote"] or "–", e["truth"] or "–", e["label"], e["text"]) for e in shown
        ]
        say("")
        say(
            table(head, lines, title=f"{title} ({len(rows)})", more=more)
            if lines
            else f"{title}: none"
        )
    return {"source": next(e for e in found.rows if e["source"] == name), **parts}


def rows_of_function(session: Session, name: str) -> dict[str, list[dict[str, Any]]]:
    """Rows where one function's own vote is wrong, missing, or contradicted by other functions."""
    import numpy as np

    from ..votes import ABSTAIN

    found: dict[str, list[dict[str, Any]]] = {"wrong": [], "missed": [], "conflicts": []}
    outcome, start = session.outcome, 0
    for at, split in enumerate(session.names):
        votes, y = session.split(split).votes, outcome.workspace.labels.y[at]
        mine = votes.column(name)
        others = np.delete(votes.matrix, votes.sources.index(name), axis=1)
        against = ((others != ABSTAIN) & (others != mine[:, None])).any(axis=1)
        named = np.isin(y, np.unique(mine[mine != ABSTAIN]))
        masks = {
            "wrong": (mine != ABSTAIN) & (y != ABSTAIN) & (mine != y),
            "missed": (mine == ABSTAIN) & (y != ABSTAIN) & named,
            "conflicts": (mine != ABSTAIN) & against,
        }
        for kind, mask in masks.items():
            for row in np.flatnonzero(mask).tolist():
                found[kind].append(
                    {
                        "row": str(session.split(split).id_of(row)),
                        "split": split,
                        "vote": None if mine[row] == ABSTAIN else session.classes[mine[row]],
                        "truth": None if y[row] == ABSTAIN else session.classes[y[row]],
                        "label": session.classes[int(outcome.decided[at][row])],
                        "text": glance(session, start + row),
                    }
                )
        start += len(mine)
    return found


def _page(found: Any) -> str:
    style = (
        "body{font:15px/1.5 system-ui;margin:2rem auto;max-width:70rem;color-scheme:light dark}"
        "table{border-collapse:collapse}td,th{padding:.2rem .7rem;text-align:left;"
        "border-bottom:1px solid #8884}dt{font-weight:600}dd{margin:0 0 .4rem}"
    )
    body = found._repr_html_()
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{found.title}</title>"
        f"<style>{style}</style>{body}</html>"
    )


@app.command()
def explain(
    folder: Home,
    row: Annotated[
        str,
        Argument(
            metavar="ROW",
            help="the id of a row, or its number, counted through train and then dev as in the studio",
        ),
    ],
    model: Model = None,
    split: Split = None,
    everything: All = False,
    json: Json = None,
) -> None:
    """Why one row has its label.

    The row, and what speaks for its label and against it, the weightiest first, with the rows
    behind it: votes of functions, own or lent by a row nearby; vectors, the rows around, and your
    labels. Weights add up to the log-odds of the label against the next class. --all takes them
    apart, and lists what weighs nothing.
    """
    session = open_project(folder, model)
    found = session.explain(row, split)
    show_explanation(session, found, everything)
    write_json(found.to_dict(), json)


def show_explanation(session: Session, found: Explanation, everything: bool = False) -> None:
    """An explanation on a screen: the row, its probabilities, and what weighs."""
    number = number_of(session, found.row)
    truth = "" if found.truth is None else f"   labelled by hand: {found.truth}"
    say(
        f"{found.row} → {found.label}  {_percent(found.probabilities[found.label])}{truth}",
        style="bold",
    )
    for line in () if number is None else full(session, number, 90):
        say(f"  {line}")
    for line in (*found.said, *found.notes):
        say(f"  {line}")
    say("", f"why {found.label} and not {found.against}", style="bold")
    lines = _weights(session, found, everything)
    scale = max((abs(weight) for _, weight, _ in lines), default=1.0)
    shown = [
        (what, f"{weight:+.2f}", bar(abs(weight) / scale, 16, empty=False), rows)
        for what, weight, rows in lines
    ]
    say(table(["~", ">log-odds", "", "~rows behind it"], shown))
    light = sum(abs(each.weight) < WEIGHS for each in found.voices)
    less = f"; {light} that weigh 0.00 are left out (--all)" if light and not everything else ""
    say(f"  together {found.log_odds:+.2f}{less}")
    others = [(p, name) for name, p in found.probabilities.items() if name != found.label]
    likely = [f"{name} {_percent(p)}" for p, name in sorted(others, reverse=True)[:3]]
    say(f"  else: {', '.join(likely)}" + (f", {len(others) - 3} others" if len(others) > 3 else ""))
    crowd = [f"{name} {share:.0%}" for name, share in found.majority.items() if share]
    say(f"  majority vote of the functions: {', '.join(crowd) or 'nobody votes'}")


PARTS = {
    "vectors": "rows with such vectors",
    "neighbours": "the rows around it",
    "labels": "your hand labels",
    "sequence": "the rows before and after it",
}
"""What each part of a model is called on a screen, where it is not a function's vote."""


def _weights(
    session: Session, found: Explanation, everything: bool
) -> list[tuple[str, float, str]]:
    """What speaks, what it weighs, and the rows behind it: votes one by one, other parts as a whole."""
    groups: dict[tuple[Any, ...], list[Voice]] = {}
    for at, each in enumerate(found.voices):
        is_vote = each.origin in ("own", "lent", "abstains")
        key = (each.source, each.origin) if is_vote else (each.part,)
        groups.setdefault((*key, at) if everything else key, []).append(each)
    lines = [
        (_what(voices, everything), sum(v.weight for v in voices), _behind(session, voices))
        for voices in groups.values()
    ]
    lines = [each for each in lines if everything or abs(each[1]) >= WEIGHS]
    if everything or abs(found.start) >= WEIGHS:
        lines.append((found.starts, found.start, ""))
    return sorted(lines, key=lambda each: -abs(each[1]))


def _what(voices: Sequence[Voice], alone: bool) -> str:
    """What speaks, in a few words; `alone`: as exactly as it can be said."""
    first = voices[0]
    if first.origin == "own":
        return f"{first.source} says {first.vote}"
    if first.origin == "lent":
        return f"{first.source} says {first.vote}, lent"
    if first.origin == "abstains":
        return f"{first.source} says nothing"
    name = PARTS.get(first.part, first.part)
    return f"{name}: {first.detail}" if alone and first.detail else name


def _behind(session: Session, voices: Sequence[Voice]) -> str:
    """The heaviest rows behind some voices: their ids, and the text of the first."""
    heavy = sorted(voices, key=lambda each: -abs(each.weight))
    rows = list(dict.fromkeys(str(row) for voice in heavy for row in voice.rows))
    if not rows:
        return ""
    text = glance(session, rows[0], 40)
    names = ", ".join(rows[:1] if text else rows[:3])
    more = len(rows) - (1 if text else 3)
    far = voices[0].distance if len(voices) == 1 else None
    about = ([f"+{more} more"] if more > 0 else []) + ([] if far is None else [f"at {far:.3f}"])
    beside = f" ({', '.join(about)})" if about else ""
    return f"{names}{beside}" + (f": {text}" if text else "")
