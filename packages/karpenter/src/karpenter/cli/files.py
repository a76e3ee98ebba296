"""
The options ``-f`` and ``--set`` of commands.

``-f`` is a file, a folder, or ``-`` for standard input. Folders are searched recursively for ``.yaml``,
``.yml`` and ``.json``, in the order of their names. ``--set NAME=VALUE`` gives settings of the operator as
texts; ``operator.options`` parses and checks them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, cast

import click

from karpenter.api.manifests import Document, NotAnObject, documents_or_refusals
from karpenter.base.files import LARGEST_TEXT, read_bounded, read_stream, write_whole
from karpenter.cli.errors import CommandError, note

_ENDINGS = frozenset({".yaml", ".yml", ".json"})
_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.-]*://")
_ANY: Final = "FILE|DIR|-"

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
        elif _ADDRESS.match(path):
            raise CommandError(
                f"{path}: is an address, and only files are read", hint=_piped(f"curl -fsSL {path}")
            )
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
    chart = next((path.parent for path in found if _is_chart(path)), None)
    if chart is not None:
        problem = f"{chart}: is a Helm chart, whose templates are not manifests yet"
        raise CommandError(problem, hint=_piped(f"helm template {chart}"))
    for path in found:
        yield _file(path)._replace(in_folder=True)


def _stdin() -> SourceText:
    try:
        return SourceText(
            "stdin", _decode(read_stream(sys.stdin.buffer, LARGEST_TEXT, name="stdin"), "stdin")
        )
    except OSError as error:
        raise CommandError(f"stdin: {error.strerror or error}") from error


def _is_chart(path: Path) -> bool:
    return path.name == "Chart.yaml" and (path.parent / "templates").is_dir()


def _piped(command: str) -> str:
    """Return how the command that runs reads what another one prints."""
    context = click.get_current_context(silent=True)
    return f"{command} | {context.command_path if context is not None else 'karpenter plan'} -f -"


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


def files_option(
    *,
    required: bool = True,
    text: str = "What to read",
    metavar: str = _ANY,
    alone: bool = False,
) -> Callable[[F], F]:
    """
    Return the option ``-f``, handed to the command as ``paths: tuple[str, ...]``.

    A file may also be given without ``-f``, unless the command names something else that way (`alone`).
    """
    option = click.option(
        "-f",
        "--filename",
        "paths",
        multiple=True,
        metavar=metavar,
        type=click.Path(allow_dash=True),
        help=f"{text}: a YAML or JSON file, a folder, or - for standard input. May be repeated."
        if metavar == _ANY
        else f"{text}.",
    )

    def decorate(function: F) -> F:
        @wraps(function)
        def with_files(*args: Any, paths: tuple[str, ...], **options: Any) -> Any:
            both = (*paths, *options.pop("files", ()))
            if required and not both:
                raise click.UsageError("Missing option '-f' / '--filename'.")
            return function(*args, paths=both, **options)

        found = option(with_files)
        if not alone:
            argument = click.argument(
                "files", nargs=-1, metavar=f"[{metavar}]...", type=click.Path(allow_dash=True)
            )
            found = argument(found)
        return cast("F", found)

    return decorate


def one_path(paths: tuple[str, ...], what: str) -> str:
    """Return the only file of ``-f``; raises CommandError where there are several."""
    if len(paths) != 1:
        raise CommandError(f"{what} is one file, and {len(paths)} are given")
    return paths[0]


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
