//! What a claim asks for, with its DeviceClasses looked up and everything checked that does not depend on the node.

use std::{collections::BTreeMap, sync::Arc};

use hashbrown::HashMap;

use crate::{
    model::{
        NamespacedName, Quantity, Selector, Str,
        device::DeviceToleration,
        resource_claim::{ClaimSpec, DeviceClass, DeviceConstraint, DeviceCount, RequestOption},
    },
    scheduling::dra::{MAX_DEVICES, problem::ClaimProblem},
};

/// A claim, ready for the search.
#[derive(Debug)]
pub(crate) struct CompiledClaim {
    pub(crate) requests: Vec<CompiledRequest>,
    pub(crate) matches: Vec<MatchAttribute>,
}

/// A request.
#[derive(Debug)]
pub(crate) struct CompiledRequest {
    pub(crate) name: Str,
    /// The first that can be had.
    pub(crate) options: Vec<CompiledOption>,
}

/// One way to satisfy a request.
#[derive(Debug)]
pub(crate) struct CompiledOption {
    /// `request` or `request/subrequest`.
    pub(crate) name: Str,
    pub(crate) class: Str,
    /// Of the class and of the request, with the numbers of their expressions.
    pub(crate) selectors: Vec<(u32, Selector)>,
    pub(crate) count: DeviceCount,
    pub(crate) admin: bool,
    pub(crate) capacity: BTreeMap<Str, Quantity>,
    pub(crate) tolerations: Vec<DeviceToleration>,
}

/// All devices of some requests have the same value of an attribute.
#[derive(Debug)]
pub(crate) struct MatchAttribute {
    pub(crate) attribute: Str,
    requests: Vec<Str>,
}

impl MatchAttribute {
    /// Whether it is about devices of a request (and option).
    pub(crate) fn applies(&self, request: &Str, option: &Str) -> bool {
        self.requests.is_empty() || self.requests.contains(request) || self.requests.contains(option)
    }
}

/// Numbers of expressions.
#[derive(Debug, Default)]
pub(crate) struct Expressions(HashMap<Str, u32>);

impl Expressions {
    fn number(&mut self, expression: &Str) -> u32 {
        let next = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        *self.0.entry(expression.clone()).or_insert(next)
    }
}

impl CompiledClaim {
    /// Makes a claim ready, or says what is wrong with it.
    pub(crate) fn new(
        id: &NamespacedName,
        spec: &ClaimSpec,
        classes: &BTreeMap<Str, Arc<DeviceClass>>,
        expressions: &mut Expressions,
    ) -> Result<Self, ClaimProblem> {
        let mut matches = Vec::new();
        for constraint in &spec.constraints {
            match constraint {
                DeviceConstraint::Match { attribute, requests } => {
                    matches.push(MatchAttribute { attribute: attribute.clone(), requests: requests.clone() });
                }
                DeviceConstraint::Unsupported(field) => {
                    return Err(ClaimProblem::Constraint { claim: id.clone(), field: field.clone() });
                }
            }
        }
        let mut requests = Vec::new();
        for request in &spec.requests {
            let options = request.options.iter();
            let options: Result<Vec<_>, _> =
                options.map(|option| wanted(id, &request.name, option, classes, expressions)).collect();
            let options = options?;
            if options.is_empty() {
                let (claim, request) = (id.clone(), request.name.clone());
                return Err(ClaimProblem::Request { claim, request });
            }
            requests.push(CompiledRequest { name: request.name.clone(), options });
        }
        let this = Self { requests, matches };
        let devices = this.least();
        if devices > MAX_DEVICES {
            return Err(ClaimProblem::TooMany { claim: id.clone(), devices });
        }
        Ok(this)
    }

    /// How many devices it needs at least.
    fn least(&self) -> usize {
        let count = |option: &CompiledOption| match option.count {
            DeviceCount::Exactly(count) => usize::try_from(count).unwrap_or(usize::MAX),
            DeviceCount::All => 1,
        };
        let least = |request: &CompiledRequest| request.options.iter().map(count).min().unwrap_or(0);
        self.requests.iter().map(least).fold(0, usize::saturating_add)
    }
}

fn wanted(
    id: &NamespacedName,
    request: &Str,
    option: &RequestOption,
    classes: &BTreeMap<Str, Arc<DeviceClass>>,
    expressions: &mut Expressions,
) -> Result<CompiledOption, ClaimProblem> {
    let name: Str =
        if option.name.is_empty() { request.clone() } else { format!("{request}/{}", option.name).into() };
    let Some(class) = classes.get(&option.class) else {
        let class = option.class.clone();
        return Err(ClaimProblem::NoClass { claim: id.clone(), request: name, class });
    };
    let mut selectors = Vec::new();
    for selector in class.selectors.iter().chain(&option.selectors) {
        if let Err(why) = &selector.predicate {
            return Err(ClaimProblem::Selector {
                claim: id.clone(),
                request: name,
                expression: selector.expression.clone(),
                why: why.clone(),
            });
        }
        selectors.push((expressions.number(&selector.expression), selector.clone()));
    }
    Ok(CompiledOption {
        name,
        class: option.class.clone(),
        selectors,
        count: option.count,
        admin: option.admin,
        capacity: option.capacity.clone(),
        tolerations: option.tolerations.clone(),
    })
}
