"""The flags of commands that append: one for each option of `append_options`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from typing import Annotated, Any, get_args

import msgspec
import typer
from msgspec import Meta

from penstock.append_options import AppendOptions

_FLAGS = {"idempotency_key": "--key"}  # the others have the name of the option


def with_append_flags(
    *, without: Collection[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator: the command gets a flag for each option of an append. It receives the given
    options as one dict, its keyword `options`."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        flags = [
            _flag(field)
            for field in msgspec.structs.fields(AppendOptions)
            if field.name not in without
        ]
        names = [flag.name for flag in flags]

        @functools.wraps(command)
        def call(**given: Any) -> None:
            options = {name: given.pop(name) for name in names}
            known = {name: value for name, value in options.items() if value is not None}
            command(**given, options=known)

        own = [one for one in signature.parameters.values() if one.name != "options"]
        parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own] + flags
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {one.name: one.annotation for one in parameters}
        return call

    return decorate


def _flag(field: msgspec.structs.FieldInfo) -> inspect.Parameter:
    annotated = next(one for one in get_args(field.type) if one is not type(None))
    kind, *metas = get_args(annotated)
    meta = next(one for one in metas if isinstance(one, Meta))
    given: dict[str, Any] = {"help": meta.description, "show_default": False}
    if kind is int:
        given |= {"min": meta.ge, "metavar": "N"}
    words = [_FLAGS[field.name]] if field.name in _FLAGS else []
    flag = Annotated[kind | None, typer.Option(*words, **given)]  # type: ignore[valid-type]
    return inspect.Parameter(
        field.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=flag
    )
