# Nodes for the operator itself, which must not run on nodes that it makes and removes: a label that the
# operator selects, a taint that keeps other pods away, and CoreDNS let in, because the operator needs names
# before it can make the first node.

terraform {
  required_version = ">= 1.5"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.81"
    }
  }
}

data "aws_partition" "current" {}

locals {
  label = "karpenter.sh/controller"
  toleration = {
    key      = local.label
    operator = "Exists"
    effect   = "NoSchedule"
  }
}

resource "aws_iam_role" "node" {
  name_prefix = "karpenter-controller-"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect    = "Allow"
        Principal = { Service = "ec2.${data.aws_partition.current.dns_suffix}" }
        Action    = "sts:AssumeRole"
      },
    ]
  })
}

resource "aws_iam_role_policy_attachment" "node" {
  for_each = toset([
    "AmazonEKS_CNI_Policy",
    "AmazonEKSWorkerNodePolicy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonSSMManagedInstanceCore",
  ])
  role       = aws_iam_role.node.name
  policy_arn = "arn:${data.aws_partition.current.partition}:iam::aws:policy/${each.value}"
}

resource "aws_eks_node_group" "controller" {
  cluster_name    = var.cluster_name
  node_group_name = var.name
  node_role_arn   = aws_iam_role.node.arn
  subnet_ids      = var.subnet_ids
  ami_type        = var.ami_type
  instance_types  = var.instance_types

  scaling_config {
    min_size     = var.min_size
    max_size     = var.max_size
    desired_size = var.min_size
  }

  labels = {
    (local.label) = "true"
  }

  taint {
    key    = local.label
    value  = "true"
    effect = "NO_SCHEDULE"
  }

  depends_on = [aws_iam_role_policy_attachment.node]
}

resource "aws_eks_addon" "coredns" {
  count        = var.create_coredns ? 1 : 0
  cluster_name = var.cluster_name
  addon_name   = "coredns"
  configuration_values = jsonencode({
    tolerations = [local.toleration]
  })

  # Without a node the add-on is degraded, and Terraform would wait for it.
  depends_on = [aws_eks_node_group.controller]
}
