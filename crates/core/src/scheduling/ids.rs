//! Indices with types: an index of a node is another type than an index of a pod class.

use std::{marker::PhantomData, ops};

/// The entities of ids: types without values.
mod of {
    macro_rules! of {
        ($($name:ident),+) => {
            $(#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)] pub(crate) enum $name {})+
        };
    }
    of!(
        Claim,
        Class,
        Compatibility,
        Eligibility,
        Group,
        Item,
        LabelSet,
        Level,
        Node,
        Pod,
        Pool,
        Reservation,
        ResourceClaim,
        Row,
        Subproblem,
        Template,
        CompiledClaim
    );
}

/// A node of the snapshot, by slot.
pub(crate) type NodeId = Idx<of::Node>;
/// A NodePool that takes part.
pub(crate) type NodePoolId = Idx<of::Pool>;
/// A row of a NodePool: an instance type with one allocatable.
pub(crate) type InstanceTypeId = Idx<of::Row>;
/// A class of pods with equal constraints.
pub(crate) type PodClassId = Idx<of::Class>;
/// A level of relaxation of a pod class.
pub(crate) type LevelId = Idx<of::Level>;
/// The constraints that decide which nodes and NodePools a pod class can use at a level.
pub(crate) type CompatibilityId = Idx<of::Compatibility>;
/// Pods with equal labels and namespace.
pub(crate) type LabelSetId = Idx<of::LabelSet>;
/// A topology group.
pub(crate) type TopologyGroupId = Idx<of::Group>;
/// A new NodeClaim of the pass.
pub(crate) type NewClaimId = Idx<of::Claim>;
/// A capacity reservation.
pub(crate) type ReservationId = Idx<of::Reservation>;
/// A resource claim that gets devices in the pass.
pub(crate) type ResourceClaimId = Idx<of::ResourceClaim>;
/// One of the resource claims that are searched for together.
pub(crate) type CompiledClaimId = Idx<of::CompiledClaim>;
/// A pod of the request.
pub(crate) type PodId = Idx<of::Pod>;

/// Pods that are equal to the search for a cheaper packing.
pub(crate) type ItemId = Idx<of::Item>;
/// The labels and NodePools that such pods require.
pub(crate) type EligibilityId = Idx<of::Eligibility>;
/// A NodePool under a set of requirements.
pub(crate) type TemplateId = Idx<of::Template>;
/// Pods that compete for the same nodes when they are packed by patterns.
pub(crate) type SubproblemId = Idx<of::Subproblem>;

/// An index into an [`IdVec`] or a member of a set of indices.
pub(crate) trait Id: Copy {
    /// The id at a position.
    fn new(position: usize) -> Self;
    /// Its position.
    fn position(self) -> usize;
}

impl Id for usize {
    fn new(position: usize) -> Self {
        position
    }
    fn position(self) -> usize {
        self
    }
}

/// A position among things of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Idx<T> {
    position: usize,
    of: PhantomData<fn() -> T>,
}

impl<T> Idx<T> {
    /// The first.
    pub(crate) const FIRST: Self = Self { position: 0, of: PhantomData };

    /// The one after it.
    pub(crate) fn next(self) -> Self {
        Self { position: self.position + 1, of: PhantomData }
    }
}

impl<T: Copy> Id for Idx<T> {
    fn new(position: usize) -> Self {
        Self { position, of: PhantomData }
    }
    fn position(self) -> usize {
        self.position
    }
}

/// A vector by id.
#[derive(Clone, Debug)]
pub(crate) struct IdVec<I, T> {
    items: Vec<T>,
    by: PhantomData<fn(I)>,
}

impl<I: Id, T> IdVec<I, T> {
    /// Adds an item; returns its id.
    pub(crate) fn push(&mut self, item: T) -> I {
        self.items.push(item);
        I::new(self.items.len() - 1)
    }

    /// The id that the next item gets.
    pub(crate) fn next_id(&self) -> I {
        I::new(self.items.len())
    }

    /// The item of an id.
    pub(crate) fn get(&self, id: I) -> Option<&T> {
        self.items.get(id.position())
    }

    /// All ids.
    pub(crate) fn ids(&self) -> impl DoubleEndedIterator<Item = I> + ExactSizeIterator + use<I, T> {
        (0..self.items.len()).map(I::new)
    }

    /// All items with their ids.
    pub(crate) fn entries(&self) -> impl DoubleEndedIterator<Item = (I, &T)> {
        self.items.iter().enumerate().map(|(position, item)| (I::new(position), item))
    }

    /// The vector itself.
    pub(crate) fn items_mut(&mut self) -> &mut Vec<T> {
        &mut self.items
    }
}

impl<I, T> Default for IdVec<I, T> {
    fn default() -> Self {
        Self { items: Vec::new(), by: PhantomData }
    }
}

impl<I, T> FromIterator<T> for IdVec<I, T> {
    fn from_iter<A: IntoIterator<Item = T>>(items: A) -> Self {
        Self { items: items.into_iter().collect(), by: PhantomData }
    }
}

impl<I, T> From<Vec<T>> for IdVec<I, T> {
    fn from(items: Vec<T>) -> Self {
        Self { items, by: PhantomData }
    }
}

impl<I, T> ops::Deref for IdVec<I, T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.items
    }
}

impl<I, T> ops::DerefMut for IdVec<I, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.items
    }
}

impl<I: Id, T> ops::Index<I> for IdVec<I, T> {
    type Output = T;
    fn index(&self, id: I) -> &T {
        &self.items[id.position()]
    }
}

impl<I: Id, T> ops::IndexMut<I> for IdVec<I, T> {
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.items[id.position()]
    }
}

impl<'a, I, T> IntoIterator for &'a IdVec<I, T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}

impl<'a, I, T> IntoIterator for &'a mut IdVec<I, T> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.items.iter_mut()
    }
}

/// An existing node or a new NodeClaim of the pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Host {
    /// An existing or in-flight node.
    Node(NodeId),
    /// A new NodeClaim.
    NewClaim(NewClaimId),
}

/// A domain of a topology group: of a group by hostname a node or a new NodeClaim, of others a value of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct DomainId(usize);

/// The domain of a group by hostname that is the first new NodeClaim of a pass.
const CLAIMS: usize = 1 << (usize::BITS - 2);

impl DomainId {
    /// The node or new NodeClaim that is a domain of a group by hostname.
    pub(crate) fn host(self) -> Host {
        match self.0.checked_sub(CLAIMS) {
            Some(claim) => Host::NewClaim(Id::new(claim)),
            None => Host::Node(Id::new(self.0)),
        }
    }

    /// The position among new NodeClaims or values, most of which have pods; `None` of a node, few of which do.
    pub(crate) fn dense(self, by_hostname: bool) -> Option<usize> {
        match self.host() {
            Host::Node(_) if by_hostname => None,
            Host::Node(_) => Some(self.0),
            Host::NewClaim(claim) => Some(claim.position()),
        }
    }

    /// The value of a label.
    pub(crate) fn of_value(value: u32) -> Self {
        Self(value as usize)
    }
}

impl Id for DomainId {
    fn new(position: usize) -> Self {
        Self(position)
    }
    fn position(self) -> usize {
        self.0
    }
}

impl From<NodeId> for DomainId {
    fn from(node: NodeId) -> Self {
        Self(node.position())
    }
}

impl From<NewClaimId> for DomainId {
    fn from(claim: NewClaimId) -> Self {
        Self(CLAIMS + claim.position())
    }
}
