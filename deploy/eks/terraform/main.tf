# What Fleetwright needs of AWS in an EKS cluster: the controller's role, the role of nodes, and the interruption queue.
# The same as ../cloudformation.yaml. docs/book/install-eks.md has the commands.
# The policies are the files of ../../iam: keep the folders together.

data "aws_caller_identity" "this" {}
data "aws_partition" "this" {}
data "aws_region" "this" {}

locals {
  partition = data.aws_partition.this.partition
  account   = data.aws_caller_identity.this.account_id
  region    = data.aws_region.this.name
  policy    = var.cluster_uid == "" ? "controller-policy.json" : "controller-policy-strict.json"
  # The roles of nodes, by kind of access entry.
  nodes = merge(
    { EC2_LINUX = "KarpenterNodeRole-${var.cluster_name}" },
    var.windows_nodes ? { EC2_WINDOWS = "KarpenterNodeRole-${var.cluster_name}-windows" } : {},
  )
  node_policies = [
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonEC2ContainerRegistryReadOnly",
    "AmazonSSMManagedInstanceCore",
  ]
  # Messages that the controller understands.
  rules = jsondecode(file("${path.module}/rules.json"))
}

# --- The controller

data "aws_iam_policy_document" "pod_identity" {
  statement {
    actions = ["sts:AssumeRole", "sts:TagSession"]
    principals {
      type        = "Service"
      identifiers = ["pods.eks.amazonaws.com"]
    }
    # Tags that Pod Identity adds to the session.
    dynamic "condition" {
      for_each = {
        eks-cluster-name           = var.cluster_name
        kubernetes-namespace       = var.namespace
        kubernetes-service-account = var.service_account
      }
      content {
        test     = "StringEquals"
        variable = "aws:RequestTag/${condition.key}"
        values   = [condition.value]
      }
    }
  }
}

data "aws_iam_policy_document" "irsa" {
  statement {
    actions = ["sts:AssumeRoleWithWebIdentity"]
    principals {
      type        = "Federated"
      identifiers = ["arn:${local.partition}:iam::${local.account}:oidc-provider/${var.oidc_provider}"]
    }
    condition {
      test     = "StringEquals"
      variable = "${var.oidc_provider}:aud"
      values   = ["sts.amazonaws.com"]
    }
    condition {
      test     = "StringEquals"
      variable = "${var.oidc_provider}:sub"
      values   = ["system:serviceaccount:${var.namespace}:${var.service_account}"]
    }
  }
}

resource "aws_iam_role" "controller" {
  name               = "KarpenterController-${var.cluster_name}"
  assume_role_policy = var.oidc_provider == "" ? data.aws_iam_policy_document.pod_identity.json : data.aws_iam_policy_document.irsa.json
}

# A managed policy may have 6,144 characters, which this one exceeds; the inline policies of a role may have 10,240 together.
resource "aws_iam_role_policy" "controller" {
  name = "controller"
  role = aws_iam_role.controller.id
  policy = templatefile("${path.module}/../../iam/${local.policy}", {
    AWS_PARTITION  = local.partition
    AWS_REGION     = local.region
    AWS_ACCOUNT_ID = local.account
    CLUSTER_NAME   = var.cluster_name
    CLUSTER_UID    = var.cluster_uid
    NODE_ROLE_NAME = aws_iam_role.node["EC2_LINUX"].name
  })
}

data "aws_iam_policy_document" "windows" {
  count = var.windows_nodes ? 1 : 0
  statement {
    sid       = "AllowPassingWindowsRole"
    actions   = ["iam:PassRole"]
    resources = [aws_iam_role.node["EC2_WINDOWS"].arn]
    condition {
      test     = "StringEquals"
      variable = "iam:PassedToService"
      values   = ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"]
    }
  }
}

resource "aws_iam_role_policy" "windows" {
  count  = var.windows_nodes ? 1 : 0
  name   = "windows-nodes"
  role   = aws_iam_role.controller.id
  policy = data.aws_iam_policy_document.windows[0].json
}

resource "aws_eks_pod_identity_association" "controller" {
  count           = var.oidc_provider == "" ? 1 : 0
  cluster_name    = var.cluster_name
  namespace       = var.namespace
  service_account = var.service_account
  role_arn        = aws_iam_role.controller.arn
}

# --- Nodes

data "aws_iam_policy_document" "node" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["ec2.${data.aws_partition.this.dns_suffix}"]
    }
  }
}

resource "aws_iam_role" "node" {
  for_each           = local.nodes
  name               = each.value
  assume_role_policy = data.aws_iam_policy_document.node.json
}

resource "aws_iam_role_policy_attachment" "node" {
  for_each = {
    for pair in setproduct(keys(local.nodes), local.node_policies) :
    "${pair[0]}-${pair[1]}" => { role = pair[0], policy = pair[1] }
  }
  role       = aws_iam_role.node[each.value.role].name
  policy_arn = "arn:${local.partition}:iam::aws:policy/${each.value.policy}"
}

resource "aws_eks_access_entry" "node" {
  for_each      = var.access_entries ? local.nodes : {}
  cluster_name  = var.cluster_name
  principal_arn = aws_iam_role.node[each.key].arn
  type          = each.key
}

# --- Interruptions

resource "aws_sqs_queue" "interruptions" {
  name = var.cluster_name
  # A notice is worth nothing later: spot capacity is reclaimed two minutes after it.
  message_retention_seconds = 300
  sqs_managed_sse_enabled   = true
}

data "aws_iam_policy_document" "queue" {
  statement {
    sid       = "EventBridge"
    actions   = ["sqs:SendMessage"]
    resources = [aws_sqs_queue.interruptions.arn]
    principals {
      type        = "Service"
      identifiers = ["events.amazonaws.com"]
    }
    condition {
      test     = "ArnLike"
      variable = "aws:SourceArn"
      values   = ["arn:${local.partition}:events:${local.region}:${local.account}:rule/*"]
    }
  }
  statement {
    sid       = "DenyWithoutTls"
    effect    = "Deny"
    actions   = ["sqs:*"]
    resources = [aws_sqs_queue.interruptions.arn]
    principals {
      type        = "*"
      identifiers = ["*"]
    }
    condition {
      test     = "Bool"
      variable = "aws:SecureTransport"
      values   = ["false"]
    }
  }
}

resource "aws_sqs_queue_policy" "interruptions" {
  queue_url = aws_sqs_queue.interruptions.url
  policy    = data.aws_iam_policy_document.queue.json
}

resource "aws_cloudwatch_event_rule" "interruptions" {
  for_each      = local.rules
  name          = "${var.cluster_name}-${each.key}"
  event_pattern = jsonencode(each.value)
}

resource "aws_cloudwatch_event_target" "interruptions" {
  for_each  = local.rules
  rule      = aws_cloudwatch_event_rule.interruptions[each.key].name
  target_id = "queue"
  arn       = aws_sqs_queue.interruptions.arn
}
