"""
The registry of kinds: names, scope, verbs and subresources, built in or defined by a
CustomResourceDefinition.

A :class:`APIResource` is one kind in one version, built in or defined by a CRD; the verbs ask it everything
they need to know about a kind. Columns for tables are in :mod:`.tables`, schemas in :mod:`.schema`,
defaults and rules in :mod:`.defaults` and :mod:`.validation`, each keyed by the same names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

# https://kubernetes.io/docs/reference/using-api/api-concepts/#api-verbs
VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class Subresource(msgspec.Struct, frozen=True, kw_only=True):
    """Something under an object's path: its status, its scale, an action on it."""

    name: str
    kind: str = ""
    group: str = ""
    version: str = ""
    """Empty when the kind is the parent's own."""
    verbs: tuple[str, ...] = ("get", "patch", "update")


class APIResource(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of object in one version, as paths, discovery and storage name it."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    namespaced: bool = True
    verbs: tuple[str, ...] = VERBS
    subresources: tuple[Subresource, ...] = ()
    table: str = ""
    """Where objects are stored; versions of one kind, and Event in both of its groups, share it."""
    custom: bool = False
    """Defined by a CRD."""
    stored: bool = True
    """In the version in which objects are kept; others are converted on the way out and in."""
    list_name: str = ""
    """The kind of a list of these, where it is not the kind with ``List`` behind it."""
    generation: bool = False
    """Counts changes of the desired state in ``metadata.generation``."""

    @property
    def api_version(self) -> str:
        """``v1``, ``apps/v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def list_kind(self) -> str:
        return self.list_name or f"{self.kind}List"

    @property
    def head(self) -> bytes:
        """How every stored object of this kind begins in JSON."""
        return f'{{"kind":"{self.kind}","apiVersion":"{self.api_version}",'.encode()

    def subresource(self, name: str) -> Subresource | None:
        return next((sub for sub in self.subresources if sub.name == name), None)

    @property
    def has_status(self) -> bool:
        """Whether status is written apart from the rest."""
        return self.subresource("status") is not None


STATUS = Subresource(name="status")
SCALE = Subresource(name="scale", kind="Scale", group="autoscaling", version="v1")
_STREAM = ("create", "get")
_PROXY = ("create", "delete", "get", "patch", "update")
_POD_ACTIONS = (
    Subresource(name="attach", kind="PodAttachOptions", verbs=_STREAM),
    Subresource(name="binding", kind="Binding", verbs=("create",)),
    Subresource(name="ephemeralcontainers"),
    Subresource(name="eviction", kind="Eviction", group="policy", version="v1", verbs=("create",)),
    Subresource(name="exec", kind="PodExecOptions", verbs=_STREAM),
    Subresource(name="log", verbs=("get",)),
    Subresource(name="portforward", kind="PodPortForwardOptions", verbs=_STREAM),
    Subresource(name="proxy", kind="PodProxyOptions", verbs=_PROXY),
    Subresource(name="resize"),
    STATUS,
)
_SUBRESOURCES: dict[str, tuple[Subresource, ...]] = {
    "": (),
    "status": (STATUS,),
    "scale": (SCALE, STATUS),
    "pod": _POD_ACTIONS,
    "node": (Subresource(name="proxy", kind="NodeProxyOptions", verbs=_PROXY), STATUS),
    "service": (Subresource(name="proxy", kind="ServiceProxyOptions", verbs=_PROXY), STATUS),
    "namespace": (Subresource(name="finalize", verbs=("update",)), STATUS),
    "token": (
        Subresource(
            name="token", kind="TokenRequest", group="authentication.k8s.io", version="v1", verbs=("create",)
        ),
    ),
}
REVIEW = ("create",)
"""The one verb of kinds that are questions."""
# Namespaces have no deletecollection:
# https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/namespace-v1/
_NO_COLLECTION = tuple(verb for verb in VERBS if verb != "deletecollection")

# One line per kind: plural, kind, short names, flags, subresources.
# Flags: C cluster-wide, A in the category "all", G counts generations, N no deletecollection,
# R a review that is answered and not stored, X in the category "api-extensions".
_TABLE = {
    ("", "v1"): """
        bindings               Binding               -        R -
        configmaps             ConfigMap             cm       - -
        endpoints              Endpoints             ep       - -
        events                 Event                 ev       - -
        limitranges            LimitRange            limits   - -
        namespaces             Namespace             ns       CN namespace
        nodes                  Node                  no       C node
        persistentvolumeclaims PersistentVolumeClaim pvc      - status
        persistentvolumes      PersistentVolume      pv       C status
        pods                   Pod                   po       AG pod
        podtemplates           PodTemplate           -        G -
        replicationcontrollers ReplicationController rc       AG scale
        resourcequotas         ResourceQuota         quota    - status
        secrets                Secret                -        - -
        serviceaccounts        ServiceAccount        sa       - token
        services               Service               svc      A service
    """,
    ("admissionregistration.k8s.io", "v1"): """
        mutatingwebhookconfigurations     MutatingWebhookConfiguration     - CGX -
        validatingadmissionpolicies       ValidatingAdmissionPolicy        - CGX status
        validatingadmissionpolicybindings ValidatingAdmissionPolicyBinding - CGX -
        validatingwebhookconfigurations   ValidatingWebhookConfiguration   - CGX -
    """,
    ("apiextensions.k8s.io", "v1"): """
        customresourcedefinitions CustomResourceDefinition crd,crds CGX status
    """,
    ("apiregistration.k8s.io", "v1"): """
        apiservices APIService - CX status
    """,
    ("apps", "v1"): """
        controllerrevisions ControllerRevision -      - -
        daemonsets          DaemonSet          ds     AG status
        deployments         Deployment         deploy AG scale
        replicasets         ReplicaSet         rs     AG scale
        statefulsets        StatefulSet        sts    AG scale
    """,
    ("authentication.k8s.io", "v1"): """
        selfsubjectreviews SelfSubjectReview - CR -
        tokenreviews       TokenReview       - CR -
    """,
    ("authorization.k8s.io", "v1"): """
        localsubjectaccessreviews LocalSubjectAccessReview - R  -
        selfsubjectaccessreviews  SelfSubjectAccessReview  - CR -
        selfsubjectrulesreviews   SelfSubjectRulesReview   - CR -
        subjectaccessreviews      SubjectAccessReview      - CR -
    """,
    ("autoscaling", "v2"): """
        horizontalpodautoscalers HorizontalPodAutoscaler hpa A status
    """,
    ("autoscaling", "v1"): """
        horizontalpodautoscalers HorizontalPodAutoscaler hpa A status
    """,
    ("batch", "v1"): """
        cronjobs CronJob cj AG status
        jobs     Job     -  AG status
    """,
    ("coordination.k8s.io", "v1"): """
        leases Lease - - -
    """,
    ("discovery.k8s.io", "v1"): """
        endpointslices EndpointSlice - G -
    """,
    ("events.k8s.io", "v1"): """
        events Event ev - -
    """,
    ("flowcontrol.apiserver.k8s.io", "v1"): """
        flowschemas                 FlowSchema                 - CG status
        prioritylevelconfigurations PriorityLevelConfiguration - CG status
    """,
    ("networking.k8s.io", "v1"): """
        ingressclasses  IngressClass  -      CG -
        ingresses       Ingress       ing    G  status
        networkpolicies NetworkPolicy netpol G  -
    """,
    ("node.k8s.io", "v1"): """
        runtimeclasses RuntimeClass - C -
    """,
    ("policy", "v1"): """
        poddisruptionbudgets PodDisruptionBudget pdb G status
    """,
    ("rbac.authorization.k8s.io", "v1"): """
        clusterrolebindings ClusterRoleBinding - C -
        clusterroles        ClusterRole        - C -
        rolebindings        RoleBinding        - - -
        roles               Role               - - -
    """,
    ("resource.k8s.io", "v1"): """
        deviceclasses          DeviceClass           - CG -
        resourceclaims         ResourceClaim         - -  status
        resourceclaimtemplates ResourceClaimTemplate - -  -
        resourceslices         ResourceSlice         - CG -
    """,
    ("scheduling.k8s.io", "v1"): """
        priorityclasses PriorityClass pc CG -
    """,
    ("storage.k8s.io", "v1"): """
        csidrivers             CSIDriver             -   C -
        csinodes               CSINode               -   C -
        csistoragecapacities   CSIStorageCapacity    -   - -
        storageclasses         StorageClass          sc  C -
        volumeattachments      VolumeAttachment      -   C status
        volumeattributesclasses VolumeAttributesClass vac C -
    """,
}
# Events of both groups are stored once:
# https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/
_SHARED_TABLES = {"events.events.k8s.io": "events"}
_CONVERTED = frozenset({("events.k8s.io", "v1", "events"), ("autoscaling", "v1", "horizontalpodautoscalers")})
"""Kinds in versions in which they are not kept."""


def _resource(group: str, version: str, line: str) -> APIResource:
    plural, kind, short, flags, subs = line.split()
    qualified = f"{plural}.{group}" if group else plural
    categories = tuple(name for flag, name in (("A", "all"), ("X", "api-extensions")) if flag in flags)
    verbs = REVIEW if "R" in flags else _NO_COLLECTION if "N" in flags else VERBS
    return APIResource(
        group=group,
        version=version,
        kind=kind,
        plural=plural,
        singular=kind.lower(),
        short_names=() if short == "-" else tuple(short.split(",")),
        categories=categories,
        namespaced="C" not in flags,
        verbs=verbs,
        subresources=_SUBRESOURCES["" if subs == "-" else subs],
        table=_SHARED_TABLES.get(qualified, qualified),
        stored=(group, version, plural) not in _CONVERTED,
        generation="G" in flags,
    )


BUILT_IN: tuple[APIResource, ...] = tuple(
    _resource(group, version, line)
    for (group, version), lines in _TABLE.items()
    for line in lines.strip().splitlines()
)
"""Every kind that needs no CRD."""
BUILT_IN_GROUPS = frozenset(resource.group for resource in BUILT_IN)


class Registry:
    """The kinds served now: the built-in ones, and those that CRDs define."""

    def __init__(self) -> None:
        self._resources: dict[tuple[str, str, str], APIResource] = {}
        for resource in BUILT_IN:
            self.add(resource)

    def add(self, resource: APIResource) -> None:
        """Serve `resource`, in the place of an earlier one of that name."""
        self._resources[resource.group, resource.version, resource.plural] = resource

    def remove(self, resource: APIResource) -> None:
        """Serve `resource` no longer."""
        self._resources.pop((resource.group, resource.version, resource.plural), None)

    def find(self, group: str, version: str, plural: str) -> APIResource | None:
        return self._resources.get((group, version, plural))

    def stored(self, group: str, plural: str) -> APIResource | None:
        for resource in self._resources.values():
            if resource.group == group and resource.plural == plural and resource.stored:
                return resource
        return None

    def __iter__(self) -> Iterator[APIResource]:
        return iter(tuple(self._resources.values()))
