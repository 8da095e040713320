//! Launch templates of a plan, and the user data in them.

use std::collections::BTreeMap;

use fleetwright_aws_api::{Family, labels};
use fleetwright_core::{
    cloud::{LaunchError, bootstrap},
    model::NodeClaim,
};

use super::AwsProvider;
use super::classes::KnownClass;
use crate::calls::{Filter, TagSet, TemplateData};
use crate::figures;
use crate::launch::{
    FleetPlan, TemplateGroup, TemplateInput, call_error, has_metadata_ipv6, template_data, template_name,
};
use crate::userdata::{self, Bootstrap, UserData};

/// The launch templates of a plan by group; those that do not exist are created.
pub(super) async fn ensure_templates(
    provider: &AwsProvider,
    known: &KnownClass,
    claim: &NodeClaim,
    plan: &FleetPlan,
    tags: &TagSet,
) -> Result<BTreeMap<TemplateGroup, String>, LaunchError> {
    let mut names = BTreeMap::new();
    for group in &plan.groups {
        let data = content(provider, known, claim, group, plan, tags)?;
        let name = template_name(&data);
        if !provider.templates.exists(&name) {
            let _creation = provider.templates.creation().await;
            // A launch of the same shape may have created it meanwhile.
            if !provider.templates.exists(&name) {
                create(provider, &name, &data, tags).await?;
                provider.templates.used(name.clone(), provider.clock.now());
            }
        }
        provider.templates.used(name.clone(), provider.clock.now());
        names.insert(group.clone(), name);
    }
    Ok(names)
}

/// Creates a launch template unless EC2 has it.
async fn create(
    provider: &AwsProvider,
    name: &str,
    data: &TemplateData,
    tags: &TagSet,
) -> Result<(), LaunchError> {
    let existing = provider.api.launch_templates(&[Filter::new("launch-template-name", [name])]).await;
    if !existing.map_err(|error| call_error(&error))?.is_empty() {
        return Ok(());
    }
    match provider.api.create_launch_template(name, data, tags).await {
        // Another process was faster, with the same content.
        Err(error) if error.code == "InvalidLaunchTemplateName.AlreadyExistsException" => Ok(()),
        made => made.map_err(|error| call_error(&error)),
    }
}

/// The content of a group's launch template.
pub(super) fn content(
    provider: &AwsProvider,
    known: &KnownClass,
    claim: &NodeClaim,
    group: &TemplateGroup,
    plan: &FleetPlan,
    tags: &TagSet,
) -> Result<TemplateData, LaunchError> {
    let user_data = user_data(provider, known, claim, group, plan)?.base64();
    let status = known.class.status.clone().unwrap_or_default();
    let input = TemplateInput {
        spec: &known.class.spec,
        status: &status,
        user_data: &user_data,
        tags,
        tenancy: plan.tenancy,
        placement: plan.placement.as_ref().map(|(id, part)| (id.as_str(), *part)),
        ipv6: provider.cluster.is_ipv6(),
        reserved_capacity: provider.settings.reserved_capacity,
        sandboxed: claim.requests.get(&labels::RESOURCE_NITRO_SANDBOX.into()) > 0,
        metadata_ipv6: has_metadata_ipv6(&provider.settings.region),
    };
    Ok(template_data(group, &input))
}

/// The user data of a group of a plan.
pub(super) fn user_data(
    provider: &AwsProvider,
    known: &KnownClass,
    claim: &NodeClaim,
    group: &TemplateGroup,
    plan: &FleetPlan,
) -> Result<UserData, LaunchError> {
    let spec = &known.class.spec;
    let family = spec.family();
    let amis = known.class.status.as_ref().map(|status| status.amis.clone()).unwrap_or_default();
    let dns = provider.cluster.dns();
    let cidr = provider.cluster.service_cidr().ok();
    let block = spec.kubelet.clone().unwrap_or_default();
    let (kubelet, parsed) = userdata::resolve(&block, &known.kubelet, &group.kubelet, dns.as_deref());
    let born = bootstrap(claim);
    let bootstrap = Bootstrap {
        cluster_name: &provider.settings.cluster_name,
        endpoint: &provider.settings.cluster_endpoint,
        ca_bundle: &provider.settings.ca_bundle,
        service_cidr: cidr.as_deref(),
        kubelet,
        parsed,
        taints: born.taints,
        labels: userdata::labels(&born.labels, plan.capacity_type, family),
        custom: spec.user_data.as_deref(),
        raid0: spec.instance_store_policy.as_deref() == Some("RAID0"),
        bind_by_default: family == Family::Bottlerocket && userdata::mounts_by_default(spec, &amis),
    };
    match userdata::render(family, &bootstrap) {
        Ok(data) => {
            let size = u32::try_from(data.text.len()).unwrap_or(u32::MAX);
            provider.ledger.note(&figures::USER_DATA, &[&claim.class.name], f64::from(size));
            Ok(data)
        }
        Err(userdata::UserDataError::TooLarge { .. }) => Err(LaunchError::Failed {
            reason: "UserDataSizeLimitExceeded".into(),
            message: format!("EC2NodeClass/{}: user data exceeds the limit of EC2", claim.class.name).into(),
        }),
        Err(error) => Err(LaunchError::NodeClassNotReady(format!("{}: {error}", claim.class).into())),
    }
}
