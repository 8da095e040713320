output "controller_role_arn" {
  description = "For IRSA: the annotation eks.amazonaws.com/role-arn of the service account."
  value       = aws_iam_role.controller.arn
}

output "node_roles" {
  description = "spec.role of an EC2NodeClass, by kind of node."
  value       = { for kind, role in aws_iam_role.node : kind => role.name }
}

output "interruption_queue" {
  description = "The value settings.interruptionQueue of the chart."
  value       = aws_sqs_queue.interruptions.name
}
