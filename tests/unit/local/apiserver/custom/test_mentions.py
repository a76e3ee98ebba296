import pytest

from karpenter.api.schema import load
from karpenter_local.apiserver.custom.mentions import undeclared

SCHEMA = load(
    {
        "type": "object",
        "properties": {
            "size": {"type": "integer"},
            "inner": {"type": "object", "properties": {"name": {"type": "string"}}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        pytest.param("self.size > 1 && self.inner.name == 'x'", [], id="what is there"),
        pytest.param("self.sise > 1", ["sise"], id="a slip"),
        pytest.param("self.inner.nome == oldSelf.inner.name", ["nome"], id="a slip further down"),
        pytest.param("self.inner.name.startsWith('x')", [], id="a function is no field"),
        pytest.param("self.labels.anything == ''", [], id="a map has any key"),
        pytest.param("self.free.anything", [], id="what is unknown may be anything"),
        pytest.param("self.metadata.name != ''", [], id="every object has metadata"),
        pytest.param("'self.sise' == 'x' || has(self.size)", [], id="text is not code"),
        pytest.param("x.self.sise", [], id="another self"),
    ],
)
def test_fields_that_are_not_there(rule: str, expected: list[str]) -> None:
    """Misspelt fields are found; what cannot be followed passes."""
    assert list(undeclared(rule, SCHEMA)) == expected
