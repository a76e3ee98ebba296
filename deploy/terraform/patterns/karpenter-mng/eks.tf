resource "aws_iam_role" "cluster" {
  name = "${local.name}-cluster"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect    = "Allow"
        Principal = { Service = "eks.amazonaws.com" }
        Action    = ["sts:AssumeRole", "sts:TagSession"]
      },
    ]
  })
}

resource "aws_iam_role_policy_attachment" "cluster" {
  role       = aws_iam_role.cluster.name
  policy_arn = "arn:${data.aws_partition.current.partition}:iam::aws:policy/AmazonEKSClusterPolicy"
}

resource "aws_eks_cluster" "this" {
  name     = local.name
  version  = "1.33"
  role_arn = aws_iam_role.cluster.arn

  access_config {
    authentication_mode                         = "API_AND_CONFIG_MAP"
    bootstrap_cluster_creator_admin_permissions = true
  }

  vpc_config {
    subnet_ids             = aws_subnet.private[*].id
    endpoint_public_access = true
  }

  depends_on = [aws_iam_role_policy_attachment.cluster]
}

# The security group that EKS makes, which nodes are in as well, is found by the same tag as the subnets.
resource "aws_ec2_tag" "node_security_group" {
  resource_id = aws_eks_cluster.this.vpc_config[0].cluster_security_group_id
  key         = "karpenter.sh/discovery"
  value       = local.name
}

resource "aws_eks_addon" "this" {
  for_each     = toset(["kube-proxy", "vpc-cni", "eks-pod-identity-agent"])
  cluster_name = aws_eks_cluster.this.name
  addon_name   = each.value
}

# Two nodes for the operator and for CoreDNS: labelled, and tainted against everything else.
module "controller_nodes" {
  source = "../../karpenter/modules/managed-node-group"

  cluster_name = aws_eks_cluster.this.name
  subnet_ids   = aws_subnet.private[*].id

  # Nodes are ready when the network of pods is.
  depends_on = [aws_eks_addon.this]
}

output "configure_kubectl" {
  description = "Tells kubectl of the cluster."
  value       = "aws eks --region ${local.region} update-kubeconfig --name ${aws_eks_cluster.this.name}"
}
