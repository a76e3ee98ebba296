module "karpenter" {
  source = "../../karpenter"

  cluster_name = aws_eks_cluster.this.name
  namespace    = "karpenter"

  # The name that karpenter.yaml gives to its EC2NodeClass; the operator makes the instance profile of it.
  node_role_name = local.name

  # Made in eks.tf, before the nodes.
  create_pod_identity_agent = false

  # On the nodes of the managed node group, and not on those that the operator makes.
  values = [module.controller_nodes.values]

  # karpenter.yaml has the first NodePool. With true the module makes one, without kubectl.
  create_nodepool = false
}
