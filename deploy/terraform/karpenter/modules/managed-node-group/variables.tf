variable "cluster_name" {
  description = "The cluster, as EKS calls it."
  type        = string
}

variable "subnet_ids" {
  description = "Where the nodes are; two zones or more."
  type        = list(string)
}

variable "name" {
  description = "What the node group is called."
  type        = string
  default     = "karpenter"
}

variable "ami_type" {
  description = "The image, as EKS names its sorts."
  type        = string
  default     = "BOTTLEROCKET_x86_64"
}

variable "instance_types" {
  description = "What the nodes are."
  type        = list(string)
  default     = ["m5.large"]
}

variable "min_size" {
  description = "How many nodes there are; replicas of the operator need one each."
  type        = number
  default     = 2
}

variable "max_size" {
  description = "How many nodes there may be while the group is upgraded."
  type        = number
  default     = 3
}

variable "create_coredns" {
  description = "Whether to make the add-on CoreDNS with a toleration of the taint; else it has to tolerate it elsewhere."
  type        = bool
  default     = true
}
