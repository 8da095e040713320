//! Labels as small integers: keys, values per key, sets of values, and whole requirement sets, each identified by a
//! number. Intersections of two such sets are computed once and remembered.
//!
//! A value set keeps its complement flag and its bounds, so that a value without an id yet stays a real
//! element of it.

use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::BTreeSet,
    sync::Arc,
};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use indexmap::IndexSet;
use smallvec::SmallVec;

use crate::model::{LabelSchema, Operator, Requirement, Requirements, Str, labels::HOSTNAME};

/// A label key.
pub(crate) type Key = u32;
/// A value of a label key.
pub(crate) type Value = u32;
/// A set of requirements, by number: equal numbers are equal sets.
pub(crate) type Req = u32;

/// The requirement set without a constraint.
pub(crate) const ANY: Req = 0;

/// A count as a number that fits an id. More than 2^32 of anything cannot be held in memory in the first place.
pub(crate) fn id(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The allowed values of one key: see [`Requirement`], of which it is the compiled form without minValues.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Set {
    pub(crate) complement: bool,
    /// Of a complement: whether there must be a label at all.
    present: bool,
    /// Sorted.
    pub(crate) values: SmallVec<[Value; 4]>,
    gte: Option<i64>,
    lte: Option<i64>,
}

impl Set {
    /// Exactly these values.
    pub(crate) fn of(values: impl IntoIterator<Item = Value>) -> Self {
        let mut values: SmallVec<[Value; 4]> = values.into_iter().collect();
        values.sort_unstable();
        values.dedup();
        Self { complement: false, present: false, values, gte: None, lte: None }
    }

    /// Whether a missing label satisfies it: see [`Requirement::allows_missing`].
    pub(crate) fn allows_missing(&self) -> bool {
        if self.complement { !self.present } else { self.values.is_empty() }
    }

    /// Whether a value that no requirement names, and that is no integer, is allowed.
    pub(crate) fn allows_unnamed(&self) -> bool {
        self.complement && self.gte.is_none() && self.lte.is_none()
    }

    fn within(&self, number: Option<i64>) -> bool {
        (self.gte.is_none() && self.lte.is_none())
            || number
                .is_some_and(|n| self.gte.is_none_or(|gte| n >= gte) && self.lte.is_none_or(|lte| n <= lte))
    }

    /// The only allowed value.
    pub(crate) fn single(&self) -> Option<Value> {
        (!self.complement && self.values.len() == 1).then(|| self.values[0])
    }
}

/// The values of one key.
#[derive(Debug, Default)]
struct Values {
    texts: IndexSet<Str, FixedState>,
    /// Those that are integers.
    numbers: Vec<Option<i64>>,
}

/// Sorted by key.
pub(crate) type Sets = Arc<[(Key, Set)]>;

/// Which undefined labels are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Side {
    /// A node that is not launched: well-known keys may be undefined.
    Claim,
    /// Mere intersection.
    Plain,
}

/// The entries of the first chunk of a [`SetTable`]; each further one has twice as many as the one before.
const FIRST_CHUNK: usize = 64;
/// More chunks than a number has room for.
const CHUNKS: usize = 26;

/// Requirement sets by number. Append-only, so that a set can be read while others are added.
#[derive(Debug)]
struct SetTable {
    chunks: [OnceCell<Box<[OnceCell<Sets>]>>; CHUNKS],
    len: Cell<usize>,
    /// The set of a number that is not assigned.
    none: Sets,
}

impl SetTable {
    fn new() -> Self {
        Self { chunks: std::array::from_fn(|_| OnceCell::new()), len: Cell::new(0), none: Arc::new([]) }
    }

    /// The chunk of a number, and its position there.
    fn locate(index: usize) -> (usize, usize) {
        let chunk = (index / FIRST_CHUNK + 1).ilog2() as usize;
        (chunk, index - FIRST_CHUNK * ((1 << chunk) - 1))
    }

    fn push(&self, sets: Sets) -> Req {
        let index = self.len.replace(self.len.get() + 1);
        let (chunk, position) = Self::locate(index);
        let entries = || (0..FIRST_CHUNK << chunk).map(|_| OnceCell::new()).collect();
        self.chunks[chunk].get_or_init(entries)[position].get_or_init(|| sets);
        id(index)
    }

    fn get(&self, req: Req) -> &Sets {
        let (chunk, position) = Self::locate(req as usize);
        self.chunks[chunk].get().and_then(|entries| entries[position].get()).unwrap_or(&self.none)
    }
}

/// All keys, values and requirement sets of a solver.
///
/// Keys and values are interned while tables are prepared. Requirement sets and their intersections are memoized at any time: a
/// number never changes its meaning, so that this is invisible.
#[derive(Debug)]
pub(crate) struct Universe {
    names: IndexSet<Str, FixedState>,
    well_known: Vec<bool>,
    values: Vec<Values>,
    sets: SetTable,
    ids: RefCell<HashMap<Sets, Req>>,
    meets: RefCell<HashMap<(Req, Req, Side), Option<Req>>>,
    only: RefCell<HashMap<(Key, Value), Req>>,
    hostname: Key,
    schema: Arc<LabelSchema>,
}

impl Universe {
    pub(crate) fn new(schema: Arc<LabelSchema>) -> Self {
        let mut this = Self {
            names: IndexSet::default(),
            well_known: Vec::new(),
            values: Vec::new(),
            sets: SetTable::new(),
            ids: RefCell::default(),
            meets: RefCell::default(),
            only: RefCell::default(),
            hostname: 0,
            schema,
        };
        // The first number is that of no requirement.
        this.intern(&[]);
        this.hostname = this.key(HOSTNAME);
        this
    }

    /// How much is remembered.
    pub(crate) fn size(&self) -> usize {
        let values: usize = self.values.iter().map(|values| values.texts.len()).sum();
        values + self.sets.len.get() + self.meets.borrow().len()
    }

    /// The key of the hostname.
    pub(crate) fn hostname(&self) -> Key {
        self.hostname
    }

    /// The meaning of label keys.
    pub(crate) fn schema(&self) -> &LabelSchema {
        &self.schema
    }

    /// The number of a key; old names of a key are the key.
    pub(crate) fn key(&mut self, name: &str) -> Key {
        let name = self.schema.normalize(name);
        if let Some(key) = self.names.get_index_of(name) {
            return id(key);
        }
        self.well_known.push(self.schema.is_well_known(name));
        self.values.push(Values::default());
        id(self.names.insert_full(name.into()).0)
    }

    /// The number of a key's value.
    pub(crate) fn value(&mut self, key: Key, text: &Str) -> Value {
        let values = &mut self.values[key as usize];
        if let Some(value) = values.texts.get_index_of(text) {
            return id(value);
        }
        values.numbers.push(text.parse().ok());
        id(values.texts.insert_full(Arc::clone(text)).0)
    }

    /// The text of a key.
    pub(crate) fn name(&self, key: Key) -> &Str {
        &self.names[key as usize]
    }

    /// The text of a value.
    pub(crate) fn text(&self, key: Key, value: Value) -> &Str {
        &self.values[key as usize].texts[value as usize]
    }

    /// Whether a claim may leave the key undefined.
    pub(crate) fn is_well_known(&self, key: Key) -> bool {
        self.well_known[key as usize]
    }

    /// The compiled form of one requirement.
    fn set(&mut self, requirement: &Requirement) -> (Key, Set) {
        let key = self.key(requirement.key());
        let mut set = Set::of(requirement.values().iter().map(|text| self.value(key, text)));
        set.complement = requirement.is_complement();
        set.present = set.complement && !requirement.allows_missing();
        (set.gte, set.lte) = (requirement.gte(), requirement.lte());
        (key, set)
    }

    /// The number of the conjunction of some requirements.
    pub(crate) fn req<'a>(&mut self, requirements: impl IntoIterator<Item = &'a Requirement>) -> Req {
        let sets: SmallVec<[(Key, Set); 4]> = requirements.into_iter().map(|r| self.set(r)).collect();
        self.conjunction(sets)
    }

    /// The number of a conjunction, in which a key may occur more than once.
    pub(crate) fn conjunction(&self, sets: impl IntoIterator<Item = (Key, Set)>) -> Req {
        let mut sets: SmallVec<[(Key, Set); 4]> = sets.into_iter().collect();
        sets.sort_by_key(|(key, _)| *key);
        if sets.is_sorted_by(|(a, _), (b, _)| a < b) {
            return self.intern(&sets);
        }
        let mut merged: Vec<(Key, Set)> = Vec::with_capacity(sets.len());
        for (key, set) in sets {
            match merged.last_mut() {
                Some((last, present)) if *last == key => *present = self.intersection(key, present, &set),
                _ => merged.push((key, set)),
            }
        }
        self.intern(&merged)
    }

    fn intern(&self, sets: &[(Key, Set)]) -> Req {
        if let Some(req) = self.ids.borrow().get(sets) {
            return *req;
        }
        let sets: Sets = sets.into();
        let req = self.sets.push(Arc::clone(&sets));
        self.ids.borrow_mut().insert(sets, req);
        req
    }

    /// The requirements of a set, by key.
    pub(crate) fn sets(&self, req: Req) -> &Sets {
        self.sets.get(req)
    }

    /// The allowed values of one key; `None` where it is unconstrained.
    pub(crate) fn get(&self, req: Req, key: Key) -> Option<&Set> {
        let sets = self.sets(req);
        sets.binary_search_by_key(&key, |(index, _)| *index).ok().map(|index| &sets[index].1)
    }

    /// Whether `value` is allowed by `set`.
    pub(crate) fn has(&self, key: Key, set: &Set, value: Value) -> bool {
        (set.values.binary_search(&value).is_ok() != set.complement)
            && set.within(self.values[key as usize].numbers[value as usize])
    }

    /// `key In [value]` as a requirement set.
    pub(crate) fn only(&self, key: Key, value: Value) -> Req {
        if let Some(req) = self.only.borrow().get(&(key, value)) {
            return *req;
        }
        let req = self.intern(&[(key, Set::of([value]))]);
        self.only.borrow_mut().insert((key, value), req);
        req
    }

    /// The values allowed by both.
    fn intersection(&self, key: Key, a: &Set, b: &Set) -> Set {
        let none = || Set::of([]);
        let gte = a.gte.max(b.gte);
        let lte = [a.lte, b.lte].into_iter().flatten().min();
        if let (Some(gte), Some(lte)) = (gte, lte)
            && gte > lte
        {
            return none();
        }
        if a.complement && b.complement {
            let mut merged = Set::of(a.values.iter().chain(&b.values).copied());
            (merged.complement, merged.gte, merged.lte) = (true, gte, lte);
            merged.present = a.present || b.present;
            return if self.is_empty(key, &merged) { none() } else { merged };
        }
        let (concrete, filter) = if a.complement { (b, a) } else { (a, b) };
        let kept = concrete
            .values
            .iter()
            .copied()
            .filter(|value| self.has(key, filter, *value) && self.has(key, concrete, *value));
        Set::of(kept)
    }

    /// Whether nothing is allowed, as far as the bounds leave a finite choice.
    pub(crate) fn is_empty(&self, key: Key, set: &Set) -> bool {
        if !set.complement {
            return set.values.is_empty();
        }
        let (Some(gte), Some(lte)) = (set.gte, set.lte) else { return false };
        let numbers = &self.values[key as usize].numbers;
        let excluded: BTreeSet<i64> = set
            .values
            .iter()
            .filter_map(|value| numbers[*value as usize])
            .filter(|number| set.within(Some(*number)))
            .collect();
        // The span is one less than the width of the range.
        i64::try_from(excluded.len()).is_ok_and(|count| lte.checked_sub(gte).is_some_and(|span| count > span))
    }

    /// Whether two sets of one key can hold together: a common value, or both are content with a missing label.
    pub(crate) fn agree(&self, key: Key, a: &Set, b: &Set) -> bool {
        if a.allows_missing() && b.allows_missing() {
            return true;
        }
        let common = self.intersection(key, a, b);
        !self.is_empty(key, &common)
    }

    /// `offered` narrowed by `wanted`; `None` where they disagree.
    pub(crate) fn meet(&self, offered: Req, wanted: Req, side: Side) -> Option<Req> {
        if wanted == ANY || offered == wanted {
            return Some(offered);
        }
        if let Some(known) = self.meets.borrow().get(&(offered, wanted, side)) {
            return *known;
        }
        let met = self.compute_meet(offered, wanted, side);
        self.meets.borrow_mut().insert((offered, wanted, side), met);
        met
    }

    fn compute_meet(&self, offered: Req, wanted: Req, side: Side) -> Option<Req> {
        let (have, want) = (self.sets(offered), self.sets(wanted));
        let mut result: Vec<(Key, Set)> = have.to_vec();
        for (key, set) in want.iter() {
            match result.binary_search_by_key(key, |(index, _)| *index) {
                Ok(index) => {
                    if !self.agree(*key, &result[index].1, set) {
                        return None;
                    }
                    result[index].1 = self.intersection(*key, &result[index].1, set);
                }
                Err(index) => {
                    if side == Side::Claim && !set.allows_missing() && !self.is_well_known(*key) {
                        return None;
                    }
                    result.insert(index, (*key, set.clone()));
                }
            }
        }
        Some(self.intern(&result))
    }

    /// Back to the model's form.
    pub(crate) fn requirements(&self, req: Req) -> Requirements {
        self.sets(req).iter().flat_map(|(key, set)| self.requirement(*key, set)).collect()
    }

    fn requirement(&self, key: Key, set: &Set) -> SmallVec<[Requirement; 4]> {
        let name = || Arc::clone(self.name(key));
        let texts = set.values.iter().map(|value| Arc::clone(self.text(key, *value)));
        if !set.complement {
            return smallvec::smallvec![Requirement::is_in(name(), texts)];
        }
        let bounds = [(Operator::Gte, set.gte), (Operator::Lte, set.lte)]
            .into_iter()
            .filter_map(|(operator, bound)| Requirement::new(name(), operator, [bound?.to_string()]).ok());
        let present = set.present.then(|| Requirement::exists(name()));
        std::iter::once(Requirement::not_in(name(), texts)).chain(present).chain(bounds).collect()
    }
}

#[cfg(test)]
mod tests;
