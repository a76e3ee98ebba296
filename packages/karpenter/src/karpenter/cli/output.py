"""
Output of commands: a table or text, or JSON or YAML with ``-o``.

Data goes to standard output, everything else to standard error. A command declares ``@output_option`` and
calls ``output.write(data, text=...)``; `data` is plain data or structs, `text` renders it for terminals.

Text for people goes through :func:`echo`, and data through :func:`render`: neither lets through what a
terminal would obey.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import IO, Any, TypeVar

import click
import msgspec

from karpenter.api.meta import Wire, to_plain
from karpenter.base.text import escaped, printable, printable_lines

FORMS = ("table", "json", "yaml")

F = TypeVar("F", bound=Callable[..., Any])
D = TypeVar("D")


class Output(msgspec.Struct, frozen=True):
    """The form that was asked for."""

    form: str

    @property
    def for_people(self) -> bool:
        """Whether text is wanted rather than data."""
        return self.form == "table"

    def write(self, data: D, *, text: Callable[[D], str]) -> None:
        """Print `data` in the form that was asked for."""
        if self.for_people:
            echo(text(data))
        else:
            click.echo(render(data, self.form), nl=False)


def echo(text: str, *, nl: bool = True, err: bool = False, file: IO[Any] | None = None) -> None:
    """Print text for people; what a terminal would obey becomes spaces."""
    click.echo(printable_lines(text), nl=nl, err=err, file=file)


class _OutputType(click.ParamType[Output]):
    """Turns ``-o json`` into an :class:`Output`."""

    name = "output"

    def __init__(self, forms: Sequence[str]) -> None:
        self._choice = click.Choice(forms)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        return self._choice.get_metavar(param, ctx)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Output:
        return value if isinstance(value, Output) else Output(self._choice.convert(value, param, ctx))

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        return self._choice.shell_complete(ctx, param, incomplete)


def output_option_with(*forms: str) -> Callable[[F], F]:
    """Return the option ``-o`` with these forms, the first being what is printed without it."""
    return click.option(
        "-o",
        "--output",
        type=_OutputType(forms),
        default=forms[0],
        show_default=True,
        help="How to print the result.",
    )


output_option = output_option_with(*FORMS)
"""The option ``-o table|json|yaml``, handed to the command as ``output: Output``."""


def render(data: Any, form: str) -> str:
    """Return data as JSON or YAML text that ends with a line break."""
    plain = to_plain(data) if isinstance(data, Wire) else msgspec.json.decode(msgspec.json.encode(data))
    if form == "yaml":
        from karpenter.api.manifests import render_documents  # noqa: PLC0415  only who asks for YAML loads it

        return render_documents([plain])
    return escaped(msgspec.json.format(msgspec.json.encode(plain), indent=2).decode()) + "\n"


def table(rows: Iterable[Sequence[str]]) -> str:
    """Return rows as aligned columns, the heading first; numbers and dates stay as they are written."""
    lines = [[printable(str(cell)) for cell in row] for row in rows]
    columns = max((len(line) for line in lines), default=0)
    widths = [max(len(line[i]) for line in lines if i < len(line)) for i in range(columns)]
    padded = ("   ".join(cell.ljust(widths[i]) for i, cell in enumerate(line)) for line in lines)
    return "\n".join(line.rstrip() for line in padded)
