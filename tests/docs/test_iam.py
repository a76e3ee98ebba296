"""The page about IAM says what the policies that ship say."""

from pathlib import Path

from karpenter.cloud.aws.policy import PolicyScope, policies

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "iam.md"
HEADING = "| policy | statement | allows |\n|---|---|---|\n"


def rows() -> str:
    """Return the table of statements, as the page has it."""
    lines = []
    place = PolicyScope(cluster="<cluster>", region="<region>", account="<account>")
    for name, document in policies(place).items():
        for statement in document["Statement"]:
            said = statement["Action"]
            actions = ", ".join(f"`{each}`" for each in sorted([said] if isinstance(said, str) else said))
            lines.append(f"| `{name}` | `{statement['Sid']}` | {actions} |\n")
    return "".join(lines)


def test_every_statement_is_on_the_page() -> None:
    """The table lists every statement of every policy with its actions, in order."""
    assert f"<!-- policies -->\n{HEADING}{rows()}<!-- end of policies -->" in PAGE.read_text("utf-8")
