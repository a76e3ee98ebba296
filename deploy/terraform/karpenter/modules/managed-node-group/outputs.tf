output "values" {
  description = "Values of the chart that put the operator on these nodes; a list of tolerations replaces that of the chart."
  value = yamlencode({
    nodeSelector = {
      (local.label) = "true"
    }
    tolerations = [
      {
        key      = "CriticalAddonsOnly"
        operator = "Exists"
      },
      local.toleration,
    ]
  })

  # Who uses them waits until there is a node.
  depends_on = [aws_eks_node_group.controller]
}

output "toleration" {
  description = "What a pod needs to run on these nodes."
  value       = local.toleration
}
