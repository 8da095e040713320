//! What EC2's refusals mean: to the claim that was not launched, and to what is tried next.

use fleetwright_core::cloud::LaunchError;

use crate::calls::{AwsError, ErrorClass, FleetError, classify};
use crate::unavailable::Shortage;

/// The code of a spot request in an account without the role for it.
const WITHOUT_ROLE: &str = "AuthFailure.ServiceLinkedRoleCreationNotPermitted";

/// The reason of a launch for which the account may have no further launch template. Karpenter has no word for it.
pub(crate) const TEMPLATE_QUOTA: &str = "LaunchTemplateQuotaExceeded";

/// What a failure teaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Something has run dry.
    Unavailable(Shortage),
    /// A subnet has no free addresses.
    NoAddresses(String),
    /// A reservation is full.
    ReservationFull,
}

/// Codes of capacity that is not there, which within a placement group says nothing of what there is outside of it.
const NO_CAPACITY: [&str; 2] = ["InsufficientInstanceCapacity", "UnfulfillableCapacity"];
/// The code of a subnet without free addresses.
const NO_ADDRESSES: &str = "InsufficientFreeAddressesInSubnet";

/// What a fleet's error teaches, whether or not the fleet launched anything. `group` is the placement group of the launch, with
/// the partition where one was asked for.
#[must_use]
pub fn effects(error: &FleetError, capacity_type: &str, group: Option<(&str, Option<u32>)>) -> Vec<Effect> {
    const SPREAD: &str = "limit of instances in this spread placement group";
    let offering = || {
        let scope = group.filter(|_| NO_CAPACITY.contains(&error.code.as_str()));
        Effect::Unavailable(Shortage::Offering {
            instance_type: error.instance_type.clone(),
            zone: error.zone.clone(),
            capacity_type: capacity_type.to_owned(),
            group: scope.map(|(id, part)| (id.to_owned(), part.map(|part| part.to_string()))),
        })
    };
    let no_addresses = || {
        let subnet = || error.subnet.clone();
        [Effect::NoAddresses(subnet()), Effect::Unavailable(Shortage::Subnet(subnet()))]
    };
    let is_spread = group.filter(|_| error.message.contains(SPREAD));
    if let Some((id, _)) = is_spread {
        return vec![Effect::Unavailable(Shortage::Group { id: id.to_owned(), zone: error.zone.clone() })];
    }
    if capacity_type == "reserved" && classify(&error.code) == ErrorClass::Unfulfillable {
        let dry = (error.code == NO_ADDRESSES).then(no_addresses);
        return dry.into_iter().flatten().chain([Effect::ReservationFull]).collect();
    }
    match error.code.as_str() {
        WITHOUT_ROLE => {
            vec![Effect::Unavailable(Shortage::CapacityType("spot".to_owned()))]
        }
        NO_ADDRESSES => no_addresses().into_iter().chain([offering()]).collect(),
        _ if error.message.contains(SPREAD) => vec![offering()],
        code if classify(code) == ErrorClass::Unfulfillable => vec![offering()],
        _ => Vec::new(),
    }
}

/// Whether a code says that a launch template is not there.
#[must_use]
pub fn is_without_template(code: &str) -> bool {
    matches!(code, "InvalidLaunchTemplateName.NotFoundException" | "InvalidLaunchTemplateId.NotFound")
}

/// Whether the account has no role for spot capacity, and none may be created.
#[must_use]
pub fn is_without_role(error: &FleetError) -> bool {
    error.code == WITHOUT_ROLE
}

/// What to tell a claim that a fleet launched nothing for.
#[must_use]
pub fn launch_error(errors: &[FleetError]) -> LaunchError {
    if errors.is_empty() {
        return LaunchError::InsufficientCapacity(
            "the fleet launched fewer instances than were asked for".into(),
        );
    }
    let text: Vec<String> = {
        let mut lines: Vec<String> =
            errors.iter().map(|error| format!("{}: {}", error.code, error.message)).collect();
        lines.sort();
        lines.dedup();
        lines.truncate(5);
        lines
    };
    let dry =
        |error: &FleetError| classify(&error.code) == ErrorClass::Unfulfillable || is_without_role(error);
    let message = text.join("; ");
    if errors.iter().all(dry) {
        return LaunchError::InsufficientCapacity(message.into());
    }
    // What has run dry is known by now, and what was throttled is launched by the next attempt: EC2 repeats its answer to this one.
    let is_throttled = |error: &FleetError| classify(&error.code) == ErrorClass::Throttled;
    let others = || errors.iter().filter(|error| !dry(error));
    let telling = others().find(|error| !is_throttled(error)).or_else(|| others().next());
    let telling = telling.map_or("LaunchFailed", |error| reason(&error.code, &error.message));
    LaunchError::Failed { reason: telling.into(), message: message.into() }
}

/// What to tell a claim whose call failed as a whole. A quota that refuses the request says nothing of any one offering: nothing would be
/// marked, and a claim that went for it would be made again at once, with the same choice.
#[must_use]
pub fn call_error(error: &AwsError) -> LaunchError {
    match error.class() {
        ErrorClass::Throttled => LaunchError::RateLimited { after: error.wait() },
        ErrorClass::Unknown => LaunchError::Unknown(error.to_string().into()),
        ErrorClass::Unfulfillable | ErrorClass::NotFound | ErrorClass::Unauthorized | ErrorClass::Refused => {
            LaunchError::Failed {
                reason: reason(&error.code, &error.message).into(),
                message: error.to_string().into(),
            }
        }
    }
}

/// The reason of a failed launch in one word, as Karpenter's conditions have it. The first that fits counts.
#[must_use]
pub fn reason(code: &str, message: &str) -> &'static str {
    let says = |text: &str| message.contains(text);
    match code {
        WITHOUT_ROLE => "SpotSLRCreationFailed",
        "UnauthorizedOperation" | "AccessDenied" => "Unauthorized",
        "AuthFailure" if says("Not authorized for images") => "AMIAuthorizationFailure",
        "AuthFailure" => "Unauthorized",
        "InvalidParameter" if says("Security group") => "SecurityGroupSubnetVPCMismatch",
        "InvalidParameterValue" if says("Invalid IAM Instance Profile") => "InstanceProfileNameInvalid",
        _ if is_without_template(code) => "LaunchTemplateNotFound",
        "InvalidParameterValue" | "InvalidUserData.Malformed" if says("User data is limited") => {
            "UserDataSizeLimitExceeded"
        }
        "InvalidAMIID.Malformed" => "InvalidAMIID",
        "InvalidAMIID.NotFound" | "InvalidAMIID.Unavailable" => "AMINotFound",
        "RequestLimitExceeded" => "RequestLimitExceeded",
        "InternalError" => "InternalError",
        "InvalidParameterCombination" if says("Free Tier") => "FreeTierIneligible",
        "MaxFleetCountExceeded" => "FleetQuotaExceeded",
        "MaxTemplateLimitExceeded" => TEMPLATE_QUOTA,
        "PendingVerification" => "AccountPendingVerification",
        "MaxSpotInstanceCountExceeded" => "SpotQuotaExceeded",
        "VcpuLimitExceeded" => "VCPULimitExceeded",
        "InsufficientFreeAddressesInSubnet" => "InsufficientFreeAddressesInSubnet",
        _ => "LaunchFailed",
    }
}

#[cfg(test)]
mod tests {
    //! Which refusal means what.
    use rstest::rstest;

    use super::*;

    fn error(code: &str) -> FleetError {
        let [instance_type, zone, subnet] = ["m5.large", "a", "subnet-1"].map(str::to_owned);
        FleetError { code: code.to_owned(), message: "why".to_owned(), instance_type, zone, subnet }
    }

    #[rstest]
    #[case(&["InsufficientInstanceCapacity"], "InsufficientCapacity")]
    #[case(&["InsufficientInstanceCapacity", "AuthFailure.ServiceLinkedRoleCreationNotPermitted"], "InsufficientCapacity")]
    #[case(&["InsufficientInstanceCapacity", "UnauthorizedOperation"], "Unauthorized")]
    #[case(&["RequestLimitExceeded", "InsufficientInstanceCapacity"], "RequestLimitExceeded")]
    #[case(&["RequestLimitExceeded", "UnauthorizedOperation"], "Unauthorized")]
    #[case(&["SomethingNew"], "LaunchFailed")]
    #[case(&[], "InsufficientCapacity")]
    fn of_a_fleet(#[case] codes: &[&str], #[case] expected: &str) {
        let errors: Vec<FleetError> = codes.iter().map(|code| error(code)).collect();
        let found = match launch_error(&errors) {
            LaunchError::InsufficientCapacity(_) => "InsufficientCapacity".to_owned(),
            LaunchError::Failed { reason, .. } => reason.to_string(),
            other => other.to_string(),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn what_failures_teach() {
        let dry = effects(&error("InsufficientInstanceCapacity"), "spot", None);
        assert!(matches!(dry.as_slice(), [Effect::Unavailable(Shortage::Offering { group: None, .. })]));
        assert_eq!(
            effects(&error("InsufficientInstanceCapacity"), "reserved", None),
            [Effect::ReservationFull]
        );
        let no_addresses = error("InsufficientFreeAddressesInSubnet");
        let subnet = [
            Effect::NoAddresses("subnet-1".to_owned()),
            Effect::Unavailable(Shortage::Subnet("subnet-1".to_owned())),
        ];
        let [of_spot, of_reserved] = ["spot", "reserved"].map(|kind| effects(&no_addresses, kind, None));
        assert_eq!((of_spot.len(), &of_spot[..2]), (3, &subnet[..]));
        assert_eq!((&of_reserved[..2], &of_reserved[2..]), (&subnet[..], &[Effect::ReservationFull][..]));
        assert!(effects(&error("UnauthorizedOperation"), "spot", None).is_empty());
        let spread = FleetError {
            message: "You have reached the limit of instances in this spread placement group".to_owned(),
            ..error("InsufficientInstanceCapacity")
        };
        for capacity_type in ["on-demand", "reserved"] {
            let found = effects(&spread, capacity_type, Some(("pg-1", None)));
            let full = Shortage::Group { id: "pg-1".to_owned(), zone: "a".to_owned() };
            assert_eq!(
                found,
                [Effect::Unavailable(full)],
                "{capacity_type}: the group is full, no type and no reservation is"
            );
        }
        for (code, part, expected) in [
            ("InsufficientInstanceCapacity", None, Some(("pg-1".to_owned(), None))),
            ("UnfulfillableCapacity", Some(2), Some(("pg-1".to_owned(), Some("2".to_owned())))),
            // Quotas are the account's, addresses the subnet's.
            ("VcpuLimitExceeded", None, None),
            ("InsufficientFreeAddressesInSubnet", None, None),
        ] {
            let found = effects(&error(code), "on-demand", Some(("pg-1", part)));
            let Some(Effect::Unavailable(Shortage::Offering { group, .. })) = found.last() else {
                panic!("{found:?}")
            };
            assert_eq!(*group, expected, "{code}");
        }
        let outside = effects(&spread, "on-demand", None);
        assert!(matches!(outside.as_slice(), [Effect::Unavailable(Shortage::Offering { .. })]));
    }

    #[rstest]
    #[case("AuthFailure", "Not authorized for images: [ami-1]", "AMIAuthorizationFailure")]
    #[case("AuthFailure", "credentials could not be validated", "Unauthorized")]
    #[case("InvalidUserData.Malformed", "User data is limited to 16384 bytes", "UserDataSizeLimitExceeded")]
    #[case("InvalidUserData.Malformed", "Invalid BASE64 encoding", "LaunchFailed")]
    #[case(
        "MaxTemplateLimitExceeded",
        "Account has already reached max permitted templates",
        "LaunchTemplateQuotaExceeded"
    )]
    fn reasons_follow_from_code_and_message(#[case] code: &str, #[case] said: &str, #[case] expected: &str) {
        assert_eq!(reason(code, said), expected);
    }

    #[rstest]
    #[case("RequestLimitExceeded", ErrorClass::Throttled)]
    #[case("InsufficientInstanceCapacity", ErrorClass::Unfulfillable)]
    #[case("InvalidInstanceID.NotFound", ErrorClass::NotFound)]
    #[case("NoAnswer", ErrorClass::Unknown)]
    #[case("UnauthorizedOperation", ErrorClass::Unauthorized)]
    #[case("InvalidParameterValue", ErrorClass::Refused)]
    fn classes(#[case] code: &str, #[case] expected: ErrorClass) {
        assert_eq!(classify(code), expected);
        let launch_error = call_error(&AwsError::new(code, "why"));
        assert_eq!(matches!(launch_error, LaunchError::Unknown(_)), expected == ErrorClass::Unknown);
        assert!(
            !matches!(launch_error, LaunchError::InsufficientCapacity(_)),
            "no offering is known to be dry"
        );
    }
}
