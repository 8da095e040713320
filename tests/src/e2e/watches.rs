//! Watches that last until they are dropped. A server ends watches now and then, for example all of a kind whose definition has just been
//! accepted; they are resumed.

use std::time::Duration;

use anyhow::Context as _;
use futures::TryStreamExt as _;
use http::Request;
use kube::core::WatchEvent;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::task::JoinHandle;

/// Between the end of a watch and its successor.
const PAUSE: Duration = Duration::from_millis(50);

/// A watched kind with a resource version.
pub(crate) trait Versioned: Clone + DeserializeOwned + Send + 'static {
    /// `metadata.resourceVersion`.
    fn version(&self) -> Option<&str>;
}

impl Versioned for Value {
    fn version(&self) -> Option<&str> {
        self["metadata"]["resourceVersion"].as_str()
    }
}

/// Some watches. Dropping them ends them.
#[derive(Default)]
pub(crate) struct Watches(Vec<JoinHandle<anyhow::Result<()>>>);

impl Watches {
    /// Watches the objects at `path` that are newer than `version`; `note` receives each state, and whether it is the last.
    pub(crate) fn add<T: Versioned>(
        &mut self,
        client: kube::Client,
        path: &'static str,
        version: &str,
        mut note: impl FnMut(bool, T) -> anyhow::Result<()> + Send + 'static,
    ) {
        let mut version = version.to_owned();
        self.0.push(tokio::spawn(async move {
            loop {
                watch(&client, path, &mut version, &mut note).await.with_context(|| path.to_owned())?;
                tokio::time::sleep(PAUSE).await;
            }
        }));
    }

    /// Fails if a watch has ended permanently: its later events are missing.
    pub(crate) async fn check(&mut self) -> anyhow::Result<()> {
        for task in &mut self.0 {
            if task.is_finished() {
                task.await??;
                anyhow::bail!("a watch ended");
            }
        }
        Ok(())
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

/// One watch, until the server ends it.
async fn watch<T: Versioned>(
    client: &kube::Client,
    path: &str,
    version: &mut String,
    note: &mut (impl FnMut(bool, T) -> anyhow::Result<()> + Send),
) -> anyhow::Result<()> {
    let request = Request::get(format!("{path}?watch=true&resourceVersion={version}")).body(Vec::new())?;
    let mut events = std::pin::pin!(client.request_events::<T>(request).await?);
    while let Some(event) = events.try_next().await? {
        let (last, object) = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => (false, object),
            WatchEvent::Deleted(object) => (true, object),
            WatchEvent::Bookmark(mark) => {
                version.clone_from(&mark.metadata.resource_version);
                continue;
            }
            WatchEvent::Error(status) => anyhow::bail!("{status:?}"),
        };
        object.version().context("an object without version")?.clone_into(version);
        note(last, object)?;
    }
    Ok(())
}
