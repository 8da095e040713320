//! The whole view on a buffer: header, nodes, the other panes, and what lies over them.

use ratatui_core::{buffer::Buffer, layout::Rect};

use super::{
    app::{Pane, Popup, TopApp},
    draw::{self, Styled, cut, line, plain, styled},
    panes,
};
use crate::{
    figures,
    fleet::{FleetTotals, ResourceUse, use_of},
    sheet::Format,
};

/// Rows of the header.
const HEADER: u16 = 4;
/// From this height on, the lower panes are shown beside the nodes.
const TALL: u16 = 18;
/// From this width on, the lower panes are two side by side; from this height on, all of them.
const TWO_PANES: u16 = 160;
const ALL_PANES: u16 = 20;

/// Between two titles.
const RULE: &str = " ─ ";

/// The keys, and what they do.
const KEYS: [(&str, &str); 14] = [
    ("q, Ctrl-C", "quit"),
    (
        "Tab, Shift-Tab, 1 to 6",
        "another pane: nodes, pending pods, NodeClaims, disruptions, changes, decisions",
    ),
    ("Up, Down, k, j", "select a row"),
    ("PgUp, PgDn, Home, End, g, G", "select further away"),
    ("Enter, e", "explain the selected row"),
    ("s", "sort nodes by the next column"),
    ("R", "reverse the order"),
    ("/", "list nodes with a text: name, type, zone, capacity type, NodePool or state"),
    ("p", "list the nodes of the next NodePool"),
    ("Esc", "list all nodes; close"),
    ("r", "read the cluster now"),
    ("?, h", "this page"),
    ("", ""),
    ("bars", "requests of pods in percent of what nodes have for pods"),
];

/// Draws the view, and returns how many rows of tables were formatted: those that are visible.
pub(super) fn draw(app: &TopApp, buffer: &mut Buffer) -> usize {
    let area = buffer.area;
    buffer.reset();
    if area.width < 20 || area.height < 8 {
        line(buffer, Rect { height: 1, ..area }, &[plain("the terminal is too small")]);
        return 0;
    }
    header(app, buffer, Rect { height: HEADER, ..area });
    let body = Rect { y: area.y + HEADER, height: area.height - HEADER - 1, ..area };
    let lower = if body.height + HEADER + 1 < TALL { 0 } else { (body.height / 3).clamp(6, 26) };
    let mut rows = 0;
    if lower == 0 {
        rows += match app.focus {
            Pane::Nodes => nodes(app, buffer, body),
            pane => lower_panes(app, buffer, body, pane),
        };
    } else {
        rows += nodes(app, buffer, Rect { height: body.height - lower, ..body });
        let below = Rect { y: body.bottom() - lower, height: lower, ..body };
        rows += lower_panes(app, buffer, below, app.focus.max(Pane::Pending));
    }
    footer(app, buffer, Rect { y: area.bottom() - 1, height: 1, ..area });
    popup(app, buffer, body);
    rows
}

fn row(area: Rect, number: u16) -> Rect {
    Rect { y: area.y + number, height: 1, ..area }
}

fn header(app: &TopApp, buffer: &mut Buffer, area: Rect) {
    let (theme, report) = (app.theme, &app.report);
    let mut first = vec![styled("fleetwright top", theme.strong()), plain("  "), plain(&app.source)];
    match &app.error {
        Some(why) => first.push(styled(format!("  reading failed: {why}"), theme.bad())),
        None => {
            first.push(styled(format!("  {}", figures::time(&report.taken_at.to_string())), theme.faint()))
        }
    }
    line(buffer, row(area, 0), &first);
    line(buffer, row(area, 1), &counts(app, &report.totals));
    money(app, buffer, row(area, 2));
    let resources =
        ["cpu", "memory", "pods"].iter().filter_map(|name| use_of(&report.totals.resources, name));
    let resources: Vec<&ResourceUse> = resources.collect();
    let columns = u16::try_from(resources.len().max(1)).unwrap_or(1);
    let width = area.width / columns;
    for (x, resource) in (0..).zip(&resources) {
        let at = Rect { x: area.x + x * width, width: width.saturating_sub(2), ..row(area, 3) };
        let text = format!("{} ", resource.resource);
        let amounts =
            format!(" {}/{}", amount(resource, resource.used), amount(resource, resource.allocatable));
        let around = text.chars().count() + amounts.chars().count();
        let room = usize::from(at.width).saturating_sub(around).clamp(5, 40);
        let bar = styled(draw::bar(resource.share(), room), panes::share_style(theme, resource.share()));
        line(buffer, at, &[plain(text), bar, plain(amounts)]);
    }
}

/// Nodes and pending pods, and what is on the way.
fn counts(app: &TopApp, totals: &FleetTotals) -> Vec<Styled> {
    let theme = app.theme;
    let pods = format!("  {} pending", figures::count(totals.pods_pending, "pod"));
    let counted = [
        (totals.pods_pending, pods, theme.notice()),
        (totals.pods_unschedulable, format!(" ({} unschedulable)", totals.pods_unschedulable), theme.bad()),
        (totals.nodes_not_ready, format!("  {} not ready", totals.nodes_not_ready), theme.notice()),
        (totals.nodes_disrupting, format!("  {} disrupted", totals.nodes_disrupting), theme.bad()),
        (totals.node_claims, format!("  {} in flight", totals.node_claims), theme.notice()),
    ];
    let mut parts = vec![plain(figures::count(totals.nodes, "node"))];
    let counted = counted.into_iter().filter(|(count, ..)| *count > 0);
    parts.extend(counted.map(|(_, text, style)| styled(text, style)));
    parts
}

fn money(app: &TopApp, buffer: &mut Buffer, row: Rect) {
    let (totals, currency) = (&app.report.totals, app.report.currency);
    let mut parts = match totals.cost.dollars() {
        Some(price) => vec![
            styled(format!("{}/h", figures::per_hour(currency, price)), app.theme.accent()),
            plain(format!("  {}/month", figures::monthly(currency, price))),
        ],
        None => vec![plain("prices unknown")],
    };
    if let Some(share) = totals.spot_share {
        parts.push(plain(format!("  spot {:.0}%", share * 100.0)));
    }
    match totals.cost.nodes_without_price {
        0 => {}
        nodes => parts.push(plain(format!("  {} without price", figures::count(nodes, "node")))),
    }
    parts.push(plain("  "));
    let taken: usize = parts.iter().map(|part| part.text.chars().count()).sum();
    let room = usize::from(row.width).saturating_sub(taken);
    let costs: Vec<f64> = app.costs.iter().copied().collect();
    if costs.len() > 1 {
        parts.push(styled(draw::sparkline(&costs, room), app.theme.accent()));
    }
    line(buffer, row, &parts);
}

/// CPUs, bytes or a count.
fn amount(resource: &ResourceUse, amount: i64) -> String {
    match &*resource.resource {
        "cpu" => figures::cpu(amount),
        "memory" | "ephemeral-storage" => figures::bytes(amount),
        _ => amount.to_string(),
    }
}

fn nodes(app: &TopApp, buffer: &mut Buffer, area: Rect) -> usize {
    let all = app.report.nodes.len();
    let listed = match app.listed.len() {
        listed if listed == all => format!("{listed}"),
        listed => format!("{listed} of {all}"),
    };
    let mut title = format!("Nodes ({listed}) by {}", app.sort.as_str());
    if app.reverse {
        title.push_str(", reversed");
    }
    if let Some(pool) = &app.filter.node_pool {
        title.push_str(&format!(", NodePool {pool}"));
    }
    if !app.filter.text.is_empty() {
        title.push_str(&format!(", with {:?}", app.filter.text));
    }
    heading(app, buffer, row(area, 0), &[(title, app.focus == Pane::Nodes)]);
    panes::draw(app, Pane::Nodes, buffer, Rect { y: area.y + 1, height: area.height - 1, ..area })
}

/// The lower panes that fit, with the one that is asked for among them.
fn lower_panes(app: &TopApp, buffer: &mut Buffer, area: Rect, wanted: Pane) -> usize {
    let lower = &Pane::ALL[1..];
    let titled = |pane: &Pane| {
        let (title, length) = (panes::title(*pane), app.length(*pane));
        match &app.decisions.note {
            // Those of the last reading are shown.
            why if *pane == Pane::Decisions && length > 0 && !why.is_empty() => {
                format!("{title} ({length}), reading failed: {why}")
            }
            _ => format!("{title} ({length})"),
        }
    };
    if area.width < TWO_PANES {
        let mut titles: Vec<_> = lower.iter().map(|pane| (titled(pane), *pane == wanted)).collect();
        let length: usize =
            titles.iter().map(|(title, _)| title.chars().count() + RULE.chars().count()).sum();
        if length > usize::from(area.width) {
            let short = |pane: &Pane| format!("{} {}", panes::short_title(*pane), app.length(*pane));
            titles = lower.iter().map(|pane| (short(pane), *pane == wanted)).collect();
        }
        heading(app, buffer, row(area, 0), &titles);
        return panes::draw(app, wanted, buffer, Rect { y: area.y + 1, height: area.height - 1, ..area });
    }
    let all = area.height >= ALL_PANES;
    let shown = lower.chunks(2).filter(|pair| all || pair.contains(&wanted));
    let lines = u16::try_from(lower.chunks(2).len()).unwrap_or(1);
    let height = if all { area.height / lines } else { area.height };
    let mut rows = 0;
    for (line, pair) in (0..).zip(shown) {
        let width = area.width / u16::try_from(pair.len()).unwrap_or(1);
        for (place, pane) in (0..).zip(pair) {
            let at = Rect { x: area.x + place * width, y: area.y + line * height, width: width - 2, height };
            heading(app, buffer, row(at, 0), &[(titled(pane), app.focus == *pane)]);
            rows += panes::draw(app, *pane, buffer, Rect { y: at.y + 1, height: height - 1, ..at });
        }
    }
    rows
}

/// Titles, of which one may have the focus.
fn heading(app: &TopApp, buffer: &mut Buffer, row: Rect, titles: &[(String, bool)]) {
    let rule = "─".repeat(usize::from(row.width));
    line(buffer, row, &[styled(rule, app.theme.faint())]);
    let mut parts = vec![styled("─ ", app.theme.faint())];
    for (title, focused) in titles {
        let style = if *focused { app.theme.strong() } else { app.theme.faint() };
        parts.extend([styled(title, style), styled(RULE, app.theme.faint())]);
    }
    line(buffer, row, &parts);
}

fn footer(app: &TopApp, buffer: &mut Buffer, row: Rect) {
    if app.typing {
        line(buffer, row, &[plain(format!("/{}", app.filter.text)), styled("█", app.theme.faint())]);
        return;
    }
    let keys = "q quit  ? help  Tab pane  Enter explain  s sort  R reverse  / filter  p NodePool  r refresh";
    line(buffer, row, &[styled(keys, app.theme.faint())]);
}

fn popup(app: &TopApp, buffer: &mut Buffer, body: Rect) {
    let Some(popup) = &app.popup else { return };
    let inner = |area: Rect| usize::from(area.width.saturating_sub(4));
    let (title, lines, scroll) = match popup {
        Popup::Help => {
            let lines: Vec<String> = KEYS.iter().map(|(key, what)| format!("{key:<28} {what}")).collect();
            ("keys".to_owned(), lines, 0)
        }
        Popup::Explanation { title, page, scroll } => {
            let text = match page {
                None => "reading…".to_owned(),
                Some(Err(why)) => format!("error: {why}"),
                Some(Ok(page)) => page.render(Format::Table, u16::try_from(inner(body)).ok()),
            };
            let lines = text.lines().flat_map(|line| wrapped(line, inner(body))).collect();
            (title.clone(), lines, *scroll)
        }
    };
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(2).min(body.height);
    let area = draw::boxed(buffer, Rect { height, ..body }, &title, app.theme);
    let last = lines.len().saturating_sub(usize::from(area.height));
    let shown = lines.iter().skip(scroll.min(last));
    for (y, text) in (area.y..area.bottom()).zip(shown) {
        let row = Rect { x: area.x + 1, y, width: area.width.saturating_sub(2), height: 1 };
        line(buffer, row, &[plain(cut(text, usize::from(row.width)))]);
    }
}

/// A line in parts that fit.
fn wrapped(line: &str, width: usize) -> Vec<String> {
    let letters: Vec<char> = line.chars().collect();
    if letters.is_empty() {
        return vec![String::new()];
    }
    letters.chunks(width.max(1)).map(|part| part.iter().collect()).collect()
}
