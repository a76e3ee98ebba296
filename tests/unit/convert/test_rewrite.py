"""Text in, text out: comments, quotes, order and everything that did not change are kept."""

from __future__ import annotations

from textwrap import dedent

import pytest

from karpenter.api.manifests import read_documents
from karpenter.convert.documents import OldDocument, convert_documents
from karpenter.convert.findings import ConversionOptions, NewDocument
from karpenter.convert.rewrite import rewrite, split_documents

PROVISIONER = """
# The pool of everything.
# Ask the platform team before changing it.
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner  # v1alpha5
metadata:
  name: default
spec:
  # labels of nodes
  labels:
    team: a   # the a team
    beta.kubernetes.io/arch: arm64  # Graviton
  requirements:
    # what we tested
    - key: "node.kubernetes.io/instance-type" # quoted
      operator: In
      values: ["m5.2xlarge"]

    # no Windows
    - key: beta.kubernetes.io/os
      operator: In
      values: [linux]
    # nothing else
  # a month
  ttlSecondsUntilExpired: 2592000  # 30 days
  provider:
    # made by Terraform
    instanceProfile: prof
    subnetSelector:
      Name: x
    securityGroupSelector: {a: b}
    userData: |
      #!/bin/bash
      # not a comment of ours

      echo hi
    # who pays
    tags:
      cost: "42"
  ttlSecondsAfterEmpty: 30
# the end
"""
CONVERTED = """
# The pool of everything.
# Ask the platform team before changing it.
apiVersion: karpenter.sh/v1
kind: NodePool  # v1alpha5
metadata:
  name: default
spec:
  template:
    metadata:
      # labels of nodes
      labels:
        team: a   # the a team
        kubernetes.io/arch: arm64  # Graviton
    spec:
      requirements:
        # what we tested
        - key: "node.kubernetes.io/instance-type" # quoted
          operator: In
          values: ["m5.2xlarge"]

        # no Windows
        - key: kubernetes.io/os
          operator: In
          values: [linux]
        # nothing else
      nodeClassRef:
        group: karpenter.k8s.aws
        kind: EC2NodeClass
        name: default
      # a month
      expireAfter: 720h  # 30 days
  disruption:
    consolidationPolicy: WhenEmpty
    consolidateAfter: 30s
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata:
  name: default
spec:
  amiSelectorTerms:
    - alias: al2@latest
  # made by Terraform
  instanceProfile: prof
  subnetSelectorTerms:
    - tags:
        Name: x
  securityGroupSelectorTerms:
    - tags:
        a: b
  userData: |
    #!/bin/bash
    # not a comment of ours

    echo hi
  # who pays
  tags:
    cost: "42"
  metadataOptions:
    httpPutResponseHopLimit: 2
# the end
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: a, labels: {app: "a"}}
spec:
  template:
    metadata:
      annotations:
        # it must finish
        karpenter.sh/do-not-evict: "true"  # please
        other: 'x'
    spec:
      nodeSelector:
        karpenter.sh/provisioner-name: default # pool
      tolerations:
      - key: a
        operator: Exists
      # on its way out
      - key: karpenter.sh/disruption
        operator: Equal
        value: disrupting
      containers:
      - name: c
        image: >-
          foo
          bar
        args: [ "--a" , --b ]
"""
DEPLOYED = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: a, labels: {app: "a"}}
spec:
  template:
    metadata:
      annotations:
        # it must finish
        karpenter.sh/do-not-disrupt: "true"  # please
        other: 'x'
    spec:
      nodeSelector:
        karpenter.sh/nodepool: default # pool
      tolerations:
      - key: a
        operator: Exists
      # on its way out
      - key: karpenter.sh/disrupted
        operator: Exists
      containers:
      - name: c
        image: >-
          foo
          bar
        args: [ "--a" , --b ]
"""
VALUES = """
# Values of prod.
serviceAccount:
  annotations:
    eks.amazonaws.com/role-arn: arn:aws:iam::1:role/r

settings:
  aws:
    # as in EKS
    clusterName: prod
    interruptionQueueName: "prod"  # made by hand
  batchMaxDuration: 10s
"""
VALUED = """
# Values of prod.
serviceAccount:
  annotations:
    eks.amazonaws.com/role-arn: arn:aws:iam::1:role/r

settings:
  batchMaxDuration: 10s
  # as in EKS
  clusterName: prod
  interruptionQueue: "prod"  # made by hand
"""


def converted(text: str) -> str:
    """Return a text of one document after conversion."""
    (old,) = read_documents(text, source="")
    (result,) = convert_documents([OldDocument(plain=old)], ConversionOptions(ignore_defaults=True))
    assert result.new is not None
    return rewrite(text, old, result.new)


@pytest.mark.parametrize(
    ("before", "after"),
    [(PROVISIONER, CONVERTED), (DEPLOYMENT, DEPLOYED), (VALUES, VALUED)],
    ids=["a provisioner", "a workload", "values"],
)
def test_comments_move_with_their_fields(before: str, after: str) -> None:
    """What did not change is the same text, comments stand where their field stands now."""
    assert converted(before.lstrip()) == after.lstrip()


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\n---\nb: 2\n",
        "# top\n---\na: 1\n--- # two\n\n---\n",
        "a: |\n  --- not one\n---\nb: 2",
        "",
        "---\na: 1\n",
        "--- {a: 1}\n---\t[b]\n--- |\n  c\n",
        "a: 1\n...\n---\nb: 2\n... # end\n",
        "---a: 1\n",
    ],
)
def test_the_documents_of_a_text_are_the_text(text: str) -> None:
    """Splitting loses nothing, and no piece holds two documents."""
    found = split_documents(text)

    assert "".join(each.separator + each.body for each in found) == text
    assert [plain for each in found for plain in read_documents(each.body, source="")] == list(
        read_documents(text, source="")
    )
    assert all(len(list(read_documents(each.body, source=""))) <= 1 for each in found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: &x {b: 1}\nc: *x\n", "a:\n  b: 1\nc:\n  b: 1\nnew: true\n"),
        ('{"a": 1}', "a: 1\nnew: true\n"),
        ("a: yes\nb: 'yes'\n", "a: yes\nb: 'yes'\nnew: true\n"),
        ("a:\n- - 1\n  - 2\n- x\n", "a:\n- - 1\n  - 2\n- x\nnew: true\n"),
        ("a: |+\n  x\n\nb: 1\n", "a: |+\n  x\n\nb: 1\nnew: true\n"),
        ("a:\nb: ~\n", "a:\nb: ~\nnew: true\n"),
        ("a: 'x # y' # z\n", "a: 'x # y' # z\nnew: true\n"),
    ],
    ids=["anchors", "json", "old words for true", "lists of lists", "kept breaks", "nothing", "no comment"],
)
def test_texts_that_are_hard_to_copy(text: str, expected: str) -> None:
    """Whatever the text looks like, what is written says the same."""
    (old,) = read_documents(text, source="")

    assert rewrite(text, old, [NewDocument(plain={**old, "new": True})]) == expected


def test_an_item_that_goes_takes_its_comment_along() -> None:
    """Items are known again by what they say, not by their number."""
    text = dedent("""\
        a:
          # one
          - 1
          # two
          - 2
        """)
    (old,) = read_documents(text, source="")

    assert rewrite(text, old, [NewDocument(plain={"a": [2]})]) == "a:\n  # two\n  - 2\n"
