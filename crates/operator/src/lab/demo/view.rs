//! The output of the demo while it runs: on a terminal the view of `fleetwright top`, otherwise plain lines.

use std::{collections::BTreeMap, io::Write as _, time::Duration};

use fleetwright_sim::Simulator;

use super::{super::screen::SimulatorScreen, session::Session};
use crate::{
    catalogue::{CatalogueOptions, Catalogues},
    cli::{Catalog, Demo},
    settings::{Values, table::SETTINGS},
    top::Explainer,
};

/// The view.
pub(super) enum DemoView {
    /// A line for each change.
    Lines,
    /// The terminal.
    Screen(Box<SimulatorScreen>),
}

impl DemoView {
    /// A view for a terminal or a file. `name` says which cluster is shown.
    ///
    /// # Errors
    /// If the terminal cannot be taken.
    pub(super) fn new(
        terminal: bool,
        simulator: &Simulator,
        options: &Demo,
        name: String,
    ) -> anyhow::Result<Self> {
        if !terminal {
            return Ok(Self::Lines);
        }
        let explainer = Explainer {
            catalogues: Catalogues::default().with(crate::lab::FakeCatalogue),
            values: values(options)?,
            catalogue: CatalogueOptions::default(),
        };
        let screen = SimulatorScreen::new(simulator, name, explainer)?;
        Ok(screen.map_or(Self::Lines, |screen| Self::Screen(Box::new(screen))))
    }

    /// Shows the cluster after a step, with its changes.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub(super) fn show(
        &mut self,
        simulator: &Simulator,
        session: &Session,
        news: Vec<String>,
    ) -> anyhow::Result<()> {
        match self {
            Self::Lines => {
                let mut out = anstream::stdout().lock();
                for line in news {
                    writeln!(out, "{}  {line}", stamp(session.elapsed))?;
                }
                Ok(())
            }
            Self::Screen(screen) => screen.show(simulator, Some(news)),
        }
    }

    /// Takes the keys that were pressed; `false` if one of them ends the demo.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub(super) async fn keys(&mut self, simulator: &Simulator) -> anyhow::Result<bool> {
        match self {
            Self::Lines => Ok(true),
            Self::Screen(screen) => screen.keys(simulator).await,
        }
    }
}

/// `12:05`: minutes and seconds of virtual time.
fn stamp(elapsed: Duration) -> String {
    format!("{:>3}:{:02}", elapsed.as_secs() / 60, elapsed.as_secs() % 60)
}

/// The settings of the tools on this cluster.
fn values(options: &Demo) -> anyhow::Result<Values> {
    let mut flags = BTreeMap::new();
    match &options.instance_types {
        Some(file) => flags.insert("instance-types-file-path".to_owned(), file.display().to_string()),
        None => {
            let name = match options.catalog {
                Catalog::Kwok => "kwok",
                Catalog::Realistic => "realistic",
            };
            flags.insert("catalog".to_owned(), name.to_owned())
        }
    };
    Ok(Values::of(SETTINGS, &flags, |_| None)?)
}
