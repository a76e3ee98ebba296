variable "cluster_name" {
  description = "The cluster, as EKS calls it."
  type        = string
}

variable "subnet_ids" {
  description = "Where the pods are; Fargate takes private subnets only."
  type        = list(string)
}

variable "namespace" {
  description = "Where the operator runs: the namespace of the module karpenter."
  type        = string
  default     = "kube-system"
}

variable "name" {
  description = "What the profile is called."
  type        = string
  default     = "karpenter"
}
