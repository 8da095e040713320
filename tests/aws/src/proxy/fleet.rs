//! `CreateFleet` as EC2 answers it. moto uses the first override and ignores tokens and shortages; here a repeated token returns the
//! first answer, exhausted overrides and tags of spot requests without spot instances are errors of the fleet, and of the others the
//! override with the lowest priority is used, which is our price.

use std::collections::{BTreeMap, BTreeSet};

use super::answer::Refusal;
use super::call::{Call, Params, groups};
use super::xml::Element;

/// EC2's message about tags of spot requests where none is created.
const NO_SPOT_REQUEST: &str = "You cannot specify tags for Spot instances requests if there are no Spot instances requests being created by the request.";

/// Capacity that has run dry; what is not named matches everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dry {
    pub(crate) instance_type: Option<&'static str>,
    pub(crate) zone: Option<&'static str>,
    /// `on-demand` or `spot`.
    pub(crate) capacity_type: Option<&'static str>,
}

/// An override of a request.
#[derive(Clone, Debug, Default, PartialEq)]
struct Override {
    template: String,
    version: String,
    instance_type: String,
    zone: String,
    subnet: String,
    image: String,
    priority: f64,
}

/// What EC2 remembers of requests.
#[derive(Debug, Default)]
pub(crate) struct Fleets {
    /// Answers by token, each with what was asked.
    tokens: BTreeMap<String, (Params, String)>,
    /// Launch templates with tags of spot requests.
    spot: BTreeSet<String>,
}

/// The handling of a request.
#[derive(Debug)]
pub(crate) enum Decision {
    /// It was answered before.
    Again(String),
    /// It is refused.
    Refused(Refusal),
    /// Nothing can be launched: the errors are the answer.
    Nothing(Vec<Element>),
    /// These parameters go to moto, and the errors into its answer.
    Launch(Params, Vec<Element>),
}

impl Fleets {
    /// Looks at a template that is made.
    pub(crate) fn meet(&mut self, call: &Call) {
        let tagged = |(key, value): (&String, &String)| {
            key.starts_with("LaunchTemplateData.") && value == "spot-instances-request"
        };
        if call.params.iter().any(tagged) {
            self.spot.extend(call.params.get("LaunchTemplateName").cloned());
        }
    }

    /// Decides on a request.
    pub(crate) fn decide(&self, call: &Call, dry: &[Dry]) -> Decision {
        if let Some((asked, answer)) = call.params.get("ClientToken").and_then(|token| self.tokens.get(token))
        {
            if *asked == call.params {
                return Decision::Again(answer.clone());
            }
            let message = "The request uses the same client token as a previous, but non-identical request.";
            return Decision::Refused(Refusal::new(400, "IdempotentParameterMismatch", message));
        }
        let kind = call.params.get("TargetCapacitySpecification.DefaultTargetCapacityType");
        let kind = kind.map_or("on-demand", String::as_str);
        let (mut errors, mut left) = (Vec::new(), Vec::new());
        for way in overrides(&call.params) {
            if kind != "spot" && self.spot.contains(&way.template) {
                errors.push(failure(&way, kind, "InvalidParameterValue", NO_SPOT_REQUEST));
            } else if dry.iter().any(|dry| dry.hits(&way, kind)) {
                let (instance_type, zone) = (&way.instance_type, &way.zone);
                let message =
                    format!("We currently do not have sufficient {instance_type} capacity in {zone}.");
                errors.push(failure(&way, kind, "InsufficientInstanceCapacity", &message));
            } else {
                left.push(way);
            }
        }
        left.sort_by(|a, b| a.priority.total_cmp(&b.priority));
        match left.first() {
            None => Decision::Nothing(errors),
            Some(best) => Decision::Launch(only(&call.params, best), errors),
        }
    }

    /// Stores an answer for repeated calls.
    pub(crate) fn keep(&mut self, call: &Call, answer: &str) {
        if let Some(token) = call.params.get("ClientToken") {
            self.tokens.insert(token.clone(), (call.params.clone(), answer.to_owned()));
        }
    }
}

impl Dry {
    fn hits(&self, way: &Override, kind: &str) -> bool {
        let hits = |dry: Option<&str>, own: &str| dry.is_none_or(|dry| dry == own);
        hits(self.instance_type, &way.instance_type)
            && hits(self.zone, &way.zone)
            && hits(self.capacity_type, kind)
    }
}

fn overrides(params: &Params) -> Vec<Override> {
    let text = |key: String| params.get(&key).cloned().unwrap_or_default();
    let mut found = Vec::new();
    for config in groups(params, "LaunchTemplateConfigs.") {
        for way in groups(params, &format!("{config}Overrides.")) {
            found.push(Override {
                template: text(format!("{config}LaunchTemplateSpecification.LaunchTemplateName")),
                version: text(format!("{config}LaunchTemplateSpecification.Version")),
                instance_type: text(format!("{way}InstanceType")),
                zone: text(format!("{way}AvailabilityZone")),
                subnet: text(format!("{way}SubnetId")),
                image: text(format!("{way}ImageId")),
                priority: text(format!("{way}Priority")).parse().unwrap_or(f64::MAX),
            });
        }
    }
    found
}

/// The request with one override.
fn only(params: &Params, way: &Override) -> Params {
    let others = params.iter().filter(|(key, _)| !key.starts_with("LaunchTemplateConfigs."));
    let mut params: Params = others.map(|(key, value)| (key.clone(), value.clone())).collect();
    let config = "LaunchTemplateConfigs.1.";
    let own = [
        ("LaunchTemplateSpecification.LaunchTemplateName", &way.template),
        ("LaunchTemplateSpecification.Version", &way.version),
        ("Overrides.1.InstanceType", &way.instance_type),
        ("Overrides.1.AvailabilityZone", &way.zone),
        ("Overrides.1.SubnetId", &way.subnet),
        ("Overrides.1.ImageId", &way.image),
    ];
    let own = own.into_iter().filter(|(_, value)| !value.is_empty());
    params.extend(own.map(|(key, value)| (format!("{config}{key}"), value.clone())));
    params
}

/// An error of the fleet for an override.
fn failure(way: &Override, kind: &str, code: &str, message: &str) -> Element {
    let text = Element::text;
    let own = vec![
        text("instanceType", &way.instance_type),
        text("availabilityZone", &way.zone),
        text("subnetId", &way.subnet),
    ];
    Element::of(
        "item",
        vec![
            text("errorCode", code),
            text("errorMessage", message),
            text("lifecycle", kind),
            Element::of("launchTemplateAndOverrides", vec![Element::of("overrides", own)]),
        ],
    )
}

/// An answer with nothing but errors.
pub(crate) fn nothing(errors: Vec<Element>) -> Element {
    let children = vec![
        Element::text("requestId", "proxy"),
        Element::text("fleetId", "fleet-of-nothing"),
        Element::of("errorSet", errors),
        Element::of("fleetInstanceSet", Vec::new()),
    ];
    Element::of("CreateFleetResponse xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\"", children)
}

#[cfg(test)]
mod tests {
    use super::super::call::decode;
    use super::*;

    fn call(form: &str) -> Call {
        Call { params: decode(form), ..Call::default() }
    }

    const TWO: &str = "ClientToken=t&LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName=lt\
        &LaunchTemplateConfigs.1.Overrides.1.InstanceType=a&LaunchTemplateConfigs.1.Overrides.1.Priority=2.0\
        &LaunchTemplateConfigs.1.Overrides.2.InstanceType=b&LaunchTemplateConfigs.1.Overrides.2.Priority=1.5";

    #[test]
    fn the_cheapest_that_is_left_is_taken() {
        let chosen = |dry: &[Dry]| match Fleets::default().decide(&call(TWO), dry) {
            Decision::Launch(params, errors) => {
                (params["LaunchTemplateConfigs.1.Overrides.1.InstanceType"].clone(), errors.len())
            }
            Decision::Nothing(errors) => (String::new(), errors.len()),
            other => panic!("{other:?}"),
        };
        assert_eq!(chosen(&[]), ("b".to_owned(), 0));
        let dry = |instance_type| Dry { instance_type: Some(instance_type), ..Dry::default() };
        assert_eq!(chosen(&[dry("b")]), ("a".to_owned(), 1));
        assert_eq!(chosen(&[dry("a"), dry("b")]), (String::new(), 2));
        assert_eq!(chosen(&[Dry { capacity_type: Some("spot"), ..Dry::default() }]), ("b".to_owned(), 0));
    }

    #[test]
    fn what_tags_spot_requests_launches_spot_alone() {
        let mut fleets = Fleets::default();
        fleets.meet(&call(
            "LaunchTemplateName=lt&LaunchTemplateData.TagSpecification.1.ResourceType=spot-instances-request",
        ));
        assert!(matches!(fleets.decide(&call(TWO), &[]), Decision::Nothing(errors) if errors.len() == 2));
        let spot = format!("{TWO}&TargetCapacitySpecification.DefaultTargetCapacityType=spot");
        assert!(matches!(fleets.decide(&call(&spot), &[]), Decision::Launch(_, errors) if errors.is_empty()));
    }

    #[test]
    fn a_token_gives_its_answer_again_and_serves_no_other_request() {
        let mut fleets = Fleets::default();
        fleets.keep(&call(TWO), "answer");
        assert!(matches!(fleets.decide(&call(TWO), &[]), Decision::Again(answer) if answer == "answer"));
        let other = fleets.decide(&call("ClientToken=t"), &[]);
        assert!(matches!(other, Decision::Refused(refusal) if refusal.code == "IdempotentParameterMismatch"));
    }
}
