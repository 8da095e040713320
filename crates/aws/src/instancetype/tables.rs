//! Figures that EC2's API does not report: baseline bandwidth and the limits of the VPC resource controller.

use std::collections::BTreeMap;
use std::sync::OnceLock;

/// The figures, one line per type; taken from EC2's documentation and the VPC resource controller's table of limits.
const FILE: &str = include_str!("../../data/network.txt");

/// The table's figures of an instance type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkFigures {
    /// Baseline bandwidth in Mbit/s.
    pub bandwidth_mbps: Option<i64>,
    /// IPv4 addresses of each interface.
    pub ipv4_per_interface: Option<i64>,
    /// Branch interfaces, if the type supports trunking.
    pub branch_interfaces: Option<i64>,
}

/// The figures of an instance type; all `None` if the table does not have it.
#[must_use]
pub fn network(instance_type: &str) -> NetworkFigures {
    static TABLE: OnceLock<BTreeMap<&'static str, NetworkFigures>> = OnceLock::new();
    let table = TABLE.get_or_init(|| FILE.lines().filter_map(line).collect());
    table.get(instance_type).copied().unwrap_or_default()
}

fn line(line: &'static str) -> Option<(&'static str, NetworkFigures)> {
    if line.starts_with('#') {
        return None;
    }
    let mut words = line.split(' ');
    let name = words.next()?;
    let mut figure = || words.next().and_then(|word| word.parse().ok());
    let (bandwidth_mbps, ipv4_per_interface, branch_interfaces) = (figure(), figure(), figure());
    Some((name, NetworkFigures { bandwidth_mbps, ipv4_per_interface, branch_interfaces }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole() {
        let lines = FILE.lines().filter(|text| !text.starts_with('#'));
        for text in lines {
            let words: Vec<&str> = text.split(' ').collect();
            assert_eq!(words.len(), 4, "{text}");
            assert!(words[1..].iter().all(|word| *word == "-" || word.parse::<i64>().is_ok()), "{text}");
        }
        let m5 = NetworkFigures {
            bandwidth_mbps: Some(750),
            ipv4_per_interface: Some(10),
            branch_interfaces: Some(9),
        };
        assert_eq!(network("m5.large"), m5);
        assert_eq!(network("m99.large"), NetworkFigures::default());
    }
}
