"""The command itself: help, the table of commands, and how errors look."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import CompletionItem
from click.testing import CliRunner, Result

from karpenter import __version__
from karpenter.cli import main
from karpenter.cli.group import COMMANDS, LazyGroup, write_what_can_be_encoded

PROBE = """
import json, sys
from karpenter.cli import main
try:
    main(["--help"])
except SystemExit:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def run(*arguments: str, text: str | None = None) -> Result:
    """Run a command and return what came of it."""
    return CliRunner().invoke(main, list(arguments), input=text)


def test_help_lists_every_command() -> None:
    """Help names each command with its line."""
    result = run("--help")

    assert result.exit_code == 0
    for name, entry in COMMANDS.items():
        assert f"  {name}" in result.stdout
        assert entry.about.split()[0] in result.stdout


def test_help_loads_no_command() -> None:
    """Help answers at once because it loads neither a command nor what commands need."""
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)  # noqa: S603  ours
    loaded = set(json.loads(done.stderr))

    assert done.stdout.startswith("Usage:")
    assert not loaded & {"yaml", "cel", "numpy", "rich", "aiohttp", "karpenter.api.kinds", "karpenter.core"}


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_can_be_loaded_and_has_an_example(name: str) -> None:
    """The table points at real commands, and the help of each shows how it is called."""
    command = LazyGroup().get_command(click.Context(main), name)

    assert isinstance(command, click.Command)
    result = run(name, "--help")
    assert result.exit_code == 0
    assert f"karpenter {name}" in result.stdout.partition("Example")[2]


def test_version() -> None:
    """The version is the package's."""
    assert run("--version").stdout == f"karpenter {__version__}\n"


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        pytest.param("valdate", "hint: did you mean validate?\n", id="a typing error"),
        pytest.param("xyzzy", "hint: karpenter --help lists the commands\n", id="nothing like it"),
    ],
)
def test_unknown_commands(typed: str, hint: str) -> None:
    """A command that does not exist is answered with the one that was meant."""
    result = run(typed)

    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr == f"error: there is no command {typed!r}\n{hint}"


def test_unknown_options_are_for_click() -> None:
    """An option that does not exist is refused as usual."""
    assert run("--frobnicate").exit_code == 2


def test_completion_of_commands_loads_none() -> None:
    """Names are completed from the table."""
    assert isinstance(main, LazyGroup)
    found = main.shell_complete(click.Context(main), "v")

    assert [item.value for item in found] == ["validate", "version"]
    assert isinstance(found[0], CompletionItem)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    """Each shell gets a script that calls us back."""
    result = run("completion", shell)

    assert result.exit_code == 0
    assert "_KARPENTER_COMPLETE" in result.stdout


def test_completion_works_end_to_end() -> None:
    """Asked as bash asks, we name the commands."""
    done = subprocess.run(
        [sys.executable, "-m", "karpenter.cli"],
        capture_output=True,
        text=True,
        check=True,
        env={"_KARPENTER_COMPLETE": "bash_complete", "COMP_WORDS": "karpenter val", "COMP_CWORD": "1"},
    )

    assert done.stdout == "plain,validate\n"


def test_version_as_data() -> None:
    """The version is data, too."""
    assert json.loads(run("version", "-o", "json").stdout)["version"] == __version__
    assert run("version").stdout.startswith(f"karpenter {__version__} ")


def test_a_reader_that_goes_away_ends_us_quietly() -> None:
    """``karpenter crds | head -1`` prints one line and no traceback."""
    done = subprocess.run(  # noqa: S602  a pipe is what this is about
        f"{sys.executable} -m karpenter.cli crds | head -1",
        shell=True,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "---\n"
    assert done.stderr == ""


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["crds"], id="text"),
        pytest.param(["catalog", "list"], id="a table"),
        pytest.param(["--help"], id="help"),
        pytest.param(["doctor", "--help"], id="help of a command"),
        pytest.param(["plan", "--strict", "-f", "-"], id="what rich prints"),
        pytest.param(["plan", "--strict", "-f", "-", "-o", "json"], id="data"),
    ],
)
def test_a_closed_pipe_is_no_negative_answer(arguments: list[str]) -> None:
    """Any command exits with 141 when its reader is gone, as a shell reports other programs."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(  # noqa: S603  our own command
            [sys.executable, "-m", "karpenter.cli", *arguments],
            input=b"{apiVersion: v1, kind: Namespace, metadata: {name: a}}",
            stdout=writer,
            stderr=subprocess.PIPE,
            check=False,
        )
    finally:
        os.close(writer)

    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_a_full_disk_is_one_line() -> None:
    """``karpenter crds > file`` on a full disk says so, and exits 2."""
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "karpenter.cli", "crds"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    said = "error: what the command prints cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (2, said)


@pytest.mark.parametrize("name", ["demo", "local", "simulate"])
def test_commands_of_the_other_distribution_say_how_to_install_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without karpenter-local its commands name the distribution and the command that installs it."""
    monkeypatch.setattr("karpenter.cli.group.metadata.entry_points", lambda **_: ())
    result = run(name)

    assert result.exit_code != 0
    assert f"karpenter {name} is part of the distribution karpenter-local" in result.output
    assert "hint: pip install" in result.output
    assert "karpenter-local" in result.output.partition("hint:")[2]


def test_installed_from_a_wheel_the_hint_names_the_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no checkout is known, the hint names the wheel of the same release."""
    monkeypatch.setattr("karpenter.cli.group.metadata.entry_points", lambda **_: ())
    monkeypatch.setattr("karpenter.cli.group.metadata.Distribution.read_text", lambda *_: None, raising=False)
    monkeypatch.setattr("karpenter.cli.group.metadata.PathDistribution.read_text", lambda *_: None)

    assert f"karpenter_local-{__version__}-py3-none-any.whl" in run("demo").output


def raising(error: BaseException) -> click.Command:
    def fail() -> None:
        raise error

    return click.Command("version", callback=fail)


@pytest.mark.parametrize(
    ("error", "code", "stderr"),
    [
        pytest.param(KeyboardInterrupt(), 130, "", id="Ctrl-C"),
        pytest.param(
            ModuleNotFoundError("No module", name="botocore.exceptions"),
            2,
            "error: this needs botocore.exceptions, which is not installed here\nhint: pip install boto3\n",
            id="boto3 is not installed",
        ),
    ],
)
def test_how_a_command_ends(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, stderr: str
) -> None:
    """An interrupted command exits as shells expect, and a missing extra is one line with the remedy."""
    monkeypatch.setattr(LazyGroup, "get_command", lambda *_: raising(error))
    result = run("version")

    assert (result.exit_code, result.stderr) == (code, stderr)


def test_a_module_of_ours_that_is_missing_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not told as an extra that could be installed."""
    monkeypatch.setattr(LazyGroup, "get_command", lambda *_: raising(ModuleNotFoundError("x", name="x")))
    assert isinstance(run("version").exception, ModuleNotFoundError)


def test_a_terminal_without_unicode_gets_question_marks() -> None:
    """What the encoding does not have is no reason for a traceback."""
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding="ascii")
    write_what_can_be_encoded(stream, object())
    stream.write("a → b")
    stream.flush()

    assert written.getvalue() == b"a ? b"


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("run", "--cloud-provider", "elsewhere"), id="as settings call it"),
        pytest.param(("run", "--cloud-provider=elsewhere"), id="with an equals sign"),
        pytest.param(("run", "--provider", "elsewhere"), id="as other commands call it"),
    ],
)
def test_an_option_has_the_names_of_other_commands(words: tuple[str, ...]) -> None:
    """What one command calls --provider and another --cloud-provider, both take by both names."""
    assert "hint: --provider is one of" in run(*words).stderr


def test_names_of_options_in_groups() -> None:
    """A subcommand takes them, too; what comes after two dashes is no option."""
    assert "No such option" not in run("definition", "render", "missing", "--cluster", "blue").stderr
    assert "error: --cluster: No such file" in run("definition", "render", "--", "--cluster").stderr
