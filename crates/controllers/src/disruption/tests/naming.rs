//! Two leaders disrupt the same node.

use super::{
    limits::{decided, execution},
    *,
};

#[tokio::test(start_paused = true)]
async fn a_leader_that_was_replaced_does_not_rename_a_command() {
    let (harness, command) = decided(json!({})).await;
    // Its successor has named the node, which it has not seen.
    let record = json!({"id": "theirs", "method": "drift", "started": harness.ctx.clocks.now().to_string(),
        "replacements": 1, "nodes": 1});
    let mut old = claim(&harness, "old");
    old["metadata"]["annotations"] = json!({"fleetwright.dev/disruption-command": record.to_string()});
    harness.server.apply(old).unwrap();
    let started = execution(&harness).start(command).await;
    assert!(started.is_err(), "{started:?}");
    let stands = &claim(&harness, "old")["metadata"]["annotations"]["fleetwright.dev/disruption-command"];
    assert_eq!(stands.as_str(), Some(&*record.to_string()), "the successor's command stays");
    assert_eq!(replacements(&harness).len(), 0);
}
