//! Enqueues changes of the index for the interested controllers.

use std::sync::{Arc, OnceLock, Weak};

use fleetwright_state::{Change, Index, Key};

use super::{controller::Controller, queue::Queue};

/// One controller and its queue. The reference is weak because the controller holds the hub through its [`super::Cluster`]; the loop that
/// runs the controller keeps it alive.
pub(super) struct Route {
    name: &'static str,
    controller: Weak<dyn Controller>,
    queue: Arc<Queue>,
}

impl Route {
    pub(super) fn new(controller: &Arc<dyn Controller>, queue: Arc<Queue>) -> Self {
        Self { name: controller.name(), controller: Arc::downgrade(controller), queue }
    }
}

/// All routes, in the order of registration. Empty until the controllers run.
#[derive(Default)]
pub(super) struct Hub {
    routes: OnceLock<Vec<Route>>,
}

impl Hub {
    /// Sets the routes. Only the first call has an effect; later calls return false.
    pub(super) fn set_routes(&self, routes: Vec<Route>) -> bool {
        self.routes.set(routes).is_ok()
    }

    fn routes(&self) -> &[Route] {
        self.routes.get().map_or(&[], Vec::as_slice)
    }

    pub(super) fn notify(&self, change: &Change, index: &Index) {
        for route in self.routes() {
            let Some(controller) = route.controller.upgrade() else { continue };
            for key in controller.interested(change, index) {
                route.queue.add(key);
            }
        }
    }

    pub(super) fn enqueue(&self, controller: &str, key: Key) {
        let found = self.routes().iter().find(|route| route.name == controller);
        match found {
            Some(route) => route.queue.add(key),
            None => tracing::debug!(controller, %key, "no such controller runs"),
        }
    }
}
