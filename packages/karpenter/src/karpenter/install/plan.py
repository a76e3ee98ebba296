"""
What an installation consists of: options and facts in, an ordered plan of resources out.

Pure. It knows which resources there are, what they are called and in which order they must exist; it does not
know which of them exist already, nor any API. Two ways of naming are known: that of Karpenter's own guide
(``karpenter``), and that of eksdemo (``eksdemo``), whose roles and queue are in CloudFormation stacks of
their own.

What was asked for and the names are in :mod:`.options`, every document in :mod:`.documents`.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from karpenter.api.crd.definitions import DEFINITIONS, render
from karpenter.chart.chart import manifests
from karpenter.chart.tree import CHART, Release
from karpenter.chart.values import lay_over, parse_set, put, values_of
from karpenter.cloud.aws.policy import PolicyScope, policies
from karpenter.install import documents
from karpenter.install.documents import EVENTS, EVENTS_OF_1_0, ROLE_ANNOTATION
from karpenter.install.options import (
    DISCOVERY,
    EKSDEMO,
    NAMESPACES_OF_KUBERNETES,
    VERSION,
    InstallationError,
    InstallationFacts,
    InstallationNames,
    InstallationOptions,
    ami_family,
    names_of,
    truncate_unique,
)
from karpenter.install.resources import (
    AwsAuthMapping,
    Ec2Tags,
    EksAccessEntry,
    EksAddon,
    EksPodIdentityAssociation,
    EventBridgeRule,
    HelmRelease,
    IamInstanceProfile,
    IamPolicy,
    IamRole,
    InstallationResource,
    KubernetesObject,
    OpenIDConnectProvider,
    ServiceLinkedRole,
    SqsQueue,
)

SPOT_ROLE: Final = ServiceLinkedRole(name="AWSServiceRoleForEC2Spot", service="spot.amazonaws.com")
POD_IDENTITY_AGENT: Final = "eks-pod-identity-agent"


class InstallationStep(msgspec.Struct, frozen=True, kw_only=True):
    """Resources that are made together."""

    name: str
    title: str
    resources: tuple[InstallationResource, ...]
    phase: Literal["dependency", "chart", "post-install"] = "dependency"
    stack: str = ""
    """The CloudFormation stack that holds them; empty means that they are made one by one."""

    cost: str = "free"


class InstallationPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that there will be, in the order in which it is made."""

    options: InstallationOptions
    facts: InstallationFacts
    names: InstallationNames
    steps: tuple[InstallationStep, ...]

    @property
    def resources(self) -> tuple[InstallationResource, ...]:
        return tuple(each for step in self.steps for each in step.resources)

    @property
    def release(self) -> HelmRelease:
        return next(each for each in self.resources if isinstance(each, HelmRelease))

    def phase(self, phase: str) -> tuple[InstallationStep, ...]:
        return tuple(step for step in self.steps if step.phase == phase)


def make_plan(options: InstallationOptions, facts: InstallationFacts) -> InstallationPlan:
    """
    Return what the installation consists of.

    Raises:
        InstallationError: it cannot be done there.
        BadValue: a value of the chart cannot be used.
        MissingValue: a value of the chart is missing.
    """
    return _Planner(options, facts).plan()


class _Planner:
    """Knows the options, the facts and the names while a plan is made."""

    def __init__(self, options: InstallationOptions, facts: InstallationFacts) -> None:
        self._options = options
        self._facts = facts
        self._names = names_of(options)
        self._eksdemo = options.naming == "eksdemo"
        self._node_role = self._iam(f"role/{self._names.node_role}")
        self._controller_role = self._iam(f"role/{self._names.controller_role}")
        self._queue = f"arn:{facts.partition}:sqs:{facts.region}:{facts.account}:{self._names.queue}"

    def plan(self) -> InstallationPlan:
        spot = InstallationStep(
            name="ec2-spot-service-linked-role" if self._eksdemo else "spot-service-linked-role",
            title="Service-linked role for EC2 Spot",
            resources=(SPOT_ROLE,),
        )
        roles = (self._node_step(), self._controller_step())
        steps = [
            spot,
            *(reversed(roles) if self._eksdemo else roles),
            self._queue_step(),
            *([] if self._eksdemo else [self._tags_step()]),
            self._access_step(),
            *self._chart_steps(),
            self._pool_step(),
        ]
        return InstallationPlan(
            options=self._options,
            facts=self._facts,
            names=self._names,
            steps=tuple(steps),
        )

    def _iam(self, what: str) -> str:
        return f"arn:{self._facts.partition}:iam::{self._facts.account}:{what}"

    def _step(
        self, name: str, title: str, *resources: InstallationResource, cost: str = "free"
    ) -> InstallationStep:
        stack = self._names.stacks.get(name, "")
        return InstallationStep(name=name, title=title, resources=resources, stack=stack, cost=cost)

    def _node_step(self) -> InstallationStep:
        registry = "ReadOnly" if self._eksdemo else "PullOnly"
        managed = (
            "AmazonEKS_CNI_Policy",
            "AmazonEKSWorkerNodePolicy",
            f"AmazonEC2ContainerRegistry{registry}",
            "AmazonSSMManagedInstanceCore",
        )
        role = IamRole(
            name=self._names.node_role,
            arn=self._node_role,
            trust=documents.node_trust(self._facts.partition),
            attached=tuple(f"arn:{self._facts.partition}:iam::aws:policy/{each}" for each in managed),
        )
        if not self._names.instance_profile:
            return self._step("karpenter-node-role", "Role of the nodes", role)
        profile = IamInstanceProfile(name=self._names.instance_profile, role=role.name)
        return self._step("node-role", "Role and instance profile of the nodes", role, profile)

    def _controller_step(self) -> InstallationStep:
        names, options, facts = self._names, self._options, self._facts
        place = PolicyScope(
            cluster=facts.cluster,
            region=facts.region,
            account=facts.account,
            partition=facts.partition,
            node_role=names.node_role,
            queue=names.queue,
        )
        before: list[InstallationResource] = []
        after: list[InstallationResource] = []
        if options.identity == "irsa" and facts.exists:
            provider = self._provider()
            before.append(provider)
            trust = documents.irsa_trust(
                provider.arn, namespace=names.namespace, service_account=options.service_account
            )
        else:
            trust = documents.pod_identity_trust()
            after = [
                EksAddon(cluster=facts.cluster, name=POD_IDENTITY_AGENT),
                EksPodIdentityAssociation(
                    cluster=facts.cluster,
                    namespace=names.namespace,
                    service_account=options.service_account,
                    role=self._controller_role,
                ),
            ]
        managed: list[IamPolicy] = []
        inline = {names.inline_policy: documents.controller_document(place)} if names.inline_policy else {}
        if not inline:
            managed = [
                IamPolicy(name=name, arn=self._iam(f"policy/{name}"), document=document)
                for name, document in policies(place).items()
            ]
        role = IamRole(
            name=names.controller_role,
            arn=self._controller_role,
            trust=trust,
            attached=tuple(each.arn for each in managed),
            inline=inline,
        )
        name = "karpenter-irsa" if self._eksdemo else "controller-role"
        return self._step(name, "Role of the operator", *before, *managed, role, *after)

    def _provider(self) -> OpenIDConnectProvider:
        if not self._facts.issuer:
            raise InstallationError(
                f"cluster {self._facts.cluster}: EKS names no OIDC issuer, which --identity irsa needs",
                hint="--identity pod-identity",
            )
        issuer = self._facts.issuer.removeprefix("https://")
        return OpenIDConnectProvider(
            arn=self._iam(f"oidc-provider/{issuer}"), url=f"https://{issuer}", audience=documents.AUDIENCE
        )

    def _queue_step(self) -> InstallationStep:
        queue = SqsQueue(
            name=self._names.queue,
            arn=self._queue,
            retention=documents.RETENTION,
            policy=documents.queue_policy(self._queue),
        )
        rules = [
            EventBridgeRule(
                name=truncate_unique(f"karpenter-{self._facts.cluster}-{each.name}"),
                resource=f"{each.name}Rule",
                pattern={"source": [each.source], "detail-type": [each.detail_type]},
                target=self._queue,
                target_id=documents.QUEUE_TARGET,
            )
            for each in (EVENTS_OF_1_0 if self._eksdemo else EVENTS)
        ]
        return self._step(
            "karpenter-sqs-queue" if self._eksdemo else "interruption-queue",
            "Queue of interruptions, and the events that go there",
            queue,
            *rules,
            # https://aws.amazon.com/sqs/pricing/ : the operator polls about three times a minute.
            cost="events of AWS are free; some 130,000 SQS requests a month (the first million is free)",
        )

    def _tags_step(self) -> InstallationStep:
        facts = self._facts
        for what, found in (("subnet", facts.subnets), ("security group", facts.security_groups)):
            if not found and facts.exists:
                raise InstallationError(
                    f"cluster {facts.cluster}: no {what} was found for its nodes",
                    hint=f"name them with --{what.replace(' ', '-')} ID",
                )
        tags = Ec2Tags(key=DISCOVERY, value=facts.cluster, resources=(*facts.subnets, *facts.security_groups))
        return self._step("discovery-tags", "Tags that the EC2NodeClass selects by", tags)

    def _access_step(self) -> InstallationStep:
        mode, auth = self._facts.authentication_mode, self._options.auth
        if not auth:
            auth = "aws-auth" if self._eksdemo or mode == "CONFIG_MAP" else "access-entry"
        if auth == "access-entry" and mode == "CONFIG_MAP":
            raise InstallationError(
                f"--auth access-entry: the cluster {self._facts.cluster} reads aws-auth only",
                hint="--auth aws-auth, or aws eks update-cluster-config --access-config"
                " authenticationMode=API_AND_CONFIG_MAP",
            )
        if auth == "aws-auth" and mode == "API":
            raise InstallationError(
                f"--auth aws-auth: the cluster {self._facts.cluster} reads access entries only",
                hint="--auth access-entry",
            )
        name = "karpenter-node-iam-auth" if self._eksdemo else "node-access"
        # Nodes that no managed node group makes join by an entry of this type, without any access policy.
        # https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html
        entry: InstallationResource = EksAccessEntry(
            cluster=self._facts.cluster, principal=self._node_role, type="EC2_LINUX"
        )
        if auth == "aws-auth":
            entry = AwsAuthMapping(
                role=self._node_role,
                username=documents.NODE_USERNAME,
                groups=documents.BOOTSTRAP_GROUPS,
            )
        return self._step(name, "Nodes are let into the cluster", entry)

    def _chart_steps(self) -> list[InstallationStep]:
        names, options = self._names, self._options
        stated = _over(self.values(), *options.values)
        merged = values_of([stated], list(options.sets))
        chart_version = options.chart_version or VERSION
        app_version = options.version or VERSION
        objects = manifests(
            Release(
                namespace=names.namespace,
                chart_version=chart_version,
                app_version=app_version,
                kubernetes=_minor(self._facts.kubernetes),
                values=merged,
            ),
            definitions=False,
        )
        release = HelmRelease(
            name=CHART,
            namespace=names.namespace,
            chart=CHART,
            chart_version=chart_version,
            app_version=app_version,
            values=stated,
            sets=options.sets,
            objects=tuple(objects),
        )
        made: list[InstallationResource] = []
        if names.namespace not in NAMESPACES_OF_KUBERNETES:
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": names.namespace}}
            made.append(KubernetesObject(body=namespace))
        definitions = tuple(KubernetesObject(body=render(each)) for each in DEFINITIONS)
        requests = merged["controller"]["resources"].get("requests", {})
        size = ", ".join(f"{amount} of {name}" for name, amount in requests.items())
        return [
            InstallationStep(
                name="crds", title="CustomResourceDefinitions", resources=definitions, phase="chart"
            ),
            InstallationStep(
                name="controller",
                title="The operator",
                resources=(*made, release),
                phase="chart",
                cost=f"{merged['replicas']} x {size or 'no requests'} on nodes that exist",
            ),
        ]

    def values(self) -> dict[str, Any]:
        """Return the values of the chart that follow from the options."""
        options, names = self._options, self._names
        account: dict[str, Any] = {"name": options.service_account}
        if options.identity == "irsa":
            account["annotations"] = {ROLE_ANNOTATION: self._controller_role}
        found: dict[str, Any] = {"serviceAccount": account}
        if self._eksdemo:
            found["replicas"] = options.replicas or 1
            found["controller"] = {
                "image": {"tag": options.version or VERSION},
                "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
            }
        else:
            if options.replicas:
                found["replicas"] = options.replicas
            if options.version:
                found["controller"] = {"image": {"tag": options.version}}
        found["settings"] = {"clusterName": self._facts.cluster, "interruptionQueue": names.queue}
        if self._eksdemo or options.spot_to_spot:
            found["settings"]["featureGates"] = {"spotToSpotConsolidation": options.spot_to_spot}
        return found

    def _pool_step(self) -> InstallationStep:
        options = self._options
        family = ami_family(options, self._facts.kubernetes)
        by_discovery = {DISCOVERY: self._facts.cluster}
        images = [{"id": each} for each in self._facts.images]
        if not self._eksdemo or options.ami_alias:
            images = [{"alias": options.ami_alias or f"{family.lower()}@latest"}]
        node_class = documents.default_nodeclass(
            family=family,
            role=self._names.node_role,
            subnets={"Name": f"eksctl-{self._facts.cluster}-cluster/SubnetPrivate*"}
            if self._eksdemo
            else by_discovery,
            security_groups={"aws:eks:cluster-name": self._facts.cluster} if self._eksdemo else by_discovery,
            tags={"eksdemo.io/version": EKSDEMO} if self._eksdemo else {},
            images=images,
        )
        pool = documents.default_nodepool(
            capacity_types=("on-demand", "spot") if self._eksdemo else ("spot", "on-demand"),
            expire_after=options.expire_after,
            consolidate_after=options.consolidate_after,
            drift=not options.disable_drift,
        )
        # A NodePool waits for its class, so either may come first.
        return InstallationStep(
            name="karpenter-default-nodepool" if self._eksdemo else "default-nodepool",
            title="Default NodePool and EC2NodeClass",
            resources=(KubernetesObject(body=pool, once=True), KubernetesObject(body=node_class, once=True)),
            phase="post-install",
            cost="nothing until pods wait for room; then what the machines cost, up to 1000 CPUs",
        )


def _minor(kubernetes: str) -> int | None:
    """Return the minor version of Kubernetes 1, where one is known."""
    minor = kubernetes.partition(".")[2].partition(".")[0]
    return int(minor) if minor.isdigit() else None


def _over(values: dict[str, Any], *files: dict[str, Any]) -> dict[str, Any]:
    """Return values with those of files laid over them."""
    for each in files:
        lay_over(values, each)
    return values


def set_values(release: HelmRelease) -> dict[str, Any]:
    """Return everything that is stated of a release: its values, and over them what was set."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(release.values))
    for text in release.sets:
        for path, value in parse_set(text):
            put(found, path, value)
    return found
