//! Figures that EC2's API does not report: baseline bandwidth, the limits of the VPC resource controller, and the baseline of burstable
//! types.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use fleetwright_aws_api::labels;
use fleetwright_core::model::Baseline;

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

/// Baseline utilization per vCPU of burstable types in thousandths, as "CPU credits and baseline utilization for burstable performance
/// instances" in EC2's user guide has it: a credit is a vCPU for a minute, so that it is the credits per hour over 60 and the vCPUs.
const BASELINES: [(&str, &[(&str, u16)]); 4] = [
    (
        "t2",
        &[
            ("nano", 50),
            ("micro", 100),
            ("small", 200),
            ("medium", 200),
            ("large", 300),
            ("xlarge", 225),
            ("2xlarge", 170),
        ],
    ),
    ("t3", NITRO_BASELINES),
    ("t3a", NITRO_BASELINES),
    ("t4g", NITRO_BASELINES),
];

/// Those of T3, T3a and T4g.
const NITRO_BASELINES: &[(&str, u16)] = &[
    ("nano", 50),
    ("micro", 100),
    ("small", 200),
    ("medium", 200),
    ("large", 300),
    ("xlarge", 400),
    ("2xlarge", 400),
];

/// What a burstable type may use of its CPUs all the time; `None` for all other types.
#[must_use]
pub fn baseline(instance_type: &str) -> Option<Baseline> {
    let (family, size) = instance_type.split_once('.')?;
    let (_, sizes) = BASELINES.iter().find(|(known, _)| *known == family)?;
    let (_, permille) = sizes.iter().find(|(known, _)| *known == size)?;
    Baseline::new(*permille, &[labels::INSTANCE_FAMILY, labels::INSTANCE_CATEGORY])
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
    fn burstable_types_have_a_baseline() {
        let of = |name: &str| baseline(name).map(Baseline::permille);
        let expected = [("t4g.micro", 100), ("t3.large", 300), ("t3a.2xlarge", 400), ("t2.2xlarge", 170)];
        for (name, permille) in expected {
            assert_eq!(of(name), Some(permille), "{name}");
        }
        assert!(["m5.large", "t3.huge", "t9"].into_iter().all(|name| of(name).is_none()));
    }

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
