"""Dry runs: every write can be tried first."""

import pytest

from tests.contract.kubernetes.api import Api, done
from tests.contract.kubernetes.objects import configmap


@pytest.mark.parametrize("verb", ["create", "replace", "patch", "delete"])
def test_dry_run_answers_but_stores_nothing(api: Api, verb: str) -> None:
    """With dryRun=All a write is answered as if it had happened."""
    before = api.make("configmaps", configmap("there", {"x": "1"}))
    calls = {
        "create": lambda: api.create("configmaps", configmap("new"), dryRun="All"),
        "replace": lambda: api.replace("configmaps", configmap("there", {"x": "2"}), dryRun="All"),
        "patch": lambda: api.patch("configmaps", "there", {"data": {"x": "2"}}, dryRun="All"),
        "delete": lambda: api.delete("configmaps", "there", dryRun="All"),
    }

    done(calls[verb]())

    assert api.gone("configmaps", "new")
    assert api.read("configmaps", "there") == before


def test_a_dry_create_has_a_uid_but_no_version(api: Api) -> None:
    """What is not stored has no resourceVersion."""
    made = api.make("configmaps", configmap("a"), dryRun="All")["metadata"]

    assert "uid" in made
    assert "resourceVersion" not in made


def test_dry_run_takes_only_all(api: Api) -> None:
    """Another word for dryRun is refused before anything is done."""
    answer = api.create("configmaps", configmap("a"), dryRun="Some")

    assert (answer.status, answer.reason) == (422, "Invalid")
    assert answer.causes == [
        ("dryRun", "FieldValueNotSupported", 'Unsupported value: ["Some"]: supported values: "All"')
    ]


def test_dry_run_in_the_options_of_a_delete(api: Api) -> None:
    """The body of a DELETE says dryRun as the query does."""
    api.make("configmaps", configmap("a"))

    done(api.delete("configmaps", "a", {"dryRun": ["All"]}))

    assert not api.gone("configmaps", "a")


def test_a_dry_run_still_validates(api: Api) -> None:
    """Trying first shows what would be refused."""
    assert api.create("configmaps", configmap("A_b"), dryRun="All").status == 422
