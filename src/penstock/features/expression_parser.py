"""The text of an expression, read into an `Expression`.

Operators and open parentheses wait on a stack of the parser's own until what they apply to has been
read, so that a deeply nested text takes no room on Python's.

    or < and < not < comparison (one) < + - < * / < sign < constant, column, function, ( … )
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.errors import InvalidArgument
from penstock.features.expression import (
    CASTS,
    EXPRESSION_NODES_MAX,
    I64_MAX,
    INFIX,
    ColumnName,
    Expression,
    PostfixBuilder,
    column_node,
    constant_node,
)
from penstock.features.expression_functions import FUNCTIONS, arity_complaint
from penstock.features.expression_lexer import (
    EXPRESSION_CHARS_MAX,
    InvalidExpression,
    Token,
    tokens,
)
from penstock.features.names import nearest

_NOT: Final = 3
_COMPARISON: Final = 4
_SIGN: Final = 7
_LITERALS: Final[dict[str, bool | None]] = {"true": True, "false": False, "null": None}
_CAST_TYPES: Final[dict[str, str]] = {
    "int": "cast i64",
    "float": "cast f64",
    **{str(kind): name for name, kind in CASTS.items()},
}


@dataclass(slots=True)
class _Waiting:
    """What waits for its (next) operand: an operator, or a parenthesis with binding 0."""

    function: str  # "" for a parenthesis
    binding: int
    place: int
    operands: int  # how many stood on the stack when it came
    is_negated: bool = False  # of `in`


def parse(text: object) -> Expression:
    """Read an expression. Raises InvalidArgument, with the place in the text."""
    if not isinstance(text, str):
        raise InvalidArgument(f"an expression is a text, not {type(text).__name__}")
    return _Reading(text).whole()


class _Reading:
    """One text, read from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(tokens(text))
        self._at = 0
        self._built = PostfixBuilder()
        self._waiting: list[_Waiting] = []

    def whole(self) -> Expression:
        """The whole text."""
        while True:
            self._operand()
            if not self._operator():
                break
        self._reduce(1)
        if self._waiting:
            raise self._wrong("this parenthesis is not closed", self._waiting[-1].place)
        found = self._built.finished(self._text)
        if len(self._text) * 8 > EXPRESSION_CHARS_MAX:  # parentheses and escapes make it longer
            canonical_chars = len(str(found))
            if canonical_chars > EXPRESSION_CHARS_MAX:
                raise InvalidArgument(
                    f"the expression has {canonical_chars} characters in its canonical form: "
                    f"expected at most {EXPRESSION_CHARS_MAX}"
                )
        return found

    # One operand: sets the parser before an operator, or goes on to the next operand.

    def _operand(self) -> None:
        """Read up to the end of one constant, column, or empty list of arguments."""
        while True:
            token = self._take()
            match token.kind, token.value:
                case "number", value:
                    self._push_number(token, value)
                case "text", value:
                    self._built.push(constant_node(value), token.place)
                case "symbol", "-":
                    self._negative(token)
                    continue
                case "symbol", "(":
                    self._open("", token.place)
                    continue
                case "name", "not":
                    self._not(token)
                    continue
                case "name", ("and" | "or") as word:
                    raise self._wrong(f"expected a value before `{word}`", token.place)
                case "name", str() as name if name in _LITERALS:
                    self._built.push(constant_node(_LITERALS[name]), token.place)
                case "name", str() as name:
                    if _is_symbol(self._next(), "("):
                        self._open(self._known(name, token.place), token.place)
                        self._at += 1
                        continue
                    self._column(name, token.place)
                case "end", _:
                    raise self._wrong("the expression ends where a value is expected", token.place)
                case _:
                    raise self._wrong(f"unexpected {token.value!r}: expected a value", token.place)
            return

    def _column(self, name: str, place: int) -> None:
        # A name with a dot belongs to the grammar, though no event has such a column.
        try:
            for part in name.split("."):
                column_node(part)
        except InvalidArgument as error:
            raise self._wrong(str(error), place) from None
        self._built.push(ColumnName(name), place)

    def _push_number(self, token: Token, value: int | float | str) -> None:
        if isinstance(value, int) and value > I64_MAX:
            raise self._wrong("the integer is too large for an i64", token.place)
        self._built.push(constant_node(value), token.place)

    def _negative(self, minus: Token) -> None:
        following = self._next()
        if following.kind == "number" and not isinstance(following.value, str):
            # A sign belongs to its number, so that the smallest i64 can be written.
            self._tokens[self._at] = Token("number", -following.value, minus.place)
        else:
            self._wait("neg", _SIGN, minus.place)

    def _not(self, token: Token) -> None:
        if self._waiting and self._waiting[-1].binding > _NOT:
            raise self._wrong("put `not …` in parentheses here", token.place)
        self._wait("not", _NOT, token.place)

    def _known(self, function: str, place: int) -> str:
        callable_names = [name for name, known in FUNCTIONS.items() if known.is_call]
        if function != "cast" and function not in callable_names:
            near = nearest(function, ["cast", *callable_names])
            raise self._wrong(f"unknown function {function!r}; {near}", place)
        return function

    # What may follow an operand.

    def _operator(self) -> bool:
        """Read what follows an operand, up to the place of the next one. False at the end."""
        while True:
            token = self._take()
            match token.kind, token.value:
                case "end", _:
                    return False
                case "symbol", ")":
                    self._close(token.place)
                    continue
                case "symbol", ",":
                    if self._comma(token.place):
                        return True
                    continue
                case (("symbol" | "name"), str() as word) if word in INFIX or word == "not":
                    if word in ("in", "not"):
                        self._in(token)
                        continue
                    self._infix(word, token.place)
                    return True
                case _:
                    shown = "a text" if token.kind == "text" else repr(token.value)
                    raise self._wrong(f"unexpected {shown}: expected an operator", token.place)

    def _infix(self, word: str, place: int) -> None:
        binding = INFIX[word]
        # Of two that bind alike, the left one comes first; comparisons have no order at all.
        self._reduce(binding + (binding == _COMPARISON))
        if binding == _COMPARISON and self._waiting and self._waiting[-1].binding == binding:
            raise self._wrong(
                "comparisons cannot be chained: join two of them with `and`, or use parentheses",
                place,
            )
        self._wait(word, binding, place)

    def _in(self, token: Token) -> None:
        """`in (…)` and `not in (…)`: the list is read at once, since it holds constants."""
        place, is_negated = token.place, token.value == "not"
        if is_negated:
            following = self._take()
            if following.value != "in" or following.kind != "name":
                raise self._wrong("unexpected `not`: expected an operator", token.place)
        self._infix("in", place)
        self._waiting[-1].is_negated = is_negated
        if not _is_symbol(self._take(), "("):
            raise self._wrong("expected a list after `in`, such as in ('a', 'b')", place)
        while True:
            item = self._take()
            if _is_symbol(item, "-") and self._next().kind == "number":
                self._negative(item)
                item = self._take()
            if item.kind == "number":
                self._push_number(item, item.value)
            elif item.kind == "text":
                self._built.push(constant_node(item.value), item.place)
            elif item.kind == "name" and item.value in ("true", "false"):
                self._built.push(constant_node(item.value == "true"), item.place)
            else:
                raise self._wrong("expected a constant in the list of `in`", item.place)
            separator = self._take()
            if _is_symbol(separator, ")"):
                return
            if not _is_symbol(separator, ","):
                raise self._wrong("expected , or ) in the list of `in`", separator.place)

    # Parentheses.

    def _open(self, function: str, place: int) -> None:
        self._wait(function, 0, place)

    def _close(self, place: int) -> None:
        self._reduce(1)
        if not self._waiting:
            raise self._wrong("unexpected ')'", place)
        opened = self._waiting.pop()
        count = len(self._built) - opened.operands
        if opened.function == "cast":
            raise self._wrong("cast takes a value and a type: cast(x, i64)", opened.place)
        if opened.function:
            complaint = arity_complaint(opened.function, count)
            if complaint:
                raise self._wrong(complaint, opened.place)
            self._apply(opened.function, count, opened.place)

    def _comma(self, place: int) -> bool:
        """True if an operand follows: not after `cast(x,`."""
        self._reduce(1)
        opened = self._waiting[-1] if self._waiting else None
        if opened is None or not opened.function:
            raise self._wrong("unexpected ',': it separates the arguments of a function", place)
        if opened.function != "cast":
            return True
        kind, closing = self._take(), self._take()
        if kind.kind != "name" or kind.value not in _CAST_TYPES:
            raise self._wrong("expected a type: i64, f64, str or bool", kind.place)
        if not _is_symbol(closing, ")"):
            raise self._wrong("expected ) after the type", closing.place)
        self._waiting.pop()
        self._apply(_CAST_TYPES[str(kind.value)], 1, opened.place)
        return False

    # The stacks.

    def _wait(self, function: str, binding: int, place: int) -> None:
        # The canonical text of any expression needs fewer.
        if len(self._waiting) >= 2 * EXPRESSION_NODES_MAX:
            raise self._wrong("the expression is nested too deep", place)
        self._waiting.append(_Waiting(function, binding, place, len(self._built)))

    def _reduce(self, least: int) -> None:
        """Apply the waiting operators that bind at least so tightly."""
        while self._waiting and self._waiting[-1].binding >= least:
            waited = self._waiting.pop()
            if waited.function == "in":
                self._apply("in", len(self._built) - waited.operands + 1, waited.place)
                if waited.is_negated:
                    self._apply("not", 1, waited.place)
            else:
                self._apply(waited.function, 2 if waited.function in INFIX else 1, waited.place)

    def _apply(self, function: str, count: int, place: int) -> None:
        try:
            self._built.apply(function, count, place)
        except InvalidArgument as error:
            raise self._wrong(str(error), place) from None

    def _take(self) -> Token:
        token = self._tokens[self._at]
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def _next(self) -> Token:
        return self._tokens[self._at]

    def _wrong(self, why: str, place: int) -> InvalidExpression:
        return InvalidExpression(why, self._text, place)


def _is_symbol(token: Token, symbol: str) -> bool:
    return token.kind == "symbol" and token.value == symbol
