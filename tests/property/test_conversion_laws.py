"""Laws of conversion: twice is once, in data and in text, and what comes out is valid."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from karpenter.api.manifests import Document, read_documents, render_documents
from karpenter.api.validation.documents import Finding, check_document
from karpenter.convert.documents import OldDocument, convert_documents
from karpenter.convert.findings import ConversionOptions
from karpenter.convert.rewrite import rewrite

NAMES = st.sampled_from(["a", "b", "c"])
TAGS = st.dictionaries(
    st.sampled_from(["Name", "env", "aws-ids"]), st.sampled_from(["x", "x,y", "subnet-1", ""]), max_size=2
)
LABELS = st.dictionaries(
    st.sampled_from(["team", "beta.kubernetes.io/arch", "karpenter.sh/provisioner-name", "kubernetes.io/os"]),
    NAMES,
)
REQUIREMENT = st.fixed_dictionaries(
    {
        "key": st.sampled_from(
            [
                "kubernetes.io/arch",
                "beta.kubernetes.io/os",
                "karpenter.sh/provisioner-name",
                "team",
                "bad key",
            ]
        ),
        "operator": st.sampled_from(["In", "NotIn", "Exists", "Like"]),
        "values": st.lists(NAMES, max_size=2),
    }
)
KUBELETS = st.sampled_from([{"maxPods": 10}, {"maxPods": 20}, {"containerRuntime": "containerd"}, {"odd": 1}])
TEMPLATES = st.fixed_dictionaries(
    {"subnetSelector": TAGS, "securityGroupSelector": TAGS},
    optional={
        "amiFamily": st.sampled_from(["AL2", "Bottlerocket", "Ubuntu", "Custom"]),
        "amiSelector": TAGS,
        "instanceProfile": st.just("p"),
        "tags": LABELS,
        "launchTemplate": st.just("l"),
        "metadataOptions": st.just({"httpTokens": "optional"}),
    },
)
PROVISIONERS = st.fixed_dictionaries(
    {},
    optional={
        "labels": LABELS,
        "requirements": st.lists(REQUIREMENT, max_size=3),
        "provider": TEMPLATES,
        "providerRef": st.fixed_dictionaries({"name": NAMES}),
        "consolidation": st.fixed_dictionaries({"enabled": st.booleans()}),
        "ttlSecondsAfterEmpty": st.integers(0, 100_000),
        "ttlSecondsUntilExpired": st.integers(0, 100_000),
        "weight": st.integers(0, 101),
        "kubeletConfiguration": KUBELETS,
        "limits": st.just({"resources": {"cpu": 10}}),
    },
)
BETA_POOLS = st.fixed_dictionaries(
    {
        "template": st.fixed_dictionaries(
            {
                "spec": st.fixed_dictionaries(
                    {
                        "requirements": st.lists(REQUIREMENT, max_size=2),
                        "nodeClassRef": st.fixed_dictionaries({"name": NAMES}),
                    },
                    optional={"kubelet": KUBELETS},
                )
            }
        )
    },
    optional={
        "disruption": st.sampled_from([{"expireAfter": "1h"}, {"consolidationPolicy": "WhenUnderutilized"}])
    },
)
SELECTORS = st.dictionaries(
    st.sampled_from(["karpenter.sh/provisioner-name", "beta.kubernetes.io/os", "kubernetes.io/os", "team"]),
    NAMES,
)
PODS: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {"containers": st.just([])}, optional={"nodeSelector": SELECTORS}
)
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "settings": st.dictionaries(
            st.sampled_from(["aws", "clusterName", "featureGates"]),
            st.dictionaries(st.sampled_from(["clusterName", "interruptionQueueName", "drift", "odd"]), NAMES),
        ),
        "logLevel": st.just("info"),
        "controller": st.dictionaries(st.sampled_from(["logLevel", "image", "env"]), NAMES),
        "webhook": st.just({"enabled": True}),
    },
)


def an_object(version: str, kind: str, spec: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(
        lambda name, spec: {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec},
        NAMES,
        spec,
    )


def identity(document: Any) -> tuple[Any, Any]:
    """Return what no two documents have in common."""
    return document.get("kind"), document.get("metadata", {}).get("name")


DOCUMENTS: st.SearchStrategy[list[Any]] = st.lists(
    st.one_of(
        an_object("karpenter.sh/v1alpha5", "Provisioner", PROVISIONERS),
        an_object("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate", TEMPLATES),
        an_object("karpenter.sh/v1beta1", "NodePool", BETA_POOLS),
        an_object("v1", "Pod", PODS),
        VALUES,
    ),
    min_size=1,
    max_size=5,
    unique_by=identity,
)


def converted(documents: list[Any], role: str) -> tuple[list[Any], list[str]]:
    """Return documents after conversion, and the kinds of those that could not be converted."""
    found = convert_documents(
        [OldDocument(plain=each) for each in documents], ConversionOptions(node_role=role)
    )
    failed = [str(each.level) for result in found for each in result.findings if each.level == "error"]
    return [plain for result in found for plain in result.plains], failed


@given(DOCUMENTS, st.sampled_from(["", "R"]))
def test_twice_is_once(documents: list[Any], role: str) -> None:
    """What is converted is not converted again, and what could not be converted stays."""
    once, _ = converted(documents, role)
    twice, _ = converted(once, role)

    assert twice == once


@given(DOCUMENTS)
def test_what_comes_out_is_valid(documents: list[Any]) -> None:
    """No object of ours is refused by a cluster after its conversion."""
    found, _ = converted(documents, "R")
    ours = [each for each in found if str(each.get("apiVersion", "")).endswith("/v1")]

    assert not [
        str(problem)
        for each in ours
        for problem in check_document(Document("", each))
        if isinstance(problem, Finding)
    ]


@given(DOCUMENTS)
def test_the_text_says_what_the_documents_say(documents: list[Any]) -> None:
    """Written over the old text, new documents are read back as they are."""
    for result in convert_documents(
        [OldDocument(plain=each) for each in documents], ConversionOptions(node_role="R")
    ):
        if result.new is not None:
            text = render_documents([result.old.plain])
            written = rewrite(text, result.old.plain, result.new)

            assert list(read_documents(written, source="")) == result.plains


JUNK: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.integers(-1, 1),
    st.text(max_size=2),
    st.just([]),
    st.just({}),
    st.just([{}]),
    st.just({"a": [1]}),
)


@given(DOCUMENTS, st.data())
def test_garbage_is_a_finding(documents: list[Any], data: st.DataObject) -> None:
    """Whatever stands where something else should be, conversion ends, and does so twice the same way."""
    document = data.draw(st.sampled_from(documents))
    while isinstance(document, dict) and document:
        key = data.draw(st.sampled_from(sorted(document)))
        if not isinstance(document[key], dict) or data.draw(st.booleans()):
            document[key] = data.draw(JUNK)
            break
        document = document[key]
    once, _ = converted(documents, "R")

    assert converted(once, "R")[0] == once
