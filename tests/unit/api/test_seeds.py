"""Manifests that people have printed: tutorials, install guides, cluster definitions."""

from pathlib import Path

import pytest

from karpenter.api.kinds import KINDS
from karpenter.api.manifests import Document, documents, read_object
from karpenter.api.meta import drop_nulls, to_plain
from karpenter.api.validation.documents import Accepted, Finding, check_document

FILES = sorted((Path(__file__).parents[2] / "data/seeds").glob("*.yaml"))
DOCUMENTS = [document for path in FILES for document in documents(path.read_text("utf-8"), path.name)]
EXPECTED = {"Provisioner": Finding, "EC2NodeClass": Accepted, "NodePool": Accepted, "Deployment": Accepted}


def name_of(document: Document) -> str:
    return f"{document.source} {document.subject}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_verdict(document: Document) -> None:
    """What version 1 knows is accepted, what came before is refused, and other kinds are left alone."""
    assert [type(outcome) for outcome in check_document(document)] == [EXPECTED[document.identity[1]]]


@pytest.mark.parametrize("document", [each for each in DOCUMENTS if each.identity in KINDS], ids=name_of)
def test_round_trip(document: Document) -> None:
    """What we read, we write back unchanged, apart from fields that we never look at."""
    found = read_object(document)
    assert found is not None

    assert _is_within(to_plain(found), drop_nulls(document.plain))


def _is_within(part: object, whole: object) -> bool:
    """Say whether `part` says nothing that `whole` does not; the default namespace aside."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(
            _is_within(value, whole.get(key)) or (key, value) == ("namespace", "default")
            for key, value in part.items()
        )
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) == len(whole) and all(map(_is_within, part, whole))
    return part == whole


def test_the_legacy_sentence() -> None:
    """The refusal says what the kind is, what replaced it, and which command converts it."""
    (outcome,) = check_document(Document("f", {"apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner"}))

    assert str(outcome) == (
        "f: Provisioner: karpenter.sh/v1alpha5 Provisioner is from before version 1 and was replaced by"
        " NodePool (karpenter.sh/v1); karpenter convert -f FILE writes it as that"
    )
