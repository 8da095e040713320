//! Whole nodes from the pattern program: what few large pods share a node with is decided for all nodes at once.
//!
//! The program has the items as kinds and the sizes of all subproblems as columns, and its solution is rounded: see [`Program`].

use std::{cell::Cell, collections::BTreeSet};

use hashbrown::HashMap;

use crate::{
    model::Price,
    scheduling::{
        bound::{Columns, KINDS_MAX, Pattern, PodKind, Program},
        ids::{Id, ItemId, TemplateId, TopologyGroupId},
        improve::{
            NODE_OVERHEAD,
            bins::Bin,
            problem::{Content, Problem},
            table::Size,
        },
        request::Effort,
    },
};

/// What the search may cost, in additions of tables: a quarter of a second.
const WORK: usize = 250_000_000;
/// More groups by hostname than this that several items share are not looked at: each is a dimension.
const SHARED_GROUPS_MAX: usize = 8;

/// Solves the pattern program, for as long as the effort lasts, and rounds its solution to nodes, which hold most pods; `None` where it is too
/// large.
pub(super) fn round(problem: &Problem, effort: Effort<'_>) -> Option<Vec<Bin>> {
    if problem.items.len() > KINDS_MAX || problem.subproblems.is_empty() {
        return None;
    }
    let rounds = Cell::new(0_u32);
    let go_on = || match effort {
        Effort::First => false,
        Effort::Iterations(rounds_max) => {
            rounds.set(rounds.get() + 1);
            rounds.get() <= rounds_max
        }
        Effort::While(go_on) => go_on(),
    };
    let shared = shared_groups(problem)?;
    let sizes = sizes(problem);
    let mut columns = Columns::new(problem.dims + shared.len());
    for (_, size) in &sizes {
        let price = Price::from_nanos(size.price.saturating_add(NODE_OVERHEAD));
        columns.push(price, size.room.iter().copied().chain(shared.iter().map(|(_, most)| *most)));
    }
    let kinds: Vec<PodKind> = problem.items.ids().map(|item| kind(problem, item, &sizes, &shared)).collect();
    let items = |content: &[(usize, i64)]| -> Option<Content> {
        let items =
            content.iter().map(|(kind, count)| Some((ItemId::new(*kind), u32::try_from(*count).ok()?)));
        items.collect()
    };
    let load = |column: usize, content: &[(usize, i64)]| problem.loaded(sizes[column].0, &items(content)?);
    let price_of = |column: usize, content: &[(usize, i64)]| Some(load(column, content)?.cost());
    let mut program = Program::new(&kinds, &columns, &price_of, WORK)?;
    let solution = program.generate(&go_on)?;
    let mut bins = Vec::new();
    for (Pattern { column, content, .. }, times) in program.whole(&solution) {
        let Some(mut bin) = load(column, &content) else { continue };
        problem.note_room(&mut bin);
        bins.extend(std::iter::repeat_n(bin, usize::try_from(times).unwrap_or(0)));
    }
    Some(bins)
}

/// What may be created: the sizes of all subproblems, and whole types, of which rarer resources would be lost in sizes.
fn sizes(problem: &Problem) -> Vec<(TemplateId, Size)> {
    let of_subproblems = problem.subproblems.iter().flat_map(|subproblem| subproblem.sizes.clone());
    let mut sizes: Vec<(TemplateId, Size)> = of_subproblems.collect();
    let mut asked = BTreeSet::new();
    for item in &problem.items {
        let templates = problem.eligibilities[item.eligibility].iter();
        asked.extend(templates.map(|template| (*template, item.types[problem.templates[*template].pool])));
    }
    for (template, types) in asked.into_iter().filter(|(_, types)| *types > 0) {
        sizes.extend(problem.templates[template].table.whole_types(types).map(|size| (template, size)));
    }
    sizes
}

/// The groups by hostname that several items share, with the most that they allow; `None` where there are too many.
fn shared_groups(problem: &Problem) -> Option<Vec<(TopologyGroupId, i64)>> {
    let mut groups: HashMap<TopologyGroupId, (usize, i64)> = HashMap::new();
    for rules in problem.items.iter().map(|item| &item.hostname) {
        rules.counted.iter().for_each(|group| groups.entry(*group).or_insert((0, 0)).0 += 1);
        for (group, most) in &rules.caps {
            let known = groups.entry(*group).or_insert((0, 0));
            known.1 = known.1.max(i64::from(*most));
        }
    }
    let shared = groups.into_iter().filter(|(_, (items, most))| *items > 1 && *most > 0);
    let mut shared: Vec<_> = shared.map(|(group, (_, most))| (group, most)).collect();
    shared.sort_unstable();
    (shared.len() <= SHARED_GROUPS_MAX).then_some(shared)
}

fn kind(
    problem: &Problem,
    item: ItemId,
    sizes: &[(TemplateId, Size)],
    shared: &[(TopologyGroupId, i64)],
) -> PodKind {
    let this = &problem.items[item];
    let rules = &this.hostname;
    let counted = shared.iter().map(|(group, _)| i64::from(rules.counted.contains(group)));
    let may = |template: TemplateId| {
        let joined = problem.join(template, item);
        joined.is_some_and(|joined| this.types[problem.templates[joined].pool] > 0)
    };
    PodKind {
        amounts: this.requests.iter().copied().chain(counted).collect(),
        allowed: sizes.iter().map(|(template, _)| may(*template)).collect(),
        per_node: i64::from(rules.per_node()),
        count: i64::from(this.count),
    }
}
