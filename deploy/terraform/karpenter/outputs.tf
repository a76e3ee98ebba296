output "controller_role_arn" {
  description = "The role of the operator."
  value       = aws_iam_role.controller.arn
}

output "node_role_name" {
  description = "What spec.role of every EC2NodeClass has to be."
  value       = aws_iam_role.node.name
}

output "node_role_arn" {
  description = "The role of nodes."
  value       = aws_iam_role.node.arn
}

output "queue_name" {
  description = "The queue of interruptions."
  value       = aws_sqs_queue.interruption.name
}
