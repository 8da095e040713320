//! All EC2NodeClasses: each is reconciled by itself, and holds up no other.
//!
//! A call to AWS that hangs may take minutes. A reconcile therefore outlasts a round: it owns the memory of its class, a round waits for
//! it for a second at most, and what has ended by then is written. The next round goes on with the rest.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use fleetwright_core::cloud::{CloudError, Outlook, ProviderStep, Round};
use futures::FutureExt as _;
use futures::future::{BoxFuture, Either, select};
use futures::lock::Mutex;

use super::super::{AwsProvider, KnownClass};
use super::nodeclass::{AT_LEAST, ClassMemory, ClassReconciler};

/// How many EC2NodeClasses are begun at once, as many as Karpenter has workers. Those that outlasted their round do not count: at most
/// this many are added in a round, and no class has more than one.
const AT_ONCE: usize = 10;
/// How long a round waits for its reconciles.
const ROUND: Duration = Duration::from_secs(1);

/// Reconciles EC2NodeClasses.
pub(super) struct NodeClasses {
    reconciler: Arc<ClassReconciler>,
    provider: AwsProvider,
    work: Mutex<ClassWork>,
}

/// The classes by UID, each either at rest or being reconciled.
#[derive(Default)]
struct ClassWork {
    resting: BTreeMap<String, ClassMemory>,
    running: BTreeMap<String, BoxFuture<'static, (ClassMemory, Round)>>,
    /// The call for the cluster's description, while it has no answer.
    description: Option<BoxFuture<'static, ()>>,
}

impl ClassWork {
    /// Polls each running reconcile and adds what has ended to `whole`. One that panics is dropped, and its class begins afresh.
    fn poll(&mut self, cx: &mut Context<'_>, whole: &mut Round) {
        for (uid, mut reconcile) in std::mem::take(&mut self.running) {
            match reconcile.poll_unpin(cx) {
                Poll::Pending => drop(self.running.insert(uid, reconcile)),
                Poll::Ready((memory, round)) => {
                    self.resting.insert(uid, memory);
                    whole.again = whole.again.min(round.again);
                    whole.writes.extend(round.writes);
                    whole.notices.extend(round.notices);
                }
            }
        }
    }
}

impl NodeClasses {
    pub(super) fn new(provider: AwsProvider) -> Self {
        let reconciler = Arc::new(ClassReconciler::new(provider.clone()));
        Self { reconciler, provider, work: Mutex::default() }
    }

    /// Reads the cluster's description, if it is due: it comes before the classes, unless its call hangs.
    async fn describe(&self, work: &mut ClassWork) {
        let provider = self.provider.clone();
        let refresh = async move {
            provider.cluster.refresh(&*provider.api, &provider.problems, provider.clock.now()).await;
        };
        let description = work.description.take().unwrap_or_else(|| refresh.boxed());
        if let Either::Right((.., unanswered)) = select(description, self.provider.clock.sleep(ROUND)).await {
            work.description = Some(unanswered);
        }
    }

    /// Reconciles every class that is not being reconciled yet, for as long as a round may take.
    async fn reconcile(
        &self,
        work: &mut ClassWork,
        classes: BTreeMap<String, Arc<KnownClass>>,
        cluster_uid: &str,
        outlook: &Outlook,
    ) -> Round {
        let nodes_and_pools = Outlook::at(outlook.now).with_nodes(outlook.nodes.clone());
        let nodes_and_pools = Arc::new(nodes_and_pools.with_pools(outlook.pools.clone()));
        let begin = |class: Arc<KnownClass>, mut memory: ClassMemory| {
            let (reconciler, outlook) = (self.reconciler.clone(), nodes_and_pools.clone());
            let cluster_uid = cluster_uid.to_owned();
            async move {
                let round = reconciler.reconcile(&class.class, &outlook, &cluster_uid, &mut memory).await;
                (memory, round)
            }
            .boxed()
        };
        let most = work.running.len().saturating_add(AT_ONCE);
        let mut waiting: Vec<_> =
            classes.into_iter().filter(|(uid, _)| !work.running.contains_key(uid)).rev().collect();
        let mut whole = Round::quiet(AT_LEAST);
        let all = poll_fn(|cx| {
            loop {
                while work.running.len() < most
                    && let Some((uid, class)) = waiting.pop()
                {
                    let memory = work.resting.remove(&uid).unwrap_or_default();
                    work.running.insert(uid, begin(class, memory));
                }
                work.poll(cx, &mut whole);
                if waiting.is_empty() || work.running.len() >= most {
                    let ended = waiting.is_empty() && work.running.is_empty();
                    return if ended { Poll::Ready(()) } else { Poll::Pending };
                }
            }
        });
        let in_time = matches!(select(all, self.provider.clock.sleep(ROUND)).await, Either::Left(_));
        // A reconcile makes progress only during a round: the next one follows at once.
        whole.again = if in_time { whole.again.max(Duration::from_secs(1)) } else { Duration::ZERO };
        whole
    }
}

#[async_trait]
impl ProviderStep for NodeClasses {
    fn name(&self) -> &'static str {
        "nodeclass"
    }

    async fn run(&self, outlook: &Outlook) -> Result<Round, CloudError> {
        let mut work = self.work.lock().await;
        self.describe(&mut work).await;
        let Ok(all) = self.provider.classes.all() else { return Ok(Round::quiet(Duration::from_secs(1))) };
        if let Some(why) = self.provider.cluster.mismatch() {
            // Once the cluster's identity is proven, the stored status is the starting point.
            *work = ClassWork::default();
            return Ok(self.reconciler.mismatched(&all, &why, outlook.now));
        }
        let cluster_uid = self.provider.may_mutate()?;
        self.provider.catalogs.retain_classes(&all);
        let by_uid = |known: &Arc<KnownClass>| Some((known.class.metadata.uid.clone()?, known.clone()));
        let classes: BTreeMap<String, Arc<KnownClass>> = all.values().filter_map(by_uid).collect();
        work.resting.retain(|uid, _| classes.contains_key(uid));
        work.running.retain(|uid, _| classes.contains_key(uid));
        Ok(self.reconcile(&mut work, classes, &cluster_uid, outlook).await)
    }
}
