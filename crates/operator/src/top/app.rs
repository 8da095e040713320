//! The state of the view: what is shown, selected, sorted and filtered. Keys change it; nothing here reads or draws.

use std::collections::VecDeque;
#[cfg(feature = "lab")]
use std::sync::Arc;

#[cfg(feature = "lab")]
use fleetwright_core::decisions::DecisionRecord;
use jiff::Timestamp;
use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use serde_json::Value;

use super::{Subject, draw::Theme};
use crate::{
    decisions::DecisionRow,
    fleet::{
        FleetReport,
        changes::changes,
        order::{NodeFilter, NodeSort, arranged, node_pools},
    },
    sheet::{Page, plain},
};

/// Samples of the cost: more than the widest terminal shows.
const MAX_SAMPLES: usize = 512;
/// Changes that are kept.
const MAX_CHANGES: usize = 500;
/// Rows that a page key moves.
const PAGE: usize = 10;

/// A part of the view that can have the focus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pane {
    /// Nodes.
    Nodes,
    /// Pods without a node.
    Pending,
    /// NodeClaims whose node is not initialized.
    NodeClaims,
    /// Disruptions in progress.
    Disruptions,
    /// What has changed.
    Changes,
    /// What the controller has decided.
    Decisions,
}

impl Pane {
    /// All of them, in the order in which a key steps through them.
    pub(super) const ALL: [Self; 6] =
        [Self::Nodes, Self::Pending, Self::NodeClaims, Self::Disruptions, Self::Changes, Self::Decisions];

    fn step(self, by: usize) -> Self {
        let place = Self::ALL.iter().position(|pane| *pane == self).unwrap_or(0);
        Self::ALL[(place + by) % Self::ALL.len()]
    }
}

/// What a key asks of the program around the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TopAction {
    /// End.
    Quit,
    /// Read the cluster now.
    Refresh,
    /// Explain an object.
    Explain(Subject),
}

/// What lies over the view.
#[derive(Debug)]
pub(super) enum Popup {
    /// The keys.
    Help,
    /// An explanation; `None` until it is there.
    Explanation { title: String, page: Option<Result<Page, String>>, scroll: usize },
}

/// The decisions of the controller, the latest last.
#[derive(Debug, Default)]
pub(super) struct ShownDecisions {
    /// What is listed, with the records.
    pub(super) rows: Vec<(DecisionRow, Value)>,
    /// Why they cannot be read, or what to do to see some.
    pub(super) note: String,
}

/// The view.
#[derive(Debug)]
pub(crate) struct TopApp {
    /// Where the fleet is read from.
    pub(super) source: String,
    pub(super) theme: Theme,
    pub(super) report: FleetReport,
    /// Why the last reading failed.
    pub(super) error: Option<String>,
    /// The cost per hour of the readings so far.
    pub(super) costs: VecDeque<f64>,
    /// What has changed, the latest last.
    pub(super) changes: VecDeque<(Timestamp, String)>,
    pub(super) decisions: ShownDecisions,
    pub(super) focus: Pane,
    pub(super) sort: NodeSort,
    pub(super) reverse: bool,
    pub(super) filter: NodeFilter,
    /// Whether keys go into the text of the filter.
    pub(super) typing: bool,
    /// Positions of the listed nodes, in order.
    pub(super) listed: Vec<usize>,
    /// The selected row of each pane.
    places: [usize; Pane::ALL.len()],
    pub(super) popup: Option<Popup>,
    /// Whether a reading was shown before: changes are those after it.
    is_read: bool,
}

impl TopApp {
    /// A view without a fleet yet.
    pub(crate) fn new(source: impl Into<String>, color: bool, empty: FleetReport) -> Self {
        Self {
            source: source.into(),
            theme: Theme { color },
            report: empty,
            error: None,
            costs: VecDeque::new(),
            changes: VecDeque::new(),
            decisions: ShownDecisions::default(),
            focus: Pane::Nodes,
            sort: NodeSort::default(),
            reverse: false,
            filter: NodeFilter::default(),
            typing: false,
            listed: Vec::new(),
            places: [0; Pane::ALL.len()],
            popup: None,
            is_read: false,
        }
    }

    /// Shows another fleet; the selected node stays selected.
    pub(crate) fn update(&mut self, report: FleetReport) {
        let news = if self.is_read { changes(&self.report, &report) } else { Vec::new() };
        self.update_with(report, news);
    }

    /// Shows another fleet, with lines on what has changed.
    pub(crate) fn update_with(&mut self, report: FleetReport, news: impl IntoIterator<Item = String>) {
        let at = report.taken_at;
        self.changes.extend(news.into_iter().map(|line| (at, line)));
        while self.changes.len() > MAX_CHANGES {
            self.changes.pop_front();
        }
        if let Some(cost) = report.totals.cost.dollars() {
            self.costs.push_back(cost);
            while self.costs.len() > MAX_SAMPLES {
                self.costs.pop_front();
            }
        }
        let selected = self.selected_node();
        self.report = report;
        (self.is_read, self.error) = (true, None);
        self.arrange(selected.as_deref());
    }

    /// Shows the last decisions, oldest first; the selected one stays selected. Those of the last reading stay if none could be read.
    pub(crate) fn update_decisions(&mut self, read: Result<Vec<Value>, String>) {
        let records = match read {
            Ok(records) => records,
            Err(why) => {
                self.decisions.note = why;
                return;
            }
        };
        let row = self.selected_decision().map(|(row, _)| row.id.clone());
        let rows = records.into_iter().map(|record| (DecisionRow::of(&record), record)).collect();
        self.decisions = ShownDecisions { rows, note: String::new() };
        let place = &mut self.places[Pane::Decisions as usize];
        // At the top, the latest one is selected.
        if let Some(id) = row.filter(|_| *place > 0)
            && let Some(found) = self.decisions.rows.iter().rev().position(|(row, _)| row.id == id)
        {
            *place = found;
        }
        *place = (*place).min(self.decisions.rows.len().saturating_sub(1));
    }

    /// Shows decisions of a controller in this process.
    #[cfg(feature = "lab")]
    pub(crate) fn update_records(&mut self, records: &[Arc<DecisionRecord>]) {
        let values = records.iter().map(|record| serde_json::to_value(&**record));
        self.update_decisions(values.collect::<Result<_, _>>().map_err(|error| error.to_string()));
    }

    /// Shows that reading failed; the last fleet stays.
    pub(crate) fn fail(&mut self, why: impl Into<String>) {
        self.error = Some(why.into());
    }

    /// Shows an explanation, if it is still asked for.
    pub(crate) fn explain(&mut self, subject: &Subject, result: Result<Page, String>) {
        if let Some(Popup::Explanation { title, page, .. }) = &mut self.popup
            && *title == subject.title()
        {
            *page = Some(result);
        }
    }

    /// Sorts nodes by another column.
    pub(crate) fn sort_by(&mut self, sort: NodeSort) {
        self.sort = sort;
        self.arrange(None);
    }

    /// Lists nodes with this text alone.
    pub(crate) fn filter_by(&mut self, filter: NodeFilter) {
        self.filter = filter;
        self.arrange(None);
    }

    /// Lists the nodes again, with the node of that name selected if it is still listed.
    fn arrange(&mut self, selected: Option<&str>) {
        self.listed = arranged(&self.report.nodes, &self.filter, self.sort, self.reverse);
        let nodes = &self.report.nodes;
        let place = selected.and_then(|name| self.listed.iter().position(|node| nodes[*node].name == name));
        if let Some(place) = place {
            self.places[Pane::Nodes as usize] = place;
        }
        for pane in Pane::ALL {
            let last = self.length(pane).saturating_sub(1);
            let place = &mut self.places[pane as usize];
            *place = (*place).min(last);
        }
    }

    /// How many rows a pane has.
    pub(super) fn length(&self, pane: Pane) -> usize {
        match pane {
            Pane::Nodes => self.listed.len(),
            Pane::Pending => self.report.pending.len(),
            Pane::NodeClaims => self.report.node_claims.len(),
            Pane::Disruptions => self.report.disruptions.len(),
            Pane::Changes => self.changes.len(),
            Pane::Decisions => self.decisions.rows.len(),
        }
    }

    /// The selected row of a pane.
    pub(super) fn place(&self, pane: Pane) -> usize {
        self.places[pane as usize]
    }

    fn selected_node(&self) -> Option<String> {
        let node = self.listed.get(self.place(Pane::Nodes))?;
        Some(self.report.nodes.get(*node)?.name.clone())
    }

    /// The selected decision: the latest is the first row.
    fn selected_decision(&self) -> Option<&(DecisionRow, Value)> {
        self.decisions.rows.iter().rev().nth(self.place(Pane::Decisions))
    }

    /// A popup with the record of the selected decision.
    fn decision_popup(&self) -> Option<Popup> {
        let (row, record) = self.selected_decision()?;
        let text = serde_saphyr::to_string(record).map_err(|error| error.to_string());
        let page = text.map(|text| {
            let mut page = Page::default();
            for line in text.lines() {
                page.line(plain(line));
            }
            page
        });
        Some(Popup::Explanation { title: format!("decision {}", row.id), page: Some(page), scroll: 0 })
    }

    /// What the selected row is about.
    fn subject(&self) -> Option<Subject> {
        let place = self.place(self.focus);
        match self.focus {
            Pane::Nodes => self.selected_node().map(Subject::Node),
            Pane::Pending => Some(Subject::Pod(self.report.pending.get(place)?.pod.clone())),
            Pane::NodeClaims => Some(Subject::Node(self.report.node_claims.get(place)?.name.clone())),
            Pane::Disruptions => {
                Some(Subject::Node(self.report.disruptions.get(place)?.nodes.first()?.clone()))
            }
            Pane::Changes | Pane::Decisions => None,
        }
    }

    /// Reacts to a key.
    pub(crate) fn press(&mut self, key: KeyEvent) -> Option<TopAction> {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Some(TopAction::Quit);
        }
        if self.typing {
            self.type_filter(key.code);
            return None;
        }
        if self.popup.is_some() {
            return self.press_in_popup(key.code);
        }
        match key.code {
            KeyCode::Char('q') => return Some(TopAction::Quit),
            KeyCode::Char('r') => return Some(TopAction::Refresh),
            KeyCode::Char('?' | 'h') => self.popup = Some(Popup::Help),
            KeyCode::Char('e') | KeyCode::Enter if self.focus == Pane::Decisions => {
                self.popup = self.decision_popup();
            }
            KeyCode::Char('e') | KeyCode::Enter => {
                let subject = self.subject()?;
                self.popup = Some(Popup::Explanation { title: subject.title(), page: None, scroll: 0 });
                return Some(TopAction::Explain(subject));
            }
            KeyCode::Char('/') => (self.focus, self.typing) = (Pane::Nodes, true),
            KeyCode::Esc => self.filter_by(NodeFilter::default()),
            KeyCode::Char('s') => self.keeping_selection(|app| app.sort = app.sort.next()),
            KeyCode::Char('R') => self.keeping_selection(|app| app.reverse = !app.reverse),
            KeyCode::Char('p') => self.keeping_selection(Self::next_node_pool),
            KeyCode::Tab => self.focus = self.focus.step(1),
            KeyCode::BackTab => self.focus = self.focus.step(Pane::ALL.len() - 1),
            KeyCode::Char(digit @ '1'..='6') => {
                let place = usize::try_from(digit.to_digit(10).unwrap_or(1)).unwrap_or(1);
                self.focus = Pane::ALL[place - 1];
            }
            code => {
                let (length, place) = (self.length(self.focus), &mut self.places[self.focus as usize]);
                scroll(place, code, length);
            }
        }
        None
    }

    fn press_in_popup(&mut self, code: KeyCode) -> Option<TopAction> {
        match (code, &mut self.popup) {
            (KeyCode::Char('q' | '?' | 'h' | 'e') | KeyCode::Esc | KeyCode::Enter, _) => self.popup = None,
            (code, Some(Popup::Explanation { scroll: place, .. })) => scroll(place, code, usize::MAX),
            _ => {}
        }
        None
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.filter.text.clear();
            }
            KeyCode::Backspace => {
                self.filter.text.pop();
            }
            KeyCode::Char(letter) => self.filter.text.push(letter),
            _ => {}
        }
        let selected = self.selected_node();
        self.arrange(selected.as_deref());
    }

    fn keeping_selection(&mut self, change: impl FnOnce(&mut Self)) {
        let selected = self.selected_node();
        change(self);
        self.arrange(selected.as_deref());
    }

    /// All NodePools, then each of them.
    fn next_node_pool(&mut self) {
        let pools = node_pools(&self.report.nodes);
        self.filter.node_pool = match &self.filter.node_pool {
            None => pools.first().cloned(),
            Some(current) => pools.into_iter().find(|pool| pool > current),
        };
    }
}

/// Moves a place within `length` rows.
fn scroll(place: &mut usize, code: KeyCode, length: usize) {
    let last = length.saturating_sub(1);
    *place = match code {
        KeyCode::Up | KeyCode::Char('k') => place.saturating_sub(1),
        KeyCode::Down | KeyCode::Char('j') => place.saturating_add(1),
        KeyCode::PageUp => place.saturating_sub(PAGE),
        KeyCode::PageDown => place.saturating_add(PAGE),
        KeyCode::Home | KeyCode::Char('g') => 0,
        KeyCode::End | KeyCode::Char('G') => last,
        _ => *place,
    }
    .min(last);
}
