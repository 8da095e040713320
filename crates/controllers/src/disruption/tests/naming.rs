//! Two leaders disrupt the same node.

use super::{
    limits::{decided, execution},
    *,
};

#[tokio::test(start_paused = true)]
async fn a_former_leader_does_not_overwrite_a_record() {
    let (harness, command) = decided(json!({})).await;
    // The new leader has recorded its command on the node; the former leader has not observed that.
    let record = json!({"id": "theirs", "method": "drift", "started": harness.ctx.clocks.now().to_string(),
        "replacements": 1, "nodes": 1});
    let mut old = claim(&harness, "old");
    old["metadata"]["annotations"] = json!({"fleetwright.dev/disruption-command": record.to_string()});
    harness.server.apply(old).unwrap();
    let started = execution(&harness).start(command, &crate::runtime::decisions::Decided::unrecorded()).await;
    assert!(started.is_err(), "{started:?}");
    let record_now = &claim(&harness, "old")["metadata"]["annotations"]["fleetwright.dev/disruption-command"];
    assert_eq!(
        record_now.as_str(),
        Some(&*record.to_string()),
        "the record of the new leader is not overwritten"
    );
    assert_eq!(replacements(&harness).len(), 0);
}
