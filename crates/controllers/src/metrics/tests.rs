//! The exposition text.

use super::*;

const CREATED: Family = Family::counter("karpenter_x_total", &["nodepool"], "Things created");
const DEPTH: Family = Family::gauge("karpenter_depth", &["controller", "id"], "Depth");
const LIFETIME: Family = Family::summary("karpenter_life_seconds", &["nodepool"], "Life");
const TOOK: Family = Family::histogram("karpenter_took_seconds", &[], &[1.0, 2.0], "Took");

#[test]
fn text_format() {
    let metrics = Metrics::default();
    metrics.inc(&CREATED, &["b"]);
    metrics.inc(&CREATED, &["a"]);
    metrics.add(&CREATED, &["a"], 2.0);
    metrics.set(&DEPTH, &["c", "1"], 4.0);
    metrics.set(&DEPTH, &["c", "2"], 5.0);
    metrics.remove(&DEPTH, &["c", "1"]);
    metrics.observe(&LIFETIME, &["a"], 10.0);
    metrics.observe(&TOOK, &[], 1.5);
    let expected = r#"# HELP karpenter_depth Depth
# TYPE karpenter_depth gauge
karpenter_depth{controller="c",id="2"} 5
# HELP karpenter_life_seconds Life
# TYPE karpenter_life_seconds summary
karpenter_life_seconds{nodepool="a",quantile="0"} 10
karpenter_life_seconds{nodepool="a",quantile="0.5"} 10
karpenter_life_seconds{nodepool="a",quantile="0.9"} 10
karpenter_life_seconds{nodepool="a",quantile="0.99"} 10
karpenter_life_seconds{nodepool="a",quantile="1"} 10
karpenter_life_seconds_sum{nodepool="a"} 10
karpenter_life_seconds_count{nodepool="a"} 1
# HELP karpenter_took_seconds Took
# TYPE karpenter_took_seconds histogram
karpenter_took_seconds_bucket{le="1"} 0
karpenter_took_seconds_bucket{le="2"} 1
karpenter_took_seconds_bucket{le="+Inf"} 1
karpenter_took_seconds_sum 1.5
karpenter_took_seconds_count 1
# HELP karpenter_x_total Things created
# TYPE karpenter_x_total counter
karpenter_x_total{nodepool="a"} 3
karpenter_x_total{nodepool="b"} 1
"#;
    assert_eq!(metrics.encode().unwrap(), expected);
}

#[test]
fn replace_removes_all_other_series() {
    let metrics = Metrics::default();
    metrics.set(&DEPTH, &["c", "1"], 4.0);
    metrics.replace(&DEPTH, [(vec!["c".to_owned(), "2".to_owned()], 1.0)]);
    assert!(!metrics.encode().unwrap().contains("id=\"1\""));
    assert_eq!(metrics.value(&DEPTH, &["c", "2"]), 1.0);
}

#[test]
fn a_scrape_during_replace_sees_what_stays() {
    let metrics = Metrics::default();
    let series = |ids: [&str; 2]| ids.map(|id| (vec!["c".to_owned(), id.to_owned()], 1.0));
    metrics.replace(&DEPTH, series(["1", "2"]));
    let scraped = |series: (Vec<String>, f64)| {
        assert!(metrics.encode().unwrap().contains("id=\"2\""));
        series
    };
    metrics.replace(&DEPTH, series(["2", "3"]).into_iter().map(scraped));
    assert!(!metrics.encode().unwrap().contains("id=\"1\""));
}
