//! Whole worlds, small: load comes, nodes come; load goes, nodes go; and the same again, byte by byte.

use std::sync::Mutex;

use super::*;

const NODEPOOL: &str = include_str!("../../../../examples/nodepool.yaml");
const DAEMON: &str = include_str!("../../../../examples/daemonset.yaml");
const WEB: &str = include_str!("../../../../examples/web.yaml");

fn config(seed: u64) -> WorldConfig {
    WorldConfig::new(seed, "2026-01-01T00:00:00Z".parse().unwrap())
}

#[test]
fn load_brings_nodes_and_its_end_takes_them_away() {
    virtual_runtime().unwrap().block_on(async {
        let world = World::new(config(1)).await.unwrap();
        for yaml in [NODEPOOL, DAEMON, WEB] {
            world.apply(yaml).unwrap();
        }
        world.run_for(Duration::from_secs(600)).await;
        let seen = world.observe();
        assert_eq!(seen.pods.pending, 0, "{seen:#?}");
        assert!(seen.pods.running >= 6 && !seen.nodes.is_empty(), "{seen:#?}");
        assert!(seen.hourly > fleetwright_core::model::Price::ZERO);
        let none = serde_json::json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "web", "namespace": "default" }, "spec": { "replicas": 0 },
        });
        world.apply_object(none).unwrap();
        assert!(matches!(world.run_until_settled(Duration::from_secs(3600)).await, Settled::Since(_)));
        let seen = world.observe();
        assert!(seen.nodes.is_empty(), "{seen:#?}");
    });
}

#[test]
fn one_seed_is_one_history() {
    let run = || {
        let log = Arc::new(Mutex::new(Vec::new()));
        let written = log.clone();
        virtual_runtime().unwrap().block_on(async {
            let mut config = config(7);
            config.audit = Some(Arc::new(move |request, code| {
                if !matches!(request.verb.as_str(), "get" | "list" | "watch") {
                    written.lock().unwrap().push(format!("{code} {request:?}"));
                }
            }));
            let world = World::new(config).await.unwrap();
            for yaml in [NODEPOOL, DAEMON, WEB] {
                world.apply(yaml).unwrap();
            }
            world.run_for(Duration::from_secs(300)).await;
        });
        Arc::into_inner(log).unwrap().into_inner().unwrap()
    };
    let (one, two) = (run(), run());
    assert!(one.len() > 50, "{}", one.len());
    for (at, (a, b)) in one.iter().zip(&two).enumerate() {
        assert_eq!(a, b, "write {at}");
    }
    assert_eq!(one.len(), two.len());
}
