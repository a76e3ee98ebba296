output "values" {
  description = "Values of the chart for Fargate: names are resolved without CoreDNS, which may need a node of the operator."
  value = yamlencode({
    dnsPolicy = "Default"
  })

  # Who uses them waits until there is a place for the pods.
  depends_on = [aws_eks_fargate_profile.controller]
}
