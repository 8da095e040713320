//! The view of `fleetwright top` on a simulated cluster: that of the demo, and that of a replay.

use std::{sync::Arc, time::Duration};

use fleetwright_controllers::runtime::decisions::DecisionQuery;
use fleetwright_core::decisions::DecisionRecord;
use fleetwright_sim::Simulator;

use crate::{
    decisions,
    fleet::{FleetReport, read},
    input::cluster,
    sheet::Page,
    top::{
        Explainer, Subject, TopAction, TopApp,
        screen::{Screen, ScreenEvent, has_color},
    },
};

/// The terminal, with the fleet of a simulator.
pub(crate) struct SimulatorScreen {
    screen: Screen,
    app: TopApp,
    explainer: Explainer,
}

impl SimulatorScreen {
    /// Takes the terminal. `name` says which cluster is shown. `None` without a controller.
    ///
    /// # Errors
    /// If the terminal cannot be taken.
    pub(crate) fn new(
        simulator: &Simulator,
        name: String,
        explainer: Explainer,
    ) -> anyhow::Result<Option<Self>> {
        let Some(report) = fleet(simulator) else { return Ok(None) };
        let mut app = TopApp::new(name, has_color(), report.clone());
        app.update(report);
        app.update_records(&records(simulator));
        let mut screen = Screen::new()?;
        screen.draw(&app)?;
        Ok(Some(Self { screen, app, explainer }))
    }

    /// Shows the cluster now, with lines on what has changed; without them the view compares the fleets.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub(crate) fn show(&mut self, simulator: &Simulator, news: Option<Vec<String>>) -> anyhow::Result<()> {
        let Some(report) = fleet(simulator) else { return Ok(()) };
        match news {
            Some(news) => self.app.update_with(report, news),
            None => self.app.update(report),
        }
        self.app.update_records(&records(simulator));
        Ok(self.screen.draw(&self.app)?)
    }

    /// Takes the keys that were pressed; `false` if one of them ends the view.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub(crate) async fn keys(&mut self, simulator: &Simulator) -> anyhow::Result<bool> {
        let Self { screen, app, explainer } = self;
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

/// The fleet as the controller in this process sees it. `None` without a controller.
pub(super) fn fleet(simulator: &Simulator) -> Option<FleetReport> {
    Some(read::of_controller(simulator.controllers()?, simulator.clock().now()).0)
}

/// The last decisions of the controller in this process.
pub(super) fn records(simulator: &Simulator) -> Vec<Arc<DecisionRecord>> {
    let query = DecisionQuery { limit: Some(decisions::SHOWN), ..DecisionQuery::default() };
    simulator.controllers().map_or_else(Vec::new, |ctx| ctx.decisions.ring().lock().read(&query))
}

/// Explains from the API server in this process, as the tools do from any.
async fn explain(explainer: &Explainer, simulator: &Simulator, subject: &Subject) -> anyhow::Result<Page> {
    let (items, _) = cluster::read_permitted(&simulator.client()).await?;
    explainer.explain(items, subject, simulator.clock().now())
}
