//! EKS-optimized images by alias: the SSM parameters that hold their ids.

use fleetwright_aws_api::ec2nodeclass::AmiRequirement;
use fleetwright_aws_api::{Alias, Family, labels};
use fleetwright_core::model::labels::OS;

use crate::families::windows_build;

/// The instances that an image is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variant {
    /// Instances without GPU and accelerator.
    Standard,
    /// Instances with GPUs.
    Nvidia,
    /// Instances with Neuron devices.
    Neuron,
    /// Windows of one build.
    Windows(&'static str),
}

impl Variant {
    /// The requirements on the instance type.
    #[must_use]
    pub fn requirements(self) -> Vec<AmiRequirement> {
        let demand = |key: &str, operator: &str, values: &[&str]| AmiRequirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        match self {
            Self::Standard => vec![
                demand(labels::INSTANCE_ACCELERATOR_COUNT, "DoesNotExist", &[]),
                demand(labels::INSTANCE_GPU_COUNT, "DoesNotExist", &[]),
            ],
            Self::Nvidia => vec![demand(labels::INSTANCE_GPU_COUNT, "Exists", &[])],
            Self::Neuron => vec![demand(labels::INSTANCE_ACCELERATOR_COUNT, "Exists", &[])],
            Self::Windows(build) => {
                vec![demand(OS, "In", &["windows"]), demand(labels::WINDOWS_BUILD, "In", &[build])]
            }
        }
    }
}

/// A parameter that holds an image's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub path: String,
    /// The kinds of instances that the image is for.
    pub variants: Vec<Variant>,
    /// Whether its value changes over time.
    pub mutable: bool,
}

/// Why an alias cannot be used with a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AliasProblem {
    /// The family does not support this version of Kubernetes.
    #[error("alias {alias} is not supported on Kubernetes {version}: {why}")]
    Unsupported {
        /// The alias.
        alias: String,
        /// The cluster's version.
        version: String,
        /// Why.
        why: &'static str,
    },
}

/// Returns the parameters of an alias for a cluster's version (`1.35`).
///
/// # Errors
/// If there are no images of the family for the version.
pub fn parameters(alias: &Alias, kubernetes: &str) -> Result<Vec<Parameter>, AliasProblem> {
    let minor: Option<u32> = kubernetes.split('.').nth(1).and_then(|minor| minor.parse().ok());
    let unsupported =
        |why| AliasProblem::Unsupported { alias: alias.to_string(), version: kubernetes.to_owned(), why };
    if alias.family == Family::Al2 && minor.is_some_and(|minor| minor >= 33) {
        return Err(unsupported("the last version with AL2 is 1.32, use al2023 or bottlerocket"));
    }
    if alias.family == Family::Windows2025 && minor.is_some_and(|minor| minor < 35) {
        return Err(unsupported("Windows Server 2025 begins with 1.35, use windows2022"));
    }
    let paths = match alias.family {
        Family::Al2 => al2(alias, kubernetes),
        Family::Al2023 => al2023(alias, kubernetes),
        Family::Bottlerocket => bottlerocket(alias, kubernetes),
        Family::Windows2019 => windows(alias.family, "2019", kubernetes),
        Family::Windows2022 => windows(alias.family, "2022", kubernetes),
        Family::Windows2025 => windows(alias.family, "2025", kubernetes),
        Family::Custom => Vec::new(),
    };
    let mutable = alias.is_latest();
    Ok(paths.into_iter().map(|(path, variants)| Parameter { path, variants, mutable }).collect())
}

type Paths = Vec<(String, Vec<Variant>)>;

/// The last part of a path: `recommended`, or the image of the pinned version.
fn release(alias: &Alias, pinned: String) -> String {
    if alias.is_latest() { "recommended".to_owned() } else { pinned }
}

fn al2(alias: &Alias, kubernetes: &str) -> Paths {
    let version = &alias.version;
    let path = |folder: &str, name: &str, variants: &[Variant]| {
        let last = release(alias, format!("amazon-eks-{name}node-{kubernetes}-{version}"));
        (format!("/aws/service/eks/optimized-ami/{kubernetes}/{folder}/{last}/image_id"), variants.to_vec())
    };
    vec![
        path("amazon-linux-2", "", &[Variant::Standard]),
        path("amazon-linux-2-arm64", "arm64-", &[Variant::Standard]),
        path("amazon-linux-2-gpu", "gpu-", &[Variant::Neuron, Variant::Nvidia]),
    ]
}

fn al2023(alias: &Alias, kubernetes: &str) -> Paths {
    let version = &alias.version;
    let path = |(arch, name, variant): (&str, &str, Variant)| {
        let last = release(alias, format!("amazon-eks-node-al2023-{arch}-{name}-{kubernetes}-{version}"));
        let folder = format!("/aws/service/eks/optimized-ami/{kubernetes}/amazon-linux-2023/{arch}/{name}");
        (format!("{folder}/{last}/image_id"), vec![variant])
    };
    [
        ("x86_64", "standard", Variant::Standard),
        ("x86_64", "nvidia", Variant::Nvidia),
        ("x86_64", "neuron", Variant::Neuron),
        ("arm64", "standard", Variant::Standard),
        ("arm64", "nvidia", Variant::Nvidia),
    ]
    .map(path)
    .into()
}

/// Versions are tagged with a leading `v` and stored without it.
fn bottlerocket(alias: &Alias, kubernetes: &str) -> Paths {
    let version = alias.version.trim_start_matches('v');
    let path = |flavour: &str, arch: &str, variants: &[Variant]| {
        let path =
            format!("/aws/service/bottlerocket/aws-k8s-{kubernetes}{flavour}/{arch}/{version}/image_id");
        (path, variants.to_vec())
    };
    vec![
        path("", "x86_64", &[Variant::Standard, Variant::Neuron]),
        path("", "arm64", &[Variant::Standard]),
        path("-nvidia", "x86_64", &[Variant::Nvidia]),
        path("-nvidia", "arm64", &[Variant::Nvidia]),
    ]
}

fn windows(family: Family, year: &str, kubernetes: &str) -> Paths {
    let folder = "/aws/service/ami-windows-latest";
    let path = format!("{folder}/Windows_Server-{year}-English-Core-EKS_Optimized-{kubernetes}/image_id");
    windows_build(family).map(|build| (path, vec![Variant::Windows(build)])).into_iter().collect()
}

#[cfg(test)]
mod tests {
    //! Paths, one table per family.
    use rstest::rstest;

    use super::*;

    fn paths(alias: &str, kubernetes: &str) -> Vec<String> {
        let found = parameters(&alias.parse().unwrap(), kubernetes).unwrap();
        found.into_iter().map(|parameter| format!("{} {:?}", parameter.path, parameter.variants)).collect()
    }

    #[rstest]
    #[case("al2@latest", "1.32", &[
        "/aws/service/eks/optimized-ami/1.32/amazon-linux-2/recommended/image_id [Standard]",
        "/aws/service/eks/optimized-ami/1.32/amazon-linux-2-arm64/recommended/image_id [Standard]",
        "/aws/service/eks/optimized-ami/1.32/amazon-linux-2-gpu/recommended/image_id [Neuron, Nvidia]",
    ])]
    #[case("al2@v20240807", "1.30", &[
        "/aws/service/eks/optimized-ami/1.30/amazon-linux-2/amazon-eks-node-1.30-v20240807/image_id [Standard]",
        "/aws/service/eks/optimized-ami/1.30/amazon-linux-2-arm64/amazon-eks-arm64-node-1.30-v20240807/image_id [Standard]",
        "/aws/service/eks/optimized-ami/1.30/amazon-linux-2-gpu/amazon-eks-gpu-node-1.30-v20240807/image_id [Neuron, Nvidia]",
    ])]
    #[case("al2023@v20240807", "1.35", &[
        "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/amazon-eks-node-al2023-x86_64-standard-1.35-v20240807/image_id [Standard]",
        "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/nvidia/amazon-eks-node-al2023-x86_64-nvidia-1.35-v20240807/image_id [Nvidia]",
        "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/neuron/amazon-eks-node-al2023-x86_64-neuron-1.35-v20240807/image_id [Neuron]",
        "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/arm64/standard/amazon-eks-node-al2023-arm64-standard-1.35-v20240807/image_id [Standard]",
        "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/arm64/nvidia/amazon-eks-node-al2023-arm64-nvidia-1.35-v20240807/image_id [Nvidia]",
    ])]
    #[case("bottlerocket@v1.20.3", "1.35", &[
        "/aws/service/bottlerocket/aws-k8s-1.35/x86_64/1.20.3/image_id [Standard, Neuron]",
        "/aws/service/bottlerocket/aws-k8s-1.35/arm64/1.20.3/image_id [Standard]",
        "/aws/service/bottlerocket/aws-k8s-1.35-nvidia/x86_64/1.20.3/image_id [Nvidia]",
        "/aws/service/bottlerocket/aws-k8s-1.35-nvidia/arm64/1.20.3/image_id [Nvidia]",
    ])]
    #[case("windows2025@latest", "1.35", &[
        "/aws/service/ami-windows-latest/Windows_Server-2025-English-Core-EKS_Optimized-1.35/image_id [Windows(\"10.0.26100\")]",
    ])]
    fn of_aliases(#[case] alias: &str, #[case] kubernetes: &str, #[case] expected: &[&str]) {
        assert_eq!(paths(alias, kubernetes), expected);
    }

    #[rstest]
    #[case("al2@latest", "1.33", false)]
    #[case("al2@latest", "1.32", true)]
    #[case("windows2025@latest", "1.34", false)]
    #[case("windows2022@latest", "1.34", true)]
    #[case("al2023@latest", "strange", true)]
    fn families_have_their_time(#[case] alias: &str, #[case] kubernetes: &str, #[case] supported: bool) {
        assert_eq!(parameters(&alias.parse().unwrap(), kubernetes).is_ok(), supported);
    }
}
