//! The content of one node that is worth most: a knapsack of several dimensions, by depth-first branch and bound.
//!
//! Dimensions of few units, such as GPUs, are counted exactly by a dynamic program; the others have a multiplier u each. A content is worth
//! at most Σ u·room plus the most Σ nᵢ(πᵢ - Σ u·aᵢ) that the dynamic program finds (Lagrange). Multipliers follow the subgradient
//! (Polyak, 1969). Floats look for good ones; worths and weights are integers, so that what is ruled out is ruled out whatever the
//! multipliers are.

use super::{float, rounded};

/// The most states of the dimensions that are counted.
const STATES_MAX: i64 = 2048;
/// Dimensions are counted where a node holds no more pods of a kind.
pub(super) const COUNTED_PODS_MAX: i64 = 24;
/// What an entry of a relaxation costs beside its table, and a step of the search: in cells of tables, as measured, about.
const ENTRY_WORK: usize = 64;
const STEP_WORK: usize = 32;
/// Bits after the point of integer multipliers.
const FRACTION: u32 = 30;

/// Pods that are equal to the program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PodKind {
    /// What one takes of every dimension.
    pub(crate) amounts: Vec<i64>,
    /// By column: whether one may be there.
    pub(crate) allowed: Vec<bool>,
    /// How many may share a node.
    pub(crate) per_node: i64,
    /// How many there are.
    pub(crate) count: i64,
}

/// A node that can be bought.
#[derive(Debug)]
pub(super) struct NodeType {
    /// Its position among the columns that were given.
    pub(super) column: usize,
    pub(super) price: i64,
    pub(super) room: Vec<i64>,
    /// By kind: the most that a node holds.
    pub(super) most: Vec<i64>,
    /// The best multipliers so far, in worth per node filled by the dimension alone.
    pub(super) multipliers: Vec<f64>,
    /// How far they are moved, as a part of Polyak's step: less where that did not help.
    pub(super) stride: f64,
    /// The dimensions that are counted, and the unit of each.
    pub(super) counted: Option<[Option<(usize, i64)>; 2]>,
}

/// How thorough a search is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Care {
    /// How often multipliers are adjusted.
    pub(super) looks: usize,
    /// Contents that are looked at.
    pub(super) steps: usize,
}

/// Contents: the worth of each, its kinds and how many pods of each.
type Contents = Vec<(i64, Vec<(usize, i64)>)>;

/// What a search found.
#[derive(Debug)]
pub(super) struct Filled {
    /// No content is worth more than this or the least that was asked for.
    pub(super) most: i64,
    /// Contents that are worth more than was asked for, the last the most.
    pub(super) contents: Contents,
    /// What it cost, in cells of tables.
    pub(super) work: usize,
}

/// A kind in the order of the search.
#[derive(Clone, Debug)]
struct Entry<'a> {
    kind: usize,
    amounts: &'a [i64],
    worth: i64,
    most: i64,
    /// Units of the dimensions that are counted.
    units: [usize; 2],
    /// What a pod takes by the multipliers, rounded down.
    paid: i64,
    /// Worth per what a pod takes of a node.
    rate: f64,
    /// Where the table begins of the entries after this one.
    next: usize,
}

impl NodeType {
    /// Sets how many pods of each kind a node holds; returns whether it holds any.
    pub(super) fn holds(&mut self, kinds: &[PodKind], demand: &[i64]) -> bool {
        let most = |(kind, count): (&PodKind, &i64)| {
            if !kind.allowed.get(self.column).copied().unwrap_or(false) {
                return 0;
            }
            fitting(&kind.amounts, &self.room).min(kind.per_node).min(*count).max(0)
        };
        self.most = kinds.iter().zip(demand).map(most).collect();
        self.most.iter().any(|most| *most > 0)
    }

    /// The content that is worth most, if it is worth more than `least`.
    pub(super) fn fill(&mut self, kinds: &[PodKind], worth: &[i64], least: i64, care: Care) -> Filled {
        let entries = kinds.iter().zip(worth).zip(&self.most).enumerate();
        let entries = entries.filter(|(_, ((_, worth), most))| **worth > 0 && **most > 0);
        let entries = entries.map(|(kind, ((pods, worth), most))| Entry {
            kind,
            amounts: &pods.amounts,
            worth: *worth,
            most: *most,
            units: [0; 2],
            paid: 0,
            rate: 0.0,
            next: 0,
        });
        let entries: Vec<Entry<'_>> = entries.collect();
        let counted = self.counted.unwrap_or_else(|| self.counted(&entries));
        self.counted = Some(counted);
        let mut filled = Filled { most: i64::MAX, contents: Vec::new(), work: 0 };
        let mut by = self.multipliers.clone();
        let mut relaxed = i64::MAX;
        for look in 0..=care.looks {
            let relaxation = Relaxation::new(entries.clone(), counted, &self.room, &by);
            filled.work += relaxation.work;
            if relaxation.most() < relaxed {
                (self.multipliers, relaxed) = (by, relaxation.most());
                self.stride = (self.stride * 1.5).min(1.0);
            } else {
                self.stride = (self.stride * 0.5).max(1e-3);
            }
            let Filled { most, contents, work } = relaxation.search(&self.room, least, care.steps);
            filled.work += work;
            if most < filled.most || !contents.is_empty() {
                filled.most = filled.most.min(most);
                filled.contents = contents;
            }
            if filled.most <= least || !filled.contents.is_empty() || look == care.looks {
                break;
            }
            by = relaxation.descend(&self.multipliers, &self.room, (least, self.stride));
        }
        filled
    }

    /// The dearest dimensions of few units, and the unit of each; none where a node holds many pods, which are as good as divisible.
    fn counted(&self, entries: &[Entry<'_>]) -> [Option<(usize, i64)>; 2] {
        if entries.iter().any(|entry| entry.most > COUNTED_PODS_MAX) {
            return [None; 2];
        }
        let mut dims: Vec<usize> = (0..self.room.len()).collect();
        dims.sort_by(|a, b| self.multipliers[*b].total_cmp(&self.multipliers[*a]));
        let (mut counted, mut states) = ([None; 2], 1);
        for dim in dims {
            let unit = entries.iter().fold(0, |unit, entry| divisor(unit, entry.amounts[dim].max(0)));
            let Some(units) = self.room[dim].checked_div(unit) else { continue };
            if (units + 1).saturating_mul(states) > STATES_MAX {
                continue;
            }
            if let Some(free) = counted.iter_mut().find(|counted| counted.is_none()) {
                (*free, states) = (Some((dim, unit)), states * (units + 1));
            }
        }
        counted
    }
}

/// The relaxation by some multipliers.
#[derive(Clone, Debug)]
struct Relaxation<'a> {
    /// In the order of their rates.
    entries: Vec<Entry<'a>>,
    counted: [Option<(usize, i64)>; 2],
    /// How many amounts of each counted dimension there are.
    sizes: [usize; 2],
    /// From the last entry to the first, those that pay more than they are worth left out, by what is left of the counted dimensions: the most
    /// that the entries from this one on are worth beyond what they pay.
    table: Vec<i64>,
    /// The room by the multipliers, rounded up.
    slack: i64,
    /// What it cost, in cells of tables.
    work: usize,
}

impl<'a> Relaxation<'a> {
    fn new(
        mut entries: Vec<Entry<'a>>,
        counted: [Option<(usize, i64)>; 2],
        room: &[i64],
        multipliers: &[f64],
    ) -> Self {
        let scale = f64::from(1_u32 << FRACTION);
        let of = |(multiplier, room): (&f64, &i64)| {
            i128::from(rounded(multiplier.max(0.0) * scale / float(i128::from((*room).max(1)))))
        };
        let mut by: Vec<i128> = multipliers.iter().zip(room).map(of).collect();
        counted.iter().flatten().for_each(|(dim, _)| by[*dim] = 0);
        let weight = |amounts: &[i64]| {
            let terms = amounts.iter().zip(&by);
            let add = |sum: i128, (amount, by): (&i64, &i128)| {
                sum.saturating_add(by.saturating_mul(i128::from((*amount).max(0))))
            };
            i64::try_from(terms.fold(0, add) >> FRACTION).unwrap_or(i64::MAX)
        };
        let units = |amounts: &[i64]| {
            counted.map(|counted| {
                counted.map_or(0, |(dim, unit)| usize::try_from(amounts[dim].max(0) / unit).unwrap_or(0))
            })
        };
        let sizes = units(room).map(|units| units + 1);
        let dearest = multipliers.iter().copied().fold(1.0, f64::max);
        for entry in &mut entries {
            (entry.paid, entry.units) = (weight(entry.amounts), units(entry.amounts));
            // A node's share of the counted dimensions is worth about as much as its room in the others.
            let share = |(dim, _): &(usize, i64)| {
                float(i128::from(entry.amounts[*dim])) / float(i128::from(room[*dim].max(1)))
            };
            let share = counted.iter().flatten().map(share).fold(0.0, f64::max);
            let taken = float(i128::from(entry.paid.max(1))) + share * dearest;
            entry.rate = float(i128::from(entry.worth)) / taken;
        }
        entries.sort_by(|a, b| b.rate.total_cmp(&a.rate).then_with(|| a.kind.cmp(&b.kind)));
        let slack = weight(room).saturating_add(1);
        let work = ENTRY_WORK * entries.len();
        let mut this = Self { entries, counted, sizes, table: Vec::new(), slack, work };
        this.tabulate();
        this
    }

    fn tabulate(&mut self) {
        let [rows, columns] = self.sizes;
        let states = rows * columns;
        let mut table = vec![0_i64; states];
        for entry in self.entries.iter_mut().rev() {
            let gain = entry.worth.saturating_sub(entry.paid);
            entry.next = table.len() - states;
            let [first, second] = entry.units;
            if gain <= 0 {
                continue;
            }
            table.extend_from_within(entry.next..);
            let own = &mut table[entry.next + states..];
            if first + second == 0 {
                own.iter_mut().for_each(|own| *own = own.saturating_add(gain.saturating_mul(entry.most)));
                continue;
            }
            // Ones, twos, fours and the rest make every count.
            let (mut left, mut size) = (entry.most, 1_usize);
            while left > 0 && size * first < rows && size * second < columns {
                let pods = left.min(i64::try_from(size).unwrap_or(i64::MAX));
                let taken = usize::try_from(pods).unwrap_or(size);
                let (down, across, sum) = (taken * first, taken * second, gain.saturating_mul(pods));
                for row in (down..rows).rev() {
                    let (from, to) = ((row - down) * columns, row * columns);
                    for column in (across..columns).rev() {
                        own[to + column] =
                            own[to + column].max(own[from + column - across].saturating_add(sum));
                    }
                }
                self.work += states;
                (left, size) = (left - pods, size * 2);
            }
        }
        self.work += table.len();
        self.table = table;
    }

    /// Searches for contents that are worth more than `least`, in `steps` steps at most.
    fn search(&self, room: &[i64], least: i64, steps: usize) -> Filled {
        let counts = vec![0; self.entries.len()];
        let mut tree = Tree { relaxation: self, counts, best: least, contents: Vec::new(), open: 0, steps };
        tree.visit(0, 0, self.slack, self.sizes.map(|size| size - 1), &mut room.to_vec());
        Filled {
            most: tree.best.max(tree.open),
            work: STEP_WORK * (steps - tree.steps),
            contents: tree.contents,
        }
    }

    /// No content is worth more.
    fn most(&self) -> i64 {
        self.table.last().map_or(0, |most| most.saturating_add(self.slack))
    }

    /// Multipliers moved against the subgradient: at a stride of one as far as the bound would fall to `least` if it were linear.
    fn descend(&self, multipliers: &[f64], room: &[i64], (least, stride): (i64, f64)) -> Vec<f64> {
        let columns = self.sizes[1];
        let states = self.sizes[0] * columns;
        let mut state = states - 1;
        let mut own = self.table.last().copied().unwrap_or(0);
        let mut used = vec![0_i64; room.len()];
        for entry in &self.entries {
            let offset = entry.units[0] * columns + entry.units[1];
            let gain = entry.worth.saturating_sub(entry.paid);
            let mut count = 0;
            if offset == 0 {
                count = if gain > 0 { entry.most } else { 0 };
            } else if gain > 0 {
                let reaches = |count: &i64| {
                    let taken = offset * usize::try_from(*count).unwrap_or(0);
                    let left = state.checked_sub(taken);
                    left.is_some_and(|left| {
                        self.table[entry.next + left].saturating_add(gain.saturating_mul(*count)) == own
                    })
                };
                count = (0..=entry.most.min(STATES_MAX)).find(reaches).unwrap_or(0);
            }
            state -= offset * usize::try_from(count).unwrap_or(0);
            own = self.table[entry.next + state];
            for (used, amount) in used.iter_mut().zip(entry.amounts) {
                *used = used.saturating_add(amount.max(&0).saturating_mul(count));
            }
        }
        let counted = |dim: usize| self.counted.iter().flatten().any(|(counted, _)| *counted == dim);
        let gradient = |dim: usize| {
            if counted(dim) || room[dim] <= 0 {
                0.0
            } else {
                1.0 - float(i128::from(used[dim])) / float(i128::from(room[dim]))
            }
        };
        let gradient: Vec<f64> = (0..room.len()).map(gradient).collect();
        // What is not used and has no multiplier cannot have less.
        let moved =
            gradient.iter().zip(multipliers).map(|(g, by)| if *g > 0.0 && *by <= 0.0 { 0.0 } else { g * g });
        let length: f64 = moved.sum();
        let step =
            stride * float(i128::from(self.most().saturating_sub(least))) / length.max(f64::MIN_POSITIVE);
        multipliers.iter().zip(gradient).map(|(by, gradient)| (by - step * gradient).max(0.0)).collect()
    }
}

/// The search: kinds in the order of their rates, the most pods of each first.
struct Tree<'a, 'r> {
    relaxation: &'r Relaxation<'a>,
    counts: Vec<i64>,
    best: i64,
    contents: Contents,
    /// The bound of what was not searched.
    open: i64,
    steps: usize,
}

impl Tree<'_, '_> {
    /// Tries the entries from `at`; `slack` is the room by the multipliers, `state` that of the counted dimensions, `left` all of it.
    fn visit(&mut self, mut at: usize, worth: i64, slack: i64, state: [usize; 2], left: &mut [i64]) {
        let Relaxation { entries, sizes, table, .. } = self.relaxation;
        if worth > self.best {
            self.best = worth;
            let counts = self.counts.iter().zip(entries).filter(|(count, _)| **count > 0);
            self.contents.push((worth, counts.map(|(count, entry)| (entry.kind, *count)).collect()));
        }
        let reach = worth.saturating_add(slack);
        let column = state[0] * sizes[1] + state[1];
        let bound = loop {
            let Some(entry) = entries.get(at) else { return };
            // The table of this entry is that of the one before it.
            let own =
                at.checked_sub(1).map_or(table.len() - sizes[0] * sizes[1], |before| entries[before].next);
            let mut bound = reach.saturating_add(table[own + column]);
            if sizes[0] * sizes[1] == 1 && entry.paid > 0 {
                // Nothing that is left is worth more by what it pays (Dantzig).
                let dense = rounded(float(i128::from(slack)) * entry.rate * (1.0 + 1e-9)).saturating_add(1);
                bound = bound.min(worth.saturating_add(dense));
            }
            if bound <= self.best {
                return;
            }
            if entry.amounts.iter().zip(&*left).all(|(amount, left)| amount <= left) {
                break bound;
            }
            at += 1;
        };
        if self.steps == 0 {
            self.open = self.open.max(bound);
            return;
        }
        self.steps -= 1;
        let Entry { amounts, worth: own, paid, units, most, .. } = entries[at];
        for count in (0..=fitting(amounts, left).min(most)).rev() {
            self.counts[at] = count;
            left.iter_mut().zip(amounts).for_each(|(left, amount)| *left -= amount.max(&0) * count);
            let taken = usize::try_from(count).unwrap_or(0);
            let state = [state[0] - units[0] * taken, state[1] - units[1] * taken];
            let worth = worth.saturating_add(own.saturating_mul(count));
            self.visit(at + 1, worth, slack.saturating_sub(paid.saturating_mul(count)), state, left);
            left.iter_mut().zip(amounts).for_each(|(left, amount)| *left += amount.max(&0) * count);
        }
        self.counts[at] = 0;
    }
}

/// The greatest common divisor.
fn divisor(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { divisor(b, a % b) }
}

/// How many pods fit into some room.
fn fitting(amounts: &[i64], room: &[i64]) -> i64 {
    let needed = amounts.iter().zip(room).filter(|(amount, _)| **amount > 0);
    needed.map(|(amount, room)| room / amount).min().unwrap_or(i64::MAX)
}
