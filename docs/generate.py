"""Write the pages that are read off the code: docs/reference/commands.md and docs/reference/api.md.

    python docs/generate.py            write both
    python docs/generate.py --check    say which of them is stale, and exit with 1 if one is

The parser's own help is not pasted: its layout differs between Python versions and with the width of
the terminal. Signatures leave types out, which are in the code and in every editor.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import epoxy
from epoxy.cli.main import command

HERE = Path(__file__).parent
NOTICE = "<!-- Written by docs/generate.py; edit the code it describes, not this page. -->"


def command_line() -> str:
    """The page of commands."""
    line = command()
    parts = [
        "# Command line",
        NOTICE,
        _sentences((line.help or "").partition("\n\n")[0]),
        "Every command takes `--help`.\n"
        "An error is one sentence of fact and one of cure on standard error, with exit code 2.\n"
        "Ctrl-C keeps what was finished and exits with 130.",
        "| command | what it does |\n|---|---|\n"
        + "\n".join(
            f"| [`epoxy {name}`](#epoxy-{name}) | {_cell(_summary(each))} |"
            for name, each in line.commands.items()
        ),
    ]
    for name, each in line.commands.items():
        parts += [f"## epoxy {name}", *_command(name, each)]
    return "\n\n".join(parts) + "\n"


def _command(name: str, made: Any) -> list[str]:
    context = made.make_context(name, [], resilient_parsing=True)
    named = [each for each in made.params if each.param_type_name == "option" and each.help]
    placed = [each for each in made.params if each.param_type_name == "argument"]
    usage = " ".join(
        [f"epoxy {name}", *map(_shown, placed), *(_shown(each) for each in named if each.required)]
    )
    more = " [options]" if any(not each.required for each in named) else ""
    summary, _, details = inspect.cleandoc(made.help or "").partition("\n\n")
    parts = [" ".join(summary.split()), f"```text\n{usage}{more}\n```"]
    prose, examples = _split_examples(details.replace("\b\n", ""))
    if prose.strip():
        parts.append(_sentences(prose))
    if examples:
        parts.append(f"```text\n{examples}\n```")
    lines = [f"| `{_shown(each)}` | {_cell(_meaning(each, context))} |" for each in placed + named]
    return [*parts, "| argument | meaning |\n|---|---|\n" + "\n".join(lines)]


def _shown(parameter: Any) -> str:
    """An argument by its name in capitals, an option with what it takes."""
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name)
    if getattr(parameter, "is_flag", False):
        return str(parameter.opts[-1])
    descriptor = parameter.type_descriptor
    choices = "{" + ",".join(map(str, descriptor.choices or ())) + "}"
    value = parameter.metavar or (choices if descriptor.is_choice else parameter.name.upper())
    return f"{parameter.opts[-1]} {value}"


def _meaning(parameter: Any, context: Any) -> str:
    """The help of a parameter, with its default where it has one that says something."""
    default = parameter.get_default(context, call=False)
    told = "" if default in (None, False, "") or parameter.required else f" (default: {default})"
    return f"{parameter.help or ''}{told}"


def _split_examples(details: str) -> tuple[str, str]:
    """Prose, and the indented lines at its end."""
    lines = details.splitlines()
    examples = [line.strip() for line in lines if line.startswith("  ")]
    return "\n".join(line for line in lines if not line.startswith("  ")), "\n".join(examples)


def _summary(made: Any) -> str:
    return " ".join(inspect.cleandoc(made.help or "").partition("\n\n")[0].split())


def reference() -> str:
    """The page of public names."""
    names = [name for name in epoxy.__all__ if not _is_module(getattr(epoxy, name))]
    modules = [name for name in epoxy.__all__ if _is_module(getattr(epoxy, name))]
    kinds: dict[str, Callable[[Any], bool]] = {
        "Functions": lambda value: inspect.isfunction(value),
        "Classes": lambda value: inspect.isclass(value) and not _is_error(value),
        "Errors and warnings": _is_error,
        "Constants": lambda value: not callable(value),
    }
    parts = [
        "# Reference",
        NOTICE,
        "Every public name with its signature and its first sentence.\n"
        "`help(name)` has the parameters and an example.\n"
        "Names are loaded when first used: `import epoxy` alone loads neither scikit-learn nor torch.",
    ]
    for title, is_kind in kinds.items():
        chosen = [name for name in names if is_kind(getattr(epoxy, name))]
        if chosen:
            parts += [
                f"## {title}",
                *(_entry("epoxy", name, getattr(epoxy, name)) for name in chosen),
            ]
    for name in modules:
        parts += [f"## epoxy.{name}", *_module(getattr(epoxy, name))]
    return "\n\n".join(parts) + "\n"


def _module(module: ModuleType) -> list[str]:
    short = module.__name__
    listed = getattr(module, "__all__", [])
    rows = [_row(short, name, getattr(module, name)) for name in sorted(listed)]
    head = _sentences(first_sentence(module))
    return [head, "| name | |\n|---|---|\n" + "\n".join(rows)] if rows else [head]


def _row(home: str, name: str, value: Any) -> str:
    if getattr(epoxy, name, None) is value:
        home = "epoxy"
    shown = f"{name}{_signature(value)}" if callable(value) and not _is_error(value) else name
    return f"| `{_cell(shown)}` | {_cell(first_sentence(value, home, name))} |"


def _entry(home: str, name: str, value: Any) -> str:
    shown = f"{home}.{name}{'' if _is_error(value) or not callable(value) else _signature(value)}"
    parts = [f"### {name}", f"```text\n{shown}\n```", first_sentence(value, home, name)]
    if inspect.isclass(value) and not _is_error(value):
        members = [_member(value, each) for each in _members(value)]
        if members:
            parts.append("| | |\n|---|---|\n" + "\n".join(members))
    return "\n\n".join(parts)


def _members(cls: type) -> list[str]:
    """Public methods and properties of a class, in alphabetical order; not those of any estimator."""
    found = []
    for name in sorted(dir(cls)):
        static = inspect.getattr_static(cls, name)
        inner = getattr(static, "__func__", getattr(static, "fget", static))
        module = str(getattr(inner, "__module__", ""))
        ours = module.startswith("epoxy") and module != "epoxy.estimators"
        if not name.startswith("_") and ours and (callable(inner) or isinstance(static, property)):
            found.append(name)
    return found


def _member(cls: type, name: str) -> str:
    value = getattr(cls, name)
    is_property = isinstance(inspect.getattr_static(cls, name), property)
    shown = f".{name}" if is_property else f".{name}{_signature(value, bound=True)}"
    return f"| `{_cell(shown)}` | {_cell(first_sentence(value, cls.__name__, name))} |"


def first_sentence(value: Any, home: str = "", name: str = "") -> str:
    """The summary line of a docstring; for a constant, the string under its declaration."""
    if isinstance(value, str | int | float | tuple | dict):
        return _string_under(home, name)
    text = inspect.getdoc(value) or ""
    return " ".join(text.partition("\n\n")[0].split())


def _string_under(home: str, name: str) -> str:
    """The string literal that follows `NAME = …` where it is declared."""
    source_of = getattr(epoxy, "_HOME", {}).get(name) if home == "epoxy" else None
    module = importlib.import_module(f"epoxy.{source_of}" if source_of else home)
    lines = inspect.getsource(module).splitlines()
    for at, line in enumerate(lines[:-1]):
        if line.startswith(f"{name} ") and lines[at + 1].startswith('"""'):
            return lines[at + 1].strip('"')
    return ""


def _signature(value: Any, *, bound: bool = False) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(…)"
    parameters = list(signature.parameters.values())
    if bound and parameters and parameters[0].name in ("self", "cls"):
        parameters = parameters[1:]
    plain = [
        p.replace(
            annotation=p.empty, default=p.default if p.default is p.empty else _Shown(p.default)
        )
        for p in parameters
    ]
    return str(signature.replace(parameters=plain, return_annotation=signature.empty))


class _Shown:
    """A default value, written without addresses in memory."""

    def __init__(self, value: Any) -> None:
        named = getattr(value, "__name__", None)
        is_factory = type(value).__name__ == "_HAS_DEFAULT_FACTORY_CLASS"
        self.text = "…" if is_factory else str(named or repr(value))

    def __repr__(self) -> str:
        return self.text


def _is_module(value: Any) -> bool:
    return isinstance(value, ModuleType)


def _is_error(value: Any) -> bool:
    return inspect.isclass(value) and issubclass(value, Exception)


def _sentences(text: str) -> str:
    """One sentence per line, as everywhere in these pages."""
    return " ".join(text.split()).replace(". ", ".\n")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


PAGES = {"reference/commands.md": command_line, "reference/api.md": reference}


def main(arguments: list[str]) -> int:
    """Write the pages, or with --check only compare them."""
    stale = []
    for name, make in PAGES.items():
        page, text = HERE / name, make()
        if not page.is_file() or page.read_text("utf-8") != text:
            stale.append(name)
            if "--check" not in arguments:
                page.write_text(text, "utf-8")
    verb = "is stale; run: python docs/generate.py" if "--check" in arguments else "written"
    for name in stale:
        sys.stdout.write(f"docs/{name} {verb}\n")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
