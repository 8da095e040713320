//! What an instance type refuses of a launch template, by what `DescribeInstanceTypes` says of the type.

use std::collections::{BTreeMap, BTreeSet};

use crate::call::{Params, groups};
use crate::fleet::Blocked;
use crate::xml::Element;

/// What a type supports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeSupport {
    /// EFA interfaces.
    pub efas: usize,
    /// Interfaces by network card.
    pub cards: BTreeMap<String, usize>,
    /// Whether it can run enclaves.
    pub enclaves: bool,
    /// Whether its instances support nested virtualization.
    pub nested: bool,
    /// Strategies of placement groups.
    pub strategies: BTreeSet<String>,
    /// Architectures of images.
    pub architectures: BTreeSet<String>,
}

/// What is launched on a type beside its template.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch<'a> {
    /// The type.
    pub(crate) instance_type: &'a str,
    /// The template's parameters.
    pub(crate) data: &'a Params,
    /// Strategy of the template's placement group.
    pub(crate) strategy: Option<&'a str>,
    /// Architecture of the image.
    pub(crate) architecture: Option<&'a str>,
}

impl TypeSupport {
    /// Reads an item of `DescribeInstanceTypes`.
    #[must_use]
    pub fn of(item: &Element) -> Self {
        let network = item.child("networkInfo").cloned().unwrap_or_default();
        let texts = |path: [&str; 2]| -> BTreeSet<String> {
            let set = item.child(path[0]).and_then(|info| info.child(path[1]));
            set.map(|set| set.children.iter().map(|own| own.text.clone()).collect()).unwrap_or_default()
        };
        let card = |own: &Element| {
            let most = own.at(&["maximumNetworkInterfaces"]).parse().unwrap_or_default();
            (own.at(&["networkCardIndex"]).to_owned(), most)
        };
        let cards = network.child("networkCards").map(|set| set.children.iter().map(card).collect());
        Self {
            efas: network.at(&["efaInfo", "maximumEfaInterfaces"]).parse().unwrap_or_default(),
            cards: cards.unwrap_or_default(),
            enclaves: item.at(&["nitroEnclavesSupport"]) == "supported",
            nested: texts(["processorInfo", "supportedFeatures"]).contains("nested-virtualization"),
            strategies: texts(["placementGroupInfo", "supportedStrategies"]),
            architectures: texts(["processorInfo", "supportedArchitectures"]),
        }
    }

    /// Why EC2 does not launch the type: its code and message.
    pub(crate) fn refusal(&self, launch: &Launch<'_>) -> Option<Blocked> {
        self.of_image(launch)
            .or_else(|| self.of_group(launch))
            .or_else(|| self.of_interfaces(launch))
            .or_else(|| self.of_enclaves(launch))
            .or_else(|| self.of_virtualization(launch))
            .or_else(|| Self::of_tenancy(launch))
    }

    /// As in skypilot-org/skypilot#6315.
    fn of_image(&self, launch: &Launch<'_>) -> Option<Blocked> {
        let own = launch.architecture.filter(|own| !self.architectures.contains(*own))?;
        let known = self.architectures.iter().next()?;
        let message = format!(
            "The architecture '{known}' of the specified instance type does not match the architecture '{own}' of the specified AMI. Specify \
             an instance type and an AMI that have matching architectures, and try again."
        );
        Some(("InvalidParameterValue".to_owned(), message))
    }

    /// As in dstackai/dstack#2872.
    fn of_group(&self, launch: &Launch<'_>) -> Option<Blocked> {
        let strategy = launch.strategy.filter(|strategy| !self.strategies.contains(*strategy))?;
        let (first, rest) = strategy.split_at_checked(1)?;
        let message = format!(
            "{}{rest} placement groups are not supported by the '{}' instance type. Specify a supported instance type or change the placement \
             group strategy, and try again.",
            first.to_uppercase(),
            launch.instance_type
        );
        Some(("InvalidParameterCombination".to_owned(), message))
    }

    fn of_interfaces(&self, launch: &Launch<'_>) -> Option<Blocked> {
        let places = groups(launch.data, "LaunchTemplateData.NetworkInterface.");
        let text = |place: &str, name: &str| launch.data.get(&format!("{place}{name}")).map(String::as_str);
        let is_efa =
            |place: &&String| text(place, "InterfaceType").is_some_and(|kind| kind.starts_with("efa"));
        let efas = places.iter().filter(is_efa).count();
        if efas > 0 && self.efas == 0 {
            // The words are those of attaching one (devopsacademyau/academy#277). The code of a launch is not documented; that of a
            // configuration which a type does not support is `Unsupported`.
            let message =
                format!("{} instances do not support Elastic Fabric Adapters.", launch.instance_type);
            return Some(("Unsupported".to_owned(), message));
        }
        let mut by_card = BTreeMap::<&str, usize>::new();
        for place in &places {
            *by_card.entry(text(place, "NetworkCardIndex").unwrap_or("0")).or_default() += 1;
        }
        let too_many = by_card
            .iter()
            .find(|(card, count)| **count > self.cards.get(**card).copied().unwrap_or_default())
            .map(|_| places.len())
            .or_else(|| (efas > self.efas).then_some(efas))?;
        // As in chef/knife-ec2#375.
        let message = format!("Interface count {too_many} exceeds the limit for {}", launch.instance_type);
        Some(("AttachmentLimitExceeded".to_owned(), message))
    }

    fn of_enclaves(&self, launch: &Launch<'_>) -> Option<Blocked> {
        let wanted = launch.data.get("LaunchTemplateData.EnclaveOptions.Enabled");
        (wanted.is_some_and(|wanted| wanted == "true") && !self.enclaves).then(unsupported)
    }

    /// "NestedVirtualization: Nested virtualization is supported only on 8th generation Intel-based instance types"
    /// (<https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CpuOptionsRequest.html>). The code is that of aws/karpenter-provider-aws#9043; EC2's
    /// words are not documented, and these are those of the code: "The specified request includes an unsupported operation." (errors-overview.html)
    fn of_virtualization(&self, launch: &Launch<'_>) -> Option<Blocked> {
        let wanted = launch.data.get("LaunchTemplateData.CpuOptions.NestedVirtualization");
        let refuses = wanted.is_some_and(|wanted| wanted == "enabled") && !self.nested;
        let message = "The specified request includes an unsupported operation.";
        refuses.then(|| ("UnsupportedOperation".to_owned(), message.to_owned()))
    }

    /// Types of the family t2 run on shared hardware alone: rancher/os#1964. `DescribeInstanceTypes` does not say which types do.
    fn of_tenancy(launch: &Launch<'_>) -> Option<Blocked> {
        let wanted = launch.data.get("LaunchTemplateData.Placement.Tenancy");
        let refuses = wanted.is_some_and(|wanted| wanted == "dedicated");
        (refuses && launch.instance_type.starts_with("t2.")).then(unsupported)
    }
}

/// "Unsupported: The specified request is unsupported. […] The returned message provides details of the unsupported request."
/// (<https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html>), in the words of hashicorp/terraform-provider-aws#17412.
fn unsupported() -> Blocked {
    let message = "The requested configuration is currently not supported. Please check the documentation for supported configurations.";
    ("Unsupported".to_owned(), message.to_owned())
}

/// The instance types that a request launches, and those alone.
#[must_use]
pub fn types_of(params: &Params) -> BTreeSet<String> {
    let fleet = groups(params, "LaunchTemplateConfigs.");
    let overrides = fleet.iter().flat_map(|config| groups(params, &format!("{config}Overrides.")));
    let named = overrides.filter_map(|place| params.get(&format!("{place}InstanceType")).cloned());
    named.chain(params.get("InstanceType").cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::decode;

    /// As EC2 describes c5n.18xlarge, m5.large and t4g.nano, shortened.
    fn described(arch: &str, cards: &str, efas: &str, enclaves: &str, strategies: &[&str]) -> TypeSupport {
        let strategies: String = strategies.iter().map(|own| format!("<item>{own}</item>")).collect();
        let efas = if efas.is_empty() {
            String::new()
        } else {
            format!("<efaInfo><maximumEfaInterfaces>{efas}</maximumEfaInterfaces></efaInfo>")
        };
        let card = format!(
            "<item><networkCardIndex>0</networkCardIndex><maximumNetworkInterfaces>{cards}</maximumNetworkInterfaces></item>"
        );
        let text = format!(
            "<item><processorInfo><supportedArchitectures><item>{arch}</item></supportedArchitectures></processorInfo>\
             <networkInfo>{efas}<networkCards>{card}</networkCards></networkInfo>\
             <nitroEnclavesSupport>{enclaves}</nitroEnclavesSupport>\
             <placementGroupInfo><supportedStrategies>{strategies}</supportedStrategies></placementGroupInfo></item>"
        );
        TypeSupport::of(&crate::xml::parse(&text).unwrap())
    }

    fn c5n() -> TypeSupport {
        described("x86_64", "15", "1", "supported", &["cluster", "partition", "spread"])
    }

    fn t4g() -> TypeSupport {
        described("arm64", "2", "", "unsupported", &["partition", "spread"])
    }

    /// "Nested virtualization is supported only on 8th generation Intel-based instance types (c8i, m8i, r8i, and their flex variants)."
    #[test]
    fn virtual_machines_run_on_types_that_have_the_feature() {
        let on = "LaunchTemplateData.CpuOptions.NestedVirtualization=enabled";
        let item = "<item><processorInfo><supportedFeatures><item>nested-virtualization</item></supportedFeatures></processorInfo></item>";
        let m8i = TypeSupport::of(&crate::xml::parse(item).unwrap());
        assert_eq!(said(&m8i, on, None, None), "launched");
        assert!(said(&c5n(), on, None, None).starts_with("UnsupportedOperation: "));
        assert_eq!(said(&c5n(), &on.replace("enabled", "disabled"), None, None), "launched");
    }

    #[test]
    fn the_family_t2_is_not_launched_on_dedicated_hardware() {
        let code = |instance_type: &str, tenancy: &str| {
            let data = decode(&format!("LaunchTemplateData.Placement.Tenancy={tenancy}"));
            let launch = Launch { instance_type, data: &data, strategy: None, architecture: None };
            c5n().refusal(&launch).map(|(code, _)| code)
        };
        assert_eq!(code("t2.micro", "dedicated").as_deref(), Some("Unsupported"));
        assert_eq!((code("t2.micro", "default"), code("m5.large", "dedicated")), (None, None));
    }

    fn said(support: &TypeSupport, form: &str, strategy: Option<&str>, architecture: Option<&str>) -> String {
        let data = decode(form);
        let launch = Launch { instance_type: "x.large", data: &data, strategy, architecture };
        support
            .refusal(&launch)
            .map_or_else(|| "launched".to_owned(), |(code, said)| format!("{code}: {said}"))
    }

    #[test]
    fn types_launch_what_they_support() {
        let efa = "LaunchTemplateData.NetworkInterface.1.InterfaceType=efa";
        let enclave = "LaunchTemplateData.EnclaveOptions.Enabled=true";
        assert_eq!(said(&c5n(), &format!("{efa}&{enclave}"), Some("cluster"), Some("x86_64")), "launched");
        let off = "LaunchTemplateData.EnclaveOptions.Enabled=false";
        assert_eq!(said(&t4g(), off, Some("spread"), Some("arm64")), "launched");
        assert_eq!(said(&t4g(), "", None, None), "launched");
    }

    #[test]
    fn a_refusal_names_what_the_type_lacks() {
        let efa = "LaunchTemplateData.NetworkInterface.1.InterfaceType=efa-only";
        assert_eq!(
            said(&t4g(), efa, None, None),
            "Unsupported: x.large instances do not support Elastic Fabric Adapters."
        );
        assert_eq!(
            said(&t4g(), "", Some("cluster"), None),
            "InvalidParameterCombination: Cluster placement groups are not supported by the 'x.large' instance type. Specify a supported \
             instance type or change the placement group strategy, and try again."
        );
        assert!(
            said(&t4g(), "LaunchTemplateData.EnclaveOptions.Enabled=true", None, None)
                .starts_with("Unsupported: ")
        );
        assert!(said(&t4g(), "", None, Some("x86_64")).starts_with(
            "InvalidParameterValue: The architecture 'arm64' of the specified instance type does not match the architecture 'x86_64'"
        ));
    }

    #[test]
    fn interfaces_are_counted_by_card() {
        let interfaces = |count: usize, card: &str, kind: &str| -> String {
            let one = |n: usize| {
                let place = format!("LaunchTemplateData.NetworkInterface.{n}.");
                format!("&{place}NetworkCardIndex={card}&{place}DeviceIndex={n}&{place}InterfaceType={kind}")
            };
            (1..=count).map(one).collect()
        };
        assert_eq!(said(&t4g(), &interfaces(2, "0", "interface"), None, None), "launched");
        let over = "AttachmentLimitExceeded: Interface count 3 exceeds the limit for x.large";
        assert_eq!(said(&t4g(), &interfaces(3, "0", "interface"), None, None), over);
        let other_card = said(&c5n(), &interfaces(1, "1", "interface"), None, None);
        assert!(other_card.starts_with("AttachmentLimitExceeded"), "{other_card}");
        let efas = said(&c5n(), &interfaces(2, "0", "efa"), None, None);
        assert_eq!(efas, "AttachmentLimitExceeded: Interface count 2 exceeds the limit for x.large");
    }

    #[test]
    fn a_request_names_its_types() {
        let fleet = "LaunchTemplateConfigs.1.Overrides.1.InstanceType=a&LaunchTemplateConfigs.1.Overrides.2.InstanceType=b\
            &LaunchTemplateConfigs.2.Overrides.1.InstanceType=a";
        assert_eq!(types_of(&decode(fleet)), ["a", "b"].map(str::to_owned).into());
        assert_eq!(types_of(&decode("InstanceType=c")), ["c".to_owned()].into());
    }
}
