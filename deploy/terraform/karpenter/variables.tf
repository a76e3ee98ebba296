variable "cluster_name" {
  description = "The cluster, as EKS calls it."
  type        = string

  validation {
    # https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateCluster.html
    condition     = can(regex("^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$", var.cluster_name))
    error_message = "cluster_name has 1 to 100 letters, digits, hyphens and underscores, and begins with a letter or digit."
  }
}

variable "namespace" {
  description = "Where the operator runs."
  type        = string
  default     = "kube-system"
}

variable "service_account" {
  description = "Who the operator is."
  type        = string
  default     = "karpenter"
}

variable "identity" {
  description = "How the operator's pods get their role: pod-identity or irsa."
  type        = string
  default     = "pod-identity"

  validation {
    condition     = contains(["irsa", "pod-identity"], var.identity)
    error_message = "identity is irsa or pod-identity."
  }
}

variable "oidc_provider_arn" {
  description = "The OIDC provider of the cluster, for irsa; one is made where this is empty."
  type        = string
  default     = ""
}

variable "create_pod_identity_agent" {
  description = "Whether to make the add-on eks-pod-identity-agent, for pod-identity."
  type        = bool
  default     = true
}

variable "node_role_name" {
  description = "The role of nodes; KarpenterNodeRole-CLUSTER where this is empty. The EC2NodeClass names the same."
  type        = string
  default     = ""
}

variable "create_access_entry" {
  description = "Whether to let nodes into the cluster by an access entry; else aws-auth has to."
  type        = bool
  default     = true
}

variable "create_spot_service_linked_role" {
  description = "Whether to make the account's role for EC2 Spot; fails where it exists."
  type        = bool
  default     = false
}

variable "subnet_ids" {
  description = "Subnets that exist, to be tagged for discovery. Their ids must be known while Terraform plans."
  type        = list(string)
  default     = []
}

variable "security_group_ids" {
  description = "Security groups that exist, to be tagged for discovery. Likewise."
  type        = list(string)
  default     = []
}

variable "charts" {
  description = "The folder with the charts karpenter and karpenter-crd; that of this repository where this is empty."
  type        = string
  default     = ""
}

variable "values" {
  description = "Values of the chart as YAML, laid over those of the module, such as nodeSelector and tolerations."
  type        = list(string)
  default     = []
}

variable "wait" {
  description = "Whether to wait until the operator runs. Not while CoreDNS may need a node that the operator makes."
  type        = bool
  default     = false
}

variable "create_nodepool" {
  description = "Whether to make the default NodePool and EC2NodeClass."
  type        = bool
  default     = true
}

variable "ami_family" {
  description = "The images of the default EC2NodeClass: AL2023 or Bottlerocket."
  type        = string
  default     = "AL2023"

  validation {
    condition     = contains(["AL2023", "Bottlerocket"], var.ami_family)
    error_message = "ami_family is AL2023 or Bottlerocket."
  }
}
