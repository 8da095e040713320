//! Free addresses of subnets, minus those of launches in flight.

use std::collections::BTreeMap;

/// Free addresses by subnet. EC2's figures are minutes old; launches since then are subtracted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    reported: BTreeMap<String, i64>,
    held: BTreeMap<String, i64>,
}

impl Addresses {
    /// Replaces the figures by those that EC2 reports now, which include all launches until now.
    pub fn refresh(&mut self, reported: impl IntoIterator<Item = (String, i64)>) {
        for (subnet, free) in reported {
            self.held.remove(&subnet);
            self.reported.insert(subnet, free);
        }
    }

    /// The known free addresses; 0 for a subnet that was never reported.
    #[must_use]
    pub fn free(&self, subnet: &str) -> i64 {
        let reported = self.reported.get(subnet).copied().unwrap_or(0);
        reported.saturating_sub(self.held.get(subnet).copied().unwrap_or(0))
    }

    /// The subnet with the most free addresses; among equals the first by name.
    #[must_use]
    pub fn roomiest<'a>(&self, subnets: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
        let best = |a: &&str, b: &&str| self.free(a).cmp(&self.free(b)).then_with(|| b.cmp(a));
        subnets.into_iter().max_by(best)
    }

    /// Reserves addresses.
    pub fn hold(&mut self, subnet: &str, count: i64) {
        let held = self.held.entry(subnet.to_owned()).or_default();
        *held = held.saturating_add(count.max(0));
    }

    /// Releases addresses that a launch did not use.
    pub fn release(&mut self, subnet: &str, count: i64) {
        if let Some(held) = self.held.get_mut(subnet) {
            *held = held.saturating_sub(count.max(0)).max(0);
        }
    }

    /// Records that a subnet has no free addresses.
    pub fn exhausted(&mut self, subnet: &str) {
        self.reported.insert(subnet.to_owned(), 0);
        self.held.remove(subnet);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_count_until_ec2_reports_again() {
        let mut addresses = Addresses::default();
        addresses.refresh([("a".to_owned(), 100), ("b".to_owned(), 90)]);
        assert_eq!(addresses.roomiest(["a", "b"]), Some("a"));
        addresses.hold("a", 29);
        assert_eq!(addresses.roomiest(["a", "b"]), Some("b"));
        addresses.release("a", 40);
        assert_eq!((addresses.free("a"), addresses.roomiest(["b", "a"])), (100, Some("a")));
        addresses.exhausted("a");
        assert_eq!(addresses.roomiest(["a", "b"]), Some("b"));
        addresses.refresh([("a".to_owned(), 90)]);
        assert_eq!(addresses.roomiest(["b", "a"]), Some("a"), "among equals the first");
        assert_eq!(addresses.roomiest([]), None);
    }
}
