"""The fields of a class with their types and the lines that stand under them."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from typing import Any

import attrs
import msgspec
from attrs import frozen

_WORDS = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "Any": "any"}


@frozen
class FieldDoc:
    """One field."""

    name: str
    type: str
    """As its annotation says."""
    default: str
    """Empty for none."""
    meaning: str


def fields_of(cls: type) -> Iterator[FieldDoc]:
    """Yield the fields of an attrs class, a dataclass or a msgspec one, in their order."""
    lines = _lines_under(cls)
    for name, annotation, default in _declared(cls):
        yield FieldDoc(name, annotation, default, lines.get(name, ""))


def json_type(annotation: str) -> str:
    """Return what a value of an annotation is in JSON."""
    if annotation.startswith(("tuple", "Sequence", "list")):
        return "array"
    return _WORDS.get(annotation, "object" if annotation.startswith(("dict", "Mapping")) else annotation)


def _declared(cls: type) -> Iterator[tuple[str, str, str]]:
    if attrs.has(cls):
        for one in attrs.fields(cls):
            yield one.name.lstrip("_"), str(one.type), _default(one.default, one.default is attrs.NOTHING)
        return
    types = {name: text for base in reversed(cls.__mro__) for name, text in inspect.get_annotations(base).items()}
    for field in msgspec.structs.fields(cls):
        made = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
        yield field.name, str(types[field.name]), _default(made, made is msgspec.NODEFAULT)


def _default(value: Any, missing: bool) -> str:
    if missing:
        return ""
    if isinstance(value, attrs.Factory):  # type: ignore[arg-type]
        value = value.factory() if not value.takes_self else None
    if hasattr(value, "value") and isinstance(value, str):
        value = value.value
    text = repr(value)
    return re.sub(r"^Decimal\('(.*)'\)$", r"\1", text)


def _lines_under(cls: type) -> dict[str, str]:
    """Return the first paragraph of the text under each field."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        try:
            body = ast.parse(inspect.getsource(base).lstrip()).body[0]
        except (OSError, TypeError, SyntaxError):
            continue
        assert isinstance(body, ast.ClassDef)
        for one, after in zip(body.body, [*body.body[1:], None], strict=True):
            if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
                text = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
                found[one.target.id.lstrip("_")] = re.sub(r"\s+", " ", str(text).partition("\n\n")[0]).strip()
    return found
