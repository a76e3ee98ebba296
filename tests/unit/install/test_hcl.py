"""How HCL is written: escapes, keys, references, and the layout that ``terraform fmt`` leaves alone."""

from __future__ import annotations

import hcl2
import pytest

from karpenter.install.hcl import HclBlock, HclCall, HclExpression, HclWriter


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param("a", '"a"', id="a text"),
        pytest.param('say "a"\n', r'"say \"a\"\n"', id="quotes and line breaks"),
        pytest.param("${var.a} %{ if }", '"$${var.a} %%{ if }"', id="what would be a template"),
        pytest.param("größe", '"größe"', id="letters of other languages"),
        pytest.param(True, "true", id="true"),
        pytest.param(None, "null", id="null"),
        pytest.param(1.5, "1.5", id="a number"),
        pytest.param([], "[]", id="an empty list"),
        pytest.param({}, "{}", id="an empty object"),
        pytest.param(["a", 1], '["a", 1]', id="a short list"),
        pytest.param(HclExpression("var.a"), "var.a", id="an expression"),
        pytest.param(HclCall("jsonencode", ["a"]), 'jsonencode(["a"])', id="a call"),
    ],
)
def test_values(value: object, text: str) -> None:
    """A value is written so that Terraform reads the same value."""
    assert HclWriter().value(value, 0) == text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("blue", "var.name"),
        ("role-blue", '"role-${var.name}"'),
        ("arn:role-blue", "aws_iam_role.a.arn"),
        ("x ${blue}", '"x $${${var.name}}"'),
        ("green", '"green"'),
    ],
    ids=["all of it", "a part", "the longest", "beside a template", "nothing"],
)
def test_what_is_known_is_referred_to(text: str, written: str) -> None:
    """Texts that an expression stands for become references, the longest first."""
    assert HclWriter({"blue": "var.name", "arn:role-blue": "aws_iam_role.a.arn"}).text(text) == written


def test_a_block() -> None:
    """Signs of lines that follow each other are in one column; what has several lines ends a column."""
    body = {
        "a": 1,
        "long_name": 2,
        "tags": {"karpenter.sh/x": "y", "blue": "z", "plain": "w", "for": "v"},
        "list": [{"a": 1}, "b" * 100],
        "end": 3,
    }
    text = HclWriter({"blue": "var.name"}).block(
        HclBlock(head=("resource", "aws_x", "y"), body=body, comment="Why.")
    )

    assert text.splitlines() == [
        "# Why.",
        'resource "aws_x" "y" {',
        "  a         = 1",
        "  long_name = 2",
        "  tags = {",
        '    "karpenter.sh/x" = "y"',
        '    (var.name)       = "z"',
        '    plain            = "w"',
        '    "for"            = "v"',
        "  }",
        "  list = [",
        "    {",
        "      a = 1",
        "    },",
        f'    "{"b" * 100}",',
        "  ]",
        "  end = 3",
        "}",
    ]
    assert hcl2.loads(f"{text}\n")["resource"]
