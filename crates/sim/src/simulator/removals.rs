//! Counts created and deleted NodeClaims, the latter by reason.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use fleetwright_core::clock::SharedClock;
use futures::StreamExt as _;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DynamicObject, GroupVersionKind},
    runtime::watcher::{self, Event},
};
use serde_json::Value;

/// Delay after a broken watch.
const RETRY: Duration = Duration::from_secs(1);

/// The counts.
#[derive(Debug, Default)]
pub(super) struct Removals(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    created: u64,
    removed: BTreeMap<String, u64>,
    living: BTreeMap<String, DynamicObject>,
}

impl Removals {
    /// NodeClaims created, and removed by reason.
    pub(super) fn counts(&self) -> (u64, BTreeMap<String, u64>) {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (counts.created, counts.removed.clone())
    }

    /// Counts forever.
    pub(super) async fn run(&self, client: Client, clock: SharedClock) {
        let kind = GroupVersionKind::gvk("karpenter.sh", "v1", "NodeClaim");
        let api: Api<DynamicObject> =
            Api::all_with(client, &ApiResource::from_gvk_with_plural(&kind, "nodeclaims"));
        let mut events = pin!(watcher::watcher(api, watcher::Config::default()));
        let mut listed = BTreeSet::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(claim)) => {
                    listed.insert(claim.uid().unwrap_or_default());
                    self.present(claim);
                }
                Ok(Event::InitDone) => self.keep(&listed),
                Ok(Event::Apply(claim)) => self.present(claim),
                Ok(Event::Delete(claim)) => self.gone(&claim.uid().unwrap_or_default(), Some(claim)),
                Err(_) => clock.sleep(RETRY).await,
            }
        }
    }

    fn present(&self, claim: DynamicObject) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.living.insert(claim.uid().unwrap_or_default(), claim).is_none() {
            counts.created = counts.created.saturating_add(1);
        }
    }

    fn keep(&self, listed: &BTreeSet<String>) {
        let missing: Vec<String> = {
            let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            counts.living.keys().filter(|uid| !listed.contains(*uid)).cloned().collect()
        };
        for uid in missing {
            self.gone(&uid, None);
        }
    }

    fn gone(&self, uid: &str, last: Option<DynamicObject>) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = counts.living.remove(uid) else { return };
        let count = counts.removed.entry(reason(&last.unwrap_or(known))).or_default();
        *count = count.saturating_add(1);
    }
}

/// Why a NodeClaim was deleted: the disruption reason, else its last condition.
fn reason(claim: &DynamicObject) -> String {
    let conditions = claim.data.pointer("/status/conditions").and_then(Value::as_array);
    let find = |name: &str| conditions.into_iter().flatten().find(|condition| condition["type"] == name);
    let holds = |name: &str| find(name).is_some_and(|condition| condition["status"] == "True");
    if let Some(disrupted) = find("DisruptionReason").filter(|_| holds("DisruptionReason")) {
        return disrupted["reason"].as_str().unwrap_or("Disrupted").to_owned();
    }
    for (name, reason) in [("Launched", "NotLaunched"), ("Registered", "NotRegistered")] {
        if !holds(name) {
            return reason.to_owned();
        }
    }
    "Deleted".to_owned()
}
