//! The AWS checks of `compat`: EC2NodeClasses, their drift hashes, AWS settings, and IAM policies.

use fleetwright_api::labels as core_labels;
use fleetwright_aws_api::{
    Ec2NodeClass,
    ec2nodeclass::condition,
    labels::{CURRENT_HASH_VERSION, GROUP, HASH, HASH_VERSION, HASH_VERSION_OF_1_14, NODE_CLASS_KIND},
};
use serde::Deserialize as _;
use serde_json::Value;

use crate::{
    base64::base64,
    compat::{CloudCompat, ClusterObjects, DriftHash, Finding, objects, unreadable},
    settings::Values,
};

/// The checks of AWS.
pub struct Ec2Compat;

const DRIFT: DriftHash<'_> = DriftHash { hash: HASH, version: HASH_VERSION, current: CURRENT_HASH_VERSION };

impl CloudCompat for Ec2Compat {
    fn group(&self) -> &'static str {
        GROUP
    }

    fn check(&self, cluster: &ClusterObjects, values: &Values) -> Vec<Finding> {
        let mut found = settings(values);
        // As the controller determines it: the setting, otherwise what its pod has.
        let bundle = match values.text("CLUSTER_CA_BUNDLE") {
            "" => cluster.certificate_authority().map(|bundle| base64(bundle.as_bytes())).unwrap_or_default(),
            bundle => bundle.to_owned(),
        };
        let mut unknown = 0;
        for class in cluster.of(GROUP, NODE_CLASS_KIND) {
            let object = objects::display(class);
            if let Some(why) = unreadable::<Ec2NodeClass>(class) {
                let what = format!("cannot be read and would be left out: {why}");
                found.push(Finding::blocker("C203", object, what).fix("repair the object"));
                continue;
            }
            let claims: Vec<&Value> = cluster
                .of(core_labels::GROUP, "NodeClaim")
                .filter(|claim| {
                    let of = |field: &str| objects::text(claim, &format!("/spec/nodeClassRef/{field}"));
                    of("group") == GROUP && of("name") == objects::name(class)
                })
                .collect();
            // The hash contains the certificate authority of the nodes' user data.
            let read = Ec2NodeClass::deserialize(class).ok().filter(|_| !bundle.is_empty());
            let ours = |version: &str| read.as_ref()?.drift_hash_of(version, &bundle);
            let version = objects::annotation(class, HASH_VERSION);
            if read.is_none() && matches!(version, CURRENT_HASH_VERSION | HASH_VERSION_OF_1_14) {
                unknown += 1;
            }
            found.extend(DRIFT.check(class, ours, &claims));
            found.extend(reservations(class, &object, values));
        }
        if unknown > 0 {
            let what = format!(
                "hashes of {} are not computed again, because they contain the cluster's certificate authority",
                objects::count(unknown, NODE_CLASS_KIND)
            );
            let fix = "add the config map kube-root-ca.crt of kube-system to the input, or give --cluster-ca-bundle (the \
                       certificate-authority-data of the kubeconfig)";
            found.push(Finding::note("C905", NODE_CLASS_KIND, what).fix(fix));
        }
        found
    }

    fn check_policies(&self, policies: &[String], values: &Values) -> anyhow::Result<Vec<Finding>> {
        check_policies(policies, values)
    }

    fn own_conditions(&self) -> &'static [&'static str] {
        &condition::OWN
    }
}

/// AWS settings that contradict each other.
fn settings(values: &Values) -> Vec<Finding> {
    let mut found = Vec::new();
    if values.text("CLUSTER_NAME").is_empty() {
        let what = "CLUSTER_NAME is empty: the controller does not start";
        found.push(Finding::blocker("C307", "settings", what).fix("set settings.clusterName"));
    }
    if values.bool("ISOLATED_VPC") && values.text("PRICES_FILE").is_empty() {
        let what = "ISOLATED_VPC is true, and there is no PRICES_FILE: on-demand prices are those built in, which know few regions";
        let fix = "give PRICES_FILE, which `fleetwright prices export` writes";
        found.push(Finding::warning("C307", "settings", what).fix(fix));
    }
    if values.bool("ISOLATED_VPC") && values.text("CLUSTER_ENDPOINT").is_empty() {
        let what =
            "ISOLATED_VPC is true, and CLUSTER_ENDPOINT is empty: EKS has to be reachable to look it up";
        found.push(Finding::warning("C307", "settings", what).fix("set settings.clusterEndpoint"));
    }
    found
}

/// Selectors of capacity reservations without the gate.
fn reservations(class: &Value, object: &str, values: &Values) -> Option<Finding> {
    let has_terms = objects::list(class, "/spec/capacityReservationSelectorTerms").next().is_some();
    (has_terms && !values.gate("ReservedCapacity")).then(|| {
        let what =
            "selects capacity reservations, and the feature gate ReservedCapacity is off: they are not used";
        Finding::warning("C308", object, what)
            .fix("set the feature gate ReservedCapacity=true, or remove the selector")
    })
}

#[cfg(feature = "aws")]
fn check_policies(policies: &[String], values: &Values) -> anyhow::Result<Vec<Finding>> {
    let policies: Vec<&str> = policies.iter().map(String::as_str).collect();
    let report = crate::account::iam_report(&policies, values)?;
    let missing = report.missing.iter().map(|missing| {
        let what = format!("{} is not granted, for {}: {}", missing.action, missing.feature, missing.why);
        let fix = format!("add the statement {} of deploy/iam/controller-policy.json", missing.statement);
        if missing.optional {
            Finding::warning("C411", "IAM policy", what).fix(fix)
        } else {
            Finding::blocker("C410", "IAM policy", what).fix(fix)
        }
    });
    let undecided = (!report.undecided.is_empty()).then(|| {
        let what = format!("undecided without a real call: {}", objects::some(&report.undecided));
        Finding::note("C412", "IAM policy", what).fix("`fleetwright iam check` lists all of them")
    });
    Ok(missing.chain(undecided).collect())
}

#[cfg(not(feature = "aws"))]
fn check_policies(_policies: &[String], _values: &Values) -> anyhow::Result<Vec<Finding>> {
    anyhow::bail!(
        "--iam-policy: this binary is built without AWS: build it with `cargo build --release -p fleetwright-operator --features aws`"
    )
}
