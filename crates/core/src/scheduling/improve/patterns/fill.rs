//! Filling one node: pods by the worth of what they take of the room that is left.

use crate::scheduling::improve::{
    float,
    patterns::{
        problem::{Content, Problem},
        table::Room,
    },
};

/// How the next kind of pod is chosen.
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

/// What the kinds are worth, and how a fill weighs them.
#[derive(Clone, Debug)]
pub(super) struct Weights {
    /// By kind: what a pod would cost at the prices of the linear program.
    pub(super) worth: Vec<f64>,
    /// By kind and dimension: what weighs in the choice of the next one.
    pull: Vec<f64>,
    /// By kind: chance that keeps two searches apart.
    pub(super) noise: Vec<f64>,
    /// By kind and dimension.
    requests: Vec<f64>,
}

/// What is to be filled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Vessel<'a> {
    pub(super) state: usize,
    pub(super) room: &'a [i64],
    pub(super) used: &'a [i64],
    /// Only kinds of this eligibility, or all that get along.
    pub(super) only: Option<usize>,
}

/// What one node holds.
#[derive(Clone, Debug, Default)]
pub(super) struct Pattern {
    pub(super) state: usize,
    pub(super) content: Content,
    pub(super) used: Room,
    pub(super) price: i64,
    pub(super) value: f64,
}

/// Vectors that are used again and again.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    active: Vec<usize>,
    put: Vec<u32>,
    room: Vec<i64>,
    share: Vec<f64>,
}

impl Weights {
    /// Weights by the duals of each lane. A dimension that is worth nothing still weighs a little where there is a
    /// choice, since it may run out on a single node.
    pub(super) fn new(problem: &Problem, duals: &[Vec<f64>]) -> Self {
        let (dims, kinds) = (problem.dims, problem.kinds.len());
        let mut this = Self {
            worth: Vec::with_capacity(kinds),
            pull: Vec::with_capacity(kinds * dims),
            noise: vec![1.0; kinds],
            requests: Vec::with_capacity(kinds * dims),
        };
        let floors: Vec<Vec<f64>> = (0..problem.lanes.len()).map(|lane| floors(problem, lane)).collect();
        for kind in &problem.kinds {
            let mut worth = 0.0;
            for (dim, amount) in kind.requests.iter().enumerate() {
                let (amount, dual) = (float(*amount), duals[kind.lane][dim]);
                worth += amount * dual;
                this.pull.push(amount * (dual + floors[kind.lane][dim]));
                this.requests.push(amount);
            }
            this.worth.push(worth.max(1.0));
        }
        this
    }

    /// How much a kind wants to be next, given the share of each dimension that is left.
    fn score(&self, kind: usize, style: Style, share: &[f64], room: &[i64]) -> f64 {
        let dims = share.len();
        let pull = &self.pull[kind * dims..(kind + 1) * dims];
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
                let requests = &self.requests[kind * dims..(kind + 1) * dims];
                let taken = requests.iter().zip(room).map(|(amount, room)| amount / float((*room).max(1)));
                self.worth[kind] / taken.fold(f64::MIN_POSITIVE, f64::max)
            }
        };
        score * self.noise[kind]
    }
}

/// A twentieth of what each dimension costs where it is cheapest.
fn floors(problem: &Problem, lane: usize) -> Vec<f64> {
    let sizes = &problem.lanes[lane].sizes;
    let cheapest = |dim: usize| {
        let rates = sizes.iter().filter(|(_, size)| size.room[dim] > 0);
        let rates = rates.map(|(_, size)| float(size.price) / float(size.room[dim]));
        rates.fold(f64::INFINITY, f64::min)
    };
    (0..problem.dims).map(cheapest).map(|rate| if rate.is_finite() { rate * 0.05 } else { 0.0 }).collect()
}

impl Scratch {
    /// Fills a node from what remains of each kind; `None` where nothing fits, or where what fits could not be bought.
    pub(super) fn fill(
        &mut self,
        problem: &Problem,
        weights: &Weights,
        vessel: Vessel<'_>,
        present: &[usize],
        remaining: &[u32],
        style: Style,
    ) -> Option<Pattern> {
        let mut state = vessel.state;
        self.start(problem, vessel, present, remaining);
        let mut used = Room::from_slice(vessel.used);
        loop {
            self.share.clear();
            let left = self.room.iter().zip(vessel.room);
            self.share.extend(left.map(|(left, all)| float(*left) / float((*all).max(1))));
            let mut best: Option<(f64, usize)> = None;
            let (room, put, share) = (&self.room, &self.put, &self.share);
            self.active.retain(|kind| {
                let this = &problem.kinds[*kind];
                let fits =
                    this.requests.iter().zip(room).all(|(amount, room)| amount <= room || *amount <= 0);
                if !fits || put[*kind] >= remaining[*kind] || problem.join[state][this.eligibility].is_none()
                {
                    return false;
                }
                let score = weights.score(*kind, style, share, room);
                if best.is_none_or(|(highest, _)| score > highest) {
                    best = Some((score, *kind));
                }
                true
            });
            let Some((_, kind)) = best else { break };
            let this = &problem.kinds[kind];
            let most = this.requests.iter().zip(&self.room).filter(|(amount, _)| **amount > 0);
            let most = most.map(|(amount, room)| room / amount).min().unwrap_or(i64::MAX);
            let most = u32::try_from(most).unwrap_or(u32::MAX).min(remaining[kind] - self.put[kind]);
            // Not all at once: the shape of what is left changes.
            let count = most.div_ceil(if style == Style::Shape { 4 } else { 2 }).max(1);
            self.put[kind] += count;
            for (at, amount) in this.requests.iter().enumerate() {
                let amount = amount.saturating_mul(i64::from(count));
                self.room[at] -= amount;
                used[at] += amount;
            }
            state = problem.join[state][this.eligibility].unwrap_or(state);
        }
        self.finish(weights, state, used, present)
    }

    fn start(&mut self, problem: &Problem, vessel: Vessel<'_>, present: &[usize], remaining: &[u32]) {
        self.put.clear();
        self.put.resize(problem.kinds.len(), 0);
        self.room.clear();
        self.room.extend(vessel.room.iter().zip(vessel.used).map(|(room, used)| room - used));
        self.active.clear();
        let wanted = |kind: &&usize| {
            vessel.only.is_none_or(|only| problem.kinds[**kind].eligibility == only) && remaining[**kind] > 0
        };
        self.active.extend(present.iter().filter(wanted));
    }

    fn finish(&self, weights: &Weights, state: usize, used: Room, present: &[usize]) -> Option<Pattern> {
        let put = present.iter().copied().filter(|kind| self.put[*kind] > 0);
        let content: Content = put.map(|kind| (kind, self.put[kind])).collect();
        if content.is_empty() {
            return None;
        }
        let value = content.iter().map(|(kind, count)| weights.worth[*kind] * f64::from(*count)).sum();
        Some(Pattern { state, content, used, price: 0, value })
    }
}
