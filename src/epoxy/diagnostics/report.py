"""A table of numbers that prints, renders as HTML, and turns into a dict."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Column", "Report"]


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
class Report:
    """Numbers about a model or a session, for a person and for a program.

    `summary` holds the headline numbers, `rows` one entry per source, `findings` sentences a person
    should read. `print(report)`, a notebook cell and `to_dict()` show the same.
    """

    title: str
    summary: dict[str, Any] = field(default_factory=dict)
    columns: tuple[Column, ...] = ()
    rows: tuple[dict[str, Any], ...] = ()
    findings: tuple[Any, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers, strings and lists."""
        return {
            "title": self.title,
            "summary": dict(self.summary),
            "sources": [dict(row) for row in self.rows],
            "findings": [
                each.to_dict() if hasattr(each, "to_dict") else {"text": str(each)}
                for each in self.findings
            ],
        }

    def __str__(self) -> str:
        parts = [self.title, *(f"  {key}: {_plain(value)}" for key, value in self.summary.items())]
        if self.rows:
            parts += ["", *_text_table(self.columns, self.rows)]
        if self.findings:
            parts += ["", *(f"! {each}" for each in self.findings)]
        return "\n".join(parts)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        cell = html.escape
        items = "".join(
            f"<dt>{cell(key)}</dt><dd>{cell(_plain(value))}</dd>"
            for key, value in self.summary.items()
        )
        head = "".join(f"<th scope='col'>{cell(column.title)}</th>" for column in self.columns)
        body = "".join(
            "<tr>"
            + "".join(f"<td>{cell(column.write(row))}</td>" for column in self.columns)
            + "</tr>"
            for row in self.rows
        )
        notes = "".join(f"<li>{cell(str(each))}</li>" for each in self.findings)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return (
            f"<section class='epoxy-report'><h3>{cell(self.title)}</h3><dl>{items}</dl>"
            + (table if self.rows else "")
            + (f"<ul>{notes}</ul>" if notes else "")
            + "</section>"
        )


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(each)}" for key, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_plain(each) for each in value)
    return str(value)


def _text_table(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    cells = [
        [column.title for column in columns],
        *([c.write(row) for c in columns] for row in rows),
    ]
    widths = [max(len(line[index]) for line in cells) for index in range(len(columns))]
    lines = []
    for line in cells:
        padded = [
            text.ljust(width) if column.form == "text" else text.rjust(width)
            for text, width, column in zip(line, widths, columns)
        ]
        lines.append("  ".join(padded).rstrip())
    lines.insert(1, "  ".join("─" * width for width in widths))
    return lines
