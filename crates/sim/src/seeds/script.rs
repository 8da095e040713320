//! What people, and bad luck, do to a small cluster in one run.

use std::{collections::BTreeMap, time::Duration};

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::cloud_fault;
use crate::world::{World, WorldError};

/// Deployments of a run.
const APPS: [&str; 3] = ["api", "batch", "web"];

/// Decides, from a seed, what happens next.
pub(super) struct Script {
    dice: ChaCha8Rng,
    next: Duration,
    last: Duration,
    labels: u32,
    guarded: bool,
    happened: BTreeMap<&'static str, u32>,
}

impl Script {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            dice: ChaCha8Rng::seed_from_u64(seed ^ 0x5c71),
            next: Duration::from_secs(90),
            last: Duration::ZERO,
            labels: 0,
            guarded: false,
            happened: BTreeMap::new(),
        }
    }

    /// When somebody last did something.
    pub(super) fn last_action(&self) -> Duration {
        self.last
    }

    pub(super) fn happened(&self) -> BTreeMap<&'static str, u32> {
        self.happened.clone()
    }

    fn draw(&mut self, below: u32) -> u32 {
        self.dice.random_range(0..below)
    }

    /// The pools and the first load.
    pub(super) fn begin(&mut self, world: &World) -> Result<(), WorldError> {
        world.apply_object(json!({
            "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"},
        }))?;
        self.pool(world)?;
        for app in APPS {
            let replicas = self.draw(8);
            self.scale(world, app, replicas)?;
        }
        Ok(())
    }

    fn pool(&self, world: &World) -> Result<(), WorldError> {
        world.apply_object(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
            "spec": {
                "template": {
                    "metadata": {"labels": {"generation": self.labels.to_string()}},
                    "spec": {
                        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                        "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
                        "expireAfter": "720h",
                    },
                },
                "disruption": {
                    "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "20s",
                    "budgets": [{"nodes": "34%"}],
                },
                "limits": {"nodes": "12"},
            },
        }))?;
        Ok(())
    }

    fn scale(&mut self, world: &World, app: &str, replicas: u32) -> Result<(), WorldError> {
        let cpu = match app {
            "api" => "900m",
            "batch" => "3",
            _ => "300m",
        };
        let guard: Value = if app == "web" && self.guarded {
            json!({"karpenter.sh/do-not-disrupt": "true"})
        } else {
            json!({})
        };
        let labels = json!({"app": app});
        world.apply_object(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": app, "namespace": "default"},
            "spec": {
                "replicas": replicas, "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels, "annotations": guard},
                    "spec": {"containers": [{"name": "a", "image": "a",
                        "resources": {"requests": {"cpu": cpu, "memory": "200Mi"}}}]},
                },
            },
        }))?;
        Ok(())
    }

    /// What is due now; a duration is how long the operator is down.
    pub(super) fn step(&mut self, world: &World) -> Result<Option<Duration>, WorldError> {
        if world.elapsed() < self.next {
            return Ok(None);
        }
        let pause = 15 + u64::from(self.draw(75));
        self.next = world.elapsed().saturating_add(Duration::from_secs(pause));
        let (what, down) = self.act(world)?;
        *self.happened.entry(what).or_default() += 1;
        if what == "claim deleted" || what == "machine lost" || what == "pool changed" {
            self.last = world.elapsed();
        }
        Ok(down)
    }

    /// Nobody protects anything any more: a protected pod keeps its node for ever, which is as it should be.
    pub(super) fn calm(&mut self, world: &World) -> Result<(), WorldError> {
        self.guarded = false;
        let replicas = self.draw(4);
        self.scale(world, "web", replicas)
    }

    fn act(&mut self, world: &World) -> Result<(&'static str, Option<Duration>), WorldError> {
        match self.draw(12) {
            0..=3 => {
                let at = usize::try_from(self.draw(3)).unwrap_or(0);
                let replicas = self.draw(10);
                self.scale(world, APPS[at], replicas)?;
                Ok(("load changed", None))
            }
            4 => {
                self.labels += 1;
                self.pool(world)?;
                Ok(("pool changed", None))
            }
            5 => {
                if let Some(name) = self.any_claim(world) {
                    world.delete_object(&format!("NodeClaim {name}"))?;
                }
                Ok(("claim deleted", None))
            }
            6 => {
                let machines = world.cloud().machines();
                if !machines.is_empty() {
                    let count = u32::try_from(machines.len()).unwrap_or(1);
                    let at = usize::try_from(self.draw(count)).unwrap_or(0);
                    world.cloud().lose(&machines[at].id);
                }
                Ok(("machine lost", None))
            }
            7 => {
                self.guarded = !self.guarded;
                let replicas = 1 + self.draw(4);
                self.scale(world, "web", replicas)?;
                Ok(("protection changed", None))
            }
            8 | 9 => {
                let (what, fault) = cloud_fault(u64::from(self.draw(6)));
                world.cloud().inject(fault);
                Ok((what, None))
            }
            _ => {
                let down = Duration::from_millis(u64::from(self.draw(20_000)));
                Ok(("operator killed", Some(down)))
            }
        }
    }

    fn any_claim(&mut self, world: &World) -> Option<String> {
        let claims = world.server().list("karpenter.sh/v1", "NodeClaim", "");
        let count = u32::try_from(claims.len()).ok().filter(|count| *count > 0)?;
        let at = usize::try_from(self.draw(count)).ok()?;
        claims[at].pointer("/metadata/name")?.as_str().map(str::to_owned)
    }
}
