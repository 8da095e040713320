//! Small simulators: nodes follow the load, and two runs are byte-identical.

mod neighbor;

use std::sync::Mutex;

use super::*;

const NODEPOOL: &str = include_str!("../../../../examples/nodepool.yaml");
const DAEMON: &str = include_str!("../../../../examples/daemonset.yaml");
const WEB: &str = include_str!("../../../../examples/web.yaml");

fn config(seed: u64) -> SimulatorConfig {
    SimulatorConfig::new(seed, "2026-01-01T00:00:00Z".parse().unwrap())
}

#[test]
fn nodes_follow_the_load() {
    virtual_runtime().unwrap().block_on(async {
        let simulator = Simulator::new(config(1)).await.unwrap();
        for yaml in [NODEPOOL, DAEMON, WEB] {
            simulator.apply(yaml).unwrap();
        }
        simulator.run_for(Duration::from_secs(600)).await;
        let seen = simulator.observe();
        assert_eq!(seen.pods.pending, 0, "{seen:#?}");
        assert!(seen.pods.running >= 6 && !seen.nodes.is_empty(), "{seen:#?}");
        assert!(seen.hourly > fleetwright_core::model::Price::ZERO);
        let none = serde_json::json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "web", "namespace": "default" }, "spec": { "replicas": 0 },
        });
        simulator.apply_object(none).unwrap();
        assert!(matches!(simulator.run_until_stable(Duration::from_secs(3600)).await, Stability::Since(_)));
        let seen = simulator.observe();
        assert!(seen.nodes.is_empty(), "{seen:#?}");
    });
}

#[test]
fn runs_with_one_seed_are_identical() {
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
            let simulator = Simulator::new(config).await.unwrap();
            for yaml in [NODEPOOL, DAEMON, WEB] {
                simulator.apply(yaml).unwrap();
            }
            simulator.run_for(Duration::from_secs(300)).await;
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
