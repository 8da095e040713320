//! The instance types that one pool offers under one set of requirements, ready for quick questions: which of them hold
//! an amount, what the cheapest costs, and which sizes are worth filling.

use smallvec::{SmallVec, smallvec};

use crate::{
    model::Price,
    scheduling::{
        ids::InstanceTypeId,
        tables::{bits::Bits, ranks::Thresholds},
    },
};

/// An amount of each dimension. There are seldom more than CPU, memory and pods, and thousands of rooms are compared.
pub(crate) type Room = SmallVec<[i64; 4]>;

/// A type as it goes into a table.
#[derive(Clone, Debug)]
pub(super) struct Column {
    /// Index of the row in its pool.
    pub(super) row: InstanceTypeId,
    /// The cheapest offering, in nano-dollars per hour.
    pub(super) price: i64,
    /// What pods can have of each dimension.
    pub(super) free: Room,
    /// The first row of its instance type: two rows may be of one.
    pub(super) of: InstanceTypeId,
    /// By key of minValues: the values that the type has.
    pub(super) values: Vec<Vec<u32>>,
}

/// What a claim must still be able to become.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Choice {
    /// So many instance types, or half of those that hold each of its pods.
    pub(super) types: usize,
    /// By key: so many distinct values.
    pub(super) min_values: Vec<u32>,
    /// How many types a claim names at most.
    pub(super) named: usize,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Table {
    /// Cheapest first.
    columns: Vec<Column>,
    choice: Choice,
    dims: Vec<Thresholds<usize>>,
    /// Whether some type has more than one row.
    twins: bool,
}

/// Columns, by position: the cheapest first.
type Set = Bits<usize>;

/// A size to fill: what at least as many types have as a claim must be able to become.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Size {
    pub(super) room: Room,
    /// What the cheapest of those types costs.
    pub(super) price: i64,
}

impl Table {
    /// A table of `columns`, in any order, over so many dimensions.
    pub(super) fn new(mut columns: Vec<Column>, dims: usize, choice: Choice) -> Self {
        columns.sort_by_key(|column| (column.price, column.row));
        let amounts = |dim: usize| columns.iter().map(move |column| column.free[dim]).enumerate();
        let dims = (0..dims).map(|dim| Thresholds::new(amounts(dim))).collect();
        let mut types: Vec<InstanceTypeId> = columns.iter().map(|column| column.of).collect();
        types.sort_unstable();
        types.dedup();
        let twins = types.len() < columns.len();
        Self { columns, choice, dims, twins }
    }

    /// Whether there is nothing to buy.
    pub(super) fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Price and amounts of each row.
    pub(crate) fn columns(&self) -> impl Iterator<Item = (Price, impl Iterator<Item = i64>)> {
        self.columns.iter().map(|column| (Price::from_nanos(column.price), column.free.iter().copied()))
    }

    /// Whether a claim needs distinct values of some key.
    pub(crate) fn asks_for_values(&self) -> bool {
        !self.choice.min_values.is_empty()
    }

    /// Rows of the pool that hold `used`, cheapest first.
    pub(crate) fn rows(&self, used: &[i64]) -> impl Iterator<Item = InstanceTypeId> {
        let held = self.holding(used);
        let mut next = 0;
        std::iter::from_fn(move || {
            let column = held.first_from(next)?;
            next = column + 1;
            Some(self.columns[column].row)
        })
    }

    fn holding(&self, used: &[i64]) -> Set {
        let mut set = Set::full(self.columns.len());
        for (dim, used) in self.dims.iter().zip(used) {
            dim.keep(*used, &mut set);
        }
        set
    }

    /// How many instance types a set has.
    fn types(&self, set: &Set) -> usize {
        if !self.twins {
            return set.len();
        }
        let types = set.iter().map(|column_index| self.columns[column_index].of);
        let mut types: Vec<InstanceTypeId> = types.collect();
        types.sort_unstable();
        types.dedup();
        types.len()
    }

    /// How many types a claim with `used` has to keep: as many as the policy says, but of a choice that is small from the
    /// start no more than half, since all of it would allow the smallest nodes alone.
    pub(super) fn wanted(&self, used: &[i64]) -> usize {
        self.types(&self.holding(used)).div_ceil(2).min(self.choice.types)
    }

    /// What a claim with `used` costs where `types` instance types must hold it; `None` where too few do.
    pub(crate) fn price(&self, used: &[i64], types: usize) -> Option<i64> {
        let set = self.holding(used);
        let cheapest = set.first_from(0)?;
        (self.types(&set) >= types && self.keeps_values(&set)).then(|| self.columns[cheapest].price)
    }

    /// Whether what a claim would name of a set has the distinct values that are asked for.
    fn keeps_values(&self, set: &Set) -> bool {
        if self.choice.min_values.is_empty() {
            return true;
        }
        let mut types: Vec<InstanceTypeId> = Vec::new();
        let mut distinct: Vec<Vec<u32>> = vec![Vec::new(); self.choice.min_values.len()];
        for column_index in set.iter() {
            let column = &self.columns[column_index];
            if !types.contains(&column.of) {
                if types.len() >= self.choice.named.max(1) {
                    break;
                }
                types.push(column.of);
            }
            for (distinct, values) in distinct.iter_mut().zip(&column.values) {
                distinct.extend(values);
            }
        }
        distinct.iter_mut().zip(&self.choice.min_values).all(|(distinct, wanted)| {
            distinct.sort_unstable();
            distinct.dedup();
            u32::try_from(distinct.len()).is_ok_and(|distinct| distinct >= *wanted)
        })
    }

    /// What the cheapest types that hold `used` have in common, so many of them: what fits into it costs no more.
    pub(crate) fn room_at_price(&self, used: &[i64], types: usize) -> Option<Room> {
        let set = self.holding(used);
        let mut seen: SmallVec<[InstanceTypeId; 16]> = SmallVec::new();
        let mut room: Option<Room> = None;
        for column_index in set.iter() {
            let column = &self.columns[column_index];
            if seen.contains(&column.of) {
                continue;
            }
            if seen.len() >= types.max(1) {
                break;
            }
            seen.push(column.of);
            room = Some(match room {
                None => column.free.clone(),
                Some(room) => room.iter().zip(&column.free).map(|(a, b)| *a.min(b)).collect(),
            });
        }
        room
    }

    /// The sizes that are worth filling with pods of which each asks for at least `least`, where `types` instance types
    /// must hold what is put in: none has less room than another that costs no more. Cheapest first.
    pub(super) fn sizes(&self, least: &[i64], types: usize) -> Vec<Size> {
        let base = self.holding(least);
        let first = self.levels(&base, 0);
        let second = self.levels(&base, 1);
        let mut sizes: Vec<Size> = Vec::new();
        for a in &first {
            let mut wide = base.clone();
            self.narrow(&mut wide, 0, *a);
            let mut last: Option<Size> = None;
            for b in &second {
                let mut set = wide.clone();
                self.narrow(&mut set, 1, *b);
                let Some(size) = self.size(set, types, *a, *b) else { break };
                // Dearer than the size before: that one was the largest at its price.
                if let Some(last) = last.take().filter(|last| last.price < size.price) {
                    sizes.push(last);
                }
                last = Some(size);
            }
            sizes.extend(last);
        }
        sizes.sort_by(|a, b| a.price.cmp(&b.price).then_with(|| b.room.cmp(&a.room)));
        let mut kept: Vec<Size> = Vec::new();
        for size in sizes {
            let beaten = |other: &Size| other.room.iter().zip(&size.room).all(|(other, own)| other >= own);
            if !kept.iter().any(beaten) {
                kept.push(size);
            }
        }
        kept
    }

    /// What each type has, where enough others hold all of it.
    pub(super) fn whole_types(&self, types: usize) -> impl Iterator<Item = Size> {
        self.columns.iter().filter_map(move |column| {
            let price = self.price(&column.free, types)?;
            Some(Size { room: column.free.clone(), price })
        })
    }

    fn narrow(&self, set: &mut Set, dim: usize, amount: i64) {
        if let Some(dim) = self.dims.get(dim) {
            dim.keep(amount, set);
        }
    }

    /// The distinct amounts of a dimension in a set, ascending.
    fn levels(&self, set: &Set, dim: usize) -> Vec<i64> {
        let amounts = set.iter().filter_map(|column_index| self.columns[column_index].free.get(dim).copied());
        let mut levels: Vec<i64> = amounts.collect();
        levels.sort_unstable();
        levels.dedup();
        if levels.is_empty() { vec![0] } else { levels }
    }

    /// The size that types of a set can be filled to: the first two dimensions as given, the others as the cheapest of
    /// the types that are needed have them.
    fn size(&self, mut set: Set, types: usize, first: i64, second: i64) -> Option<Size> {
        if self.types(&set) < types.max(1) || !self.keeps_values(&set) {
            return None;
        }
        let mut room: Room = smallvec![first, second];
        room.truncate(self.dims.len());
        for dim in room.len()..self.dims.len() {
            let amounts = set.iter().map(|column_index| self.columns[column_index].free[dim]);
            let all = self.twins || !self.choice.min_values.is_empty();
            let amount = if all { amounts.min() } else { amounts.take(types.max(1)).min() }?;
            self.narrow(&mut set, dim, amount);
            room.push(amount);
        }
        let cheapest = set.first_from(0)?;
        Some(Size { room, price: self.columns[cheapest].price })
    }
}
