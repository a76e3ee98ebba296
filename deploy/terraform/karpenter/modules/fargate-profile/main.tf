# Fargate for the operator itself, for clusters without any node group: each of its pods is a node of its own.

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

resource "aws_iam_role" "pods" {
  name_prefix = "karpenter-fargate-"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect    = "Allow"
        Principal = { Service = "eks-fargate-pods.amazonaws.com" }
        Action    = "sts:AssumeRole"
      },
    ]
  })
}

resource "aws_iam_role_policy_attachment" "pods" {
  role       = aws_iam_role.pods.name
  policy_arn = "arn:${data.aws_partition.current.partition}:iam::aws:policy/AmazonEKSFargatePodExecutionRolePolicy"
}

resource "aws_eks_fargate_profile" "controller" {
  cluster_name           = var.cluster_name
  fargate_profile_name   = var.name
  pod_execution_role_arn = aws_iam_role.pods.arn
  subnet_ids             = var.subnet_ids

  selector {
    namespace = var.namespace
    labels = {
      "app.kubernetes.io/name" = "karpenter"
    }
  }

  depends_on = [aws_iam_role_policy_attachment.pods]
}
