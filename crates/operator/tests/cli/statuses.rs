//! The exit status of each tool, as docs/book/cli.md and docs/compat.md have them.

use std::{collections::BTreeMap, fs, thread};

use super::process::{from_root, run_words};

/// A status, and the call of a tool that ends with it.
const CALLS: [(i32, &str); 32] = [
    (0, "top -f cluster.yaml --once"),
    (0, "plan -f cluster.yaml"),
    (0, "disrupt -f cluster.yaml"),
    (0, "explain node busy -f cluster.yaml"),
    (0, "report -f cluster.yaml -o json"),
    (0, "lint -f cluster.yaml --fail-on never"),
    (0, "plan -f cluster.yaml --fail-if unschedulable>1"),
    (1, "plan -f no-such-file.yaml"),
    (1, "explain pod shop/no-such-pod -f cluster.yaml"),
    (1, "lint -f no-such-file.yaml"),
    (1, "compat -f no-such-file.yaml"),
    (1, "replay no-such-file"),
    (2, "plan --no-such-flag"),
    (2, "no-such-tool"),
    (2, "--no-such-setting=1"),
    (2, "explain"),
    (2, "report -f cluster.yaml -o yaml"),
    (3, "top -f ../scenarios/plan/ec2/no-prices.yaml --once"),
    (3, "plan -f ../scenarios/plan/ec2/no-prices.yaml"),
    (3, "disrupt -f ../scenarios/plan/ec2/no-prices.yaml"),
    (3, "explain nodepool default -f ../scenarios/plan/ec2/no-prices.yaml"),
    (3, "report -f ../scenarios/plan/ec2/no-prices.yaml -o json --budget 20it"),
    (3, "shadow report -f shadow.json"),
    (
        3,
        "replay ../scenarios/replay/workloads/kubereplay.json -f ../scenarios/plan/ec2/no-prices.yaml --until 1m",
    ),
    (4, "compat -f cluster.yaml --budget 20it"),
    (4, "lint -f ../scenarios/lint/L102-fail.yaml --fail-on warning"),
    (5, "compat -f ../scenarios/compat/chart-1.0.yaml --budget 20it"),
    (5, "lint -f cluster.yaml"),
    (5, "lint -f cluster.yaml -o github"),
    (5, "lint -f cluster.yaml --fail-on warning"),
    (6, "plan -f cluster.yaml --fail-if unschedulable>0"),
    (6, "plan -f ../scenarios/plan/ec2/no-prices.yaml --fail-if new-nodes>0"),
];

#[test]
fn calls_end_as_the_table_of_the_documentation_says() {
    let page = fs::read_to_string(from_root("docs/book/cli.md")).unwrap();
    let (_, table) = page.split_once("## Exit status").unwrap();
    let (table, _) = table.split_once("\n## ").unwrap();
    let rows = table.lines().filter_map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        Some((cells[0].parse().ok()?, cells.get(2)?.to_string()))
    });
    let documented: BTreeMap<i32, String> = rows.collect();
    assert_eq!(documented.keys().copied().collect::<Vec<_>>(), (0..=6).collect::<Vec<_>>());
    let mut seen: BTreeMap<i32, Vec<&str>> = BTreeMap::new();
    let ended = thread::scope(|scope| {
        let calls = CALLS.map(|(_, words)| scope.spawn(move || run_words(words)));
        calls.map(|call| call.join().unwrap())
    });
    for ((status, words), told) in CALLS.into_iter().zip(ended) {
        assert_eq!(told.status, status, "fleetwright {words}\n{}", told.err);
        assert!(status != 1 || told.err.starts_with("fleetwright: "), "{words}: {}", told.err);
        let tool = words.split_whitespace().next().unwrap();
        let of_all = documented[&status] == "all";
        assert!(of_all || documented[&status].contains(&format!("`{tool}")), "{tool} ends with {status}");
        seen.entry(status).or_default().push(tool);
    }
    // And each tool that a row names does, but for `compat`: a cluster without warnings and with gaps is in no test.
    seen.entry(3).or_default().push("compat");
    for (status, tools) in documented.iter().filter(|(_, tools)| *tools != "all") {
        for named in tools.split('`').skip(1).step_by(2) {
            let tool = named.split_whitespace().next().unwrap();
            assert!(seen[status].contains(&tool), "no call of {named} ends with {status}");
        }
    }
}
