//! The definitions as YAML files, one each, named as controller-gen names them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Number, Value};

/// Why the files could not be checked or written.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// A definition could not be written as YAML.
    #[error("definition {name} has no YAML form: {reason}")]
    Yaml {
        /// Name of the definition.
        name: String,
        /// The serializer's message.
        reason: String,
    },
    /// A file or the folder could not be read or written.
    #[error("cannot access {}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The operating system's message.
        source: io::Error,
    },
}

/// How a file differs from the types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is not there.
    Missing,
    /// The file is outdated.
    Stale,
}

/// A file that differs from the types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// The file.
    pub path: PathBuf,
    /// How it differed.
    pub change: Change,
}

/// `<group>_<plural>.yaml`.
pub fn file_name(crd: &CustomResourceDefinition) -> String {
    format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural)
}

/// One YAML document that begins with `---`, the same on every run.
///
/// # Errors
/// [`GenerateError::Yaml`] when the serialiser refuses.
pub fn to_yaml(crd: &CustomResourceDefinition) -> Result<String, GenerateError> {
    let refused =
        |reason| GenerateError::Yaml { name: crd.metadata.name.clone().unwrap_or_default(), reason };
    let value = serde_json::to_value(crd).map_err(|error| refused(error.to_string()))?;
    let body = serde_saphyr::to_string(&plain(value)).map_err(|error| refused(error.to_string()))?;
    Ok(format!("---\n{body}"))
}

/// Keys in alphabetical order, whatever features serde_json was built with, and whole numbers without a decimal point,
/// which the typed bounds have.
fn plain(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let sorted: BTreeMap<String, Value> =
                map.into_iter().map(|(key, value)| (key, plain(value))).collect();
            Value::Object(sorted.into_iter().collect())
        }
        Value::Array(items) => items.into_iter().map(plain).collect(),
        Value::Number(number) if number.is_f64() => whole(&number).map_or(Value::Number(number), Value::from),
        other => other,
    }
}

/// The integer value of a floating-point number, if its text is an integer.
fn whole(number: &Number) -> Option<i64> {
    number.to_string().strip_suffix(".0")?.parse().ok()
}

/// Compares the files in `dir` with `definitions`. With `check` it only reports; otherwise it writes what differs. Returns
/// what differed, in the order of the definitions.
///
/// # Errors
/// When a definition has no YAML form, or the folder or a file is not accessible.
pub fn generate(
    definitions: &[CustomResourceDefinition],
    dir: &Path,
    check: bool,
) -> Result<Vec<Drift>, GenerateError> {
    let mut drifts = Vec::new();
    for crd in definitions {
        let path = dir.join(file_name(crd));
        let wanted = to_yaml(crd)?;
        let access = |source| GenerateError::Io { path: path.clone(), source };
        let change = match fs::read_to_string(&path) {
            Ok(found) if found == wanted => continue,
            Ok(_) => Change::Stale,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Change::Missing,
            Err(error) => return Err(access(error)),
        };
        if !check {
            fs::create_dir_all(dir).map_err(|source| GenerateError::Io { path: dir.to_owned(), source })?;
            fs::write(&path, wanted).map_err(access)?;
        }
        drifts.push(Drift { path, change });
    }
    Ok(drifts)
}
