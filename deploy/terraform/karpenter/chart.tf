# Written by `make terraform` from the plan of `karpenter install`.

locals {
  chart_values = {
    irsa = yamlencode({
      serviceAccount = {
        name = var.service_account
        annotations = {
          "eks.amazonaws.com/role-arn" = aws_iam_role.controller.arn
        }
      }
      settings = {
        clusterName       = var.cluster_name
        interruptionQueue = var.cluster_name
      }
    })
    pod-identity = yamlencode({
      serviceAccount = {
        name = var.service_account
      }
      settings = {
        clusterName       = var.cluster_name
        interruptionQueue = var.cluster_name
      }
    })
  }
}

# Helm never upgrades what a chart has in its folder crds: the definitions are a chart of their own.
resource "helm_release" "crds" {
  name             = "karpenter-crd"
  chart            = "${local.charts}/karpenter-crd"
  namespace        = var.namespace
  create_namespace = true
}

resource "helm_release" "karpenter" {
  name             = "karpenter"
  chart            = "${local.charts}/karpenter"
  namespace        = var.namespace
  create_namespace = true
  skip_crds        = true
  wait             = var.wait
  values           = concat([local.chart_values[var.identity]], var.values)
  depends_on = [
    helm_release.crds,
    aws_iam_role_policy_attachment.controller,
    aws_eks_pod_identity_association.controller,
  ]
}

# Goes before the operator does: its NodePools wait until their nodes are drained.
resource "helm_release" "nodepools" {
  count     = var.create_nodepool ? 1 : 0
  name      = "karpenter-nodepools"
  chart     = "${path.module}/nodepools"
  namespace = var.namespace
  timeout   = 900
  values = [
    yamlencode({
      objects = [
        {
          apiVersion = "karpenter.sh/v1"
          kind       = "NodePool"
          metadata = {
            name = "default"
          }
          spec = {
            template = {
              spec = {
                requirements = [
                  {
                    key      = "kubernetes.io/arch"
                    operator = "In"
                    values   = ["amd64"]
                  },
                  {
                    key      = "kubernetes.io/os"
                    operator = "In"
                    values   = ["linux"]
                  },
                  {
                    key      = "karpenter.sh/capacity-type"
                    operator = "In"
                    values   = ["spot", "on-demand"]
                  },
                  {
                    key      = "karpenter.k8s.aws/instance-category"
                    operator = "In"
                    values   = ["c", "m", "r"]
                  },
                  {
                    key      = "karpenter.k8s.aws/instance-generation"
                    operator = "Gt"
                    values   = ["2"]
                  },
                ]
                nodeClassRef = {
                  group = "karpenter.k8s.aws"
                  kind  = "EC2NodeClass"
                  name  = "default"
                }
                expireAfter = "720h"
              }
            }
            limits = {
              cpu = 1000
            }
            disruption = {
              consolidationPolicy = "WhenEmptyOrUnderutilized"
              consolidateAfter    = "1m"
            }
          }
        },
        {
          apiVersion = "karpenter.k8s.aws/v1"
          kind       = "EC2NodeClass"
          metadata = {
            name = "default"
          }
          spec = {
            amiFamily = var.ami_family
            role      = local.node_role
            subnetSelectorTerms = [
              {
                tags = {
                  "karpenter.sh/discovery" = var.cluster_name
                }
              },
            ]
            securityGroupSelectorTerms = [
              {
                tags = {
                  "karpenter.sh/discovery" = var.cluster_name
                }
              },
            ]
            amiSelectorTerms = [
              {
                alias = local.ami_alias
              },
            ]
          }
        },
      ]
    }),
  ]
  depends_on = [helm_release.karpenter]
}
