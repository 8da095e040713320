//! Observed capacity: the figures that nodes report, by instance type and image.
//!
//! A cloud reports the memory of the instance; how much of it the kubelet reports depends on the instance and on the image's kernel. The
//! first launch of a pair uses an estimate, later ones the figures of its nodes. The minimum over the [`WITNESSES`] youngest nodes is
//! used, so that one node with more memory promises nothing; it may be above or below the estimate. The youngest are those with the
//! latest creation of their NodeClaims, not the last observed: repeated observations change nothing.
//!
//! CPU and memory depend on the instance and the image only. Storage, pods and devices depend on the NodeClass as well, and
//! NodeClasses share images: such a figure is stored with its prediction. Two NodeClasses with volumes of different sizes have
//! different predictions and never mix; two with equal predictions share their observations. A resource that a node does not report is
//! not observed: the device plugin may not have started yet, and an observed zero could never be corrected, because nothing would be
//! launched for it any more. Resources that the catalogue does not describe belong to their device plugins and are described by
//! NodeOverlays.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::model::{
    instance_type::Prediction,
    resources::{ResourceName, Resources},
};

/// Most nodes that are stored per figure.
const WITNESSES: usize = 8;
/// Most stored pairs: beyond that, the least recently confirmed are dropped.
const PAIRS_MAX: usize = 20_000;
/// Most stored figures of a pair, over all predictions; the least recently confirmed are dropped.
const FIGURES_MAX: usize = 64;
/// A resource and its prediction; zero for CPU and memory, on which the NodeClass has no influence.
type PredictedFigure = (ResourceName, i64);

fn figure(name: ResourceName, predicted: i64) -> PredictedFigure {
    let of_instance_type = matches!(name, ResourceName::Cpu | ResourceName::Memory);
    (name, if of_instance_type { 0 } else { predicted })
}

/// A node that reports its capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservedNode<'a> {
    /// Its name.
    pub name: &'a str,
    /// When its NodeClaim was created.
    pub born: Timestamp,
}

impl ObservedNode<'static> {
    /// Stands for nodes that an earlier process observed: older than any.
    const BEFORE: Self = Self { name: "", born: Timestamp::MIN };
}

/// The reports of nodes about one figure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Reports {
    /// The reports of the youngest nodes, by creation and name. Reports of an earlier process have no name.
    last: BTreeMap<(Timestamp, String), i64>,
    confirmed: u64,
}

impl Reports {
    /// Whether the report is new, and the node is not one that younger ones have displaced.
    fn is_new(&self, node: ObservedNode<'_>, reported: i64) -> bool {
        let key = |(born, name): &(Timestamp, String)| (*born, name.as_str()).cmp(&(node.born, node.name));
        let displaced = self.last.len() >= WITNESSES
            && self.last.first_key_value().is_some_and(|(oldest, _)| key(oldest).is_gt());
        let known = self.last.iter().any(|(one, before)| key(one).is_eq() && *before == reported);
        !displaced && !known
    }

    fn least(&self) -> Option<i64> {
        self.last.values().copied().min()
    }
}

/// The reports of nodes of one instance type and image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ImageFigures {
    figures: BTreeMap<PredictedFigure, Reports>,
    /// When the pair was last confirmed, in the order of observations.
    confirmed: u64,
}

impl ImageFigures {
    fn least(&self, name: &ResourceName, predicted: i64) -> Option<i64> {
        self.figures.get(&figure(name.clone(), predicted))?.least()
    }

    /// Adds a node's report of a figure. Returns whether the minimum has changed.
    fn take(
        &mut self,
        figure: PredictedFigure,
        node: ObservedNode<'_>,
        reported: i64,
        confirmed: u64,
    ) -> bool {
        let reports = self.figures.entry(figure).or_default();
        (reports.confirmed, self.confirmed) = (confirmed, confirmed);
        if !reports.is_new(node, reported) {
            return false;
        }
        let before = reports.least();
        // The figure of an earlier process is replaced by the first live node.
        reports.last.retain(|(_, known), _| known != node.name && !known.is_empty());
        reports.last.insert((node.born, node.name.to_owned()), reported);
        if reports.last.len() > WITNESSES {
            reports.last.pop_first();
        }
        let changed = reports.least() != before;
        if self.figures.len() > FIGURES_MAX {
            let oldest = self.figures.iter().min_by_key(|(_, reports)| reports.confirmed);
            oldest.map(|(figure, _)| figure.clone()).map(|figure| self.figures.remove(&figure));
        }
        changed
    }
}

/// Observed capacity by instance type and image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedCapacity {
    pairs: BTreeMap<(String, String), ImageFigures>,
    observations: u64,
    version: u64,
}

impl ObservedCapacity {
    /// Records the capacity that a registered node reports. `prediction` is the one that its NodeClaim was launched by, if known: without
    /// it only CPU and memory are recorded. Returns whether any figure has changed.
    pub fn observe(
        &mut self,
        instance_type: &str,
        image: &str,
        node: ObservedNode<'_>,
        reported: &Resources,
        prediction: Option<&Prediction>,
    ) -> bool {
        if reported.memory() <= 0 || reported.cpu() <= 0 {
            return false;
        }
        let mut figures: Vec<(PredictedFigure, i64)> = Vec::new();
        for (name, amount) in reported.iter() {
            let figure = match (&name, prediction) {
                (ResourceName::Cpu | ResourceName::Memory, _) => figure(name, 0),
                (_, Some(prediction)) if prediction.covers(&name) => {
                    let predicted = prediction.capacity.get(&name);
                    figure(name, predicted)
                }
                _ => continue,
            };
            figures.push((figure, amount));
        }
        self.take(instance_type, image, node, figures)
    }

    fn take(
        &mut self,
        instance_type: &str,
        image: &str,
        node: ObservedNode<'_>,
        reported: Vec<(PredictedFigure, i64)>,
    ) -> bool {
        if image.is_empty() || reported.is_empty() {
            return false;
        }
        self.observations += 1;
        let pair = self.pairs.entry((instance_type.to_owned(), image.to_owned())).or_default();
        let mut changed = false;
        for (figure, amount) in reported.into_iter().filter(|(_, amount)| *amount > 0) {
            changed |= pair.take(figure, node, amount, self.observations);
        }
        if self.pairs.len() > PAIRS_MAX {
            let oldest = self.pairs.iter().min_by_key(|(_, pair)| pair.confirmed).map(|(key, _)| key.clone());
            if let Some(oldest) = oldest {
                self.pairs.remove(&oldest);
            }
        }
        self.version += u64::from(changed);
        changed
    }

    fn pair(&self, instance_type: &str, image: &str) -> Option<&ImageFigures> {
        self.pairs.get(&(instance_type.to_owned(), image.to_owned()))
    }

    /// CPU in millicores and memory in bytes of the pair: the minimum over the stored nodes.
    #[must_use]
    pub fn known(&self, instance_type: &str, image: &str) -> Option<(i64, i64)> {
        let pair = self.pair(instance_type, image)?;
        Some((pair.least(&ResourceName::Cpu, 0)?, pair.least(&ResourceName::Memory, 0)?))
    }

    /// The prediction for an instance type, corrected by the pair's reports.
    #[must_use]
    pub fn corrected(&self, instance_type: &str, image: &str, predicted: &Resources) -> Resources {
        let mut all = predicted.clone();
        let figures = self.pair(instance_type, image).into_iter().flat_map(|pair| &pair.figures);
        for (known, reports) in figures {
            let name = &known.0;
            if let Some(least) =
                reports.least().filter(|_| figure(name.clone(), predicted.get(name)) == *known)
            {
                all.set(name, least);
            }
        }
        all
    }

    /// Drops images that are no longer in use; all others keep their observations.
    pub fn retain_images(&mut self, in_use: impl Fn(&str) -> bool) {
        let before = self.pairs.len();
        self.pairs.retain(|(_, image), _| in_use(image));
        self.version += u64::from(self.pairs.len() != before);
    }

    /// Drops the figures of some images.
    pub fn forget(&mut self, images: impl Fn(&str) -> bool) {
        self.retain_images(|image| !images(image));
    }

    /// A version that changes with every figure.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// All observations as text, one line per pair.
    #[must_use]
    pub fn to_text(&self) -> String {
        self.text_of(|_| true, usize::MAX)
    }

    /// The observations of some images, as in [`ObservedCapacity::to_text`], whole lines up to a length. A line has type, image, millicores and
    /// bytes of memory, then `name:predicted=reported` of each figure that differs from its prediction.
    #[must_use]
    pub fn text_of(&self, images: impl Fn(&str) -> bool, bytes_max: usize) -> String {
        let mut text = String::new();
        for ((instance_type, image), pair) in self.pairs.iter().filter(|((_, image), _)| images(image)) {
            let Some((cpu, memory)) = self.known(instance_type, image) else { continue };
            let mut line = format!("{instance_type} {image} {cpu} {memory}");
            for ((name, predicted), reports) in &pair.figures {
                let of_instance_type = matches!(name, ResourceName::Cpu | ResourceName::Memory);
                if let Some(reported) =
                    reports.least().filter(|reported| !of_instance_type && reported != predicted)
                {
                    line.push_str(&format!(" {name}:{predicted}={reported}"));
                }
            }
            line.push('\n');
            if text.len() + line.len() > bytes_max {
                break;
            }
            text.push_str(&line);
        }
        text
    }

    /// Restores the observations of an earlier process; invalid lines and figures are ignored, and live nodes correct the rest.
    pub fn restore(&mut self, text: &str) {
        for line in text.lines().take(PAIRS_MAX) {
            let mut words = line.split(' ');
            let (Some(instance_type), Some(image)) = (words.next(), words.next()) else { continue };
            let of = |name: ResourceName, word: Option<&str>| Some(((name, 0), word?.parse::<i64>().ok()?));
            let (cpu, memory) = (of(ResourceName::Cpu, words.next()), of(ResourceName::Memory, words.next()));
            let (Some(cpu), Some(memory)) = (cpu, memory) else { continue };
            let mut reported = vec![cpu, memory];
            reported.extend(words.take(FIGURES_MAX).filter_map(restored));
            let pair = self.pair(instance_type, image);
            reported.retain(|(figure, _)| pair.is_none_or(|pair| !pair.figures.contains_key(figure)));
            self.take(instance_type, image, ObservedNode::BEFORE, reported);
        }
    }
}

/// Parses a figure of the text.
fn restored(word: &str) -> Option<(PredictedFigure, i64)> {
    let (known, reported) = word.rsplit_once('=')?;
    let (name, predicted) = known.rsplit_once(':')?;
    let name = ResourceName::from(name);
    (!matches!(name, ResourceName::Cpu | ResourceName::Memory)).then_some(())?;
    Some(((name, predicted.parse().ok()?), reported.parse().ok()?))
}

#[cfg(test)]
mod tests {
    //! Observations, and what a change of image drops.
    use super::*;

    const GI: i64 = 1 << 30;
    const UNCERTAIN: &str = "vpc.amazonaws.com/pod-eni";

    fn at(second: i64, name: &str) -> ObservedNode<'_> {
        ObservedNode { name, born: Timestamp::from_second(second).unwrap() }
    }

    #[test]
    fn the_least_of_the_last_nodes_counts_up_and_down() {
        let mut observed = ObservedCapacity::default();
        assert_eq!(observed.known("m5.large", "ami-1"), None);
        assert!(observed.observe("m5.large", "ami-1", at(1, "a"), &Resources::of(2000, 8 * GI), None));
        assert!(
            !observed.observe("m5.large", "ami-1", at(2, "b"), &Resources::of(2000, 9 * GI), None),
            "one node with more memory"
        );
        assert!(observed.observe("m5.large", "ami-1", at(3, "c"), &Resources::of(2000, 7 * GI), None));
        assert_eq!(observed.known("m5.large", "ami-1"), Some((2000, 7 * GI)));
        let version = observed.version();
        for node in 0..8 {
            observed.observe(
                "m5.large",
                "ami-1",
                at(10 + node, &format!("new-{node}")),
                &Resources::of(2000, 10 * GI),
                None,
            );
        }
        assert_eq!(observed.known("m5.large", "ami-1"), Some((2000, 10 * GI)), "raised as well");
        assert!(observed.version() > version);
    }

    /// Twenty nodes are observed repeatedly, in any order: the eight youngest are used, and nothing changes.
    #[test]
    fn looking_again_changes_nothing() {
        let names: Vec<String> = (0..20).map(|node| format!("node-{:02}", (node * 7) % 20)).collect();
        let mut observed = ObservedCapacity::default();
        let look = |observed: &mut ObservedCapacity, node: usize| {
            // Each has more memory than all older ones.
            let second = i64::try_from(node).unwrap();
            let memory = (10 + second) * GI;
            let reported = Resources::of(2000, memory);
            observed.observe("m5.large", "ami-1", at(second, &names[node]), &reported, None)
        };
        for node in 0..20 {
            look(&mut observed, node);
        }
        assert_eq!(
            observed.known("m5.large", "ami-1"),
            Some((2000, 22 * GI)),
            "the figure of the twelfth node"
        );
        let version = observed.version();
        assert!((0..20).chain((0..20).rev()).all(|node| !look(&mut observed, node)));
        assert_eq!(observed.version(), version);
        let mut backwards = ObservedCapacity::default();
        for node in (0..20).rev() {
            look(&mut backwards, node);
        }
        assert_eq!(backwards.to_text(), observed.to_text());
        // One of the eight changes its report; then a younger node has the same name.
        assert!(observed.observe("m5.large", "ami-1", at(19, &names[19]), &Resources::of(2000, GI), None));
        assert!(observed.observe(
            "m5.large",
            "ami-1",
            at(30, &names[19]),
            &Resources::of(2000, 99 * GI),
            None
        ));
        assert_eq!(observed.known("m5.large", "ami-1"), Some((2000, 22 * GI)));
    }

    #[test]
    fn images_are_apart() {
        let mut observed = ObservedCapacity::default();
        observed.observe("m5.large", "ami-1", at(1, "a"), &Resources::of(2000, 8 * GI), None);
        observed.observe("m5.large", "ami-2", at(2, "b"), &Resources::of(2000, 6 * GI), None);
        observed.retain_images(|image| image != "ami-1");
        assert_eq!(observed.known("m5.large", "ami-1"), None);
        assert_eq!(observed.known("m5.large", "ami-2"), Some((2000, 6 * GI)));
    }

    #[test]
    fn survives_a_restart_and_invalid_text() {
        let mut observed = ObservedCapacity::default();
        observed.observe("m5.large", "ami-1", at(1, "a"), &Resources::of(2000, 8 * GI), None);
        observed.observe("c5.large", "ami-1", at(2, "b"), &Resources::of(2000, 4 * GI), None);
        let mut again = ObservedCapacity::default();
        again.restore(&format!("nonsense\nx y z\nm5 ami -1 w\n{}", observed.to_text()));
        assert_eq!(again.to_text(), observed.to_text());
        assert!(
            !again.observe("m5.large", "", at(3, "c"), &Resources::of(1, 1), None),
            "no image, no observation"
        );
        assert!(
            !again.observe("m5.large", "ami-1", at(3, "c"), &Resources::new(), None),
            "a node that reports nothing"
        );
    }

    /// A prediction of this capacity, with one resource that is observed although the prediction is zero.
    fn by(capacity: &Resources) -> Prediction {
        Prediction { capacity: capacity.clone(), uncertain: &[UNCERTAIN], ..Prediction::default() }
    }

    fn large(storage: i64, pods: i64) -> Resources {
        Resources::of(2000, 8 * GI).with("ephemeral-storage", storage).with("pods", pods)
    }

    /// Two NodeClasses share an image: one has volumes of 20 GiB, the other of 100, and each has its own observations.
    #[test]
    fn class_dependent_figures_are_stored_by_prediction() {
        let mut observed = ObservedCapacity::default();
        let (small, big) = (large(20 * GI, 29), large(100 * GI, 29));
        assert!(observed.observe("m5.large", "ami-1", at(1, "a"), &large(19 * GI, 58), Some(&by(&small))));
        assert_eq!(observed.corrected("m5.large", "ami-1", &small), large(19 * GI, 58));
        assert_eq!(
            observed.corrected("m5.large", "ami-1", &big),
            large(100 * GI, 58),
            "its own prediction has no observation"
        );
        observed.observe("m5.large", "ami-1", at(2, "b"), &large(98 * GI, 58), Some(&by(&big)));
        assert_eq!(observed.corrected("m5.large", "ami-1", &small), large(19 * GI, 58));
        assert_eq!(observed.corrected("m5.large", "ami-1", &big), large(98 * GI, 58));
        assert_eq!(observed.corrected("m5.large", "ami-2", &big), big, "another image");
        assert_eq!(observed.corrected("c5.large", "ami-1", &big), big, "another type");
        // A NodeClass with its own limit is not limited by the other's reports.
        assert_eq!(observed.corrected("m5.large", "ami-1", &large(20 * GI, 10)).pods(), 10);
        // Nodes of an unknown NodeClass are observed for CPU and memory only.
        let gone = Resources::of(1930, 7 * GI).with("pods", 5);
        assert!(observed.observe("m5.large", "ami-1", at(3, "c"), &gone, None));
        let now = observed.corrected("m5.large", "ami-1", &small);
        assert_eq!((now.cpu(), now.memory(), now.pods()), (1930, 7 * GI, 58));
        // Observations may rise, and many nodes of one NodeClass evict none of the other's.
        for node in 0..24 {
            observed.observe(
                "m5.large",
                "ami-1",
                at(10 + node, &format!("new-{node}")),
                &large(21 * GI, 58),
                Some(&by(&small)),
            );
        }
        assert_eq!(
            observed.corrected("m5.large", "ami-1", &small).get(&ResourceName::EphemeralStorage),
            21 * GI
        );
        assert_eq!(
            observed.corrected("m5.large", "ami-1", &big).get(&ResourceName::EphemeralStorage),
            98 * GI
        );
    }

    #[test]
    fn unreported_devices_are_not_observed() {
        let mut observed = ObservedCapacity::default();
        let predicted = large(20 * GI, 29).with("nvidia.com/gpu", 8).with("vpc.amazonaws.com/efa", 4);
        let plain = large(20 * GI, 29);
        observed.observe("p5.48xlarge", "ami-1", at(1, "a"), &plain, Some(&by(&predicted)));
        assert_eq!(
            observed.corrected("p5.48xlarge", "ami-1", &predicted),
            predicted,
            "no plugin, no observation"
        );
        let reported =
            plain.clone().with("nvidia.com/gpu", 7).with("example.com/fuse", 10).with(UNCERTAIN, 9);
        observed.observe("p5.48xlarge", "ami-1", at(1, "a"), &reported, Some(&by(&predicted)));
        let expected = predicted.clone().with("nvidia.com/gpu", 7).with(UNCERTAIN, 9);
        assert_eq!(observed.corrected("p5.48xlarge", "ami-1", &predicted), expected);
        // Nodes of an NodeClass with EFA do not add EFA to one without.
        let efa = predicted.clone().with("vpc.amazonaws.com/efa", 3);
        observed.observe("p5.48xlarge", "ami-1", at(2, "b"), &efa, Some(&by(&predicted)));
        assert_eq!(
            observed.corrected("p5.48xlarge", "ami-1", &plain).get(&"vpc.amazonaws.com/efa".into()),
            0
        );
    }

    #[test]
    fn figures_survive_a_restart() {
        let mut observed = ObservedCapacity::default();
        let predicted = large(20 * GI, 29).with("nvidia.com/gpu", 8);
        let reported = large(19 * GI, 29).with("nvidia.com/gpu", 16);
        observed.observe("p5.48xlarge", "ami-1", at(1, "a"), &reported, Some(&by(&predicted)));
        let text = observed.to_text();
        assert_eq!(
            text,
            format!(
                "p5.48xlarge ami-1 2000 {} ephemeral-storage:{}={} nvidia.com/gpu:8=16\n",
                8 * GI,
                20 * GI,
                19 * GI
            )
        );
        let mut again = ObservedCapacity::default();
        again.restore(&text.replace('\n', " pods:x=3 cpu:1=1 pods:29=-2 =\n"));
        assert_eq!(again.corrected("p5.48xlarge", "ami-1", &predicted), reported);
        assert_eq!(again.to_text(), text, "invalid text is ignored");
        assert!(
            again.observe("p5.48xlarge", "ami-1", at(2, "b"), &predicted, Some(&by(&predicted))),
            "a live node corrects it"
        );
        assert_eq!(again.corrected("p5.48xlarge", "ami-1", &predicted), predicted);
        for size in 1..1000 {
            again.observe("p5.48xlarge", "ami-1", at(2, "b"), &predicted, Some(&by(&large(size * GI, 29))));
        }
        let pair = again.pair("p5.48xlarge", "ami-1").unwrap();
        assert_eq!(pair.figures.len(), FIGURES_MAX, "bounded");
        assert!(again.known("p5.48xlarge", "ami-1").is_some(), "CPU and memory remain");
    }
}
