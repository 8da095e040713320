//! The tables of the view: what each column of a pane shows.

use std::{borrow::Cow, collections::BTreeSet};

use fleetwright_core::model::{Price, labels};
use jiff::Timestamp;
use ratatui_core::{buffer::Buffer, layout::Rect, style::Style};

use super::{
    app::{Pane, TopApp},
    draw::{Styled, Theme, bar, line, plain, styled},
    table::{Table, Wanted, fitted},
};
use crate::{
    decisions::DecisionRow,
    figures,
    fleet::{
        DisruptionInProgress, DisruptionStage, FleetNode, InFlightNodeClaim, NodePhase, PendingPod, use_of,
    },
};

/// What a column shows; each pane uses some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Name,
    InstanceType,
    CapacityType,
    Price,
    Effective,
    Cpu,
    Memory,
    Other,
    Pods,
    Phase,
    Age,
    NodePool,
    Zone,
    Blockers,
    Reason,
    Message,
    Replacements,
    Saving,
    Outcome,
    /// A label that the selector names, by its place in [`label_keys`].
    Label(usize),
}

const fn column(content: Content, title: &'static str, width: (usize, usize), rank: u8) -> Wanted<Content> {
    Wanted { content, title: Cow::Borrowed(title), least: width.0, most: width.1, right: false, rank }
}

const fn number(content: Content, title: &'static str, width: usize, rank: u8) -> Wanted<Content> {
    Wanted { content, title: Cow::Borrowed(title), least: width, most: width, right: true, rank }
}

/// 80 columns show those of rank 0.
const NODES: [Wanted<Content>; 14] = [
    column(Content::Name, "NODE", (14, 46), 0),
    column(Content::NodePool, "NODEPOOL", (10, 20), 2),
    column(Content::InstanceType, "TYPE", (12, 20), 0),
    column(Content::CapacityType, "CAPACITY", (9, 9), 0),
    column(Content::Zone, "ZONE", (10, 14), 3),
    number(Content::Price, "", 7, 0),
    number(Content::Effective, "COUNTS AS", 9, 5),
    column(Content::Cpu, "CPU", (8, 25), 0),
    column(Content::Memory, "MEMORY", (8, 25), 0),
    number(Content::Pods, "PODS", 4, 0),
    number(Content::Age, "AGE", 4, 1),
    column(Content::Phase, "STATE", (11, 12), 0),
    column(Content::Other, "OTHER RESOURCES", (16, 30), 6),
    column(Content::Blockers, "DISRUPTION BLOCKED BY", (22, 200), 4),
];

const PENDING: [Wanted<Content>; 6] = [
    column(Content::Name, "POD", (20, 40), 0),
    number(Content::Age, "AGE", 4, 0),
    number(Content::Cpu, "CPU", 6, 1),
    number(Content::Memory, "MEMORY", 7, 1),
    column(Content::Reason, "REASON", (14, 16), 0),
    column(Content::Message, "MESSAGE", (20, 300), 0),
];

const NODE_CLAIMS: [Wanted<Content>; 9] = [
    column(Content::Name, "NODECLAIM", (18, 36), 0),
    column(Content::Phase, "PHASE", (10, 10), 0),
    number(Content::Age, "AGE", 4, 0),
    column(Content::NodePool, "NODEPOOL", (10, 20), 2),
    column(Content::InstanceType, "TYPE", (13, 20), 0),
    column(Content::Zone, "ZONE", (10, 14), 3),
    number(Content::Price, "", 7, 1),
    number(Content::Pods, "PODS", 4, 1),
    column(Content::Message, "WAITS FOR", (10, 300), 2),
];

const DISRUPTIONS: [Wanted<Content>; 7] = [
    column(Content::Reason, "REASON", (13, 16), 0),
    column(Content::Phase, "STAGE", (11, 11), 0),
    number(Content::Age, "FOR", 4, 0),
    number(Content::Pods, "PODS", 4, 0),
    number(Content::Saving, "", 9, 0),
    column(Content::Name, "NODES", (18, 60), 0),
    column(Content::Replacements, "REPLACED BY", (14, 60), 1),
];

const CHANGES: [Wanted<Content>; 2] =
    [number(Content::Age, "AGO", 4, 0), column(Content::Message, "CHANGE", (40, 300), 0)];

const DECISIONS: [Wanted<Content>; 7] = [
    number(Content::Age, "AGO", 4, 0),
    column(Content::Phase, "KIND", (10, 10), 0),
    column(Content::Message, "DECISION", (30, 120), 0),
    number(Content::Saving, "", 9, 1),
    column(Content::Outcome, "OUTCOME", (10, 10), 0),
    column(Content::Reason, "WHY", (20, 300), 0),
    column(Content::Name, "ID", (18, 24), 2),
];

/// The title of a pane where there is little room.
pub(super) fn short_title(pane: Pane) -> &'static str {
    match pane {
        Pane::Pending => "Pending",
        Pane::NodeClaims => "NodeClaims",
        pane => title(pane),
    }
}

/// The title of a pane.
pub(super) fn title(pane: Pane) -> &'static str {
    match pane {
        Pane::Nodes => "Nodes",
        Pane::Pending => "Pending pods",
        Pane::NodeClaims => "NodeClaims in flight",
        Pane::Disruptions => "Disruptions",
        Pane::Changes => "Changes",
        Pane::Decisions => "Decisions",
    }
}

/// Draws the table of a pane, and returns how many rows were formatted.
pub(super) fn draw(app: &TopApp, pane: Pane, buffer: &mut Buffer, area: Rect) -> usize {
    let wanted: &[Wanted<Content>] = match pane {
        Pane::Nodes => &NODES,
        Pane::Pending => &PENDING,
        Pane::NodeClaims => &NODE_CLAIMS,
        Pane::Disruptions => &DISRUPTIONS,
        Pane::Changes => &CHANGES,
        Pane::Decisions => &DECISIONS,
    };
    let columns = fitted(&relevant(app, pane, wanted), area.width);
    let place = app.place(pane);
    let table = Table {
        columns: &columns,
        length: app.length(pane),
        selected: Some(place).filter(|_| app.focus == pane),
        place,
        theme: app.theme,
    };
    if pane == Pane::Decisions && app.decisions.rows.is_empty() {
        line(buffer, Rect { height: 1, ..area }, &[styled(&app.decisions.note, app.theme.faint())]);
        return 0;
    }
    let (now, theme, report) = (app.report.taken_at, app.theme, &app.report);
    let keys = label_keys(app);
    table.draw(buffer, area, |row, content, width| {
        match pane {
            Pane::Nodes => {
                let node = app.listed.get(row).and_then(|place| report.nodes.get(*place));
                node.map(|node| match content {
                    Content::Label(place) => plain(
                        keys.get(place).and_then(|key| node.labels.get(*key)).map_or("", String::as_str),
                    ),
                    content => of_node(node, content, width, (theme, now)),
                })
            }
            Pane::Pending => report.pending.get(row).map(|pod| of_pod(pod, content, (theme, now))),
            Pane::NodeClaims => report.node_claims.get(row).map(|claim| of_claim(claim, content, now)),
            Pane::Disruptions => {
                report.disruptions.get(row).map(|row| of_disruption(row, content, (theme, now)))
            }
            // The latest first.
            Pane::Changes => app.changes.iter().rev().nth(row).map(|(at, text)| match content {
                Content::Age => plain(age(*at, now)),
                _ => plain(text),
            }),
            Pane::Decisions => app
                .decisions
                .rows
                .iter()
                .rev()
                .nth(row)
                .map(|(row, _)| of_decision(row, content, (theme, now))),
        }
        .unwrap_or_else(|| plain(""))
    })
}

/// Without the columns that would repeat others or be empty.
fn relevant(app: &TopApp, pane: Pane, wanted: &[Wanted<Content>]) -> Vec<Wanted<Content>> {
    let nodes = &app.report.nodes;
    // The overhead alone is the same for all.
    let overhead = |node: &FleetNode| Some(node.effective_price?.saturating_sub(node.price?));
    let overheads: BTreeSet<_> = nodes.iter().filter_map(overhead).collect();
    let is_relevant = |content: Content| match content {
        Content::Effective => overheads.len() > 1,
        Content::Other => nodes.iter().any(|node| node.resources.iter().any(|row| is_other(&row.resource))),
        _ => true,
    };
    let mut columns: Vec<Wanted<Content>> = wanted
        .iter()
        .filter(|column| is_relevant(column.content))
        .map(|column| titled(app, column))
        .collect();
    if pane == Pane::Nodes {
        let labels = label_keys(app).into_iter().enumerate().map(|(number, key)| {
            let title = key.rsplit('/').next().unwrap_or(key).to_uppercase();
            let least = title.chars().count().clamp(8, 24);
            Wanted { title: title.into(), ..column(Content::Label(number), "", (least, 24), 1) }
        });
        // Behind the name.
        columns.splice(1..1, labels);
    }
    columns
}

/// The labels that the selector names and nodes have, but for those with a column of their own.
fn label_keys(app: &TopApp) -> Vec<&str> {
    let keys = app.report.nodes.iter().flat_map(|node| node.labels.keys()).map(String::as_str);
    let own = [labels::NODEPOOL, labels::INSTANCE_TYPE, labels::ZONE, labels::CAPACITY_TYPE];
    keys.filter(|key| !own.contains(key)).collect::<BTreeSet<_>>().into_iter().collect()
}

/// A column of prices has the currency in its title, and room for it.
fn titled(app: &TopApp, column: &Wanted<Content>) -> Wanted<Content> {
    let currency = app.report.currency;
    let title = match column.content {
        Content::Price => format!("{currency}/H"),
        Content::Saving => format!("SAVES {currency}/H"),
        _ => return column.clone(),
    };
    let wide = title.chars().count();
    let (least, most) = (column.least.max(wide), column.most.max(wide));
    Wanted { title: title.into(), least, most, ..column.clone() }
}

fn is_other(resource: &str) -> bool {
    !["cpu", "memory", "pods", "ephemeral-storage"].contains(&resource)
        && !resource.starts_with("hugepages-")
        && !resource.starts_with("attachable-volumes-")
}

/// The style of a used share: little is waste, much is full.
pub(super) fn share_style(theme: Theme, share: f64) -> Style {
    match share {
        0.9.. => theme.good(),
        0.5.. => theme.accent(),
        _ => theme.notice(),
    }
}

fn phase_style(theme: Theme, phase: NodePhase) -> Style {
    match phase {
        NodePhase::Ready => theme.good(),
        NodePhase::NotReady | NodePhase::Initializing | NodePhase::Cordoned => theme.notice(),
        NodePhase::Disrupted | NodePhase::Draining | NodePhase::Terminating => theme.bad(),
    }
}

fn price(price: Option<Price>) -> String {
    price.map_or_else(|| "?".to_owned(), |price| format!("{price:.4}"))
}

fn text(value: Option<&String>) -> Styled {
    plain(value.map_or("", String::as_str))
}

fn of_node(node: &FleetNode, content: Content, width: usize, (theme, now): (Theme, Timestamp)) -> Styled {
    let share = |resource| {
        let share = use_of(&node.resources, resource).map_or(0.0, |row| row.share());
        styled(bar(share, width), share_style(theme, share))
    };
    match content {
        Content::Name => plain(&node.name),
        Content::InstanceType => text(node.instance_type.as_ref()),
        Content::CapacityType => text(node.capacity_type.as_ref()),
        Content::Price => plain(price(node.price)),
        Content::Effective => plain(price(node.effective_price)),
        Content::Cpu => share("cpu"),
        Content::Memory => share("memory"),
        Content::Pods => plain(node.pods.to_string()),
        Content::Phase => styled(node.phase.as_str(), phase_style(theme, node.phase)),
        Content::Age => plain(age(node.created, now)),
        Content::NodePool => text(node.node_pool.as_ref()),
        Content::Zone => text(node.zone.as_ref()),
        Content::Other => {
            let others = node.resources.iter().filter(|row| is_other(&row.resource));
            let others = others.map(|row| format!("{} {}/{}", row.resource, row.used, row.allocatable));
            plain(others.collect::<Vec<_>>().join(", "))
        }
        Content::Blockers => plain(blockers(node)),
        _ => plain(""),
    }
}

/// The kinds of blockers, each once, and what the first says.
fn blockers(node: &FleetNode) -> String {
    let Some(first) = node.blockers.first() else { return String::new() };
    match node.blockers.len() - 1 {
        0 => format!("{}: {}", first.kind, first.message),
        more => format!("{} +{more}: {}", first.kind, first.message),
    }
}

fn of_pod(pod: &PendingPod, content: Content, (theme, now): (Theme, Timestamp)) -> Styled {
    let requested = |resource| use_of(&pod.requests, resource).map_or(0, |row| row.used);
    match content {
        Content::Name => plain(&pod.pod),
        Content::Age => plain(age(pod.created, now)),
        Content::Cpu => plain(figures::cpu(requested("cpu"))),
        Content::Memory => plain(figures::bytes(requested("memory"))),
        Content::Reason if pod.unschedulable => styled(&pod.reason, theme.bad()),
        Content::Reason => styled(&pod.reason, theme.notice()),
        Content::Message => plain(&pod.message),
        _ => plain(""),
    }
}

fn of_claim(claim: &InFlightNodeClaim, content: Content, now: Timestamp) -> Styled {
    match content {
        Content::Name => plain(&claim.name),
        Content::Phase => plain(claim.phase.as_str()),
        Content::Age => plain(age(claim.created, now)),
        Content::NodePool => text(claim.node_pool.as_ref()),
        Content::InstanceType => text(claim.instance_type.as_ref()),
        Content::Zone => text(claim.zone.as_ref()),
        Content::Price => plain(claim.price.map_or_else(String::new, |price| format!("{price:.4}"))),
        Content::Pods => plain(claim.pods.to_string()),
        Content::Message => text(claim.message.as_ref()),
        _ => plain(""),
    }
}

fn of_disruption(row: &DisruptionInProgress, content: Content, (theme, now): (Theme, Timestamp)) -> Styled {
    match content {
        Content::Reason => plain(&row.reason),
        Content::Phase => styled(
            row.stage.as_str(),
            if row.stage == DisruptionStage::Waiting { theme.notice() } else { theme.bad() },
        ),
        Content::Age => plain(row.since.map_or_else(String::new, |since| age(since, now))),
        Content::Pods => plain(row.pods.to_string()),
        Content::Saving => plain(
            row.savings_hourly.as_ref().map_or_else(|| "?".to_owned(), |saved| figures::hourly_text(saved)),
        ),
        Content::Name => plain(row.nodes.join(", ")),
        Content::Replacements => plain(row.replacements.join(", ")),
        _ => plain(""),
    }
}

fn of_decision(row: &DecisionRow, content: Content, (theme, now): (Theme, Timestamp)) -> Styled {
    match content {
        Content::Age => plain(row.at().map_or_else(String::new, |at| age(at, now))),
        Content::Phase if row.kind == "refusal" || row.kind == "held" => styled(&row.kind, theme.notice()),
        Content::Phase => plain(&row.kind),
        Content::Message => plain(&row.decision),
        Content::Saving => plain(&row.saves),
        Content::Outcome => match &*row.outcome {
            "rejected" | "rolledBack" | "failed" => styled(&row.outcome, theme.bad()),
            "succeeded" => styled(&row.outcome, theme.good()),
            _ => plain(&row.outcome),
        },
        Content::Reason => plain(&row.why),
        Content::Name => plain(&row.id),
        _ => plain(""),
    }
}

/// The time since then in its largest unit: `12s`, `3m`, `5h`, `2d`. Empty for objects of files, which have no time.
fn age(since: Timestamp, now: Timestamp) -> String {
    if since == Timestamp::UNIX_EPOCH {
        return String::new();
    }
    let seconds = now.duration_since(since).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}
