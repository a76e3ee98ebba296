"""User data that is wrong, or not ours: what the console says."""

import pytest

from karpenter.api.node import Taint
from karpenter_local.aws.boot.bootconfig import BootConfig, CannotJoin
from karpenter_local.aws.boot.images import AL2, AL2023, BOTTLEROCKET, System, read_user_data, system_of
from karpenter_local.aws.boot.node import check_labels

CALL = "/etc/eks/bootstrap.sh"
WINDOWS = System(name="Windows Server 2022 Datacenter", windows_build="10.0.20348")

NODE_CONFIG = """\
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: blue, apiServerEndpoint: https://blue, certificateAuthority: Q0E=, cidr: 10.100.0.0/16}
"""
BOOTSTRAP = "#!/bin/bash\n/etc/eks/bootstrap.sh blue --apiserver-endpoint https://blue --b64-cluster-ca Q0E="
SETTINGS = """\
[settings.kubernetes]
cluster-name = "blue"
api-server = "https://blue"
cluster-certificate = "Q0E="
"""
SCRIPT = (
    "<powershell>\n& \"C:\\EKS\\Start-EKSBootstrap.ps1\" -EKSClusterName 'blue' -APIServerEndpoint"
    " 'https://blue' -Base64ClusterCA Q0E={}\n</powershell>"
)


@pytest.mark.parametrize(
    ("image", "name"),
    [
        pytest.param("amazon-eks-node-1.30-v20240807", "Amazon Linux 2", id="AL2"),
        pytest.param("eks-optimized-ami-1.32-amazon-linux-2-arm64", "Amazon Linux 2", id="a path"),
        pytest.param("amazon-eks-node-al2023-arm64-standard-1.33-v1", "Amazon Linux 2023", id="AL2023"),
        pytest.param("bottlerocket-aws-k8s-1.33-x86_64-v1.40.0", "Bottlerocket OS", id="Bottlerocket"),
        pytest.param("Windows_Server-2019-English-Core", "Windows Server 2019 Datacenter", id="Windows"),
    ],
)
def test_systems(image: str, name: str) -> None:
    """The name of an image tells which system is in it."""
    found = system_of(image)

    assert found is not None
    assert found.name == name


def test_unknown_images() -> None:
    """An image whose name says nothing holds nothing that we know."""
    assert system_of("my-own-image") is None


@pytest.mark.parametrize(
    ("system", "text"),
    [
        pytest.param(AL2, BOOTSTRAP, id="AL2, without quotes or an archive"),
        pytest.param(AL2, f"{BOOTSTRAP}\n{BOOTSTRAP.replace('blue', 'green')}", id="AL2, the first call"),
        pytest.param(AL2023, NODE_CONFIG, id="AL2023, without an archive"),
        pytest.param(BOTTLEROCKET, SETTINGS, id="Bottlerocket"),
        pytest.param(WINDOWS, SCRIPT.format(""), id="Windows, by its path"),
    ],
)
def test_the_users_own(system: System, text: str) -> None:
    """User data that people write for images of their own is read as well."""
    told = read_user_data(system, text)

    assert (told.cluster, told.endpoint, told.authority) == ("blue", "https://blue", "Q0E=")


@pytest.mark.parametrize(
    ("system", "text", "why"),
    [
        pytest.param(AL2, "", "there is no user data", id="nothing at all"),
        pytest.param(AL2, "#!/bin/sh\necho hi", "cloud-init: no script called", id="AL2: no call"),
        pytest.param(AL2, f"#!/bin/sh\n# {BOOTSTRAP[12:]}", "cloud-init: no script", id="AL2: a comment"),
        pytest.param(
            AL2,
            "MIME-Version: 1.0\n\nhello",
            "cloud-init: the user data says",
            id="AL2: no MIME",
        ),
        pytest.param(
            AL2, "#!/bin/sh\n/etc/eks/bootstrap.sh 'blue", "bash: the call of bootstrap.sh", id="AL2: a quote"
        ),
        pytest.param(
            AL2,
            f"#!/bin/sh\n{CALL} --ip-family ipv6",
            "bootstrap.sh: the name",
            id="AL2: no name",
        ),
        pytest.param(
            AL2,
            f"#!/bin/sh\n{CALL} blue",
            "bootstrap.sh: --apiserver-endpoint",
            id="AL2: no address",
        ),
        pytest.param(AL2, f"{BOOTSTRAP} --fly", "bootstrap.sh: unknown option --fly", id="AL2: odd"),
        pytest.param(
            AL2,
            f"{BOOTSTRAP} --kubelet-extra-args '--max-pods=many'",
            "kubelet: invalid argument 'many' for max-pods",
            id="AL2: pods",
        ),
        pytest.param(
            AL2,
            f"{BOOTSTRAP} --kubelet-extra-args 'max-pods=3'",
            "kubelet: unknown command 'max-pods=3'",
            id="AL2: no flag",
        ),
        pytest.param(
            AL2,
            f"{BOOTSTRAP} --kubelet-extra-args '--node-labels=a'",
            "kubelet: invalid argument 'a' for --node-labels",
            id="AL2: half a label",
        ),
        pytest.param(
            AL2,
            f"{BOOTSTRAP} --kubelet-extra-args '--register-with-taints=a=b'",
            "kubelet: invalid taint spec: a=b",
            id="AL2: half a taint",
        ),
        pytest.param(
            AL2,
            f"{BOOTSTRAP} --kubelet-extra-args '--node-labels=\"a=b'",
            "kubelet: the arguments cannot be read",
            id="AL2: a quote within",
        ),
        pytest.param(AL2023, "#!/bin/sh\necho hi", "nodeadm: no NodeConfig", id="AL2023: a script only"),
        pytest.param(
            AL2023,
            "apiVersion: node.eks.aws/v1alpha1\n\tkind",
            "nodeadm: a NodeConfig is not YAML",
            id="no YAML",
        ),
        pytest.param(
            AL2023,
            NODE_CONFIG.replace("NodeConfig", "Pod"),
            "nodeadm: a document is no NodeConfig",
            id="AL2023: another kind",
        ),
        pytest.param(
            AL2023,
            NODE_CONFIG.replace("v1alpha1", "v9"),
            "nodeadm: a NodeConfig has the unknown version 'node.eks.aws/v9'",
            id="AL2023: another version",
        ),
        pytest.param(
            AL2023,
            NODE_CONFIG.replace(", cidr: 10.100.0.0/16", ""),
            "nodeadm: cidr is missing",
            id="AL2023: no addresses",
        ),
        pytest.param(
            AL2023,
            f"{NODE_CONFIG}  kubelet: 3\n",
            "nodeadm: kubelet is 3, where a table is expected",
            id="AL2023: no table",
        ),
        pytest.param(
            AL2023,
            f"{NODE_CONFIG}  kubelet: {{flags: --x}}\n",
            "nodeadm: the flags of the kubelet are '--x', where a list is expected",
            id="AL2023: no list",
        ),
        pytest.param(
            AL2023,
            f"{NODE_CONFIG}  kubelet: {{config: {{maxPods: -3}}}}\n",
            "kubelet: invalid argument '-3' for maxPods",
            id="AL2023: pods",
        ),
        pytest.param(
            AL2023,
            f"{NODE_CONFIG}  kubelet: {{config: {{registerWithTaints: [a]}}}}\n",
            "kubelet: registerWithTaints is ['a'], which are no taints",
            id="AL2023: no taints",
        ),
        pytest.param(BOTTLEROCKET, "[settings", "early-boot-config: the user data is not TOML", id="no TOML"),
        pytest.param(
            BOTTLEROCKET,
            SETTINGS.replace("api-server", "api"),
            "early-boot-config: settings.kubernetes.api-server is missing",
            id="Bottlerocket: no address",
        ),
        pytest.param(
            BOTTLEROCKET,
            "settings = 3",
            "early-boot-config: settings is 3, where a table is expected",
            id="Bottlerocket: no table",
        ),
        pytest.param(WINDOWS, "echo hi", "EC2Launch: the user data has no", id="Windows: no script"),
        pytest.param(
            WINDOWS, "<powershell>echo hi</powershell>", "EC2Launch: no script called", id="Windows: no call"
        ),
        pytest.param(
            WINDOWS,
            "<powershell>\n& $unknown -EKSClusterName 'blue'\n</powershell>",
            "EC2Launch: no script called",
            id="Windows: another call",
        ),
        pytest.param(
            WINDOWS,
            SCRIPT.format("").replace("-Base64ClusterCA Q0E=", ""),
            "Start-EKSBootstrap.ps1: -base64clusterca is missing",
            id="Windows: no authority",
        ),
    ],
)
def test_what_consoles_say(system: System, text: str, why: str) -> None:
    """A machine that was told nonsense does not join, and its console says why in one line."""
    with pytest.raises(CannotJoin) as caught:
        read_user_data(system, text)

    assert str(caught.value).startswith(why)
    assert "\n" not in str(caught.value)


def test_flags_with_values_apart() -> None:
    """A flag may have its value behind a space, or none at all."""
    extra = "--max-pods 17 --v --register-with-taints a:NoSchedule"
    told = read_user_data(AL2, f"{BOOTSTRAP} --kubelet-extra-args '{extra}'")

    assert told.kubelet.max_pods == 17
    assert told.taints == (Taint(key="a", effect="NoSchedule"),)


def test_quotes_of_powershell() -> None:
    """A quote within quotes is written twice."""
    told = read_user_data(WINDOWS, SCRIPT.format(" -KubeletExtraArgs '--node-labels=\"a=b\" --x=''y'''"))

    assert told.labels == {"a": "b"}


@pytest.mark.parametrize(
    "label",
    [
        pytest.param("example.com/team", id="one's own"),
        pytest.param("node.kubernetes.io/anything", id="about nodes"),
        pytest.param("kubernetes.io/os", id="well known"),
        pytest.param("topology.kubernetes.io/zone", id="where"),
        pytest.param("plain", id="without a domain"),
    ],
)
def test_labels_that_kubelets_may_set(label: str) -> None:
    """A kubelet sets labels of others, and a few of Kubernetes' own."""
    check_labels(BootConfig(cluster="", endpoint="", authority="", labels={label: ""}))


@pytest.mark.parametrize(
    "label",
    [
        pytest.param("node-role.kubernetes.io/worker", id="a role"),
        pytest.param("node-restriction.kubernetes.io/team", id="a restriction"),
        pytest.param("topology.k8s.io/rack", id="of the other domain"),
    ],
)
def test_labels_that_kubelets_may_not_set(label: str) -> None:
    """A kubelet that is told to set a label of Kubernetes' own does not start."""
    with pytest.raises(CannotJoin, match=f"--node-labels: {label}$"):
        check_labels(BootConfig(cluster="", endpoint="", authority="", labels={label: ""}))
