//! Relaxation: the order in which the preferences of a pod that does not fit are dropped, as in Karpenter.

use crate::{
    model::{Pod, PodAffinityTerm, Requirement, Taint, TaintEffect, TopologySpread},
    scheduling::request::PreferencePolicy,
};

/// The constraints and preferences of a pod that are left at a level.
#[derive(Clone, Debug)]
pub(crate) struct Relaxation {
    /// Index of the required node selector term.
    pub(crate) required: usize,
    /// Preferred pod affinity, by weight.
    pub(crate) near: Vec<(i32, PodAffinityTerm)>,
    /// Preferred pod anti-affinity, by weight.
    pub(crate) away: Vec<(i32, PodAffinityTerm)>,
    /// Preferred node affinity, by weight.
    pub(crate) nodes: Vec<(i32, Vec<Requirement>)>,
    /// Topology spread constraints. `ScheduleAnyway` constraints are removed one by one as in Karpenter: the first, whose place
    /// the last takes.
    pub(crate) spread: Vec<TopologySpread>,
    /// Whether `PreferNoSchedule` taints are ignored.
    pub(crate) look_past_preferences: bool,
}

impl Relaxation {
    /// The constraints of `pod` before any relaxation.
    pub(crate) fn new(pod: &Pod, preferences: PreferencePolicy) -> Self {
        let spec = &pod.spec;
        let respected = preferences == PreferencePolicy::Respect;
        let by_weight = |terms: &[(i32, PodAffinityTerm)]| {
            let mut terms = if respected { terms.to_vec() } else { Vec::new() };
            terms.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
            terms
        };
        let mut nodes = if respected { spec.preferred_node_terms.clone() } else { Vec::new() };
        nodes.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
        let spread = spec.topology_spread.iter().filter(|spread| respected || spread.hard);
        Self {
            required: 0,
            near: by_weight(&spec.preferred_pod_affinity),
            away: by_weight(&spec.preferred_pod_anti_affinity),
            nodes,
            spread: spread.cloned().collect(),
            look_past_preferences: false,
        }
    }

    /// Relaxes one preference; returns `false` if none is left.
    pub(crate) fn step(&mut self, pod: &Pod, any_preference_taint: bool) -> bool {
        if self.required + 1 < pod.spec.required_node_terms.len() {
            self.required += 1;
        } else if !self.near.is_empty() {
            self.near.remove(0);
        } else if !self.away.is_empty() {
            self.away.remove(0);
        } else if !self.nodes.is_empty() {
            self.nodes.remove(0);
        } else if let Some(soft) = self.spread.iter().position(|spread| !spread.hard) {
            self.spread.swap_remove(soft);
        } else if any_preference_taint && !self.look_past_preferences {
            self.look_past_preferences = true;
        } else {
            return false;
        }
        true
    }

    /// Drops all preferences at once.
    pub(crate) fn give_up(&mut self) {
        self.near.clear();
        self.away.clear();
        self.nodes.clear();
        self.spread.retain(|spread| spread.hard);
    }
}

/// The first taint that keeps a pod away. `PreferNoSchedule` does as well, as long as it is not looked past.
pub(crate) fn first_obstacle<'a>(
    taints: &'a [Taint],
    pod: &Pod,
    look_past_preferences: bool,
) -> Option<&'a Taint> {
    taints.iter().find(|taint| {
        let counts = !look_past_preferences || taint.effect != TaintEffect::PreferNoSchedule;
        counts && !pod.spec.tolerations.iter().any(|toleration| toleration.tolerates(taint))
    })
}

/// Whether no taint keeps a pod away.
pub(crate) fn tolerated(taints: &[Taint], pod: &Pod, look_past_preferences: bool) -> bool {
    first_obstacle(taints, pod, look_past_preferences).is_none()
}
