//! What real nodes taught about machines: memory and CPU of an instance type with an image.
//!
//! EC2 advertises what the hypervisor is given; how much of it the kubelet reports depends on the machine and on the image's
//! kernel. The first launch of a pair goes by an estimate, later ones by what nodes reported. The least of the last
//! [`WITNESSES`] nodes counts, so that one lucky node promises nothing; it may be above the estimate or below.
//!
//! Storage and pods are not learnt: they follow from the node class, and classes share images.

use std::collections::{BTreeMap, VecDeque};

use fleetwright_core::model::Resources;

/// How many nodes of a pair are remembered.
const WITNESSES: usize = 8;
/// How many pairs are remembered: beyond that, the ones that nobody confirmed for longest go.
const PAIRS_MAX: usize = 20_000;

/// What nodes of one instance type and image reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Pair {
    /// The nodes, oldest first, with CPU in milli and memory in bytes.
    witnesses: VecDeque<(String, i64, i64)>,
    /// When the pair was last confirmed, in the order of observations.
    confirmed: u64,
}

/// Learnt capacities by instance type and image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Learnt {
    pairs: BTreeMap<(String, String), Pair>,
    observations: u64,
    version: u64,
}

impl Learnt {
    /// Takes note of what a registered node reports. Returns whether what is known has changed.
    pub fn observe(&mut self, instance_type: &str, image: &str, node: &str, reported: &Resources) -> bool {
        if reported.memory() <= 0 || reported.cpu() <= 0 || image.is_empty() {
            return false;
        }
        let told = (node.to_owned(), reported.cpu(), reported.memory());
        let key = (instance_type.to_owned(), image.to_owned());
        if self.pairs.get(&key).is_some_and(|pair| pair.witnesses.contains(&told)) {
            // A node that says again what it said pushes no other out.
            return false;
        }
        let before = self.known(instance_type, image);
        self.observations += 1;
        let pair = self.pairs.entry(key).or_default();
        pair.confirmed = self.observations;
        // What a process before this one knew yields to the first live node.
        pair.witnesses.retain(|(known, ..)| known != node && !known.is_empty());
        pair.witnesses.push_back(told);
        if pair.witnesses.len() > WITNESSES {
            pair.witnesses.pop_front();
        }
        if self.pairs.len() > PAIRS_MAX {
            let oldest = self.pairs.iter().min_by_key(|(_, pair)| pair.confirmed).map(|(key, _)| key.clone());
            if let Some(oldest) = oldest {
                self.pairs.remove(&oldest);
            }
        }
        let changed = self.known(instance_type, image) != before;
        self.version += u64::from(changed);
        changed
    }

    /// CPU in milli and memory in bytes that nodes of the pair report, the least of those remembered.
    #[must_use]
    pub fn known(&self, instance_type: &str, image: &str) -> Option<(i64, i64)> {
        let pair = self.pairs.get(&(instance_type.to_owned(), image.to_owned()))?;
        let cpu = pair.witnesses.iter().map(|(_, cpu, _)| *cpu).min()?;
        let memory = pair.witnesses.iter().map(|(.., memory)| *memory).min()?;
        Some((cpu, memory))
    }

    /// Forgets images that no class uses any more; all others keep what they taught.
    pub fn retain_images(&mut self, in_use: impl Fn(&str) -> bool) {
        let before = self.pairs.len();
        self.pairs.retain(|(_, image), _| in_use(image));
        self.version += u64::from(self.pairs.len() != before);
    }

    /// Changes whenever what is known changes.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// What is known as text, one line per pair: for an annotation that survives the process.
    #[must_use]
    pub fn to_text(&self) -> String {
        self.text_of(|_| true, usize::MAX)
    }

    /// What is known of some images, as [`Learnt::to_text`] has it, whole lines up to a length.
    #[must_use]
    pub fn text_of(&self, of: impl Fn(&str) -> bool, bytes_max: usize) -> String {
        let mut text = String::new();
        for (instance_type, image) in self.pairs.keys().filter(|(_, image)| of(image)) {
            let Some((cpu, memory)) = self.known(instance_type, image) else { continue };
            let line = format!("{instance_type} {image} {cpu} {memory}\n");
            if text.len() + line.len() > bytes_max {
                break;
            }
            text.push_str(&line);
        }
        text
    }

    /// Takes over what an earlier process knew; lines that make no sense are passed over, and live nodes correct the rest.
    pub fn restore(&mut self, text: &str) {
        for line in text.lines().take(PAIRS_MAX) {
            let words: Vec<&str> = line.split(' ').collect();
            let [instance_type, image, cpu, memory] = words.as_slice() else { continue };
            if self.known(instance_type, image).is_some() {
                continue;
            }
            if let (Ok(cpu), Ok(memory)) = (cpu.parse(), memory.parse()) {
                self.observe(instance_type, image, "", &Resources::of(cpu, memory));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! What is learnt, and what a change of image forgets.
    use super::*;

    const GI: i64 = 1 << 30;

    #[test]
    fn the_least_of_the_last_nodes_counts_up_and_down() {
        let mut learnt = Learnt::default();
        assert_eq!(learnt.known("m5.large", "ami-1"), None);
        assert!(learnt.observe("m5.large", "ami-1", "a", &Resources::of(2000, 8 * GI)));
        assert!(!learnt.observe("m5.large", "ami-1", "b", &Resources::of(2000, 9 * GI)), "one lucky node");
        assert!(learnt.observe("m5.large", "ami-1", "c", &Resources::of(2000, 7 * GI)));
        assert_eq!(learnt.known("m5.large", "ami-1"), Some((2000, 7 * GI)));
        let version = learnt.version();
        for node in 0..WITNESSES {
            learnt.observe("m5.large", "ami-1", &format!("new-{node}"), &Resources::of(2000, 10 * GI));
        }
        assert_eq!(learnt.known("m5.large", "ami-1"), Some((2000, 10 * GI)), "raised as well");
        assert!(learnt.version() > version);
    }

    #[test]
    fn images_are_apart() {
        let mut learnt = Learnt::default();
        learnt.observe("m5.large", "ami-1", "a", &Resources::of(2000, 8 * GI));
        learnt.observe("m5.large", "ami-2", "b", &Resources::of(2000, 6 * GI));
        learnt.retain_images(|image| image != "ami-1");
        assert_eq!(learnt.known("m5.large", "ami-1"), None);
        assert_eq!(learnt.known("m5.large", "ami-2"), Some((2000, 6 * GI)));
    }

    #[test]
    fn survives_a_restart_and_bad_text() {
        let mut learnt = Learnt::default();
        learnt.observe("m5.large", "ami-1", "a", &Resources::of(2000, 8 * GI));
        learnt.observe("c5.large", "ami-1", "b", &Resources::of(2000, 4 * GI));
        let mut again = Learnt::default();
        again.restore(&format!("nonsense\nx y z\nm5 ami -1 w\n{}", learnt.to_text()));
        assert_eq!(again.to_text(), learnt.to_text());
        assert!(!again.observe("m5.large", "", "c", &Resources::of(1, 1)), "no image, nothing to learn");
        assert!(!again.observe("m5.large", "ami-1", "c", &Resources::new()), "a node that reports nothing");
    }
}
