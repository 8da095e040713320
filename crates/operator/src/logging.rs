//! Logs in Karpenter's format: one JSON object per line with `level`, `time`, `logger`, `message`, `commit` in this
//! order, then the fields. Tools parse these lines by position, so the order is part of the contract.

use std::{
    fmt::{self, Write as _},
    fs::{File, OpenOptions},
    io::{self, Write},
    sync::{Arc, Mutex},
};

use fleetwright_core::clock::SharedClock;
use indexmap::IndexMap;
use serde_json::{Map, Value};
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id},
};
use tracing_subscriber::{
    Layer, Registry,
    filter::LevelFilter,
    layer::{Context, SubscriberExt},
    registry::LookupSpan,
};

/// The revision that the binary was built from, if the build knows it.
pub(crate) const COMMIT: &str = match option_env!("FLEETWRIGHT_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// Where lines go.
type Sink = Arc<Mutex<Vec<Box<dyn Write + Send>>>>;

/// Installs the logger for the whole process.
///
/// # Errors
/// If an output cannot be opened; names it.
pub(crate) fn install(level: &str, outputs: &str, clock: SharedClock) -> io::Result<()> {
    let level = match level {
        "debug" => LevelFilter::DEBUG,
        "error" => LevelFilter::ERROR,
        _ => LevelFilter::INFO,
    };
    let sinks = outputs.split(',').map(str::trim).filter(|path| !path.is_empty()).map(open);
    let sink: Sink = Arc::new(Mutex::new(sinks.collect::<io::Result<Vec<_>>>()?));
    // Dependencies log at their own levels; only their errors are of interest.
    let ours = tracing_subscriber::filter::filter_fn(|metadata| {
        metadata.target().starts_with("fleetwright") || *metadata.level() <= Level::WARN
    });
    let layer = JsonLayer { sink, clock, caller: level == LevelFilter::DEBUG };
    let subscriber = Registry::default().with(layer.with_filter(level).with_filter(ours));
    tracing::subscriber::set_global_default(subscriber).map_err(io::Error::other)
}

fn open(path: &str) -> io::Result<Box<dyn Write + Send>> {
    Ok(match path {
        "stdout" => Box::new(io::stdout()),
        "stderr" => Box::new(io::stderr()),
        path => {
            let named =
                |error: io::Error| io::Error::new(error.kind(), format!("log output {path}: {error}"));
            let file: File = OpenOptions::new().create(true).append(true).open(path).map_err(named)?;
            Box::new(file)
        }
    })
}

/// Formats events and writes them.
struct JsonLayer {
    sink: Sink,
    clock: SharedClock,
    /// Whether lines have their source location, as Karpenter's do at level debug.
    caller: bool,
}

/// Fields of an event or a span, in the order written. Names of kinds nest (`NodePool.name`), and the text of `json:x` is JSON.
#[derive(Clone, Debug, Default)]
struct Fields(IndexMap<String, Value>);

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        if let (Some(name), Value::String(text)) = (field.name().strip_prefix("json:"), &value) {
            let parsed = serde_json::from_str(text).unwrap_or(value);
            self.0.insert(name.to_owned(), parsed);
            return;
        }
        // `taint.Key` is one key; the kinds of objects nest.
        let is_kind = |object: &str| object.starts_with(|first: char| first.is_ascii_uppercase());
        match field.name().split_once('.').filter(|(object, _)| is_kind(object)) {
            None => {
                self.0.insert(field.name().to_owned(), value);
            }
            Some((object, key)) => {
                let slot = self.0.entry(object.to_owned()).or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(map) = slot {
                    map.insert(key.to_owned(), value);
                }
            }
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, Value::String(format!("{value:?}")));
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, Value::String(value.to_owned()));
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for JsonLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut own = Fields::default();
        event.record(&mut own);
        let mut inherited = IndexMap::new();
        for span in context.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            if let Some(fields) = span.extensions().get::<Fields>() {
                inherited.extend(fields.0.clone());
            }
        }
        let caller = self.caller.then(|| caller(event.metadata())).flatten();
        let (level, time) = (*event.metadata().level(), self.clock.now().to_string());
        let line = render((level, &time, caller.as_deref()), inherited, own.0);
        let Ok(mut sinks) = self.sink.lock() else { return };
        for sink in sinks.iter_mut() {
            // A failure to write the log cannot be reported.
            let _ = sink.write_all(line.as_bytes()).and_then(|()| sink.flush());
        }
    }
}

/// The file, with its folder, and the line that log an event.
fn caller(metadata: &tracing::Metadata<'_>) -> Option<String> {
    let mut parts = metadata.file()?.rsplit('/');
    let file = parts.next()?;
    let place = parts.next().map_or_else(|| file.to_owned(), |folder| format!("{folder}/{file}"));
    Some(format!("{place}:{}", metadata.line()?))
}

/// One line, in Karpenter's order.
fn render(
    (level, time, caller): (Level, &str, Option<&str>),
    inherited: IndexMap<String, Value>,
    mut own: IndexMap<String, Value>,
) -> String {
    let level = match level {
        Level::ERROR => "ERROR",
        Level::WARN => "WARN",
        Level::INFO => "INFO",
        Level::DEBUG | Level::TRACE => "DEBUG",
    };
    let text = |value: Option<Value>, default: &str| match value {
        Some(Value::String(text)) => text,
        _ => default.to_owned(),
    };
    let mut fields = inherited;
    let message = text(own.shift_remove("message"), "");
    let logger = text(own.shift_remove("logger").or_else(|| fields.shift_remove("logger")), "controller");
    fields.extend(own);
    let mut line = String::with_capacity(256);
    let json = |value: &str| Value::String(value.to_owned()).to_string();
    // Writing to a String cannot fail.
    let _ = write!(line, r#"{{"level":"{level}","time":{},"logger":{}"#, json(&millis(time)), json(&logger));
    if let Some(caller) = caller {
        let _ = write!(line, r#","caller":{}"#, json(caller));
    }
    let _ = write!(line, r#","message":{},"commit":{}"#, json(&message), json(COMMIT));
    for (key, value) in fields {
        let _ = write!(line, ",{}:{value}", json(&key));
    }
    line.push_str("}\n");
    line
}

/// ISO 8601 with milliseconds, as Karpenter's logger writes it.
fn millis(time: &str) -> String {
    let body = time.trim_end_matches('Z');
    let (seconds, fraction) = body.split_once('.').unwrap_or((body, ""));
    let digits: String = fraction.chars().chain(std::iter::repeat('0')).take(3).collect();
    format!("{seconds}.{digits}Z")
}

#[cfg(test)]
mod tests;
