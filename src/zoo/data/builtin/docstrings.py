"""Docstrings of the running Python's standard library, parsed from its source without importing it."""

import ast
import hashlib
import sysconfig
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
BLOCKS = ("body", "cases", "handlers", "orelse", "finalbody")  # a statement's lists of statements, in source order
LEFT_OUT = frozenset({"test", "tests", "idlelib", "site-packages", "dist-packages"})
SHORTEST = 20  # characters; only longer docstrings are used
SHARE = 0.1  # of each area's docstrings that is held out for validation
OTHER = "other"
AREAS = {
    "networking": """
        http urllib imaplib smtplib ftplib poplib nntplib telnetlib socket socketserver ssl xmlrpc
        wsgiref ipaddress cgi cgitb webbrowser asyncore asynchat smtpd netrc mailcap
    """,
    "text": """
        email mailbox xml html json csv re string textwrap difflib codecs encodings configparser
        plistlib tomllib base64 quopri uu mimetypes gettext locale stringprep _markupbase
    """,
    "files": """
        zipfile tarfile pathlib shutil gzip bz2 lzma compression tempfile os posixpath ntpath
        genericpath glob fnmatch filecmp fileinput _pyio io stat zipapp dbm shelve pickle linecache
        _compression wave aifc sunau chunk sndhdr imghdr
    """,
    "concurrency": """
        asyncio multiprocessing threading concurrent subprocess queue selectors sched _threading_local
        signal
    """,
    "data": """
        _pydecimal decimal datetime _pydatetime statistics fractions random numbers collections
        _collections_abc enum heapq bisect calendar zoneinfo uuid types typing functools operator
        dataclasses abc _py_abc weakref _weakrefset copy copyreg graphlib _strptime
    """,
    "graphics": """
        tkinter turtle turtledemo curses colorsys
    """,
    "language": """
        importlib ast dis inspect lib2to3 pickletools symtable tokenize pyclbr code codeop pkgutil
        zipimport runpy imp modulefinder compileall py_compile distutils venv ensurepip site sysconfig
        opcode keyword tabnanny annotationlib _pyrepl
    """,
    "testing": """
        unittest doctest pdb bdb logging traceback trace tracemalloc timeit pstats profile cProfile
        warnings pydoc cmd
    """,
}
AREA_OF = {package: area for area, packages in AREAS.items() for package in packages.split()}


@dataclass(frozen=True)
class LibraryModule:
    """A module's dotted name and its docstrings in the order of its source."""

    name: str
    docstrings: tuple[str, ...]

    @property
    def area(self) -> str:
        """The area of the library that the module belongs to."""
        return AREA_OF.get(self.name.partition(".")[0], OTHER)

    @property
    def key(self) -> str:
        """A hash of its name: a fixed random order."""
        return hashlib.sha256(self.name.encode()).hexdigest()


def library() -> Path:
    """The folder of the running Python's standard library."""
    return Path(sysconfig.get_path("stdlib"))


@cache
def source_files(root: Path) -> tuple[Path, ...]:
    """The library's source files in a fixed order, without tests and installed packages."""
    files = ((path.relative_to(root).with_suffix("").parts, path) for path in root.rglob("*.py"))
    return tuple(path for parts, path in sorted(files) if not LEFT_OUT.intersection(parts))


@cache
def library_digest(root: Path) -> str:
    """A SHA-256 over the library's sources."""
    digest = hashlib.sha256()
    for path in source_files(root):
        digest.update(str(path.relative_to(root)).encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


@cache
def read_modules(root: Path) -> tuple[LibraryModule, ...]:
    """All modules that have docstrings of more than `SHORTEST` characters.

    Raises:
        ValueError: there are none, because this Python has no source files.
    """
    modules = []
    for path in source_files(root):
        docstrings = tuple(text for text in docstrings_of(path.read_bytes()) if len(text) > SHORTEST)
        if docstrings:
            name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
            modules.append(LibraryModule(name, docstrings))
    if not modules:
        raise ValueError(f"pydocs: no docstrings under {root}; this Python came without its library's sources")
    return tuple(modules)


def docstrings_of(source: bytes) -> Iterator[str]:
    """Yield the docstrings of a module, its classes and functions, without their indentation."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about the library's source do not concern the user
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError):
            return
    for node in definitions(tree):
        if text := ast.get_docstring(node):
            yield text


def definitions(node: ast.AST) -> Iterator[Documented]:
    """Yield a module, its classes and functions in source order; `ast.walk` would visit every expression."""
    if isinstance(node, Documented):
        yield node
    for block in BLOCKS:
        for statement in getattr(node, block, ()):
            yield from definitions(statement)


def split_modules(modules: tuple[LibraryModule, ...]) -> dict[str, list[LibraryModule]]:
    """Divide modules into train and validation, with about the same share of every area held out."""
    held_out: set[str] = set()
    for area in {module.area for module in modules}:
        inside = sorted((module for module in modules if module.area == area), key=lambda module: module.key)
        room = SHARE * sum(len(module.docstrings) for module in inside)
        for module in inside:
            if len(module.docstrings) <= room:
                held_out.add(module.name)
                room -= len(module.docstrings)
    train = [module for module in modules if module.name not in held_out]
    return {"train": train, "validation": without(train, [module for module in modules if module.name in held_out])}


def without(train: list[LibraryModule], modules: list[LibraryModule]) -> list[LibraryModule]:
    """Modules without the docstrings that also occur in train; modules without any are dropped."""
    seen = {text for module in train for text in module.docstrings}
    kept = (LibraryModule(m.name, tuple(text for text in m.docstrings if text not in seen)) for m in modules)
    return [module for module in kept if module.docstrings]
