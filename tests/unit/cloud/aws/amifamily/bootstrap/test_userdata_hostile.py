"""User data that was written to do harm, or that is broken: refused with a sentence, and soon."""

import time

import pytest

from karpenter.cloud.aws.amifamily.bootstrap.bootstrap import BadUserData, Bootstrap
from karpenter.cloud.aws.amifamily.bootstrap.mime import Part, parse_archive, render_archive
from karpenter.cloud.aws.amifamily.bootstrap.userdata import READ_LIMIT, TooMuchUserData, render_user_data
from karpenter.cloud.aws.amifamily.family import family_of

SECRET = "hunter2"
FAMILIES = ("AL2", "AL2023", "Bottlerocket", "Windows2022", "Custom")

MERGES = "a0: &a0 {x: y}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 12)
)
LISTS = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))


def render(family: str, custom: str) -> str:
    """Return what a node of a family would get."""
    bootstrap = Bootstrap(cluster="c", endpoint="https://c", ca_bundle="Y2E=", custom=custom)
    return render_user_data(family_of(family), bootstrap)


@pytest.mark.parametrize(
    ("family", "custom"),
    [
        pytest.param("AL2023", MERGES, id="YAML whose merges multiply"),
        pytest.param("AL2023", LISTS, id="YAML whose anchors multiply"),
        pytest.param("AL2023", "[" * 9000, id="YAML of brackets"),
        pytest.param("Bottlerocket", f"a = '{SECRET}'\nb = {'[' * 9000}", id="TOML of brackets"),
        pytest.param("Bottlerocket", ".".join(["a"] * 7000) + " = 1", id="TOML of dotted keys"),
        pytest.param("Bottlerocket", "a = " + "1" * 5000, id="TOML with a long number"),
        pytest.param("Bottlerocket", "a = 0x" + "f" * 9000, id="TOML with a long hexadecimal number"),
        pytest.param("Bottlerocket", f"settings = '{SECRET}'", id="TOML with a text for a table"),
        pytest.param(
            "Bottlerocket",
            f"[settings.kubernetes]\nnode-labels = '{SECRET}'",
            id="TOML with a text for labels",
        ),
        pytest.param("AL2", f"MIME-Version: 1.0\n{SECRET}\n", id="a MIME header that is none"),
        pytest.param("AL2", f"Content-Type: text/plain; x={SECRET}\n\nx", id="MIME that is no archive"),
        *(pytest.param(each, f"{SECRET} \ud800", id=f"a lone surrogate for {each}") for each in FAMILIES),
    ],
)
def test_it_is_refused_without_its_contents(family: str, custom: str) -> None:
    """The condition of the class says what is wrong; the contents may be secret."""
    with pytest.raises(BadUserData) as refused:
        render(family, custom)
    assert SECRET not in str(refused.value)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("custom", [f"a: !!{tag} {SECRET}\n" for tag in ("bool", "int", "timestamp")])
def test_a_tag_that_does_not_fit_makes_it_a_script(custom: str) -> None:
    """What is no YAML is a shell script, as in Karpenter."""
    assert "text/x-shellscript" in render("AL2023", custom)


@pytest.mark.parametrize("family", FAMILIES)
def test_more_than_can_fit_is_not_even_read(family: str) -> None:
    """An object may have a megabyte, and an archive of it would take minutes to read."""
    with pytest.raises(TooMuchUserData):
        render(
            family,
            "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n" + "--b\n\n" * READ_LIMIT,
        )


def test_the_boundary_is_found_at_once() -> None:
    """A text with every boundary of up to 60,000 characters takes no 60,000 attempts."""
    text = "--//" + "_" * 60_000
    began = time.process_time()
    parts = parse_archive(render_archive((Part.of("text/plain", text),)))
    assert [part.text for part in parts] == [text]
    assert time.process_time() - began < 1
