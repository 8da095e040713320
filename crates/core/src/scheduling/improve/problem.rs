//! The packing problem: items (pods that are equal to the search), the templates of new NodeClaims that can hold them, and the
//! subproblems of column generation.

use hashbrown::HashSet;
use smallvec::SmallVec;

use crate::{
    model::Price,
    scheduling::{
        bound::Columns,
        ids::{EligibilityId, IdVec, ItemId, NodePoolId, SubproblemId, TemplateId, TopologyGroupId},
        improve::table::{Room, Size, Table},
        tables::intern::Req,
    },
};

/// Items and the number of pods of each.
pub(super) type Content = SmallVec<[(ItemId, u32); 6]>;

/// What topology groups by hostname demand of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct HostnameRules {
    /// Groups that count it.
    pub(super) counted: SmallVec<[TopologyGroupId; 4]>,
    /// Groups that it obeys, with the most that they may count on its node, itself included.
    pub(super) caps: SmallVec<[(TopologyGroupId, u32); 2]>,
}

impl HostnameRules {
    /// Whether no two such pods share a node.
    pub(super) fn is_exclusive(&self) -> bool {
        self.caps.iter().any(|(group, most)| *most <= 1 && self.counted.contains(group))
    }

    /// Whether no group by hostname is about it.
    pub(super) fn is_empty(&self) -> bool {
        self.counted.is_empty() && self.caps.is_empty()
    }

    /// The groups that are about it, each once.
    fn groups(&self) -> impl Iterator<Item = TopologyGroupId> {
        let capped = self.caps.iter().map(|(group, _)| *group).filter(|group| !self.counted.contains(group));
        self.counted.iter().copied().chain(capped)
    }

    /// The most of such pods that may share a node, by the groups that count them.
    pub(super) fn per_node(&self) -> u32 {
        let own = self.caps.iter().filter(|(group, _)| self.counted.contains(group));
        own.map(|(_, most)| *most).min().unwrap_or(u32::MAX)
    }
}

/// Pods that are equal to the search.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// By dimension.
    pub(super) requests: Room,
    /// How many pods there are.
    pub(super) count: u32,
    /// What they ask of labels and NodePools.
    pub(super) eligibility: EligibilityId,
    pub(super) subproblem: SubproblemId,
    /// By NodePool: how many types a NodeClaim that holds one of them must keep.
    pub(super) types: IdVec<NodePoolId, usize>,
    pub(super) hostname: HostnameRules,
}

/// A NodePool under a set of requirements.
#[derive(Debug)]
pub(super) struct Template {
    pub(super) pool: NodePoolId,
    pub(super) req: Req,
    pub(super) table: Table,
    /// By eligibility: the template of a NodeClaim that such a pod joins.
    pub(super) join: IdVec<EligibilityId, Option<TemplateId>>,
}

/// A pricing problem of column generation: items that compete for the same nodes.
#[derive(Clone, Debug)]
pub(super) struct Subproblem {
    pub(super) eligibility: EligibilityId,
    /// What may be created for them: the template, and how much to put in.
    pub(super) sizes: Vec<(TemplateId, Size)>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Problem {
    pub(super) dims: usize,
    pub(super) items: IdVec<ItemId, Item>,
    pub(super) templates: IdVec<TemplateId, Template>,
    /// By eligibility: the templates of a new NodeClaim.
    pub(super) eligibilities: IdVec<EligibilityId, Vec<TemplateId>>,
    /// Those with the least choice first.
    pub(super) subproblems: IdVec<SubproblemId, Subproblem>,
}

impl Problem {
    /// How many types a NodeClaim that holds some items must keep.
    pub(super) fn types(&self, template: TemplateId, content: &[(ItemId, u32)]) -> usize {
        let pool = self.templates[template].pool;
        content.iter().map(|(item, _)| self.items[*item].types[pool]).min().unwrap_or(0)
    }

    /// The template of a NodeClaim that an item joins; `None` where labels exclude it.
    pub(super) fn join(&self, template: TemplateId, item: ItemId) -> Option<TemplateId> {
        self.templates[template].join[self.items[item].eligibility]
    }

    /// The price of a NodeClaim; `None` where too few types hold it.
    pub(super) fn price(&self, template: TemplateId, used: &[i64], types: usize) -> Option<i64> {
        self.templates[template].table.price(used, types)
    }

    /// Whether no topology group by hostname is about any item.
    pub(super) fn is_plain(&self) -> bool {
        self.items.iter().all(|item| item.hostname.is_empty())
    }

    /// Whether patterns can pack it: no topology group by hostname is about several items, so that each item limits itself alone
    /// ([`HostnameRules::per_node`]).
    pub(super) fn suits_patterns(&self) -> bool {
        let mut known = HashSet::new();
        let mut groups = self.items.iter().flat_map(|item| item.hostname.groups());
        groups.all(|group| known.insert(group))
    }

    /// The number of pods of each item.
    pub(super) fn counts(&self) -> IdVec<ItemId, u32> {
        self.items.iter().map(|item| item.count).collect()
    }

    /// What a subproblem can buy, as columns, each dearer by the part of it that cannot be filled, per mille.
    pub(super) fn columns(&self, subproblem: SubproblemId, filled: &[i64]) -> Columns {
        let mut columns = Columns::new(self.dims);
        for ((_, size), filled) in self.subproblems[subproblem].sizes.iter().zip(filled) {
            let price = size.price.saturating_mul(1000) / (*filled).max(1);
            columns.push(Price::from_nanos(price), size.room.iter().copied());
        }
        columns
    }

    /// What some pods of each item take together, of one subproblem or of all.
    pub(super) fn demand(&self, counts: &[u32], subproblem: Option<SubproblemId>) -> Vec<i64> {
        let mut demand = vec![0_i64; self.dims];
        for (item, count) in self.items.iter().zip(counts) {
            if subproblem.is_none_or(|subproblem| subproblem == item.subproblem) {
                for (sum, amount) in demand.iter_mut().zip(&item.requests) {
                    *sum = sum.saturating_add(amount.saturating_mul(i64::from(*count)));
                }
            }
        }
        demand
    }
}
