//! The index converges, however the events of one history arrive (late, twice, with gaps).

use proptest::prelude::*;

use super::*;

/// What happens to an object at the API server.
#[derive(Clone, Debug)]
enum ServerChange {
    Pod { name: u8, node: u8 },
    Claim { name: u8, instance: u8 },
    Node { name: u8, registered: bool },
    DeletePod { name: u8 },
    DeleteClaim { name: u8 },
    DeleteNode { name: u8 },
}

/// Watch events of it.
#[derive(Clone, Debug)]
enum News {
    Pod(KubePod),
    Claim(api::NodeClaim),
    Node(Node),
    PodGone(KubePod),
    ClaimGone(api::NodeClaim),
    NodeGone(Node),
}

impl News {
    fn key(&self) -> (u8, String) {
        let name =
            |meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta| meta.name.clone().unwrap();
        match self {
            Self::Pod(pod) | Self::PodGone(pod) => (0, name(&pod.metadata)),
            Self::Claim(claim) | Self::ClaimGone(claim) => (1, name(&claim.metadata)),
            Self::Node(node) | Self::NodeGone(node) => (2, name(&node.metadata)),
        }
    }

    fn reach(self, index: &mut Index) {
        let _ = match self {
            Self::Pod(pod) => index.apply(pod),
            Self::Claim(claim) => index.apply(claim),
            Self::Node(node) => index.apply(node),
            Self::PodGone(pod) => index.delete(&pod),
            Self::ClaimGone(claim) => index.delete(&claim),
            Self::NodeGone(node) => index.delete(&node),
        };
    }
}

fn steps() -> impl Strategy<Value = Vec<ServerChange>> {
    let name = 0..3_u8;
    let step = prop_oneof![
        3 => (name.clone(), 0..4_u8).prop_map(|(name, node)| ServerChange::Pod { name, node }),
        3 => (name.clone(), 0..4_u8).prop_map(|(name, instance)| ServerChange::Claim { name, instance }),
        3 => (name.clone(), any::<bool>()).prop_map(|(name, registered)| ServerChange::Node { name, registered }),
        1 => name.clone().prop_map(|name| ServerChange::DeletePod { name }),
        1 => name.clone().prop_map(|name| ServerChange::DeleteClaim { name }),
        1 => name.prop_map(|name| ServerChange::DeleteNode { name }),
    ];
    proptest::collection::vec(step, 1..30)
}

fn history(steps: &[ServerChange]) -> Vec<News> {
    let host = |n: u8| if n == 3 { String::new() } else { format!("n{n}") };
    let instance = |n: u8| if n == 3 { String::new() } else { format!("fake://n{n}") };
    let news = |(at, step): (usize, &ServerChange)| {
        let version = u64::try_from(at).unwrap() + 1;
        match step {
            ServerChange::Pod { name, node } => News::Pod(pod(&format!("p{name}"), version, &host(*node))),
            ServerChange::Claim { name, instance: id } => {
                News::Claim(claim(&format!("c{name}"), version, &instance(*id), "default/p0:uid-p0"))
            }
            ServerChange::Node { name, registered } => {
                let mut node = node(&format!("n{name}"), version);
                // A registered node has the name of its Node.
                let on_it = node.metadata.labels.get_or_insert_default();
                on_it.insert(labels::REGISTERED.to_owned(), registered.to_string());
                News::Node(node)
            }
            ServerChange::DeletePod { name } => News::PodGone(pod(&format!("p{name}"), version, "")),
            ServerChange::DeleteClaim { name } => {
                News::ClaimGone(claim(&format!("c{name}"), version, "", ""))
            }
            ServerChange::DeleteNode { name } => News::NodeGone(node(&format!("n{name}"), version)),
        }
    };
    steps.iter().enumerate().map(news).collect()
}

/// Everything in a snapshot that a decision could notice.
fn content(index: &mut Index) -> String {
    let snapshot = index.snapshot(at(0));
    format!("{:#?}", (&snapshot.nodes, &snapshot.pending, &snapshot.unscheduled, &snapshot.nominated))
}

proptest! {
    #[test]
    fn any_delivery_ends_the_same(
        steps in steps(),
        order in any::<proptest::sample::Index>().prop_perturb(|_, rng| rng),
        looks in any::<u64>(),
    ) {
        let events = history(&steps);
        let mut straight = index();
        straight.set_catalog(&"default".into(), Some(catalog()));
        for news in &events {
            news.clone().reach(&mut straight);
        }

        // The last news of each object arrives; earlier ones may be lost; any may come twice, in any order.
        let mut rng = order;
        let mut crooked: Vec<News> = Vec::new();
        for (at, news) in events.iter().enumerate() {
            let is_last = events[at + 1..].iter().all(|later| later.key() != news.key());
            if is_last || rng.random_bool(0.6) {
                crooked.push(news.clone());
            }
            if rng.random_bool(0.3) {
                crooked.push(news.clone());
            }
        }
        for at in (1..crooked.len()).rev() {
            crooked.swap(at, rng.random_range(0..=at));
        }
        let mut other = index();
        for (at, news) in crooked.into_iter().enumerate() {
            news.reach(&mut other);
            if looks >> (at % 64) & 1 == 1 {
                let _ = other.snapshot(super::at(0));
            }
        }
        other.set_catalog(&"default".into(), Some(catalog()));
        prop_assert_eq!(content(&mut straight), content(&mut other));
    }
}
