//! What a reader sees of an API server: lists and watches whose objects are changed on their way.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use futures::stream::{self, StreamExt as _};
use serde_json::{Value, json};

/// Changes an object that is read. The items of lists have their kind, which the API server leaves out.
pub(crate) type ReadView = Arc<dyn Fn(&mut Value) + Send + Sync>;

/// The answer to a read as `view` makes it: a list, an object, or a watch, which is an event per line and may never end.
pub(crate) fn changed(body: Body, view: ReadView) -> Body {
    let lines = Lines { pending: Vec::new(), view };
    let chunks = body.into_data_stream().map(Some).chain(stream::once(async { None }));
    Body::from_stream(chunks.scan(lines, |lines, chunk| {
        let whole = match chunk {
            Some(Ok(chunk)) => Ok(lines.take(&chunk)),
            Some(Err(error)) => Err(error),
            None => Ok(lines.rest()),
        };
        std::future::ready(Some(whole))
    }))
}

/// Puts lines together from the chunks in which they arrive.
struct Lines {
    pending: Vec<u8>,
    view: ReadView,
}

impl Lines {
    /// The lines that `chunk` completes, changed.
    fn take(&mut self, chunk: &[u8]) -> Bytes {
        self.pending.extend_from_slice(chunk);
        let end = self.pending.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let whole: Vec<u8> = self.pending.drain(..end).collect();
        let lines = whole.split_inclusive(|byte| *byte == b'\n');
        lines.flat_map(|line| changed_line(line, &self.view)).collect()
    }

    /// What is left when nothing more arrives.
    fn rest(&mut self) -> Bytes {
        let line = std::mem::take(&mut self.pending);
        changed_line(&line, &self.view).into()
    }
}

/// A line with its objects changed; one that is not JSON stays as it is.
fn changed_line(line: &[u8], view: &ReadView) -> Vec<u8> {
    let Ok(mut value) = serde_json::from_slice::<Value>(line) else { return line.to_vec() };
    let kind = value["kind"].as_str().and_then(|kind| kind.strip_suffix("List")).map(str::to_owned);
    if let (Some(kind), Some(items)) = (kind, value.get_mut("items").and_then(Value::as_array_mut)) {
        for item in items {
            item["kind"] = json!(kind);
            view(item);
        }
    } else if value["type"].is_string() && value["object"].is_object() {
        view(&mut value["object"]);
    } else {
        view(&mut value);
    }
    let mut text = value.to_string().into_bytes();
    text.push(b'\n');
    text
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;

    use super::*;

    async fn seen(chunks: Vec<&'static str>) -> String {
        let body = Body::from_stream(stream::iter(chunks.into_iter().map(Ok::<_, std::io::Error>)));
        let view: ReadView = Arc::new(|object| {
            if object["kind"] == "Pod" {
                object["spec"] = json!("hidden");
            }
        });
        let bytes = to_bytes(changed(body, view), usize::MAX).await.unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn objects_of_lists_and_watches_are_changed_wherever_chunks_end() {
        let list = seen(vec![r#"{"items":[{"spec":1"#, r#"}],"kind":"PodList"}"#]).await;
        assert_eq!(list, "{\"items\":[{\"kind\":\"Pod\",\"spec\":\"hidden\"}],\"kind\":\"PodList\"}\n");
        let watch = seen(vec![
            "{\"object\":{\"kind\":\"Pod\",\"spec\":1},\"type\":\"ADDED\"}\n{\"object\":{\"kind\"",
            ":\"Node\",\"spec\":1},\"type\":\"ADDED\"}\nno JSON",
        ])
        .await;
        assert_eq!(
            watch,
            "{\"object\":{\"kind\":\"Pod\",\"spec\":\"hidden\"},\"type\":\"ADDED\"}\n\
             {\"object\":{\"kind\":\"Node\",\"spec\":1},\"type\":\"ADDED\"}\nno JSON"
        );
    }
}
