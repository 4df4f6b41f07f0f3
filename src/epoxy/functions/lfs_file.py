"""The file of labeling functions as a person keeps it: read, added to and changed without running it.

It is the author's own file, so it is changed by splicing: comments and layout around what changes stay as
they are, and so do the file's line endings and byte-order mark. Python's `ast` says where things stand;
its columns count UTF-8 bytes. What was written is read again before it is written to disk, and nothing
is written over what somebody else saved since.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import keyword
import re
import shutil
import unicodedata
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ..errors import CodeError, FileChanged, ParameterError, StoreError, UnknownName
from ..running.loader import digest
from ..storage import read_whole, write_whole
from .declare import keywords, like, regex
from .kinds import Form, Python, form_of, parsed

__all__ = ["FunctionsFile", "WrittenFunction"]

MOST_BYTES = 16 << 20
_WIDTH = 96
_DECLARED: dict[str, Any] = {"keywords": keywords, "regex": regex, "like": like}
"""What makes the kinds that are a call."""


@dataclass(frozen=True)
class WrittenFunction:
    """A labeling function as it stands in the file."""

    name: str
    kind: str  # keywords, regex, like, python
    line: int  # the first, counted from 1
    end: int  # the last
    code: str
    definition: Form | None = None
    """What a form can show; None where the code says more than that."""
    _span: tuple[int, int] = field(default=(0, 0), repr=False)  # what is replaced


@dataclass(frozen=True, eq=False)
class FunctionsFile:
    """A file of labeling functions at one moment.

    Examples
    --------
    >>> import msgspec, tempfile
    >>> path = Path(tempfile.mkdtemp()) / "lfs.py"
    >>> _ = path.write_text("import epoxy\\n\\na = epoxy.keywords('spam', 'money', name='a')  # mine\\n")
    >>> file = FunctionsFile.read(path)
    >>> file.functions[0].definition.words
    ['money']
    >>> more = msgspec.structs.replace(file.functions[0].definition, words=["money", "cash"])
    >>> print(file.with_changed("a", more).decode())
    import epoxy
    <BLANKLINE>
    a = epoxy.keywords("spam", "money", "cash", name="a")  # mine
    <BLANKLINE>
    """

    path: Path
    content: bytes

    @classmethod
    def read(cls, path: str | Path) -> FunctionsFile:
        """Read a file; that it does not parse is only said when its functions are asked for."""
        place = Path(path)
        try:
            return cls(place, read_whole(place, MOST_BYTES))
        except FileNotFoundError:
            raise StoreError(
                f"there is no file {place}; write your labeling functions there"
            ) from None
        except OSError as error:
            raise StoreError(
                f"{place} cannot be read ({error.strerror}); make it a file you may read"
            ) from error

    @property
    def hash(self) -> str:
        """A digest of the bytes."""
        return digest(self.content)

    @cached_property
    def text(self) -> str:
        """What it says, with plain line endings."""
        try:
            return re.sub("\r\n?", "\n", self.content.decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            line = self.content[: error.start].count(b"\n") + 1
            raise CodeError("it is not utf-8; save it as UTF-8", str(self.path), line) from None

    def encoded(self, text: str) -> bytes:
        """Another text as this file would hold it: with its mark, and its line endings."""
        newline = "\r\n" if b"\r\n" in self.content else "\n"
        mark = BOM_UTF8 if self.content.startswith(BOM_UTF8) else b""
        try:
            return mark + re.sub("\r\n?|\n", newline, text).encode()
        except UnicodeEncodeError as error:
            raise StoreError(
                f"{error.object[error.start]!r} is no character that {self.path} can hold; take it out"
            ) from None

    @cached_property
    def functions(self) -> tuple[WrittenFunction, ...]:
        """The labeling functions that can be read without running the file, in order.

        Decorated functions, and calls of `keywords`, `regex` and `like` with literal arguments at the
        top level. Others (made in a loop, imported from elsewhere) vote all the same.
        """
        found = (self._written(node) for top in self._tree.body for node in _candidates(top))
        return tuple(each for each in found if each is not None)

    def function(self, name: str) -> WrittenFunction:
        """A function by the name it votes under."""
        for each in self.functions:
            if each.name == name:
                return each
        raise UnknownName.of(
            f"function in {self.path}", name, [each.name for each in self.functions]
        )

    def name_of(self, definition: Form) -> str:
        """What a function is called where nobody names it; of Python code, what its decorator says."""
        if not isinstance(definition, Python):
            return str(definition.function().name)
        node = definition.last_def
        text = self._imported("python")[0].rstrip()
        whole = FunctionsFile(self.path, self.encoded(f"{text}\n{definition.code}"))
        end = len(text.splitlines()) + (node.end_lineno or 0)
        found = [each for each in whole.functions if each.end == end]
        if not found:
            raise CodeError(
                f"the code's last function {node.name!r} is no labeling function; "
                "decorate it with @epoxy.labeling_function"
            )
        return found[-1].name

    def with_added(self, definition: Mapping[str, Any] | Form, name: str) -> bytes:
        """The content with a function appended, importing what it needs."""
        made = form_of(definition)
        if any(each.name == name for each in self.functions):
            raise ParameterError(
                f"{self.path.name} has a function {name!r} already; choose another name, or replace it"
            )
        body = self._imported(made.kind)[0]
        variable, code = self.code_of(made, name)
        if any("lfs" in _bound(node) for node in self._tree.body):
            code += f"\nlfs = [*lfs, {variable}]"  # what is not in that list has no vote
        last = self._tree.body[-1] if self._tree.body else None
        gap = "" if isinstance(last, ast.Assign) else "\n"
        if made.kind == "python" or isinstance(last, ast.FunctionDef | ast.ClassDef):
            gap = "\n\n"
        if body and not body.endswith("\n"):
            gap = f"\n{gap}"
        return self._checked(f"{body}{gap}{code}\n", made, name)

    def code_of(self, definition: Form, name: str) -> tuple[str, str]:
        """The variable a new function would be kept in, and the code that makes it."""
        if isinstance(definition, Python):
            return definition.last_def.name, definition.code.strip("\r\n")
        variable = self._variable(name)
        callee = self._imported(definition.kind)[1]
        return variable, f"{variable} = {call_code(definition, name, callee)}"

    def with_changed(
        self, name: str, definition: Mapping[str, Any] | Form, new_name: str | None = None
    ) -> bytes:
        """The content with one function replaced, and every other byte as it was."""
        made, old = form_of(definition), self.function(name)
        called = name if new_name is None else new_name
        start, end = old._span
        if (made.kind == "python") != (old.kind == "python"):
            raise ParameterError(
                f"{name!r} is written as {old.kind} and cannot become {made.kind} in its place; "
                "add a new function and take the old one out"
            )
        if isinstance(made, Python):
            code, body = made.code.strip("\r\n"), self.text
        else:
            same = old.code.partition("(")[0]
            body, callee = self._imported(made.kind)
            code = call_code(made, called, same if old.kind == made.kind else callee)
        shift = len(body) - len(self.text)
        return self._checked(body[: start + shift] + code + body[end + shift :], made, called)

    def write(self, content: bytes, expecting: str, *, checked: bool = True) -> FunctionsFile:
        """Write other content in its place, whole or not at all, and return it as read.

        Refused where the file is not the one with the hash `expecting` any more, and, unless
        `checked` is False, where it does not parse.
        """
        target = self.path.resolve()  # a link stays a link
        made = FunctionsFile(self.path, content)
        if checked:
            _ = made._tree
        if FunctionsFile.read(target).hash != expecting:
            raise FileChanged(
                f"{self.path} was changed since it was read, so nothing was written; read it again"
            )

        def fill(place: Path) -> None:
            place.write_bytes(content)
            shutil.copymode(target, place)

        try:
            write_whole(target, fill)
        except OSError as error:
            raise StoreError(
                f"{self.path} cannot be written ({error.strerror}), and is as it was; "
                "make its folder writable or make room, and try again"
            ) from error
        return made

    # reading

    @cached_property
    def _tree(self) -> ast.Module:
        return parsed(self.text, str(self.path))

    def _place(self, line: int, column: int) -> int:
        """Where in the text a line and a byte of it are."""
        lines = self.text.split("\n")
        inside = lines[line - 1].encode()[:column].decode()
        return sum(len(each) + 1 for each in lines[: line - 1]) + len(inside)

    @cached_property
    def _names(self) -> dict[str, str]:
        """What names of the file mean of ours: "epoxy" for the package, else "keywords" and so on."""
        known = (*_DECLARED, "labeling_function")
        found: dict[str, str] = {}
        for node in self._tree.body:
            if isinstance(node, ast.Import):
                found |= {a.asname or a.name: "epoxy" for a in node.names if a.name == "epoxy"}
            elif isinstance(node, ast.ImportFrom) and node.module == "epoxy" and not node.level:
                found |= {a.asname or a.name: a.name for a in node.names if a.name in known}
        return found

    def _meaning(self, node: ast.expr) -> str | None:
        """Which of our functions an expression is."""
        if isinstance(node, ast.Name):
            found = self._names.get(node.id)
            return None if found == "epoxy" else found
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            return node.attr if self._names.get(node.value.id) == "epoxy" else None
        return None

    def _written(self, node: ast.FunctionDef | ast.Call) -> WrittenFunction | None:
        if isinstance(node, ast.Call):
            kind = self._meaning(node.func)
            if kind not in _DECLARED:
                return None
            name, definition = read_call(node, kind)
            return None if name is None else self._at(node, name, kind, definition)
        for each in node.decorator_list:
            call = each if isinstance(each, ast.Call) else None
            if self._meaning(call.func if call else each) == "labeling_function":
                given = {k.arg: k.value for k in call.keywords} if call else {}
                value = given.get("name", ast.Constant(node.name))
                if not isinstance(value, ast.Constant) or not isinstance(value.value, str):
                    return None
                return self._at(node, value.value, "python", None)
        return None

    def _at(
        self, node: ast.FunctionDef | ast.Call, name: str, kind: str, definition: Form | None
    ) -> WrittenFunction:
        line, column = node.lineno, node.col_offset
        if isinstance(node, ast.FunctionDef):  # with its decorators
            line, column = node.decorator_list[0].lineno, 0
        last = node.end_lineno or line
        span = self._place(line, column), self._place(last, node.end_col_offset or 0)
        code = self.text[slice(*span)]
        if kind == "python":
            definition = Python(code)
        return WrittenFunction(name, kind, line, last, code, definition, span)

    # writing

    def _variable(self, name: str) -> str:
        """A variable for a function, not taken in the file."""
        plain = re.sub(r"\W+", "_", name).strip("_")
        if not plain.isidentifier() or unicodedata.normalize("NFKC", plain) != plain:
            plain = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
        if not plain.isidentifier() or keyword.iskeyword(plain):
            plain = f"function_{plain}".rstrip("_")
        taken = {each for node in self._tree.body for each in _bound(node)}
        taken |= {"lfs", *dir(builtins)}
        found, count = plain, 2
        while found in taken:
            found, count = f"{plain}_{count}", count + 1
        return found

    def _imported(self, kind: str) -> tuple[str, str]:
        """The text with epoxy imported, if nothing of it that is needed is, and what to call."""
        wanted = "labeling_function" if kind == "python" else kind
        for name, meaning in self._names.items():
            if meaning in ("epoxy", wanted):
                return self.text, f"{name}.{kind}" if meaning == "epoxy" else name
        lines, after = self.text.split("\n"), 0
        for node in self._tree.body:
            doc = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            if not doc and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
                break
            after = node.end_lineno or node.lineno
        lines.insert(after, "import epoxy")
        return "\n".join(lines) + "\n" * (after == len(lines) - 1), f"epoxy.{kind}"

    def _checked(self, text: str, definition: Form, name: str) -> bytes:
        """The content of a text, after reading in it what was to be written."""
        content = self.encoded(text)
        made = FunctionsFile(self.path, content)
        if definition.kind == "python" and name not in [each.name for each in made.functions]:
            raise ParameterError(
                f"the code defines {self.name_of(definition)!r} and not {name!r}; give both one name"
            )
        found = made.function(name)
        if definition.kind != "python" and found.definition != definition:
            raise ParameterError(
                f"the function {name!r} cannot be written so that it reads as {definition}; "
                f"write it in {self.path.name} yourself"
            )
        return content


def _candidates(top: ast.stmt) -> Iterator[ast.FunctionDef | ast.Call]:
    """Function definitions and calls that run when the file does, outside of other functions."""
    if isinstance(top, ast.FunctionDef):
        yield top
        return
    todo: list[ast.AST] = [top]
    while todo:
        node = todo.pop(0)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(node, ast.Call):
            yield node
        todo[:0] = ast.iter_child_nodes(node)


def _bound(node: ast.stmt) -> set[str]:
    """Names a statement of the top level gives a value."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {(a.asname or a.name).partition(".")[0] for a in node.names}
    inside = (each for each in ast.walk(node) if isinstance(each, ast.Name))
    return {each.id for each in inside if isinstance(each.ctx, ast.Store)}


def call_code(form: Form, name: str, callee: str) -> str:
    """The call that makes a function, as an author would write it."""
    form.function(name)  # says what is wrong with it
    given, named = form.call()
    usual = inspect.signature(_DECLARED[form.kind]).parameters
    parts = [_written(each) for each in given]
    for option, value in {**named, "name": name}.items():
        if value != usual[option].default:
            parts.append(f"{option}={_written(value)}")
    line = f"{callee}({', '.join(parts)})"
    return line if len(line) <= _WIDTH else f"{callee}(\n{_filled(parts)}\n)"


def read_call(call: ast.Call, kind: str) -> tuple[str | None, Form | None]:
    """The name and the form of a call; None where its arguments are more than literals."""
    named = {each.arg: each for each in call.keywords}
    try:
        name = ast.literal_eval(named["name"].value) if "name" in named else None
        if name is not None and (not isinstance(name, str) or not name):
            return None, None
    except ValueError:
        return None, None
    try:
        given = [ast.literal_eval(each) for each in call.args]
        made: Any = _DECLARED[kind](*given, **{str(at): _literal(named[at]) for at in named})
    except (ValueError, TypeError, SyntaxError, AttributeError):
        return name, None
    return made.name, made.form


def _literal(given: ast.keyword) -> Any:
    """A literal, or `re.IGNORECASE` under its usual names."""
    node = given.value
    if given.arg == "flags" and isinstance(node, ast.Attribute):
        if isinstance(node.value, ast.Name) and node.value.id == "re":
            return int(getattr(re, node.attr))
        raise ValueError
    return ast.literal_eval(node)


def _filled(parts: list[str]) -> str:
    """Arguments one after another on lines of a readable width."""
    lines = ["    "]
    for part in parts:
        if len(lines[-1]) + len(part) > _WIDTH and lines[-1].strip():
            lines.append("    ")
        lines[-1] += f"{part}, "
    return "\n".join(each.rstrip() for each in lines)


def _written(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    plain = isinstance(value, str) and value.isprintable() and '"' not in value
    if not plain or value.endswith("\\"):
        return repr(value)
    return f'r"{value}"' if "\\" in value else f'"{value}"'
