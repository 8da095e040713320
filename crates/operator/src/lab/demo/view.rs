//! The output of the demo while it runs: on a terminal the view of `fleetwright top`, otherwise plain lines.

use std::{collections::BTreeMap, io::Write as _, time::Duration};

use fleetwright_sim::Simulator;

use super::session::Session;
use crate::{
    catalogue::{CatalogueOptions, Catalogues},
    cli::{Catalog, Demo},
    fleet::{FleetReport, read},
    input::cluster,
    settings::{Values, table::SETTINGS},
    sheet::Page,
    top::{
        Explainer, Subject, TopAction, TopApp,
        screen::{Screen, ScreenEvent, has_color},
    },
};

/// The view.
pub(super) enum DemoView {
    /// A line for each change.
    Lines,
    /// The terminal.
    Screen(Box<DemoScreen>),
}

/// The view of `top` on the simulated cluster.
pub(super) struct DemoScreen {
    screen: Screen,
    app: TopApp,
    explainer: Explainer,
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
        let Some(report) = fleet(simulator).filter(|_| terminal) else { return Ok(Self::Lines) };
        let mut app = TopApp::new(name, has_color(), report.clone());
        app.update(report);
        let mut screen = Screen::new()?;
        screen.draw(&app)?;
        let explainer = Explainer {
            catalogues: Catalogues::default().with(crate::lab::FakeCatalogue),
            values: values(options)?,
            catalogue: CatalogueOptions::default(),
        };
        Ok(Self::Screen(Box::new(DemoScreen { screen, app, explainer })))
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
                    // The reader has closed the pipe.
                    let _ = writeln!(out, "{}  {line}", stamp(session.elapsed));
                }
            }
            Self::Screen(shown) => {
                if let Some(report) = fleet(simulator) {
                    shown.app.update_with(report, news);
                    shown.screen.draw(&shown.app)?;
                }
            }
        }
        Ok(())
    }

    /// Takes the keys that were pressed; `false` if one of them ends the demo.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub(super) async fn keys(&mut self, simulator: &Simulator) -> anyhow::Result<bool> {
        let Self::Screen(shown) = self else { return Ok(true) };
        let DemoScreen { screen, app, explainer } = &mut **shown;
        while let Some(event) = screen.event(Duration::ZERO)? {
            let action = match event {
                ScreenEvent::Key(key) => app.press(key),
                ScreenEvent::Resize => None,
            };
            match action {
                Some(TopAction::Quit) => return Ok(false),
                Some(TopAction::Explain(subject)) => {
                    screen.draw(app)?;
                    let page = explain(explainer, simulator, &subject).await;
                    app.explain(&subject, page.map_err(|error| format!("{error:#}")));
                }
                // The next step shows the cluster anyway.
                Some(TopAction::Refresh) | None => {}
            }
            screen.draw(app)?;
        }
        Ok(true)
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

/// The fleet as the controller in this process sees it. `None` without a controller.
pub(super) fn fleet(simulator: &Simulator) -> Option<FleetReport> {
    Some(read::of_controller(simulator.controllers()?, simulator.clock().now()).0)
}

/// Explains from the API server in this process, as the tools do from any.
async fn explain(explainer: &Explainer, simulator: &Simulator, subject: &Subject) -> anyhow::Result<Page> {
    let (items, _) = cluster::read_permitted(&simulator.client()).await?;
    explainer.explain(items, subject, simulator.clock().now())
}
