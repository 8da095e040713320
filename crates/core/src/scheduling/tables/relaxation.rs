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

#[cfg(test)]
mod tests {
    //! Dropping preferences one by one and all at once.
    use super::*;
    use crate::testing::{affinity_to, pod, spread_over};

    #[test]
    fn giving_up_drops_what_steps_drop_one_by_one() {
        let pod = pod("p").with_spec(|spec| {
            spec.preferred_pod_affinity.push((1, affinity_to("zone", "web")));
            spec.preferred_pod_anti_affinity.push((1, affinity_to("zone", "db")));
            spec.preferred_node_terms.push((1, vec![Requirement::exists("disk")]));
            spec.topology_spread.push(TopologySpread { hard: false, ..spread_over("zone", 1, "web") });
            spec.topology_spread.push(TopologySpread { hard: true, ..spread_over("rack", 1, "web") });
        });
        let pod = pod.build();
        let left = |relaxed: &Relaxation| {
            let keys: Vec<&str> = relaxed.spread.iter().map(|spread| &*spread.key).collect();
            (relaxed.near.len(), relaxed.away.len(), relaxed.nodes.len(), keys.join(" "))
        };
        let mut relaxed = Relaxation::new(&pod, PreferencePolicy::Respect);
        assert_eq!(left(&relaxed), (1, 1, 1, "zone rack".to_owned()));
        let mut given_up = relaxed.clone();
        given_up.give_up();
        assert_eq!(left(&given_up), (0, 0, 0, "rack".to_owned()));
        assert_eq!((0..9).take_while(|_| relaxed.step(&pod, false)).count(), 4);
        assert_eq!(left(&relaxed), left(&given_up));
    }
}
