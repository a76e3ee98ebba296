"""
A cluster on EKS with Karpenter, its roles, its queue, and three NodePools.

    pip install './packages/karpenter[cdk]'
    npx cdk deploy            # or, to look at the template first: python app.py
"""

import os

import aws_cdk as cdk

from karpenter.api.node import Taint
from karpenter.api.nodeclaim import NodeClassReference
from karpenter.api.nodepool import (
    Disruption,
    NodeClaimTemplate,
    NodePoolSpec,
    PoolRequirement,
    PoolTemplateSpec,
)
from karpenter.cdk import EC2NodeClass, EksBlueprint, KarpenterV1AddOn, NodePool, VpcCniAddOn

app = cdk.App()

karpenter = KarpenterV1AddOn(
    image=os.environ.get("KARPENTER_IMAGE", "registry.example/karpenter"),
    pod_identity=True,
    ec2_node_classes={
        # Role, subnets and security group of the cluster are filled in.
        "default": {"amiSelectorTerms": [{"alias": "al2023@latest"}], "tags": {"team": "platform"}},
    },
    node_pools={
        "spot": {
            "template": {
                "spec": {
                    "requirements": [
                        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
                        {
                            "key": "karpenter.k8s.aws/instance-category",
                            "operator": "In",
                            "values": ["c", "m", "r"],
                        },
                        {"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["4"]},
                    ]
                }
            },
            "limits": {"cpu": 200},
            "weight": 10,
        },
        "on-demand": {"limits": {"cpu": 100}},
    },
)

blueprint = (
    EksBlueprint.builder()
    .version("1.33")
    .add_ons(VpcCniAddOn(), karpenter)
    .build(app, "blue", description="A cluster with Karpenter")
)

# A pool beside the add-on, written with the types of the API.
gpu_class = EC2NodeClass(
    blueprint,
    "gpu",
    cluster=blueprint.cluster,
    role=karpenter.node_role,
    spec={"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]},
)
NodePool(
    blueprint,
    "gpu-pool",
    cluster=blueprint.cluster,
    node_class=gpu_class,
    spec=NodePoolSpec(
        template=NodeClaimTemplate(
            spec=PoolTemplateSpec(
                node_class_ref=NodeClassReference(
                    group="karpenter.k8s.aws", kind="EC2NodeClass", name=gpu_class.name
                ),
                requirements=(
                    PoolRequirement(key="karpenter.k8s.aws/instance-gpu-count", operator="Gt", values=("0",)),
                ),
                taints=(Taint(key="nvidia.com/gpu", effect="NoSchedule"),),
            )
        ),
        disruption=Disruption(consolidation_policy="WhenEmpty", consolidate_after="10m"),
        limits={"nvidia.com/gpu": 8},
    ),
)

app.synth()
