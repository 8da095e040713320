//! Addresses of queues by name, asked for once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use fleetwright_aws::calls::AwsError;

use crate::error;

/// Addresses that are known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queues(Arc<Mutex<BTreeMap<String, String>>>);

impl Queues {
    /// The queue's address: what is known, or what SQS says. An address stands for itself.
    pub(crate) async fn url(&self, sqs: &aws_sdk_sqs::Client, name: &str) -> Result<String, AwsError> {
        if name.starts_with("https://") || name.starts_with("http://") {
            return Ok(name.to_owned());
        }
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        if let Some(url) = known {
            return Ok(url);
        }
        let told = sqs.get_queue_url().queue_name(name).send().await.map_err(error::of)?;
        let url = told
            .queue_url
            .ok_or_else(|| AwsError::new("QueueDoesNotExist", "SQS answered without an address"))?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), url.clone());
        Ok(url)
    }

    /// Asks anew next time: a queue that was made again may have another address.
    pub(crate) fn forget(&self, name: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}
