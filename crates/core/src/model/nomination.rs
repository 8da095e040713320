//! Where a pod is to run before it is bound: one state machine per pod.
//!
//! A pod is nominated in two ways, and both are kept here.
//!
//! - A NodeClaim that is created for the pod goes through [`ClaimStage`]: 1. the create request is under way,
//!   2. the NodeClaim is in flight, 3. its node is initialized. A crash between 1 and 2 loses nothing: the NodeClaim
//!   carries the UIDs of its pods, and the watch brings it back.
//! - A lease keeps one node from disruption until the pod is bound. It expires; on an initialized node it is
//!   renewed at most [`RENEWALS`] times, and never after kube-scheduler rejected the pod there.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{
    ids::{ClaimName, PodUid, Str},
    nodeclaim::{ConditionType, NodeClaim},
};

/// How often the lease of a pod on one initialized node may be renewed. Passes renew it about every ten seconds: a pod
/// that kube-scheduler has not bound after 50 s is not bound to that node soon, and gets an event that says so.
pub const RENEWALS: u32 = 4;

/// A pod that is nominated to a node, with the end of its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nomination {
    /// The pod.
    pub pod: PodUid,
    /// When the lease ends.
    pub until: Timestamp,
}

/// How far a NodeClaim has come that was created for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimStage {
    /// The request that creates it is under way, or its outcome is unknown.
    Creating,
    /// It exists and is not initialized. The pod gets no other NodeClaim.
    InFlight,
    /// Its node is initialized and the pod is not bound. Another NodeClaim for the pod needs a reason.
    Initialized,
}

impl ClaimStage {
    /// The stage of a NodeClaim that exists; `None` once it is being deleted.
    #[must_use]
    pub fn of(claim: &NodeClaim) -> Option<Self> {
        match claim.deleting {
            Some(_) => None,
            None if claim.is(ConditionType::Initialized) => Some(Self::Initialized),
            None => Some(Self::InFlight),
        }
    }
}

/// What bounds the renewals of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseBound {
    /// The node can run the pod now: [`RENEWALS`], and kube-scheduler's verdict. This is its latest message about the pod.
    Renewals(Option<Str>),
    /// The node cannot run the pod yet, or the pod still runs elsewhere: the caller stops renewing. This is
    /// kube-scheduler's latest message about the pod.
    Caller(Option<Str>),
}

/// What changes the nomination of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NominationEvent {
    /// A NodeClaim is about to be created for the pod.
    Creating(ClaimName),
    /// The outcome of that request is known.
    Created(ClaimName),
    /// The NodeClaim is at this stage; `None` if it is gone or does not name the pod any more.
    Claim(ClaimName, Option<ClaimStage>),
    /// The pod is leased the Node or NodeClaim of this name until then.
    Leased(Str, Timestamp, LeaseBound),
    /// kube-scheduler's message about the pod, which is unschedulable.
    Unschedulable(Option<Str>),
    /// The lease ended.
    Expired,
    /// The pod is bound, terminal or deleted.
    Done,
}

/// The latest lease of a pod. It is remembered after its end, so that a rejected pod is not leased the same node again.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Lease {
    target: Str,
    /// `None` once it ended.
    until: Option<Timestamp>,
    /// Leases granted while the node could run the pod.
    granted: u32,
    /// kube-scheduler's message when the first of them was granted.
    message: Option<Str>,
    /// Whether kube-scheduler rejected the pod since.
    rejected: bool,
}

/// The nomination of one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodNomination {
    claims: BTreeMap<ClaimName, ClaimStage>,
    lease: Option<Lease>,
}

impl PodNomination {
    /// The nomination after `event`.
    #[must_use]
    pub fn after(mut self, event: NominationEvent) -> Self {
        match event {
            NominationEvent::Creating(claim) => {
                self.claims.insert(claim, ClaimStage::Creating);
            }
            NominationEvent::Created(claim) => {
                // The watch may have shown the NodeClaim already.
                self.claims.retain(|name, stage| *name != claim || *stage != ClaimStage::Creating);
            }
            NominationEvent::Claim(claim, Some(stage)) => {
                self.claims.insert(claim, stage);
            }
            NominationEvent::Claim(claim, None) => {
                self.claims.remove(&claim);
            }
            NominationEvent::Leased(target, until, bound) => {
                self.lease = Some(Lease::after(self.lease, target, until, bound));
            }
            NominationEvent::Unschedulable(message) => {
                self.lease = self.lease.map(|lease| lease.after_message(message));
            }
            NominationEvent::Expired => {
                self.lease = self.lease.map(|lease| Lease { until: None, ..lease });
            }
            NominationEvent::Done => {
                self.lease = None;
                self.claims.retain(|_, stage| *stage != ClaimStage::Initialized);
            }
        }
        self
    }

    /// Whether nothing is known of the pod.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.lease.is_none()
    }

    /// The Node or NodeClaim that the pod is leased, and until when.
    #[must_use]
    pub fn lease(&self) -> Option<(&Str, Timestamp)> {
        let lease = self.lease.as_ref()?;
        Some((&lease.target, lease.until?))
    }

    /// Whether a NodeClaim is being created for the pod.
    #[must_use]
    pub fn is_creating(&self) -> bool {
        self.claims.values().any(|stage| *stage == ClaimStage::Creating)
    }

    /// The NodeClaims in flight that were created for the pod, by name.
    pub fn in_flight(&self) -> impl Iterator<Item = &ClaimName> {
        self.claims.iter().filter(|(_, stage)| **stage == ClaimStage::InFlight).map(|(claim, _)| claim)
    }

    /// The NodeClaims that exist and were created for the pod, by name.
    pub fn created(&self) -> impl Iterator<Item = &ClaimName> {
        self.claims.iter().filter(|(_, stage)| **stage != ClaimStage::Creating).map(|(claim, _)| claim)
    }
}

impl Lease {
    fn after(earlier: Option<Self>, target: Str, until: Timestamp, bound: LeaseBound) -> Self {
        let (bounded, message) = match bound {
            LeaseBound::Renewals(message) => (true, message),
            LeaseBound::Caller(message) => (false, message),
        };
        // What was granted before the node could run the pod does not count.
        let same = earlier.filter(|lease| lease.target == target && (!bounded || lease.granted > 0));
        let fresh = Self { target, until: None, granted: 0, message, rejected: false };
        let lease = same.unwrap_or(fresh);
        if !bounded {
            return Self { until: Some(until), ..lease };
        }
        if lease.rejected || lease.granted > RENEWALS {
            return Self { until: None, ..lease };
        }
        Self { until: Some(until), granted: lease.granted + 1, ..lease }
    }

    /// A new message ends a lease that was renewed: kube-scheduler tried the pod while the node could run it.
    fn after_message(self, message: Option<Str>) -> Self {
        if self.granted < 2 {
            // The message may have been written while the node became ready.
            return Self { message, ..self };
        }
        if message.is_none() || self.message == message {
            return self;
        }
        Self { rejected: true, until: None, ..self }
    }
}

#[cfg(test)]
mod tests {
    //! From the creation of a NodeClaim to the binding of the pod.
    use super::{ClaimStage as Stage, NominationEvent as Event, *};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_750_000_000 + seconds).unwrap()
    }

    fn after(events: impl IntoIterator<Item = Event>) -> PodNomination {
        events.into_iter().fold(PodNomination::default(), PodNomination::after)
    }

    fn claim(stage: Option<Stage>) -> Event {
        Event::Claim("c".into(), stage)
    }

    fn bounded(target: &str, message: &str) -> Event {
        Event::Leased(target.into(), at(20), LeaseBound::Renewals(Some(message.into())))
    }

    /// Whether a NodeClaim is being created, is in flight, exists.
    fn stage(events: &[Event]) -> (bool, bool, bool) {
        let state = after(events.iter().cloned());
        (state.is_creating(), state.in_flight().next().is_some(), state.created().next().is_some())
    }

    #[test]
    fn a_nodeclaim_is_created_launched_and_remembered_until_the_pod_is_bound() {
        let (creating, created) = (Event::Creating("c".into()), Event::Created("c".into()));
        let (in_flight, ready) = (claim(Some(Stage::InFlight)), claim(Some(Stage::Initialized)));
        let table = [
            (vec![creating.clone()], (true, false, false)),
            (vec![creating.clone(), created.clone()], (false, false, false)),
            (vec![creating, in_flight.clone(), created], (false, true, true)),
            (vec![in_flight.clone(), claim(None)], (false, false, false)),
            (vec![in_flight.clone(), Event::Done], (false, true, true)),
            (vec![in_flight.clone(), ready.clone()], (false, false, true)),
            (vec![in_flight, ready.clone(), Event::Done], (false, false, false)),
            (vec![ready, claim(None)], (false, false, false)),
        ];
        for (events, expected) in table {
            assert_eq!(stage(&events), expected, "{events:?}");
        }
    }

    #[test]
    fn a_lease_on_an_initialized_node_is_renewed_four_times() {
        let mut state = PodNomination::default();
        let mut granted = 0;
        for _ in 0..20 {
            state = state.after(bounded("n", "")).after(Event::Unschedulable(Some("".into())));
            granted += usize::from(state.lease().is_some());
        }
        assert_eq!(granted, 5, "the first, and four renewals");
        assert!(state.clone().after(bounded("m", "")).lease().is_some(), "another node");
        assert_eq!(state.after(Event::Done), PodNomination::default());
        let waiting = Event::Leased("n".into(), at(20), LeaseBound::Caller(None));
        let state = after(std::iter::repeat_n(waiting, 20));
        assert!(state.lease().is_some(), "a node that starts");
        assert!(state.after(bounded("n", "")).lease().is_some(), "its leases do not count");
    }

    #[test]
    fn a_message_of_the_scheduler_ends_a_lease_that_was_renewed() {
        let rejects = |message: &str| Event::Unschedulable(Some(message.into()));
        let renewed = || after([bounded("n", "0/1"), rejects("0/2"), bounded("n", "0/2")]);
        assert!(renewed().lease().is_some(), "the message may be from before the node was ready");
        assert!(renewed().after(rejects("0/2")).lease().is_some(), "the same message");
        assert!(renewed().after(Event::Unschedulable(None)).lease().is_some());
        let rejected = renewed().after(rejects("Insufficient cpu"));
        assert!(rejected.lease().is_none());
        assert!(rejected.clone().after(bounded("n", "0/2")).lease().is_none(), "not again");
        assert!(rejected.after(bounded("m", "0/2")).lease().is_some(), "another node");
    }

    #[test]
    fn a_lease_ends_and_is_counted_all_the_same() {
        let ended = after([bounded("n", ""), Event::Expired]);
        assert_eq!((ended.lease(), ended.is_empty()), (None, false));
        let mut state = ended;
        for _ in 0..RENEWALS {
            state = state.after(bounded("n", "")).after(Event::Expired);
        }
        assert!(state.after(bounded("n", "")).lease().is_none());
    }
}
