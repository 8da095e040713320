//! A dashboard as the JSON that Grafana imports.

use serde_json::{Value, json};

use super::{Dashboard, Panel};

/// Grafana's grid has 24 columns.
const COLUMNS: u64 = 24;
/// The data source that the user selects at the top of the page.
const SOURCE: &str = "${datasource}";
/// The variables of queries: name, label, what lists its values.
const VARIABLES: [(&str, &str, &str); 2] = [
    ("nodepool", "NodePool", "label_values(karpenter_nodepools_allowed_disruptions, nodepool)"),
    ("job", "Job", "label_values(karpenter_build_info, job)"),
];

/// Where the next panel goes.
#[derive(Default)]
struct Grid {
    x: u64,
    y: u64,
    /// The height of the line that is being filled.
    line: u64,
}

/// The page as JSON text.
pub(super) fn page(dashboard: &Dashboard) -> anyhow::Result<String> {
    let mut grid = Grid::default();
    let mut panels: Vec<Value> = Vec::new();
    let mut row = "";
    for panel in &dashboard.panels {
        if row != panel.row {
            row = &panel.row;
            let place = grid.place(COLUMNS, 1);
            panels.push(json!({"type": "row", "title": row, "collapsed": false, "panels": [], "gridPos": place, "id": panels.len() + 1}));
        }
        let place = if panel.stat { grid.place(6, 4) } else { grid.place(12, 8) };
        panels.push(drawn(panel, &place, panels.len() + 1));
    }
    let mut page = json!({
        "uid": format!("fleetwright-{}", dashboard.file),
        "title": dashboard.title,
        "description": dashboard.about,
        "tags": ["fleetwright", "karpenter"],
        "schemaVersion": 39,
        "version": 1,
        "editable": true,
        "refresh": "1m",
        "timezone": "browser",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": variables(dashboard)},
        "panels": panels,
    });
    // The order of keys would follow from serde_json's features, which other packages decide.
    page.sort_all_objects();
    Ok(serde_json::to_string_pretty(&page)? + "\n")
}

fn drawn(panel: &Panel, place: &Value, id: usize) -> Value {
    let source = json!({"type": "prometheus", "uid": SOURCE});
    let targets: Vec<Value> = panel
        .queries
        .iter()
        .zip('A'..='Z')
        .map(|((query, legend), id)| {
            json!({"refId": id, "expr": query, "legendFormat": legend, "datasource": source, "instant": panel.stat, "range": !panel.stat})
        })
        .collect();
    let description = match &panel.empty {
        Some(empty) => format!("{}\n\nEmpty if {empty}.", panel.about),
        None => panel.about.clone(),
    };
    let options = match panel.stat {
        true => json!({
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": false},
            "textMode": if panel.text { "name" } else { "auto" },
            "graphMode": "none",
            "colorMode": "none",
        }),
        false => json!({
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": true},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }),
    };
    json!({
        "id": id,
        "type": if panel.stat { "stat" } else { "timeseries" },
        "title": panel.title,
        "description": description,
        "datasource": source,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": if panel.stat { Value::Null } else { json!(0) }}, "overrides": []},
        "options": options,
        "targets": targets,
    })
}

/// The data source, and the variables that the queries use.
fn variables(dashboard: &Dashboard) -> Vec<Value> {
    let mut list = vec![json!({
        "type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus",
    })];
    for (name, label, values) in VARIABLES {
        let marker = format!("${name}");
        let is_used = dashboard
            .panels
            .iter()
            .any(|panel| panel.queries.iter().any(|(query, _)| query.contains(&marker)));
        if is_used {
            list.push(json!({
                "type": "query", "name": name, "label": label,
                "datasource": {"type": "prometheus", "uid": SOURCE},
                "query": {"query": values, "refId": name},
                "refresh": 2, "includeAll": true, "allValue": ".*", "multi": true, "sort": 1,
                "current": {"text": "All", "value": "$__all"},
            }));
        }
    }
    list
}

/// The queries that list the values of variables, for the check.
#[cfg(test)]
pub(super) fn variable_queries() -> impl Iterator<Item = &'static str> {
    VARIABLES.iter().map(|(_, _, values)| *values)
}

// === impl Grid ===

impl Grid {
    /// The place of a panel of this size; lines break where it does not fit.
    fn place(&mut self, width: u64, height: u64) -> Value {
        if self.x + width > COLUMNS || (self.line != 0 && self.line != height) {
            self.y += self.line;
            (self.x, self.line) = (0, 0);
        }
        let place = json!({"x": self.x, "y": self.y, "w": width, "h": height});
        self.x += width;
        self.line = height;
        place
    }
}
