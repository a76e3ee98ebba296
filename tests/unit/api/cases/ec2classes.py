"""EC2NodeClasses: selectors, images, identities, disks, interfaces and the rest."""

from typing import Any

from tests.unit.api.cases.case import ABSENT, Case, changed

EC2_CLASS: dict[str, Any] = {
    "apiVersion": "karpenter.k8s.aws/v1",
    "kind": "EC2NodeClass",
    "metadata": {"name": "default"},
    "spec": {
        "role": "KarpenterNodeRole-test",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "test"}}],
        "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "test"}}],
    },
}

SUBNETS = "spec.subnetSelectorTerms"
GROUPS = "spec.securityGroupSelectorTerms"
RESERVATIONS = "spec.capacityReservationSelectorTerms"
IMAGES = "spec.amiSelectorTerms"
MAPPINGS = "spec.blockDeviceMappings"
INTERFACES = "spec.networkInterfaces"


def good(what: str, changes: dict[str, Any], **more: Any) -> Case:
    return Case(what=f"EC2: {what}", plain=changed(EC2_CLASS, changes), **more)


def bad(what: str, field: str, changes: dict[str, Any], **more: Any) -> Case:
    return Case(what=f"EC2: {what}", plain=changed(EC2_CLASS, changes), field=field, **more)


def _tags(path: str, what: str) -> list[Case]:
    """Return the rules that tags to select by keep everywhere."""
    return [
        good(f"{what} by any value of a tag", {path: [{"tags": {"team": "*"}}]}),
        good(
            f"{what} by twenty tags",
            {path: [{"tags": {f"t{i}": "x" for i in range(20)}}]},
        ),
        bad(
            f"{what} by twenty-one tags",
            f"{path}[0].tags",
            {path: [{"tags": {f"t{i}": "x" for i in range(21)}}]},
        ),
        bad(
            f"{what} by a tag without a key",
            f"{path}[0].tags",
            {path: [{"tags": {"": "x"}}]},
        ),
        bad(
            f"{what} by a tag without a value",
            f"{path}[0].tags",
            {path: [{"tags": {"team": ""}}]},
        ),
    ]


def _kubelet(what: str, field: str = "", **settings: Any) -> Case:
    """A class with kubelet settings that are accepted, or refused at a field."""
    changes = {"spec.kubelet": settings}
    return bad(what, f"spec.kubelet{field and '.'}{field}", changes) if field != "-" else good(what, changes)


KUBELET = [
    _kubelet("no kubelet setting at all", "-"),
    _kubelet("a number of pods", "-", maxPods=110),
    _kubelet("a number of pods per core, and several DNS servers", "-", podsPerCore=0, clusterDNS=["a", "b"]),
    _kubelet("a number of pods that depends on the type", "-", maxPods="max_pods - 2"),
    _kubelet("an amount that depends on the type", "-", kubeReserved={"cpu": "vcpus * 10"}),
    _kubelet("another setting of the kubelet", "-", featureGates={"A": True}, logging={"verbosity": 3}),
    _kubelet("thresholds", "-", evictionHard={"memory.available": "5%", "pid.available": "100"}),
    _kubelet("a threshold of nothing", "-", evictionHard={"memory.available": ""}),
    _kubelet("a threshold of all", "-", evictionHard={"memory.available": "100.00%"}),
    _kubelet(
        "a soft threshold",
        "-",
        evictionSoft={"nodefs.available": "10.5%"},
        evictionSoftGracePeriod={"nodefs.available": "1m"},
    ),
    _kubelet("soft thresholds that are none", "-", evictionSoft={}, evictionSoftGracePeriod={}),
    _kubelet("thresholds for images", "-", imageGCHighThresholdPercent=85, imageGCLowThresholdPercent=0),
    _kubelet("an unknown setting", "foo", foo="bar"),
    _kubelet("less than no pods", "maxPods", maxPods=-1),
    _kubelet("more pods than can be counted", "maxPods", maxPods=2**31),
    _kubelet("a number of pods as a text", "maxPods", maxPods="10"),
    _kubelet("less than no pods per core", "podsPerCore", podsPerCore=-1),
    _kubelet(
        "a share of more than all", "evictionHard.memory.available", evictionHard={"memory.available": "101%"}
    ),
    _kubelet("a threshold for the wrong thing", "evictionHard", evictionHard={"memory": "5%"}),
    _kubelet(
        "a share of more than all before it is urgent",
        "evictionSoft.pid.available",
        evictionSoft={"pid.available": "1e"},
    ),
    _kubelet("a soft threshold without a grace period", "", evictionSoft={"memory.available": "5%"}),
    _kubelet("a grace period without a threshold", "", evictionSoftGracePeriod={"memory.available": "1m"}),
    _kubelet("a negative reservation", "kubeReserved", kubeReserved={"cpu": "-1"}),
    _kubelet("a reservation of something else", "systemReserved", systemReserved={"gpu": "1"}),
    _kubelet("a reservation of no amount", "kubeReserved.cpu", kubeReserved={"cpu": "much"}),
    _kubelet(
        "images removed above 101 percent", "imageGCHighThresholdPercent", imageGCHighThresholdPercent=101
    ),
    _kubelet(
        "images kept above the high threshold",
        "",
        imageGCHighThresholdPercent=50,
        imageGCLowThresholdPercent=60,
    ),
]


def _count(path: str, what: str, term: dict[str, Any]) -> list[Case]:
    return [
        good(f"thirty terms for {what}", {path: [term] * 30}),
        bad(f"thirty-one terms for {what}", path, {path: [term] * 31}),
        bad(f"no term for {what}", path, {path: []}),
        bad(f"an empty term for {what}", path, {path: [{}]}),
    ]


SELECTOR_CASES = [
    good("the smallest class", {}),
    bad("a class needs a spec", "spec", {"spec": ABSENT}),
    *(
        bad(f"a class needs {name}", f"spec.{name}", {f"spec.{name}": ABSENT})
        for name in ("amiSelectorTerms", "subnetSelectorTerms", "securityGroupSelectorTerms")
    ),
    *_tags(SUBNETS, "subnets"),
    *_count(SUBNETS, "subnets", {"id": "subnet-0123abcd"}),
    bad("a subnet's id has a form", f"{SUBNETS}[0].id", {SUBNETS: [{"id": "net-1"}]}),
    bad("a subnet by id and tags alone", SUBNETS, {SUBNETS: [{"id": "subnet-1", "tags": {"a": "b"}}]}),
    good(
        "a mixed subnet term beside a clean one",
        {SUBNETS: [{"id": "subnet-1", "tags": {"a": "b"}}, {"id": "subnet-2"}]},
    ),
    bad("subnets have no names", f"{SUBNETS}[0].name", {SUBNETS: [{"name": "x"}]}),
    *_tags(GROUPS, "security groups"),
    *_count(GROUPS, "security groups", {"name": "nodes"}),
    good(
        "security groups by id, by name and by tag",
        {GROUPS: [{"id": "sg-1"}, {"name": "x"}, {"tags": {"a": "*"}}]},
    ),
    bad("a security group's id has a form", f"{GROUPS}[0].id", {GROUPS: [{"id": "group-1"}]}),
    bad("a security group by id and tags", GROUPS, {GROUPS: [{"id": "sg-1", "tags": {"a": "b"}}]}),
    bad("a security group by id and name", GROUPS, {GROUPS: [{"id": "sg-1", "name": "x"}]}),
    bad("a security group by name and tags", GROUPS, {GROUPS: [{"name": "x", "tags": {"a": "b"}}]}),
    good(
        "a mixed security group term beside a clean one",
        {GROUPS: [{"name": "x", "tags": {"a": "b"}}, {"id": "sg-2"}]},
    ),
    *_tags(RESERVATIONS, "reservations"),
    *_count(RESERVATIONS, "reservations", {"id": "cr-0123abcd"}),
    good("reservations by criteria", {RESERVATIONS: [{"instanceMatchCriteria": "targeted"}]}),
    good("reservations by tag and owner", {RESERVATIONS: [{"tags": {"a": "b"}, "ownerID": "012345678901"}]}),
    bad("reservations by owner alone", RESERVATIONS, {RESERVATIONS: [{"ownerID": "012345678901"}]}),
    bad("a reservation's id has a form", f"{RESERVATIONS}[0].id", {RESERVATIONS: [{"id": "xcr-1"}]}),
    bad(
        "an owner has twelve digits",
        f"{RESERVATIONS}[0].ownerID",
        {RESERVATIONS: [{"tags": {"a": "b"}, "ownerID": "123"}]},
    ),
    bad(
        "criteria are open or targeted",
        f"{RESERVATIONS}[0].instanceMatchCriteria",
        {RESERVATIONS: [{"instanceMatchCriteria": "closed"}]},
    ),
    bad("a reservation by id and tags", RESERVATIONS, {RESERVATIONS: [{"id": "cr-1", "tags": {"a": "b"}}]}),
    bad(
        "a reservation by id and owner",
        RESERVATIONS,
        {RESERVATIONS: [{"id": "cr-1", "ownerID": "012345678901"}]},
    ),
    bad(
        "a reservation by id and criteria",
        RESERVATIONS,
        {RESERVATIONS: [{"id": "cr-1", "instanceMatchCriteria": "open"}]},
    ),
    good("a placement group by name", {"spec.placementGroupSelector": {"name": "near"}}),
    good("a placement group by id", {"spec.placementGroupSelector": {"id": "pg-0123abcd"}}),
    bad("a placement group by nothing", "spec.placementGroupSelector", {"spec.placementGroupSelector": {}}),
    bad(
        "a placement group by name and id",
        "spec.placementGroupSelector",
        {"spec.placementGroupSelector": {"name": "near", "id": "pg-1"}},
    ),
    bad(
        "a placement group's id has a form",
        "spec.placementGroupSelector.id",
        {"spec.placementGroupSelector": {"id": "group-1"}},
    ),
    bad(
        "a placement group's name is not empty",
        "spec.placementGroupSelector.name",
        {"spec.placementGroupSelector": {"name": ""}},
    ),
]

ALIASES = {
    "al2": "AL2",
    "al2023": "AL2023",
    "bottlerocket": "Bottlerocket",
    "windows2019": "Windows2019",
    "windows2022": "Windows2022",
    "windows2025": "Windows2025",
}
FAMILIES = [*ALIASES.values(), "Custom"]
CUSTOM = {"spec.amiFamily": "Custom"}


def _aliased(alias: str, family: str) -> Case:
    changes = {IMAGES: [{"alias": f"{alias}@latest"}], "spec.amiFamily": family}
    what = f"alias {alias} with family {family}"
    if family in {ALIASES[alias], "Custom"}:
        return good(what, changes)
    return bad(what, "spec", changes)


IMAGE_CASES = [
    *(good(f"alias {alias}", {IMAGES: [{"alias": f"{alias}@latest"}]}) for alias in ALIASES),
    *(_aliased(alias, family) for alias in ALIASES for family in FAMILIES),
    good("a pinned alias", {IMAGES: [{"alias": "al2023@v20240807"}]}),
    good("a pinned Bottlerocket", {IMAGES: [{"alias": "bottlerocket@1.26.1"}]}),
    *(
        bad(f"alias {alias!r}", f"{IMAGES}[0].alias", {IMAGES: [{"alias": alias}]})
        for alias in (
            "",
            "al2023",
            "al2023@",
            "@latest",
            "ubuntu@latest",
            "al 2023@latest",
            "windows2022@v1.2.3",
            "al2023@v123456789012345678901234567",
        )
    ),
    bad("an alias beside another term", IMAGES, {IMAGES: [{"alias": "al2023@latest"}, {"id": "ami-1"}]}),
    bad("two aliases", IMAGES, {IMAGES: [{"alias": "al2023@latest"}, {"alias": "al2@latest"}]}),
    *(
        bad(f"an alias with {name}", IMAGES, {IMAGES: [{"alias": "al2023@latest", name: value}]})
        for name, value in (("id", "ami-1"), ("tags", {"a": "b"}), ("name", "x"), ("owner", "self"))
    ),
    *(
        bad(f"an image's id with {name}", IMAGES, {IMAGES: [{"id": "ami-1", name: value}], **CUSTOM})
        for name, value in (("tags", {"a": "b"}), ("name", "x"), ("owner", "self"))
    ),
    bad(
        "an image's id with a name, beside a clean term",
        IMAGES,
        {IMAGES: [{"id": "ami-1", "name": "x"}, {"id": "ami-2"}], **CUSTOM},
    ),
    good("an alias with a parameter", {IMAGES: [{"alias": "al2023@latest", "ssmParameter": "/x"}]}),
    good("an image's id with a parameter", {IMAGES: [{"id": "ami-1", "ssmParameter": "/x"}], **CUSTOM}),
    good("an image by id", {IMAGES: [{"id": "ami-0123abcd"}], "spec.amiFamily": "AL2023"}),
    good("an image by name and owner", {IMAGES: [{"name": "my-*", "owner": "self"}], **CUSTOM}),
    good("an image by tag and owner", {IMAGES: [{"tags": {"a": "*"}, "owner": "012345678901"}], **CUSTOM}),
    good("an image by parameter", {IMAGES: [{"ssmParameter": "/my/image"}], **CUSTOM}),
    bad("an image by owner alone", IMAGES, {IMAGES: [{"owner": "self"}], **CUSTOM}),
    bad("an image's id has a form", f"{IMAGES}[0].id", {IMAGES: [{"id": "image-1"}], **CUSTOM}),
    bad("without an alias a family is needed", "spec", {IMAGES: [{"id": "ami-1"}]}),
    good("thirty terms for images", {IMAGES: [{"id": "ami-1"}] * 30, **CUSTOM}),
    bad("thirty-one terms for images", IMAGES, {IMAGES: [{"id": "ami-1"}] * 31, **CUSTOM}),
    bad("no term for images", IMAGES, {IMAGES: [], **CUSTOM}),
    bad("an empty term for images", IMAGES, {IMAGES: [{}], **CUSTOM}),
    bad(
        "an image by a tag without a value",
        f"{IMAGES}[0].tags",
        {IMAGES: [{"tags": {"a": ""}}], **CUSTOM},
    ),
    *(bad(f"family {name}", "spec.amiFamily", {"spec.amiFamily": name}) for name in ("Ubuntu", "al2023", "")),
]

IDENTITY_CASES = [
    good("an instance profile", {"spec.role": ABSENT, "spec.instanceProfile": "mine"}),
    bad("neither role nor profile", "spec", {"spec.role": ABSENT}),
    bad("both role and profile", "spec", {"spec.instanceProfile": "mine"}),
    bad("a role has a name", "spec.role", {"spec.role": ""}),
    bad(
        "a profile has a name",
        "spec.instanceProfile",
        {"spec.role": ABSENT, "spec.instanceProfile": ""},
    ),
    good("another role", {"spec.role": "other"}, old=EC2_CLASS),
    good("a profile in place of a role", {"spec.role": ABSENT, "spec.instanceProfile": "x"}, old=EC2_CLASS),
    good("a tag", {"spec.tags": {"team": "x", "Name": "mine", "empty": ""}}),
    good("a tag of discovery", {"spec.tags": {"karpenter.sh/discovery": "test"}}),
    *(
        bad(f"tag {key!r} is not yours", "spec.tags", {"spec.tags": {key: "x"}})
        for key in (
            "",
            "eks:eks-cluster-name",
            "kubernetes.io/cluster/test",
            "kubernetes.io/cluster",
            "karpenter.sh/nodepool",
            "karpenter.sh/nodeclaim",
            "karpenter.k8s.aws/ec2nodeclass",
        )
    ),
    *KUBELET,
    bad("kubelet settings are an object", "spec.kubelet", {"spec.kubelet": "x"}),
    good("user data", {"spec.userData": "#!/bin/bash\n"}),
    good("a context", {"spec.context": "context-1"}),
    good("a public address", {"spec.associatePublicIPAddress": True}),
    good("no prefixes", {"spec.ipPrefixCount": 0}),
    bad("less than no prefixes", "spec.ipPrefixCount", {"spec.ipPrefixCount": -1}),
    good("detailed monitoring", {"spec.detailedMonitoring": True}),
    good("nested virtualisation", {"spec.cpuOptions": {"nestedVirtualization": "enabled"}}),
    bad(
        "half a nested virtualisation",
        "spec.cpuOptions.nestedVirtualization",
        {"spec.cpuOptions": {"nestedVirtualization": "maybe"}},
    ),
    bad("a class has no launch template", "spec.launchTemplate", {"spec.launchTemplate": "x"}),
]

METADATA = "spec.metadataOptions"

MACHINE_CASES = [
    good(
        "every metadata option",
        {
            METADATA: {
                "httpEndpoint": "disabled",
                "httpProtocolIPv6": "enabled",
                "httpPutResponseHopLimit": 64,
                "httpTokens": "optional",
            }
        },
    ),
    *(
        bad(f"{name} may not be {value!r}", f"{METADATA}.{name}", {METADATA: {name: value}})
        for name, value in (
            ("httpEndpoint", "on"),
            ("httpProtocolIPv6", "on"),
            ("httpPutResponseHopLimit", 0),
            ("httpPutResponseHopLimit", 65),
            ("httpPutResponseHopLimit", "1"),
            ("httpTokens", "none"),
        )
    ),
    *(
        good(f"{name} of {value}", {"spec.connectionTracking": {name: value}})
        for name, bounds in (
            ("tcpEstablishedTimeout", (60, 432000)),
            ("udpStreamTimeout", (60, 180)),
            ("udpTimeout", (30, 60)),
        )
        for value in bounds
    ),
    *(
        bad(
            f"{name} may not be {value}",
            f"spec.connectionTracking.{name}",
            {"spec.connectionTracking": {name: value}},
        )
        for name, bounds in (
            ("tcpEstablishedTimeout", (59, 432001)),
            ("udpStreamTimeout", (59, 181)),
            ("udpTimeout", (29, 61)),
        )
        for value in bounds
    ),
    bad("connection tracking of nothing", "spec.connectionTracking", {"spec.connectionTracking": {}}),
    good("local disks as one", {"spec.instanceStorePolicy": "RAID0"}),
    bad("local disks as RAID1", "spec.instanceStorePolicy", {"spec.instanceStorePolicy": "RAID1"}),
]


def _disk(**ebs: Any) -> dict[str, Any]:
    return {MAPPINGS: [{"deviceName": "/dev/xvda", "ebs": ebs}]}


_EBS = f"{MAPPINGS}[0].ebs"

DISK_CASES = [
    good(
        "a disk with everything",
        _disk(
            deleteOnTermination=True,
            encrypted=True,
            iops=3000,
            kmsKeyID="alias/key",
            snapshotID="snap-1",
            throughput=125,
            volumeInitializationRate=100,
            volumeSize="100Gi",
            volumeType="gp3",
        ),
    ),
    good("a disk from a snapshot", _disk(snapshotID="snap-1")),
    bad("a disk of no size", _EBS, _disk(encrypted=True)),
    *(
        good(f"a disk of type {kind}", _disk(volumeSize="1Gi", volumeType=kind))
        for kind in ("standard", "io1", "io2", "gp2", "sc1", "st1", "gp3")
    ),
    bad("a disk of type gp4", f"{_EBS}.volumeType", _disk(volumeSize="1Gi", volumeType="gp4")),
    *(
        good(f"a disk of {size}", _disk(volumeSize=size))
        for size in (
            "1Gi",
            "20Gi",
            "59000Gi",
            "1G",
            "64000G",
            "1Ti",
            "10Ti",
            "57Ti",
            "58Ti",
            "1T",
            "64T",
            "18T",
        )
    ),
    *(
        bad(f"a disk of {size!r}", f"{_EBS}.volumeSize", _disk(volumeSize=size))
        for size in (
            "",
            "0Gi",
            "59001Gi",
            "64001G",
            "59Ti",
            "18Ti",
            "65T",
            "20",
            "20Mi",
            "20M",
            "1.5Gi",
            "-1Gi",
            "Gi",
            "020Gi",
            "20 Gi",
        )
    ),
    *(good(f"a disk of {size!r}, which counts as 0", _disk(volumeSize=size)) for size in ("T", "Ti")),
    bad("a disk's size is a text", f"{_EBS}.volumeSize", _disk(volumeSize=20)),
    *(
        bad(
            f"an initialization rate of {rate}",
            f"{_EBS}.volumeInitializationRate",
            _disk(snapshotID="snap-1", volumeInitializationRate=rate),
        )
        for rate in (99, 301)
    ),
    good("an initialization rate of 300", _disk(snapshotID="snap-1", volumeInitializationRate=300)),
    bad(
        "an initialization rate without a snapshot",
        _EBS,
        _disk(volumeSize="1Gi", volumeInitializationRate=200),
    ),
    bad(
        "an initialization rate with an empty snapshot",
        _EBS,
        _disk(volumeSize="1Gi", snapshotID="", volumeInitializationRate=200),
    ),
    good("one root volume", {MAPPINGS: [{"rootVolume": True}, {"rootVolume": False}, {}]}),
    bad("two root volumes", MAPPINGS, {MAPPINGS: [{"rootVolume": True}, {"rootVolume": True}]}),
    good("fifty disks", {MAPPINGS: [{"deviceName": "x"}] * 50}),
    bad("fifty-one disks", MAPPINGS, {MAPPINGS: [{"deviceName": "x"}] * 51}),
]


def _nic(card: int, device: int, kind: str = "interface") -> dict[str, Any]:
    return {"networkCardIndex": card, "deviceIndex": device, "interfaceType": kind}


INTERFACE_CASES = [
    good("no interfaces", {INTERFACES: []}),
    good("one interface", {INTERFACES: [_nic(0, 0)]}),
    good(
        "an interface and an EFA", {INTERFACES: [_nic(0, 0), _nic(0, 1, "efa-only"), _nic(1, 0, "efa-only")]}
    ),
    bad("no first interface", INTERFACES, {INTERFACES: [_nic(0, 1)]}),
    bad("a first interface that has no address", INTERFACES, {INTERFACES: [_nic(0, 0, "efa-only")]}),
    bad("two interfaces in one place", INTERFACES, {INTERFACES: [_nic(0, 0), _nic(1, 1), _nic(1, 1)]}),
    bad(
        "two EFAs on one card",
        INTERFACES,
        {INTERFACES: [_nic(0, 0), _nic(1, 0, "efa-only"), _nic(1, 1, "efa-only")]},
    ),
    bad(
        "an interface of type efa",
        f"{INTERFACES}[1].interfaceType",
        {INTERFACES: [_nic(0, 0), _nic(1, 0, "efa")]},
    ),
    bad("a card of -1", f"{INTERFACES}[1].networkCardIndex", {INTERFACES: [_nic(0, 0), _nic(-1, 0)]}),
    bad("a device of -1", f"{INTERFACES}[1].deviceIndex", {INTERFACES: [_nic(0, 0), _nic(0, -1)]}),
    *(
        bad(
            f"an interface without {name}",
            f"{INTERFACES}[0].{name}",
            {INTERFACES: [{key: value for key, value in _nic(0, 0).items() if key != name}]},
        )
        for name in ("networkCardIndex", "deviceIndex", "interfaceType")
    ),
    good("150 interfaces", {INTERFACES: [_nic(i // 2, i % 2) for i in range(150)]}),
    bad("151 interfaces", INTERFACES, {INTERFACES: [_nic(i // 2, i % 2) for i in range(151)]}),
]

EC2_CLASS_CASES = [
    *SELECTOR_CASES,
    *IMAGE_CASES,
    *IDENTITY_CASES,
    *MACHINE_CASES,
    *DISK_CASES,
    *INTERFACE_CASES,
]
