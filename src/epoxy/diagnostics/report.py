"""Tables of numbers, and findings in words, that print, render as HTML, and turn into a dict."""

from __future__ import annotations

import html
import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ..terminal import as_text, harmless


@dataclass(frozen=True)
class Column:
    """How one column of a report is called and written."""

    key: str
    title: str
    form: str = "text"  # text, count, share, number, interval

    def write(self, row: Mapping[str, Any]) -> str:
        """One cell, as text; what is not known is a dash."""
        value = row.get(self.key)
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return "–"
        if isinstance(value, str):
            return value
        if self.form == "interval":
            return f"{value['value']:.0%} ({value['low']:.0%}–{value['high']:.0%}, n={value['n']})"
        if self.form == "share":
            return f"{value:.1%}"
        if self.form == "number":
            return f"{value:.3g}"
        if self.form == "text" and isinstance(value, list | tuple):
            return ", ".join(map(str, value))
        return str(value)


@dataclass(frozen=True)
class Table:
    """Rows of numbers under a title."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[dict[str, Any], ...]

    def to_dict(self) -> dict[str, Any]:
        """The same as plain numbers, strings and lists."""
        return {"title": self.title, "rows": [dict(row) for row in self.rows]}

    def __rich__(self) -> Any:
        """The table as rich renders it: numbers to the right, no lines, as wide as it must be."""
        from rich.table import Table as Shown
        from rich.text import Text

        title = Text(harmless(self.title)) if self.title else None
        made = Shown(
            box=None, pad_edge=False, title=title, title_justify="left", padding=(0, 2, 0, 0)
        )
        for column in self.columns:
            side: Any = "left" if column.form == "text" else "right"
            made.add_column(Text(harmless(column.title)), justify=side, overflow="fold")
        for row in self.rows:
            made.add_row(*(Text(harmless(column.write(row))) for column in self.columns))
        return made

    def __str__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        cell = html.escape
        head = "".join(f"<th scope='col'>{cell(column.title)}</th>" for column in self.columns)
        body = "".join(
            "<tr>"
            + "".join(f"<td>{cell(column.write(row))}</td>" for column in self.columns)
            + "</tr>"
            for row in self.rows
        )
        title = f"<caption>{cell(self.title)}</caption>" if self.title else ""
        return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


COMMANDS = {
    "worse-than-random": "epoxy report DIR {0}",
    "broad-source": "epoxy report DIR {0}",
    "not-heard": "epoxy report DIR {0}",
    "lent-votes": "epoxy set DIR {0} --radius none",
    "extension-hurts": "epoxy tune DIR",
    "near-duplicates": "epoxy set DIR {last} --off",
    "dependent-pairs": "epoxy set DIR {1} --off",
    "never-votes": "epoxy set DIR {0} --off",
    "unnamed-class": "epoxy suggest DIR",
    "few-overlaps": "epoxy suggest DIR",
    "class-balance": "epoxy annotate DIR --purpose score",
    "suspect-labels": "epoxy annotate DIR --purpose check",
    "uninformative-vectors": "epoxy encoders DIR",
    "misaligned": "epoxy encoders DIR",
}
"""What cures a kind of finding; {0} is the first source it names."""


@dataclass(frozen=True)
class Finding:
    """Something a person should look at: a fact with its numbers, and what to do about it.

    Examples
    --------
    >>> print(Finding("never-votes", ("short",), "note", "'short' never votes.", "Remove it."))
    'short' never votes. Remove it.
    """

    kind: str
    """A short name of the kind of finding, for programs."""
    sources: tuple[str, ...]
    """The sources it is about; empty when it is about all of them."""
    severity: Literal["warning", "note"]
    """A warning costs accuracy; a note may."""
    text: str
    """One sentence of fact."""
    cure: str
    """One sentence of what to do."""

    @property
    def command(self) -> str:
        """What to run for it, with DIR for the project folder; empty where no command does it."""
        names = [shlex.quote(name) for name in self.sources]
        return COMMANDS.get(self.kind, "").format(*names, last=names[-1] if names else "")

    def to_dict(self) -> dict[str, Any]:
        """The same as plain strings and lists."""
        return {**vars(self), "sources": list(self.sources), "command": self.command}

    def __str__(self) -> str:
        return f"{self.text} {self.cure}"


@dataclass(frozen=True)
class Report:
    """Numbers about a model or a session, for a person and for a program.

    `summary` holds the headline numbers, `rows` one entry per source, `findings` what a person should
    look at, `tables` whatever else the model has to show. `print(report)`, a notebook cell and
    `to_dict()` show the same.
    """

    title: str
    summary: dict[str, Any] = field(default_factory=dict)
    columns: tuple[Column, ...] = ()
    rows: tuple[dict[str, Any], ...] = ()
    findings: tuple[Finding | str, ...] = ()
    tables: tuple[Table, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers, strings and lists."""
        return {
            "title": self.title,
            "summary": dict(self.summary),
            "sources": [dict(row) for row in self.rows],
            "findings": [
                each.to_dict() if isinstance(each, Finding) else {"text": each}
                for each in self.findings
            ],
            "tables": [table.to_dict() for table in self.tables],
        }

    def __str__(self) -> str:
        parts = [self.title, *(f"  {key}: {_plain(value)}" for key, value in self.summary.items())]
        if self.rows:
            parts += ["", str(self._sources)]
        if self.findings:
            parts += ["", *(f"! {each}" for each in self.findings)]
        for table in self.tables:
            parts += ["", str(table)]
        return "\n".join(parts)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        cell = html.escape
        items = "".join(
            f"<dt>{cell(key)}</dt><dd>{cell(_plain(value))}</dd>"
            for key, value in self.summary.items()
        )
        notes = "".join(f"<li>{cell(str(each))}</li>" for each in self.findings)
        return (
            f"<section class='epoxy-report'><h3>{cell(self.title)}</h3><dl>{items}</dl>"
            + (self._sources._repr_html_() if self.rows else "")
            + (f"<ul>{notes}</ul>" if notes else "")
            + "".join(table._repr_html_() for table in self.tables)
            + "</section>"
        )

    @property
    def _sources(self) -> Table:
        return Table("", self.columns, self.rows)


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return "–" if math.isnan(value) else f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(each)}" for key, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_plain(each) for each in value)
    return str(value)
