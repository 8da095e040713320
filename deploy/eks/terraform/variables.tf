variable "cluster_name" {
  description = "Name of the EKS cluster. The queue has the same name, and the names of the roles end with it."
  type        = string
  validation {
    condition     = can(regex("^[0-9A-Za-z][0-9A-Za-z_-]{0,37}$", var.cluster_name))
    error_message = "cluster_name: use at most 38 characters: a role's name has at most 64."
  }
}

variable "cluster_uid" {
  description = "UID of the namespace kube-system. With it the controller can change only what carries this UID. Leave it empty while the cluster has instances of Karpenter, which carry none."
  type        = string
  default     = ""
}

variable "namespace" {
  description = "Namespace of the controller."
  type        = string
  default     = "kube-system"
}

variable "service_account" {
  description = "Service account of the controller."
  type        = string
  default     = "karpenter"
}

variable "oidc_provider" {
  description = "The cluster's OIDC issuer without https://, for IRSA. Empty: EKS Pod Identity, which needs the add-on eks-pod-identity-agent."
  type        = string
  default     = ""
}

variable "access_entries" {
  description = "Whether nodes join by access entries. With false, add the roles of nodes to the ConfigMap aws-auth."
  type        = bool
  default     = true
}

variable "windows_nodes" {
  description = "Whether to create a role for Windows nodes, which join with another kind of access entry."
  type        = bool
  default     = false
}
