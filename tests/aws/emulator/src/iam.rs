//! IAM: which calls the policies of a caller allow, and what AWS says to the others.

mod condition;
mod policy;
mod requests;
mod text;

pub use policy::{AuthorizationRequest, Denial, Policies, PolicyKind};
pub use requests::{ResourceTags, requests, run_requests};

use crate::answer::Refusal;
use crate::call::Call;

/// The account of every case, as moto has it.
pub const ACCOUNT: &str = "123456789012";

/// The refusal of a call that a policy denies, in the words of its service.
///
/// EC2: "You are not authorized to perform this operation. User: arn:aws:sts::…:assumed-role/…/… is not authorized to perform: ec2:RunInstances on
/// resource: arn:aws:ec2:us-east-2:…:instance/* with an explicit deny in a service control policy. Encoded authorization failure message: g4oZPB…"
/// (aws/karpenter-provider-aws#7370; without a denial kubernetes-sigs/karpenter#2813). The encoded part differs from call to call.
#[must_use]
pub fn refusal(call: &Call, request: &AuthorizationRequest, denial: Denial, number: u64) -> Refusal {
    let (action, resource) = (&request.action, &request.resource);
    let user = format!("arn:aws:sts::{ACCOUNT}:assumed-role/karpenter-controller/{}", call.access_key);
    let reason = denial.reason(action);
    let told =
        format!("User: {user} is not authorized to perform: {action} on resource: {resource} {reason}");
    match call.service.as_str() {
        "ec2" => {
            let encoded = format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1).repeat(12);
            let message = format!(
                "You are not authorized to perform this operation. {told}. Encoded authorization failure message: {encoded}"
            );
            Refusal::new(403, "UnauthorizedOperation", &message)
        }
        "iam" => Refusal::new(403, "AccessDenied", &told),
        _ => Refusal::new(400, "AccessDeniedException", &told),
    }
}
