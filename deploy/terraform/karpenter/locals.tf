data "aws_caller_identity" "current" {}

data "aws_partition" "current" {}

data "aws_region" "current" {}

data "aws_eks_cluster" "this" {
  count = var.identity == "irsa" ? 1 : 0
  name  = var.cluster_name
}

locals {
  charts    = var.charts != "" ? var.charts : "${path.module}/../../../charts"
  ami_alias = "${lower(var.ami_family)}@latest"

  # IAM takes names of up to 64 characters. `karpenter install` cuts longer ones likewise, with another hash.
  # https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
  long = {
    node       = "KarpenterNodeRole-${var.cluster_name}"
    controller = "KarpenterControllerRole-${var.cluster_name}"
  }
  role_names = {
    for key, name in local.long : key => length(name) <= 64 ? name : join("-", [substr(name, 0, 55), substr(sha256(name), 0, 8)])
  }
  node_role       = var.node_role_name != "" ? var.node_role_name : local.role_names.node
  controller_role = local.role_names.controller

  issuer = var.identity == "irsa" ? trimprefix(data.aws_eks_cluster.this[0].identity[0].oidc[0].issuer, "https://") : ""
  oidc_provider_arn = var.identity != "irsa" ? "" : (
    var.oidc_provider_arn != "" ? var.oidc_provider_arn : aws_iam_openid_connect_provider.cluster[0].arn
  )
}
