"""Facts for tests: a sound installation in a few lines, and how one rule judges a change of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import yaml

from karpenter.api.manifests import Document
from karpenter.doctor.facts import AwsFacts, DoctorFacts, EksFacts, HelmChart, RoleFacts
from karpenter.doctor.rules import RULES, diagnose

if TYPE_CHECKING:
    from karpenter.doctor.rule import DoctorFinding

ISSUER = "oidc.eks.us-west-2.amazonaws.com/id/ABC"
CONTROLLER = "arn:aws:iam::111122223333:role/KarpenterControllerRole-blue"
NODES = "KarpenterNodeRole-blue"

POOL = """
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  limits: {cpu: "1000"}
  template:
    spec:
      requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}
        - {key: topology.kubernetes.io/zone, operator: In, values: [us-west-2a, us-west-2b]}
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
"""
CLASS = f"""
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {{name: default}}
spec:
  role: {NODES}
  amiSelectorTerms: [{{alias: al2023@latest}}]
  subnetSelectorTerms: [{{tags: {{karpenter.sh/discovery: blue}}}}]
  securityGroupSelectorTerms: [{{tags: {{karpenter.sh/discovery: blue}}}}]
"""
OPERATOR = """
apiVersion: apps/v1
kind: Deployment
metadata:
  name: karpenter
  namespace: kube-system
  labels: {app.kubernetes.io/name: karpenter, app.kubernetes.io/version: 1.5.0}
spec:
  replicas: 2
  template:
    metadata: {labels: {app.kubernetes.io/name: karpenter}}
    spec:
      serviceAccountName: karpenter
      dnsPolicy: ClusterFirst
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
              - matchExpressions: [{key: karpenter.sh/nodepool, operator: DoesNotExist}]
      containers:
        - name: controller
          image: public.ecr.aws/karpenter/controller:1.5.0
          env:
            - {name: CLUSTER_NAME, value: blue}
            - {name: INTERRUPTION_QUEUE, value: blue}
          resources: {requests: {cpu: 1, memory: 1Gi}}
"""
WORKLOAD = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 4
  template:
    metadata: {labels: {app: web}}
    spec:
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: topology.kubernetes.io/zone
          whenUnsatisfiable: DoNotSchedule
          labelSelector: {matchLabels: {app: web}}
      containers:
        - {name: web, image: example, resources: {requests: {cpu: 1, memory: 1Gi}}}
"""
EC2_TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
    ],
}
NODE_ROLE = RoleFacts(
    name=NODES,
    arn=f"arn:aws:iam::111122223333:role/{NODES}",
    trust=EC2_TRUST,
    attached=(
        "AmazonEKSWorkerNodePolicy",
        "AmazonEC2ContainerRegistryPullOnly",
        "AmazonEKS_CNI_Policy",
        "AmazonSSMManagedInstanceCore",
    ),
)
EKS = EksFacts(name="blue", version="1.33", issuer=ISSUER, vpc="vpc-1", auth_mode="API_AND_CONFIG_MAP")


class Case(NamedTuple):
    """One rule: facts that break it, facts that keep it, and what the finding says."""

    rule: str
    broken: DoctorFacts
    sound: DoctorFacts
    says: str
    severity: str = "error"


def objects(*texts: str) -> tuple[Document, ...]:
    """Return the objects of some YAML texts."""
    return tuple(
        Document("test.yaml", plain) for text in texts for plain in yaml.safe_load_all(text) if plain
    )


def facts(*texts: str, **fields: Any) -> DoctorFacts:
    given: dict[str, Any] = {"cluster": "blue", "region": "us-west-2", **fields}
    return DoctorFacts(objects=objects(*texts) if texts else None, **given)


def account(**fields: Any) -> AwsFacts:
    return AwsFacts(**fields)


def chart(**fields: Any) -> HelmChart:
    """Return a release of the chart, sound but for some fields."""
    sound: dict[str, Any] = {
        "source": "release.yaml",
        "subject": "HelmRelease/karpenter",
        "release": "karpenter",
        "namespace": "kube-system",
        "version": "1.5.0",
        "repository": "oci://public.ecr.aws/karpenter/karpenter",
        "values": {"settings": {"clusterName": "blue"}},
    }
    return HelmChart(**{**sound, **fields})


def charts(**fields: Any) -> DoctorFacts:
    """Return facts about one release of the chart."""
    return facts(charts=(chart(**fields),))


def changed(text: str, *pairs: tuple[str, str]) -> str:
    """Return a text with some parts replaced, each of which it has."""
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


def judged(rule: str, known: DoctorFacts) -> tuple[tuple[DoctorFinding, ...], bool]:
    others = [each.id for each in RULES if each.id != rule]
    found = diagnose(known, ignore=others)
    return found.findings, found.checked == 1


def judge(case: Case) -> None:
    """Assert that a rule finds what is broken, and nothing where all is sound."""
    findings, checked = judged(case.rule, case.broken)
    assert checked
    assert [each.rule for each in findings[:1]] == [case.rule], "nothing was found"
    assert case.says in str(findings[0])
    assert findings[0].severity == case.severity
    assert findings[0].fix
    sound, checked = judged(case.rule, case.sound)
    assert checked, "the sound example must be checked, not skipped"
    assert [str(each) for each in sound] == []


def replace(known: DoctorFacts, **fields: Any) -> DoctorFacts:
    return msgspec.structs.replace(known, **fields)
