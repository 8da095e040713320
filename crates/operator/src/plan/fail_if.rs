//! `--fail-if`: a condition on a plan under which the tool ends with a status of its own, for CI.
//!
//! `unschedulable>0 || cost>+5%`: comparisons joined by `&&` and `||`, the first of which binds more tightly.

use std::fmt;

use fleetwright_core::{model::Currency, suggest::did_you_mean};

use crate::figures::per_hour;

/// The names of figures.
const FIGURES: [(&str, Figure); 5] = [
    ("unschedulable", Figure::Unschedulable),
    ("cost", Figure::Cost),
    ("nodes", Figure::Nodes),
    ("new-nodes", Figure::NewNodes),
    ("moved", Figure::Moved),
];
/// The operators, longer ones first.
const OPERATORS: [(&str, Comparison); 6] = [
    (">=", Comparison::AtLeast),
    ("<=", Comparison::AtMost),
    ("==", Comparison::Equal),
    ("!=", Comparison::Unequal),
    (">", Comparison::Above),
    ("<", Comparison::Below),
];

/// A condition: alternatives of conjunctions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FailIf {
    text: String,
    any: Vec<Vec<Term>>,
}

#[derive(Clone, Debug, PartialEq)]
struct Term {
    text: String,
    figure: Figure,
    comparison: Comparison,
    bound: Bound,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    Unschedulable,
    Cost,
    Nodes,
    NewNodes,
    Moved,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Above,
    AtLeast,
    Below,
    AtMost,
    Equal,
    Unequal,
}

/// What a figure is compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bound {
    /// A number.
    Absolute(f64),
    /// Its change, in percent of what it is now.
    Percent(f64),
    /// Its change.
    Change(f64),
}

/// What a condition reads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    /// Pods without a node.
    pub(crate) unschedulable: usize,
    /// The price per hour; `None` where prices are unknown.
    pub(crate) cost: Option<f64>,
    /// Nodes.
    pub(crate) nodes: usize,
    /// Nodes to launch.
    pub(crate) new_nodes: usize,
    /// Pods that move.
    pub(crate) moved: usize,
}

impl FailIf {
    /// Reads the text of the option.
    ///
    /// # Errors
    /// If it has another form; says which is expected.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let any = text
            .split("||")
            .map(|all| all.split("&&").map(Term::parse).collect())
            .collect::<Result<_, _>>()?;
        Ok(Self { text: text.trim().to_owned(), any })
    }

    /// The terms that hold, if the condition does: those of the first alternative that holds.
    ///
    /// # Errors
    /// If it asks for the cost and prices are unknown.
    pub(crate) fn holds(
        &self,
        now: Figures,
        then: Figures,
        currency: Currency,
    ) -> anyhow::Result<Option<String>> {
        for all in &self.any {
            let held = all.iter().map(|term| term.holds(now, then)).collect::<anyhow::Result<Vec<bool>>>()?;
            if held.iter().all(|held| *held) {
                let shown =
                    all.iter().map(|term| format!("{} ({})", term.text, term.shown(now, then, currency)));
                return Ok(Some(shown.collect::<Vec<_>>().join(" && ")));
            }
        }
        Ok(None)
    }
}

impl fmt::Display for FailIf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Term {
    fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let found =
            OPERATORS.iter().filter_map(|(sign, comparison)| Some((text.find(sign)?, *sign, *comparison)));
        let (at, sign, comparison) =
            found
                .min_by_key(|(at, sign, _)| (*at, std::cmp::Reverse(sign.len())))
                .ok_or_else(|| format!("{text:?} is no comparison such as unschedulable>0"))?;
        let (name, bound) = (text[..at].trim(), text[at + sign.len()..].trim());
        let names = FIGURES.map(|(name, _)| name);
        let figure = FIGURES.iter().find(|(known, _)| *known == name).map(|(_, figure)| *figure);
        let figure = figure.ok_or_else(|| {
            let meant = did_you_mean(name, names);
            format!("{name:?} is not one of {}{meant}", names.join(", "))
        })?;
        Ok(Self { text: text.to_owned(), figure, comparison, bound: Bound::parse(bound)? })
    }

    fn holds(&self, now: Figures, then: Figures) -> anyhow::Result<bool> {
        let value = |figures: Figures| {
            self.figure
                .of(figures)
                .ok_or_else(|| anyhow::anyhow!("--fail-if {}: prices are unknown", self.text))
        };
        let then = value(then)?;
        let bound = match self.bound {
            Bound::Absolute(bound) => bound,
            Bound::Percent(percent) => value(now)? * (1.0 + percent / 100.0),
            Bound::Change(change) => value(now)? + change,
        };
        // Costs are sums of decimals: what differs by less than a nano-dollar is equal.
        let equal = (then - bound).abs() < 1e-9;
        Ok(match self.comparison {
            Comparison::Above => then > bound && !equal,
            Comparison::AtLeast => then > bound || equal,
            Comparison::Below => then < bound && !equal,
            Comparison::AtMost => then < bound || equal,
            Comparison::Equal => equal,
            Comparison::Unequal => !equal,
        })
    }

    fn shown(&self, now: Figures, then: Figures, currency: Currency) -> String {
        let one = |figures| match self.figure.of(figures) {
            Some(value) if self.figure == Figure::Cost => format!("{}/h", per_hour(currency, value)),
            Some(value) => value.to_string(),
            None => "unknown".to_owned(),
        };
        match self.bound {
            Bound::Absolute(_) => one(then),
            _ => format!("{} -> {}", one(now), one(then)),
        }
    }
}

impl Figure {
    fn of(self, figures: Figures) -> Option<f64> {
        let whole = |number: usize| u32::try_from(number).ok().map(f64::from);
        match self {
            Self::Unschedulable => whole(figures.unschedulable),
            Self::Cost => figures.cost,
            Self::Nodes => whole(figures.nodes),
            Self::NewNodes => whole(figures.new_nodes),
            Self::Moved => whole(figures.moved),
        }
    }
}

impl Bound {
    fn parse(text: &str) -> Result<Self, String> {
        let invalid = || format!("{text:?} is no number, change (+2) or share (+5%)");
        let is_change = text.starts_with(['+', '-']);
        let (number, is_percent) = text.strip_suffix('%').map_or((text, false), |number| (number, true));
        let number: f64 = number.trim_start_matches(['+', '$']).parse().map_err(|_| invalid())?;
        if !number.is_finite() {
            return Err(invalid());
        }
        match (is_change, is_percent) {
            (true, true) => Ok(Self::Percent(number)),
            (true, false) => Ok(Self::Change(number)),
            (false, false) => Ok(Self::Absolute(number)),
            (false, true) => Err(format!("{text:?}: write the sign of the change, such as +5%")),
        }
    }
}

#[cfg(test)]
mod tests {
    //! What holds, and what cannot be read.
    use rstest::rstest;

    use super::*;

    const NOW: Figures = Figures { unschedulable: 0, cost: Some(2.0), nodes: 4, new_nodes: 0, moved: 0 };
    const THEN: Figures = Figures { unschedulable: 1, cost: Some(2.1), nodes: 5, new_nodes: 1, moved: 3 };

    #[rstest]
    #[case("unschedulable>0", Some("unschedulable>0 (1)"))]
    #[case("unschedulable > 1", None)]
    #[case("cost>+5%", None)]
    #[case("cost>=+5%", Some("cost>=+5% ($2.0000/h -> $2.1000/h)"))]
    #[case("cost>+4.9%", Some("cost>+4.9% ($2.0000/h -> $2.1000/h)"))]
    #[case("cost > 2.05", Some("cost > 2.05 ($2.1000/h)"))]
    #[case("nodes>+1", None)]
    #[case("nodes>=+1 && moved>2", Some("nodes>=+1 (4 -> 5) && moved>2 (3)"))]
    #[case("nodes>9 || new-nodes==1", Some("new-nodes==1 (1)"))]
    #[case("cost<-10%", None)]
    fn conditions(#[case] text: &str, #[case] expected: Option<&str>) {
        let found = FailIf::parse(text).unwrap().holds(NOW, THEN, Currency::USD).unwrap();
        assert_eq!(found.as_deref(), expected);
    }

    #[rstest]
    #[case("", "is no comparison")]
    #[case("unschedulable", "is no comparison")]
    #[case("unschedulabel>0", "did you mean \"unschedulable\"")]
    #[case("cost>5%", "write the sign")]
    #[case("cost>many", "is no number")]
    #[case("cost>1 ||", "is no comparison")]
    #[case("cost>inf", "is no number")]
    fn invalid_conditions(#[case] text: &str, #[case] expected: &str) {
        let error = FailIf::parse(text).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn unknown_prices_are_an_error() {
        let unknown = Figures { cost: None, ..THEN };
        let error = FailIf::parse("cost>1").unwrap().holds(NOW, unknown, Currency::USD).unwrap_err();
        assert!(error.to_string().contains("prices are unknown"), "{error}");
    }
}
