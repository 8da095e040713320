//! URLs of queues by name, looked up once, and batches of messages.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use aws_sdk_sqs::types::{
    BatchResultErrorEntry, DeleteMessageBatchRequestEntry, DeleteMessageBatchResultEntry,
};
use fleetwright_aws::calls::AwsError;

use crate::error;

/// The known URLs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queues(Arc<Mutex<BTreeMap<String, String>>>);

impl Queues {
    /// The queue's URL, from the cache or from SQS. A URL is returned unchanged.
    pub(crate) async fn url(&self, sqs: &aws_sdk_sqs::Client, name: &str) -> Result<String, AwsError> {
        if name.starts_with("https://") || name.starts_with("http://") {
            return Ok(name.to_owned());
        }
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        if let Some(url) = known {
            return Ok(url);
        }
        let with_causes = sqs.get_queue_url().queue_name(name).send().await.map_err(error::of)?;
        let url = with_causes
            .queue_url
            .ok_or_else(|| AwsError::new("QueueDoesNotExist", "SQS answered without a URL"))?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), url.clone());
        Ok(url)
    }

    /// Looks the URL up again next time: a queue that was recreated may have another one.
    pub(crate) fn forget(&self, name: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}

/// The entries of a batch of deletions, each identified by its index.
pub(crate) fn entries(receipts: &[String]) -> Result<Vec<DeleteMessageBatchRequestEntry>, AwsError> {
    let entry = |(at, receipt): (usize, &String)| {
        DeleteMessageBatchRequestEntry::builder().id(at.to_string()).receipt_handle(receipt).build()
    };
    let entries: Result<Vec<_>, _> = receipts.iter().enumerate().map(entry).collect();
    entries.map_err(|error| AwsError::new("InvalidRequest", &error.to_string()))
}

/// The result of each entry of a batch; a message that the answer does not contain may still exist.
pub(crate) fn outcomes(
    count: usize,
    deleted: &[DeleteMessageBatchResultEntry],
    failed: &[BatchResultErrorEntry],
) -> Vec<Result<(), AwsError>> {
    let outcome = |at: usize| {
        let id = at.to_string();
        if deleted.iter().any(|entry| entry.id() == id) {
            return Ok(());
        }
        let refusal = failed.iter().find(|entry| entry.id() == id);
        let silent = || AwsError::new(AwsError::NO_ANSWER, "SQS did not report this message");
        let of =
            |entry: &BatchResultErrorEntry| AwsError::new(entry.code(), entry.message().unwrap_or_default());
        Err(refusal.map_or_else(silent, of))
    };
    (0..count).map(outcome).collect()
}

#[cfg(test)]
mod tests {
    //! Results of the entries of a batch.
    use super::*;

    #[test]
    fn each_entry_has_its_result() {
        let receipts = ["a", "b", "c"].map(str::to_owned);
        let asked = entries(&receipts).unwrap();
        let asked: Vec<_> = asked.iter().map(|entry| (entry.id(), entry.receipt_handle())).collect();
        assert_eq!(asked, [("0", "a"), ("1", "b"), ("2", "c")]);
        let deleted = [DeleteMessageBatchResultEntry::builder().id("2").build().unwrap()];
        let failed =
            BatchResultErrorEntry::builder().id("0").sender_fault(true).code("ReceiptHandleIsInvalid");
        let with_causes = outcomes(3, &deleted, &[failed.message("why").build().unwrap()]);
        assert_eq!(with_causes[0], Err(AwsError::new("ReceiptHandleIsInvalid", "why")));
        assert_eq!(with_causes[1].as_ref().unwrap_err().code, AwsError::NO_ANSWER);
        assert_eq!(with_causes[2], Ok(()));
    }
}
