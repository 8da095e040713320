//! `replay --top`: the replay in the terminal, as `fleetwright top` shows a cluster.

use std::{io::IsTerminal as _, pin::Pin, time::Duration};

use anyhow::ensure;
use fleetwright_core::model::{LabelSchema, NodeClassRef};
use fleetwright_fake::{Catalogue, catalogue::dump};
use fleetwright_sim::Simulator;

use crate::{
    catalogue::{CatalogueOptions, Catalogues, ClassOffer, ClassRequest, OfflineCatalogue},
    cli::ReplayOptions,
    clock,
    lab::{
        pace::{KEYS_EVERY, Pace},
        screen::SimulatorScreen,
    },
    settings::Values,
    signals,
    top::Explainer,
};

/// How much faster than the wall clock time passes without `--speed`, as in the demo.
pub(super) const SPEED: f64 = 60.0;

/// What is shown, before the simulator is there.
pub(super) struct ReplayView {
    name: String,
    explainer: Explainer,
}

/// The view of a running replay.
pub(super) struct RunningView {
    screen: SimulatorScreen,
    ended: Pin<Box<dyn Future<Output = ()>>>,
}

impl ReplayView {
    /// The view of the options.
    ///
    /// # Errors
    /// If there is no terminal.
    pub(super) fn new(
        options: &ReplayOptions,
        catalogue: &Catalogue,
        values: &Values,
    ) -> anyhow::Result<Self> {
        let terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
        ensure!(terminal, "--top needs a terminal: without it the replay prints its report");
        let explainer = Explainer {
            catalogues: Catalogues::default().with(PlayedCatalogue(catalogue.clone())),
            values: values.clone(),
            catalogue: CatalogueOptions::default(),
        };
        Ok(Self { name: format!("replay of {}", options.path.display()), explainer })
    }

    /// Takes the terminal.
    ///
    /// # Errors
    /// If it cannot be taken.
    pub(super) fn on(self, simulator: &Simulator) -> anyhow::Result<RunningView> {
        let screen = SimulatorScreen::new(simulator, self.name, self.explainer)?;
        let screen = screen.ok_or_else(|| anyhow::anyhow!("the simulator has no controller"))?;
        Ok(RunningView { screen, ended: Box::pin(signals::ended()) })
    }
}

impl RunningView {
    /// Lets time pass, and shows the fleet; `false` if a key or a signal ended the view.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub(super) async fn run_for(
        &mut self,
        simulator: &Simulator,
        time: Duration,
        pace: Pace,
    ) -> anyhow::Result<bool> {
        let Self { screen, ended } = self;
        let keys = async || screen.keys(simulator).await;
        let goes_on = pace.run_for(simulator, time, ended.as_mut(), keys).await?;
        screen.show(simulator, None)?;
        Ok(goes_on)
    }

    /// Shows the end of the replay until a key or a signal ends the view.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub(super) async fn stay(&mut self, simulator: &Simulator) -> anyhow::Result<()> {
        let Self { screen, ended } = self;
        screen.show(simulator, Some(vec!["the replay has ended: q prints its report".to_owned()]))?;
        while screen.keys(simulator).await? {
            tokio::select! {
                () = ended.as_mut() => break,
                () = clock::wait(KEYS_EVERY) => {}
            }
        }
        Ok(())
    }
}

/// The instance types that the cloud of a replay sells, for explanations.
struct PlayedCatalogue(Catalogue);

impl OfflineCatalogue for PlayedCatalogue {
    fn names(&self) -> &'static [&'static str] {
        &["replay"]
    }

    fn serves(&self, class: &NodeClassRef) -> bool {
        // NodeClasses of all clouds are played as the simulator's own.
        &*class.kind == "KWOKNodeClass"
    }

    fn labels(&self) -> LabelSchema {
        (*self.0.schema).clone()
    }

    fn offer(&self, _request: &ClassRequest<'_>) -> anyhow::Result<ClassOffer> {
        Ok(ClassOffer {
            catalog: self.0.types.clone(),
            schema: self.0.schema.clone(),
            source: "the catalogue of the replay".to_owned(),
            priced: true,
            ..ClassOffer::default()
        })
    }

    fn export(&self, _name: &str, _options: &CatalogueOptions, _values: &Values) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(&dump(&self.0))? + "\n")
    }
}
