locals {
  name      = "ex-${basename(path.cwd)}"
  namespace = "karpenter"
  tags      = { Blueprint = local.name }
}
