"""``karpenter validate``."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from karpenter.api.manifests import render_documents
from karpenter.cli import main
from tests.unit.api.cases.case import changed
from tests.unit.api.cases.pools import POOL, STATIC

WRONG = changed(POOL, {"spec.weight": 101})
LINE = (
    "NodePool/default: spec.weight: "
    "Invalid value: 101: spec.weight in body should be less than or equal to 100"
)


def run(*arguments: str, text: str | None = None) -> Result:
    """Run ``karpenter validate``."""
    return CliRunner().invoke(main, ["validate", *arguments], input=text)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a good file, a bad one, and one that is none."""
    (tmp_path / "good.yaml").write_text(render_documents([POOL]), "utf-8")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "bad.json").write_text(json.dumps(WRONG), "utf-8")
    (tmp_path / "notes.txt").write_text("{", "utf-8")
    return tmp_path


def test_good(folder: Path) -> None:
    """Without problems nothing is printed but a summary, and the exit code is 0."""
    result = run("-f", str(folder / "good.yaml"))

    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "1 object accepted, 0 refused, 0 skipped\n"


def test_folders_are_searched(folder: Path) -> None:
    """Every manifest of a folder is checked, to the bottom, and other files are not."""
    result = run("-f", str(folder))

    assert result.exit_code == 2
    assert result.stdout == f"{folder}/sub/bad.json: {LINE}\n"
    assert result.stderr == "1 object accepted, 1 refused, 0 skipped\n"


def test_standard_input() -> None:
    """A dash is standard input."""
    result = run("-f", "-", text=render_documents([WRONG]))

    assert (result.exit_code, result.stdout) == (2, f"stdin: {LINE}\n")


def test_several_files_are_one_run(folder: Path) -> None:
    """The option may be repeated."""
    result = run("-f", str(folder / "good.yaml"), "-f", str(folder / "sub"))

    assert result.stderr == "1 object accepted, 1 refused, 0 skipped\n"


def test_json_and_yaml(folder: Path) -> None:
    """As data, everything that was found is there, and standard output holds nothing else."""
    as_json = json.loads(run("-f", str(folder), "-o", "json").stdout)
    as_yaml = yaml.safe_load(run("-f", str(folder), "-o", "yaml").stdout)

    assert as_json == as_yaml
    assert as_json == {
        "problems": [
            {
                "source": f"{folder}/sub/bad.json",
                "subject": "NodePool/default",
                "field": "spec.weight",
                "reason": "FieldValueInvalid",
                "message": "Invalid value: 101: spec.weight in body should be less than or equal to 100",
            }
        ],
        "skipped": [],
        "accepted": [{"source": f"{folder}/good.yaml", "subject": "NodePool/default"}],
        "warnings": [],
    }


def test_changes(tmp_path: Path) -> None:
    """With --old, what may not change is checked."""
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text(render_documents([STATIC]), "utf-8")
    new.write_text(render_documents([POOL]), "utf-8")

    result = run("-f", str(new), "--old", str(old))

    assert result.exit_code == 2
    assert "static (with replicas) or dynamic (without)" in result.stdout


def test_old_that_cannot_be_read(folder: Path) -> None:
    """A file given to --old that is no manifest is an error, not a finding."""
    result = run("-f", str(folder / "good.yaml"), "--old", str(folder / "notes.txt"))

    assert result.exit_code == 2
    assert result.stderr.startswith("error: --old: ")


def test_skipped_kinds_are_named() -> None:
    """A kind that is not known is named on standard error and is no problem."""
    result = run("-f", "-", text="{apiVersion: example.com/v1, kind: Foo, metadata: {name: a}}")

    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == (
        "stdin: Foo/a: skipped, since example.com/v1 is not known here\n"
        "0 objects accepted, 0 refused, 1 skipped\n"
    )


def test_a_problem_stays_on_its_line() -> None:
    """Text from a manifest cannot break lines of the report."""
    result = run(
        "-f", "-", text='{"apiVersion": "v1", "kind": "Pod\\nx: y", "metadata": {"name": "a\\u001b[2J"}}'
    )

    assert result.stderr.splitlines()[0].startswith("stdin: Pod x: y/a [2J: skipped")


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        pytest.param("missing.yaml", None, "No such file or directory", id="a file that is not there"),
        pytest.param("bytes.yaml", b"\xff\xfe\x00", "not UTF-8 text, at byte 0", id="a file that is no text"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, name: str, content: bytes | None, sentence: str) -> None:
    """A file that cannot be read is named with the reason."""
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)

    result = run("-f", str(path))

    assert (result.exit_code, result.stderr) == (2, f"error: {path}: {sentence}\n")


def test_empty_folders(tmp_path: Path) -> None:
    """A folder without manifests is probably the wrong one."""
    result = run("-f", str(tmp_path))

    assert result.exit_code == 2
    assert result.stderr == f"error: {tmp_path}: no file here ends with .yaml, .yml or .json\n"


def test_something_must_be_named() -> None:
    """Without -f there is nothing to do."""
    result = run()

    assert result.exit_code == 2
    assert "Missing option '-f'" in result.stderr


@pytest.mark.parametrize(
    ("identity", "said"),
    [
        pytest.param("karpenter.sh/v1 NodePol", "did you mean NodePool of karpenter.sh/v1?", id="a kind"),
        pytest.param("karpenter.sh/v1 nodepools", "did you mean NodePool of karpenter.sh/v1?", id="a plural"),
        pytest.param("karpenter.sh/v2 NodePool", "did you mean NodePool of karpenter.sh/v1?", id="a version"),
        pytest.param("karpeter.sh/v1 NodePool", "did you mean NodePool of karpenter.sh/v1?", id="a group"),
        pytest.param(
            "karpenter.sh/v1alpha5 Provisoner",
            "did you mean Provisioner of karpenter.sh/v1alpha5?",
            id="a kind from before version 1",
        ),
        pytest.param(
            "karpenter.k8s.aws/v1 NodeClass",
            "did you mean EC2NodeClass of karpenter.k8s.aws/v1?",
            id="a kind without its provider",
        ),
        pytest.param(
            "karpenter.kwok.sh/v1 Machine",
            "karpenter.kwok.sh has KWOKNodeClass of karpenter.kwok.sh/v1alpha1",
            id="another kind in a group of ours",
        ),
        pytest.param(
            "autoscaling.x-k8s.io/v1beta1 CapacityBufer",
            "did you mean CapacityBuffer of autoscaling.x-k8s.io/v1beta1?",
            id="a capacity buffer",
        ),
        pytest.param("apps/v1 Deploymnt", "did you mean Deployment of apps/v1?", id="a workload"),
    ],
)
def test_a_kind_that_is_misspelled(identity: str, said: str, tmp_path: Path) -> None:
    """A kind that is almost one that we know is an error that names it, in every command that reads files."""
    version, kind = identity.split()
    file = tmp_path / "objects.yaml"
    file.write_text(f"{{apiVersion: {version}, kind: {kind}, metadata: {{name: a}}}}", "utf-8")
    commands = ["validate", "plan", "hash", "changeover", "definition import", "convert", "why pod/a"]
    results = [CliRunner().invoke(main, [*command.split(), "-f", str(file)]) for command in commands]

    refused = f"{kind} of {version} is not known here; {said}"
    assert [refused in each.output for each in results] == [True] * len(commands)
    assert [each.exit_code for each in results] == [2, 2, 2, 2, 2, 1, 2]


def test_a_version_that_is_gone() -> None:
    """A kind of Kubernetes in a version that no cluster serves any more is refused with the one that is."""
    result = run("-f", "-", text="{apiVersion: apps/v1beta1, kind: Deployment, metadata: {name: a}}")

    assert result.exit_code == 2
    assert (
        "Deployment of apps/v1beta1 is not known here; did you mean Deployment of apps/v1?" in result.stdout
    )


@pytest.mark.parametrize(
    "identity",
    ["autoscaling.x-k8s.io/v1beta1 ProvisioningRequest", "v1 ConfigMap", "apps/v1 ControllerRevision"],
)
def test_kinds_of_others(identity: str) -> None:
    """Kinds of Kubernetes and of Cluster Autoscaler are not taken for misspelled ones."""
    version, kind = identity.split()

    result = run("-f", "-", text=f"{{apiVersion: {version}, kind: {kind}, metadata: {{name: a}}}}")

    assert "did you mean" not in result.output


def test_what_is_no_object_in_a_folder(folder: Path) -> None:
    """Other YAML in a folder is skipped by name; named itself, or half an object, it is refused."""
    (folder / "sub" / "bad.json").unlink()
    other = folder / "values.yaml"
    other.write_text("replicas: 2", "utf-8")

    skipped, named = run("-f", str(folder)), run("-f", str(other))
    other.write_text("{apiVersion: v1, metadata: {name: a}}", "utf-8")
    half = run("-f", str(folder))

    assert (skipped.exit_code, named.exit_code, half.exit_code) == (0, 2, 2)
    assert skipped.stderr == (
        f"{other}: skipped, since it is no Kubernetes object\n1 object accepted, 0 refused, 1 skipped\n"
    )


def test_our_own_examples() -> None:
    """Everything that the repository offers for copying passes."""
    result = run("-f", str(Path(__file__).parents[3] / "examples"))

    assert (result.exit_code, result.stdout) == (0, "")


def test_what_doctor_finds_in_one_object_is_said(tmp_path: Path) -> None:
    """A value that no node has is accepted by a cluster, so it is said and changes no exit code."""
    file = tmp_path / "pool.yaml"
    category = {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["C"]}
    template = {**POOL["spec"]["template"]["spec"], "requirements": [category]}
    template["nodeClassRef"] = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    spec = {**POOL["spec"], "template": {"spec": template}}
    file.write_text(render_documents([{**POOL, "spec": spec}]), "utf-8")

    result = run("-f", str(file))
    data = json.loads(run("-f", str(file), "-o", "json").stdout)

    assert result.exit_code == 0
    assert "karpenter.k8s.aws/instance-category is never 'C', so that nothing matches" in result.stderr
    assert [each["rule"] for each in data["warnings"]] == ["label-value"]
