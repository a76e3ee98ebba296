"""
The options ``-f`` and ``--set`` of commands.

``-f`` is a file, a folder, or ``-`` for standard input. Folders are searched recursively for ``.yaml``,
``.yml`` and ``.json``, in the order of their names. ``--set NAME=VALUE`` gives settings of the operator as
texts; ``operator.options`` parses and checks them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import click

from karpenter.api.manifests import Document, NotAnObject, documents_or_refusals
from karpenter.base.files import LARGEST_TEXT, read_bounded, read_stream, write_whole
from karpenter.cli.errors import CommandError, note

_ENDINGS = frozenset({".yaml", ".yml", ".json"})

F = TypeVar("F", bound=Callable[..., Any])


class SourceText(NamedTuple):
    """A text and where it is from."""

    source: str
    content: str
    in_folder: bool = False
    """Whether it was found in a folder, and not named itself."""


def read_texts(paths: Iterable[str]) -> Iterator[SourceText]:
    """
    Yield the texts that ``-f`` names.

    Raises:
        CommandError: naming the file that cannot be read.
    """
    for path in paths:
        if path == "-":
            yield _stdin()
        elif Path(path).is_dir():
            yield from _folder(Path(path))
        else:
            yield _file(Path(path))


def objects_in(paths: Iterable[str]) -> Iterator[Document]:
    """
    Yield the objects that ``-f`` names; what a folder holds that is none is noted and left out.

    Raises:
        CommandError: naming the file, or the place in it, that cannot be read.
    """
    for text in read_texts(paths):
        for found in documents_or_refusals(text.content, text.source):
            if isinstance(found, Document):
                yield found
            elif text.in_folder and isinstance(found, NotAnObject):
                note(f"{found.subject}: left out, since it is no Kubernetes object")
            else:
                raise CommandError(str(found))


def _folder(folder: Path) -> Iterator[SourceText]:
    found = sorted(path for path in folder.rglob("*") if path.suffix in _ENDINGS and path.is_file())
    if not found:
        raise CommandError(f"{folder}: no file here ends with .yaml, .yml or .json")
    for path in found:
        yield _file(path)._replace(in_folder=True)


def _stdin() -> SourceText:
    try:
        return SourceText(
            "stdin", _decode(read_stream(sys.stdin.buffer, LARGEST_TEXT, name="stdin"), "stdin")
        )
    except OSError as error:
        raise CommandError(f"stdin: {error.strerror or error}") from error


def _file(path: Path) -> SourceText:
    try:
        return SourceText(str(path), _decode(read_bounded(path, LARGEST_TEXT), str(path)))
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}") from error


def write_files(texts: Mapping[Path, str], *, option: str) -> None:
    """
    Write text files, each all or nothing, with the folders that they are in.

    Raises:
        CommandError: naming the file that cannot be written.
    """
    for path, text in texts.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, text)
        except OSError as error:
            raise CommandError(f"{option}: {path} cannot be written: {error.strerror or error}") from error


def _decode(content: bytes, source: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CommandError(f"{source}: not UTF-8 text, at byte {error.start}") from error


def files_option(*, required: bool = True, text: str = "What to read") -> Callable[[F], F]:
    """Return the option ``-f``, handed to the command as ``paths: tuple[str, ...]``."""
    return click.option(
        "-f",
        "--filename",
        "paths",
        multiple=True,
        required=required,
        metavar="FILE|DIR|-",
        type=click.Path(allow_dash=True),
        help=f"{text}: a YAML or JSON file, a folder, or - for standard input. May be repeated.",
    )


_GATES: Final = "feature-gates"


def named_values(given: Iterable[str]) -> dict[str, str]:
    """Return the value of each setting: the last one given, but all the feature gates."""
    found: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals:
            raise CommandError(f"--set: {each!r} is not NAME=VALUE")
        found[name] = f"{found[name]},{value}" if name == _GATES and name in found else value
    return found
