# Written by `make terraform` from the plan of `karpenter install`.

locals {
  controller_trust = {
    irsa = jsonencode({
      Version = "2012-10-17"
      Statement = [
        {
          Effect = "Allow"
          Principal = {
            Federated = local.oidc_provider_arn
          }
          Action = "sts:AssumeRoleWithWebIdentity"
          Condition = {
            StringEquals = {
              "${local.issuer}:aud" = "sts.amazonaws.com"
              "${local.issuer}:sub" = "system:serviceaccount:${var.namespace}:${var.service_account}"
            }
          }
        },
      ]
    })
    pod-identity = jsonencode({
      Version = "2012-10-17"
      Statement = [
        {
          Effect = "Allow"
          Principal = {
            Service = "pods.eks.amazonaws.com"
          }
          Action = ["sts:AssumeRole", "sts:TagSession"]
        },
      ]
    })
  }
}

# The account has one such role, which may exist already; EC2 sells no spot without it.
resource "aws_iam_service_linked_role" "spot" {
  count            = var.create_spot_service_linked_role ? 1 : 0
  aws_service_name = "spot.amazonaws.com"
}

resource "aws_iam_role" "node" {
  name = local.node_role
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect = "Allow"
        Principal = {
          Service = "ec2.${data.aws_partition.current.dns_suffix}"
        }
        Action = "sts:AssumeRole"
      },
    ]
  })
  tags = {
    "karpenter.sh/installation" = var.cluster_name
  }
}

resource "aws_iam_role_policy_attachment" "node" {
  for_each = {
    AmazonEKS_CNI_Policy               = "arn:${data.aws_partition.current.partition}:iam::aws:policy/AmazonEKS_CNI_Policy"
    AmazonEKSWorkerNodePolicy          = "arn:${data.aws_partition.current.partition}:iam::aws:policy/AmazonEKSWorkerNodePolicy"
    AmazonEC2ContainerRegistryPullOnly = "arn:${data.aws_partition.current.partition}:iam::aws:policy/AmazonEC2ContainerRegistryPullOnly"
    AmazonSSMManagedInstanceCore       = "arn:${data.aws_partition.current.partition}:iam::aws:policy/AmazonSSMManagedInstanceCore"
  }
  role       = aws_iam_role.node.name
  policy_arn = each.value
}

resource "aws_iam_instance_profile" "node" {
  name = "KarpenterNodeInstanceProfile-${var.cluster_name}"
  role = aws_iam_role.node.name
  tags = {
    "karpenter.sh/installation" = var.cluster_name
  }
}

resource "aws_iam_openid_connect_provider" "cluster" {
  count          = var.identity == "irsa" && var.oidc_provider_arn == "" ? 1 : 0
  url            = "https://${local.issuer}"
  client_id_list = ["sts.amazonaws.com"]
  tags = {
    "karpenter.sh/installation" = var.cluster_name
  }
}

resource "aws_iam_role" "controller" {
  name               = local.controller_role
  assume_role_policy = local.controller_trust[var.identity]
  tags = {
    "karpenter.sh/installation" = var.cluster_name
  }
}

resource "aws_iam_role_policy_attachment" "controller" {
  for_each = {
    KarpenterControllerNodeLifecyclePolicy     = aws_iam_policy.node_lifecycle.arn
    KarpenterControllerIAMIntegrationPolicy    = aws_iam_policy.iam_integration.arn
    KarpenterControllerEKSIntegrationPolicy    = aws_iam_policy.eks_integration.arn
    KarpenterControllerInterruptionPolicy      = aws_iam_policy.interruption.arn
    KarpenterControllerZonalShiftPolicy        = aws_iam_policy.zonal_shift.arn
    KarpenterControllerResourceDiscoveryPolicy = aws_iam_policy.resource_discovery.arn
  }
  role       = aws_iam_role.controller.name
  policy_arn = each.value
}

resource "aws_sqs_queue" "interruption" {
  name                      = var.cluster_name
  message_retention_seconds = 300
  sqs_managed_sse_enabled   = true
  tags = {
    "karpenter.sh/installation" = var.cluster_name
  }
}

resource "aws_sqs_queue_policy" "interruption" {
  queue_url = aws_sqs_queue.interruption.url
  policy = jsonencode({
    Version = "2008-10-17"
    Id      = "EC2InterruptionPolicy"
    Statement = [
      {
        Effect = "Allow"
        Principal = {
          Service = ["events.amazonaws.com", "sqs.amazonaws.com"]
        }
        Action   = "sqs:SendMessage"
        Resource = aws_sqs_queue.interruption.arn
      },
      {
        Sid       = "DenyHTTP"
        Effect    = "Deny"
        Principal = "*"
        Action    = "sqs:*"
        Resource  = aws_sqs_queue.interruption.arn
        Condition = {
          Bool = {
            "aws:SecureTransport" = "false"
          }
        }
      },
    ]
  })
}

# The events that the operator reads.
locals {
  events = {
    ScheduledChange = {
      name        = "karpenter-${var.cluster_name}-ScheduledChange"
      source      = ["aws.health"]
      detail-type = ["AWS Health Event"]
    }
    SpotInterruption = {
      name        = "karpenter-${var.cluster_name}-SpotInterruption"
      source      = ["aws.ec2"]
      detail-type = ["EC2 Spot Instance Interruption Warning"]
    }
    Rebalance = {
      name        = "karpenter-${var.cluster_name}-Rebalance"
      source      = ["aws.ec2"]
      detail-type = ["EC2 Instance Rebalance Recommendation"]
    }
    InstanceStateChange = {
      name        = "karpenter-${var.cluster_name}-InstanceStateChange"
      source      = ["aws.ec2"]
      detail-type = ["EC2 Instance State-change Notification"]
    }
    CapacityReservationInterruption = {
      name        = "karpenter-${var.cluster_name}-CapacityReservationInterruption"
      source      = ["aws.ec2"]
      detail-type = ["EC2 Capacity Reservation Instance Interruption Warning"]
    }
  }
}

resource "aws_cloudwatch_event_rule" "interruption" {
  for_each = local.events
  name     = length(each.value.name) <= 64 ? each.value.name : join("-", [substr(each.value.name, 0, 55), substr(sha256(each.value.name), 0, 8)])
  event_pattern = jsonencode({
    source      = each.value.source
    detail-type = each.value.detail-type
  })
  tags = {
    "karpenter.sh/installation" = var.cluster_name
  }
}

resource "aws_cloudwatch_event_target" "interruption" {
  for_each  = local.events
  rule      = aws_cloudwatch_event_rule.interruption[each.key].name
  target_id = "KarpenterInterruptionQueueTarget"
  arn       = aws_sqs_queue.interruption.arn
}

resource "aws_ec2_tag" "discovery" {
  for_each    = toset(concat(var.subnet_ids, var.security_group_ids))
  resource_id = each.value
  key         = "karpenter.sh/discovery"
  value       = var.cluster_name
}

resource "aws_eks_access_entry" "node" {
  count         = var.create_access_entry ? 1 : 0
  cluster_name  = var.cluster_name
  principal_arn = aws_iam_role.node.arn
  type          = "EC2_LINUX"
  tags = {
    "karpenter.sh/installation" = var.cluster_name
  }
}

resource "aws_eks_addon" "pod_identity_agent" {
  count        = var.identity == "pod-identity" && var.create_pod_identity_agent ? 1 : 0
  cluster_name = var.cluster_name
  addon_name   = "eks-pod-identity-agent"
  tags = {
    "karpenter.sh/installation" = var.cluster_name
  }
}

resource "aws_eks_pod_identity_association" "controller" {
  count           = var.identity == "pod-identity" ? 1 : 0
  cluster_name    = var.cluster_name
  namespace       = var.namespace
  service_account = var.service_account
  role_arn        = aws_iam_role.controller.arn
  tags = {
    "karpenter.sh/installation" = var.cluster_name
  }
}
