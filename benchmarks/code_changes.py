"""Small wrong changes of a Python file: where each could be made, and the text with one of them made."""

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

BORDERS = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
OPPOSITES = {ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot}
COMPARISONS = {**BORDERS, **OPPOSITES, ast.IsNot: ast.Is}
ARITHMETIC = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult}
ARITHMETIC |= {ast.Mod: ast.FloorDiv, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd}
SPEECH = {"debug", "info", "warning", "error"}  # what a log line says is not what the code computes


@dataclass(frozen=True)
class Change:
    """One wrong change: what kind it is, and the part of the text that it replaces."""

    kind: str
    line: int
    start: int  # bytes of the file
    end: int
    before: str
    after: str

    def key(self, path: str, text: str) -> str:
        """A name that stays while the file stays."""
        seen = f"{path}\n{text}\n{self.kind}\n{self.start}\n{self.after}"
        return hashlib.sha256(seen.encode()).hexdigest()[:16]


def compared(node: ast.Compare) -> Iterator[tuple[str, ast.expr]]:
    """Each operator of a comparison moved at its border, or turned round."""
    for i, operator in enumerate(node.ops):
        if other := COMPARISONS.get(type(operator)):
            operators = [*node.ops[:i], other(), *node.ops[i + 1 :]]
            yield "comparison", ast.Compare(node.left, operators, node.comparators)


def called(node: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """The first two arguments swapped; each keyword left to its default."""
    first = node.args[:2]
    plain = len(first) == 2 and not any(isinstance(given, ast.Starred) for given in first)
    if plain and ast.dump(first[0]) != ast.dump(first[1]):
        yield "swapped arguments", ast.Call(node.func, [first[1], first[0], *node.args[2:]], node.keywords)
    for i, keyword in enumerate(node.keywords):
        if keyword.arg is not None:
            yield "keyword left out", ast.Call(node.func, node.args, node.keywords[:i] + node.keywords[i + 1 :])


def constant(value: object) -> Iterator[tuple[str, ast.expr]]:
    """A switch turned, a number moved."""
    if isinstance(value, bool):
        yield "constant", ast.Constant(not value)
    elif isinstance(value, int):
        yield "constant", ast.Constant(value + 1)
    elif isinstance(value, float):
        yield "constant", ast.Constant(value * 2 or 1.0)


def of_expression(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """What could be wrong about one expression, without its parts."""
    match node:
        case ast.Compare():
            yield from compared(node)
        case ast.Call():
            yield from called(node)
        case ast.Constant(value):
            yield from constant(value)
        case ast.BoolOp(operator, values):
            yield "and/or", ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values)
        case ast.UnaryOp(ast.Not(), inner):
            yield "dropped not", inner
        case ast.UnaryOp(ast.USub(), inner) if not isinstance(inner, ast.Constant):
            yield "sign", inner
        case ast.BinOp(left, operator, right) if type(operator) in ARITHMETIC:
            yield "arithmetic", ast.BinOp(left, ARITHMETIC[type(operator)](), right)
        case ast.IfExp(test, body, orelse):
            yield "branches", ast.IfExp(test, orelse, body)


def of_statement(node: ast.stmt) -> Iterator[tuple[str, ast.stmt]]:
    """What could be wrong about one simple statement, without its parts."""
    match node:
        case ast.Return(value) if value is not None and not (isinstance(value, ast.Constant) and value.value is None):
            yield "return", ast.Return(ast.Constant(None))
        case ast.Expr(ast.Call()) | ast.AugAssign() | ast.Raise() | ast.Assert() | ast.Delete():
            yield "removed statement", ast.Pass()
        case ast.Assign(targets) if all(isinstance(target, ast.Attribute | ast.Subscript) for target in targets):
            yield "removed statement", ast.Pass()
        case ast.Break():
            yield "removed statement", ast.Continue()
        case ast.Continue():
            yield "removed statement", ast.Pass()


def is_silent(node: ast.AST) -> bool:
    """Whether nothing inside a node computes, such as messages, log lines and patterns of `match`."""
    spoken = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SPEECH
    return spoken or isinstance(node, ast.JoinedStr | ast.Raise | ast.Assert | ast.pattern)


def visited(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """Every statement and expression that computes, from the top of the file down."""
    if isinstance(node, ast.stmt) or (isinstance(node, ast.expr) and not is_silent(node)):
        yield node
    if is_silent(node):
        return
    for name, field in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases", "type_comment"):
            continue
        for child in field if isinstance(field, list) else [field]:
            if isinstance(child, ast.AST):
                yield from visited(child)


def wrong_changes(text: str) -> list[Change]:
    """Every wrong change of a file, in the order of its lines."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    found = []
    for node in visited(ast.parse(text)):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        before = text.encode()[start:end].decode()
        if isinstance(node, ast.stmt):
            made = [(kind, ast.unparse(new)) for kind, new in of_statement(node)]
        else:  # in brackets, so that what stands around it binds as before
            made = [(kind, f"({ast.unparse(ast.fix_missing_locations(new))})") for kind, new in of_expression(node)]
        found += [Change(kind, node.lineno, start, end, before, after) for kind, after in made]
    return found


def apply(text: str, change: Change) -> str:
    """The text with one change made."""
    raw = text.encode()
    return (raw[: change.start] + change.after.encode() + raw[change.end :]).decode()
