//! API versions and kinds that no supported API server has any more, and what took their place.

/// Version, kind, and what to write instead.
const RETIRED: [(&str, &str, &str); 17] = [
    ("karpenter.sh/v1alpha5", "Provisioner", "karpenter.sh/v1 NodePool"),
    ("karpenter.sh/v1beta1", "NodePool", "karpenter.sh/v1 NodePool"),
    ("karpenter.sh/v1beta1", "NodeClaim", "karpenter.sh/v1 NodeClaim"),
    ("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate", "karpenter.k8s.aws/v1 EC2NodeClass"),
    ("karpenter.k8s.aws/v1beta1", "EC2NodeClass", "karpenter.k8s.aws/v1 EC2NodeClass"),
    ("extensions/v1beta1", "Deployment", "apps/v1 Deployment"),
    ("extensions/v1beta1", "ReplicaSet", "apps/v1 ReplicaSet"),
    ("extensions/v1beta1", "DaemonSet", "apps/v1 DaemonSet"),
    ("apps/v1beta1", "Deployment", "apps/v1 Deployment"),
    ("apps/v1beta1", "StatefulSet", "apps/v1 StatefulSet"),
    ("apps/v1beta2", "Deployment", "apps/v1 Deployment"),
    ("apps/v1beta2", "StatefulSet", "apps/v1 StatefulSet"),
    ("apps/v1beta2", "ReplicaSet", "apps/v1 ReplicaSet"),
    ("apps/v1beta2", "DaemonSet", "apps/v1 DaemonSet"),
    ("batch/v1beta1", "CronJob", "batch/v1 CronJob"),
    ("policy/v1beta1", "PodDisruptionBudget", "policy/v1 PodDisruptionBudget"),
    ("autoscaling/v2beta2", "HorizontalPodAutoscaler", "autoscaling/v2 HorizontalPodAutoscaler"),
];

/// The version and kind that took the place of these, if they are not served any more.
pub(crate) fn successor(version: &str, kind: &str) -> Option<&'static str> {
    RETIRED.iter().find(|known| (known.0, known.1) == (version, kind)).map(|(_, _, successor)| *successor)
}
