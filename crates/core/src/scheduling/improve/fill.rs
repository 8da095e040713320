//! Filling one node: pods by the worth of what they take of the room that is left.

use crate::scheduling::{
    ids::{EligibilityId, Id, IdVec, ItemId, SubproblemId, TemplateId},
    improve::{
        float,
        problem::{Content, Problem},
        table::Room,
    },
};

/// How the next item is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// What a pod takes, each dimension weighted by its worth and by how much of it is left: large pods first.
    Dot,
    /// The same per worth of the pod: shape alone, so that no dimension runs out before the others.
    Shape,
    /// The most worth per share of the scarcest dimension.
    Snug,
}

/// All styles.
pub(super) const STYLES: [Style; 3] = [Style::Dot, Style::Shape, Style::Snug];

/// What items are worth, and how a fill weighs them.
#[derive(Clone, Debug)]
pub(super) struct Weights {
    /// By item: what a pod would cost at the prices of the linear program.
    pub(super) worth: IdVec<ItemId, f64>,
    /// By item and dimension: what weighs in the choice of the next one.
    pull: Vec<f64>,
    /// By item: a random factor, so that two rounds differ.
    pub(super) noise: IdVec<ItemId, f64>,
    /// By item and dimension.
    requests: Vec<f64>,
}

/// The node to fill.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    pub(super) template: TemplateId,
    pub(super) room: &'a [i64],
    /// Only items of this eligibility, or all that agree.
    pub(super) only: Option<EligibilityId>,
}

/// What one node holds.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    pub(super) template: TemplateId,
    pub(super) content: Content,
    pub(super) used: Room,
    pub(super) price: i64,
    pub(super) value: f64,
}

/// Vectors that are used again and again.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    active: Vec<ItemId>,
    put: IdVec<ItemId, u32>,
    room: Vec<i64>,
    share: Vec<f64>,
}

impl Weights {
    /// Weights by the duals of each subproblem. A dimension that is worth nothing still weighs a little where there is a
    /// choice, since it may run out on a single node.
    pub(super) fn new(problem: &Problem, duals: &IdVec<SubproblemId, Vec<f64>>) -> Self {
        let (dims, items) = (problem.dims, problem.items.len());
        let mut this = Self {
            worth: IdVec::default(),
            pull: Vec::with_capacity(items * dims),
            noise: vec![1.0; items].into(),
            requests: Vec::with_capacity(items * dims),
        };
        let least = problem.subproblems.ids().map(|subproblem| least_weights(problem, subproblem));
        let least: IdVec<SubproblemId, Vec<f64>> = least.collect();
        for item in &problem.items {
            let mut worth = 0.0;
            for (dim, amount) in item.requests.iter().enumerate() {
                let (amount, dual) = (float(*amount), duals[item.subproblem][dim]);
                worth += amount * dual;
                this.pull.push(amount * (dual + least[item.subproblem][dim]));
                this.requests.push(amount);
            }
            this.worth.push(worth.max(1.0));
        }
        this
    }

    /// The weight of an item in the choice of the next one, given the share of each dimension that is left.
    fn score(&self, item: ItemId, style: Style, share: &[f64], room: &[i64]) -> f64 {
        let dims = share.len();
        let own = item.position() * dims..(item.position() + 1) * dims;
        let pull = &self.pull[own.clone()];
        let score = match style {
            Style::Dot => pull.iter().zip(share).map(|(pull, share)| pull * share).sum(),
            Style::Shape => {
                let (along, whole) = pull
                    .iter()
                    .zip(share)
                    .fold((0.0, f64::MIN_POSITIVE), |(a, w), (pull, share)| (a + pull * share, w + pull));
                along / whole
            }
            Style::Snug => {
                let requests = &self.requests[own];
                let taken = requests.iter().zip(room).map(|(amount, room)| amount / float((*room).max(1)));
                self.worth[item] / taken.fold(f64::MIN_POSITIVE, f64::max)
            }
        };
        score * self.noise[item]
    }
}

/// A twentieth of what each dimension costs where it is cheapest.
fn least_weights(problem: &Problem, subproblem: SubproblemId) -> Vec<f64> {
    let sizes = &problem.subproblems[subproblem].sizes;
    let cheapest = |dim: usize| {
        let rates = sizes.iter().filter(|(_, size)| size.room[dim] > 0);
        let rates = rates.map(|(_, size)| float(size.price) / float(size.room[dim]));
        rates.fold(f64::INFINITY, f64::min)
    };
    (0..problem.dims).map(cheapest).map(|rate| if rate.is_finite() { rate * 0.05 } else { 0.0 }).collect()
}

impl Scratch {
    /// Fills a node from what remains of each item; `None` where nothing fits, or where what fits could not be bought.
    pub(super) fn fill(
        &mut self,
        problem: &Problem,
        weights: &Weights,
        target: Target<'_>,
        present: &[ItemId],
        remaining: &IdVec<ItemId, u32>,
        style: Style,
    ) -> Option<Pattern> {
        let mut template = target.template;
        self.start(problem, target, present, remaining);
        let mut used = Room::from_elem(0, problem.dims);
        loop {
            self.share.clear();
            let left = self.room.iter().zip(target.room);
            self.share.extend(left.map(|(left, all)| float(*left) / float((*all).max(1))));
            let mut best: Option<(f64, ItemId)> = None;
            let (room, put, share) = (&self.room, &self.put, &self.share);
            self.active.retain(|item| {
                let this = &problem.items[*item];
                let fits =
                    this.requests.iter().zip(room).all(|(amount, room)| amount <= room || *amount <= 0);
                if !fits
                    || put[*item] >= remaining[*item].min(this.hostname.per_node())
                    || problem.join(template, *item).is_none()
                {
                    return false;
                }
                let score = weights.score(*item, style, share, room);
                if best.is_none_or(|(highest, _)| score > highest) {
                    best = Some((score, *item));
                }
                true
            });
            let Some((_, item)) = best else { break };
            let this = &problem.items[item];
            let most = this.requests.iter().zip(&self.room).filter(|(amount, _)| **amount > 0);
            let most = most.map(|(amount, room)| room / amount).min().unwrap_or(i64::MAX);
            let left = remaining[item].min(this.hostname.per_node()) - self.put[item];
            let most = u32::try_from(most).unwrap_or(u32::MAX).min(left);
            // Not all at once: the shape of what is left changes.
            let count = most.div_ceil(if style == Style::Shape { 4 } else { 2 }).max(1);
            self.put[item] += count;
            for (dim, amount) in this.requests.iter().enumerate() {
                let amount = amount.saturating_mul(i64::from(count));
                self.room[dim] -= amount;
                used[dim] += amount;
            }
            template = problem.join(template, item).unwrap_or(template);
        }
        self.finish(weights, template, used, present)
    }

    fn start(
        &mut self,
        problem: &Problem,
        target: Target<'_>,
        present: &[ItemId],
        remaining: &IdVec<ItemId, u32>,
    ) {
        self.put.items_mut().clear();
        self.put.items_mut().resize(problem.items.len(), 0);
        self.room.clear();
        self.room.extend(target.room);
        self.active.clear();
        let wanted = |item: &&ItemId| {
            target.only.is_none_or(|only| problem.items[**item].eligibility == only) && remaining[**item] > 0
        };
        self.active.extend(present.iter().filter(wanted));
    }

    fn finish(
        &self,
        weights: &Weights,
        template: TemplateId,
        used: Room,
        present: &[ItemId],
    ) -> Option<Pattern> {
        let put = present.iter().copied().filter(|item| self.put[*item] > 0);
        let content: Content = put.map(|item| (item, self.put[item])).collect();
        if content.is_empty() {
            return None;
        }
        let value = content.iter().map(|(item, count)| weights.worth[*item] * f64::from(*count)).sum();
        Some(Pattern { template, content, used, price: 0, value })
    }
}
