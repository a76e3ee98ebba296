module "eks" {
  source  = "terraform-aws-modules/eks/aws"
  version = "~> 20.24"

  cluster_name    = local.name
  cluster_version = "1.30"

  cluster_addons = {
    coredns = {
      configuration_values = jsonencode({
        tolerations = [
          { key = "karpenter.sh/controller", value = "true", effect = "NoSchedule" }
        ]
      })
    }
    eks-pod-identity-agent = {}
    kube-proxy             = {}
    vpc-cni                = {}
  }

  eks_managed_node_groups = {
    karpenter = {
      instance_types = ["m5.large"]
      labels         = { "karpenter.sh/controller" = "true" }
      taints = {
        karpenter = { key = "karpenter.sh/controller", value = "true", effect = "NO_SCHEDULE" }
      }
    }
  }

  node_security_group_tags = merge(local.tags, {
    "karpenter.sh/discovery" = local.name
  })
}
