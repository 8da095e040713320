//! The report in its forms, and where the instance types come from.

use std::sync::Arc;

use fleetwright_controllers::shadow::{InstanceTypeSource as _, Journal};
use fleetwright_core::{
    model::{Currency, Price},
    shadow::{
        Agreement, BatchComparison, ClaimGroup, CommandSummary, DifferenceReason, DisruptionAgreement,
        DisruptionComparison, PodOutcomes,
    },
    testing::pool,
};
use fleetwright_fake_kube::{Config, Server};
use jiff::Timestamp;
use serde_json::json;

use super::{html::Page, report::ShadowReport, source::CatalogueSource, table::Table, tool::parse, *};
use crate::{
    catalogue::{Catalogues, SourceRow},
    lab::FakeCatalogue,
    scenarios,
};

fn group(instance_type: &str, nanos: i64, count: usize) -> ClaimGroup {
    ClaimGroup {
        pool: "default".into(),
        instance_type: instance_type.into(),
        zone: "us-east-1a".into(),
        capacity_type: "spot".into(),
        price: Some(Price::from_nanos(nanos)),
        count,
        pods: 2,
    }
}

/// A report of two batches: one in which we are cheaper, one that existing nodes took.
fn report() -> ShadowReport {
    let at = |second: i64| Timestamp::from_second(1_750_000_000 + second).unwrap();
    let mut journal = Journal::new(at(0));
    let batch = |number, agreement| BatchComparison {
        number,
        opened: at(10),
        closed: at(70),
        pods: 4,
        karpenter: Vec::new(),
        karpenter_pods: PodOutcomes { existing: 4, ..PodOutcomes::default() },
        ours: Vec::new(),
        our_pods: PodOutcomes { existing: 4, ..PodOutcomes::default() },
        agreement,
        reasons: Vec::new(),
    };
    let new = PodOutcomes { new: 4, ..PodOutcomes::default() };
    journal.add_batch(BatchComparison {
        karpenter: vec![group("m<5>.large", 80_000_000, 2)],
        karpenter_pods: new,
        ours: vec![group("m5.xlarge", 120_000_000, 1)],
        our_pods: new,
        reasons: vec![DifferenceReason::FewerNodeClaims(1), DifferenceReason::CloudChoice],
        ..batch(1, Agreement::OursCheaper)
    });
    journal.add_batch(batch(2, Agreement::Same));
    journal.add_disruption(DisruptionComparison {
        began: at(80),
        karpenter: Some(CommandSummary {
            reason: "Underutilized".into(),
            claims: ["n1".into(), "n2".into()].into(),
            nodes: vec![group("m5.large", 80_000_000, 2)],
            replacements: vec![group("m5.xlarge", 120_000_000, 1)],
        }),
        ours: Vec::new(),
        agreement: DisruptionAgreement::OnlyKarpenter,
        reasons: vec![("n1".into(), "pod <a> has do-not-disrupt".into())],
    });
    let sources =
        vec![SourceRow { node_pools: vec!["default".into()], source: "EC2, 2026-01".into(), priced: true }];
    let gaps = vec!["no prices of eu-west-9".into()];
    ShadowReport::new(&journal, at(100), (sources, gaps), Currency::USD)
}

#[test]
fn tables_show_both_sides() {
    let text = Table(&report()).to_string();
    let lines: Vec<String> =
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        lines,
        [
            "BATCH OPENED PODS KARPENTER $/H FLEETWRIGHT $/H AGREEMENT REASONS",
            "1 2025-06-15T15:06:50Z 4 2 m<5>.large/us-east-1a/spot 0.16 1 m5.xlarge/us-east-1a/spot 0.12 ours-cheaper our \
             plan has 1 NodeClaims fewer; Karpenter's NodeClaims allow our instance types; the cloud chose others",
            "2 2025-06-15T15:06:50Z 4 existing nodes 0 existing nodes 0 same",
            "",
            "DISRUPTION KARPENTER FLEETWRIGHT AGREEMENT NOT PROPOSED",
            "2025-06-15T15:08:00Z Underutilized: 2 m5.large/us-east-1a/spot ($0.16) to 1 m5.xlarge/us-east-1a/spot ($0.12) none \
             only-karpenter n1: pod <a> has do-not-disrupt",
            "",
            "2025-06-15T15:06:40Z to 2025-06-15T15:08:20Z: 2 batches of 8 pods: 1 ours-cheaper, 1 same",
            "Karpenter: 2 NodeClaims, $0.16 per hour",
            "Fleetwright: 1 NodeClaims, $0.12 per hour",
            "saving: 25.0 %",
            "disruption: 1 only-karpenter",
            "incomplete: no prices of eu-west-9",
            "catalogue: EC2, 2026-01",
        ]
    );
}

#[test]
fn pages_escape_what_objects_say() {
    let page = Page(&report()).to_string();
    assert!(page.contains("2 m&lt;5&gt;.large/us-east-1a/spot") && !page.contains("m<5>"), "{page}");
    assert!(page.contains("<td>n1: pod &lt;a&gt; has do-not-disrupt</td>"), "{page}");
    assert!(page.contains("<p>Saving: 25.0 %.</p>") && page.ends_with("</body></html>\n"), "{page}");
    // Nothing is fetched from elsewhere, and nothing runs.
    assert!(!page.contains("src=") && !page.contains("<script") && !page.contains("http"), "{page}");
}

#[test]
fn a_report_is_read_as_it_was_written() {
    let written = serde_json::to_string(&report()).unwrap();
    assert_eq!(serde_json::to_string(&parse(&written).unwrap()).unwrap(), written);
    let refusal = |text: &str| format!("{:#}", parse(text).unwrap_err());
    assert!(refusal("nonsense").starts_with("this is not a report of shadow mode"));
    assert_eq!(refusal("{}"), "the report has version none; this binary reads version 1");
    assert_eq!(refusal(r#"{"version": 9}"#), "the report has version 9; this binary reads version 1");
    assert!(refusal(r#"{"version": 1}"#).contains("missing field `since`"));
}

#[test]
fn the_schema_is_documented() {
    scenarios::check_schema::<ShadowReport>("shadow.schema.json");
}

#[tokio::test]
async fn instance_types_come_from_the_catalogue_of_the_clusters_node_pools() {
    let server = Server::new(Config::new(Arc::new(|| Timestamp::UNIX_EPOCH), 7));
    for crd in fleetwright_api::crd::kwok() {
        server.apply(serde_json::to_value(crd).unwrap()).unwrap();
    }
    let connect = || {
        let client = ReadOnlyClient::new(kube::Client::new(server.service(), "default"));
        let values = Values::resolve(&std::collections::BTreeMap::new(), |_| None).unwrap();
        CatalogueSource::connect(
            client,
            Catalogues::default().with(FakeCatalogue),
            values,
            Arc::new(SystemClock),
        )
    };
    let refused = connect().await.err().unwrap().to_string();
    assert!(refused.contains("the cluster has no NodePool"), "{refused}");
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    server
        .apply(json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}}))
        .unwrap();
    server
        .apply(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
            "spec": {"template": {"spec": {"nodeClassRef": class, "requirements": []}}},
        }))
        .unwrap();
    let source = connect().await.unwrap();
    assert_eq!(source.info().node_classes.len(), 1);
    assert!(!source.catalog(&pool("default").build()).await.unwrap().instance_types.is_empty());
    assert!(source.catalog(&pool("other").build()).await.unwrap_err().to_string().contains("NodePool other"));
    assert!(source.provenance().0[0].source.contains("kwok"));
}

/// The report that `tests/cli/` prints in each format.
#[test]
fn the_report_of_the_golden_outputs_is_this_one() {
    let text = serde_json::to_string_pretty(&report()).unwrap() + "\n";
    scenarios::check_file("tests/cli/shadow.json", &text);
}
