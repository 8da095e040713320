//! The binaries of a control plane: `KUBEBUILDER_ASSETS`, else a folder that the tier builds once. And Karpenter, where the tier has it.

mod go;
mod karpenter;

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::arguments::{Environment, Tier};

/// A real control plane, and the client that users have.
pub(crate) const PARTS: [&str; 5] =
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"];

/// A folder with the programs of a tier.
#[derive(Debug, Clone)]
pub(crate) struct Assets {
    folder: PathBuf,
    /// Karpenter's program, in the tier that has it.
    karpenter: Option<PathBuf>,
}

impl Assets {
    /// Finds all binaries that `tier` needs in one folder, or builds the folder and reports so on `out`.
    ///
    /// A folder that lacks any part (conventional envtest folders lack two) is not used at all: parts of different
    /// releases would otherwise be mixed. The fake tier needs only kubectl, and takes that of `PATH` before it builds.
    pub(crate) fn find(tier: Tier, environment: &Environment, out: &mut dyn Write) -> anyhow::Result<Self> {
        let parts: &[&str] = if tier.is_real() { &PARTS } else { &["kubectl"] };
        let named = environment.assets.iter().cloned();
        let path = std::env::split_paths(&environment.path);
        let folders = if tier.is_real() {
            named.collect()
        } else {
            named.chain(go::built(environment)?).chain(path).collect()
        };
        let folder = match first_complete(folders, parts) {
            Some(folder) => folder,
            None => go::build(environment, out)?,
        };
        let karpenter = match tier {
            Tier::Karpenter => Some(karpenter::build(environment, out)?),
            Tier::Kube | Tier::FakeKube => None,
        };
        Ok(Self { folder, karpenter })
    }

    /// Karpenter's program.
    ///
    /// # Errors
    /// In a tier that does not have it.
    pub(crate) fn karpenter(&self) -> anyhow::Result<&Path> {
        self.karpenter.as_deref().context("only --tier karpenter builds Karpenter")
    }

    /// The path of one program.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        program(&self.folder, name)
    }
}

fn first_complete(folders: Vec<PathBuf>, parts: &[&str]) -> Option<PathBuf> {
    folders.into_iter().find(|folder| is_complete(folder, parts))
}

/// Whether `folder` has a program of each name.
pub(crate) fn is_complete(folder: &Path, parts: &[&str]) -> bool {
    parts.iter().all(|part| program(folder, part).is_file())
}

/// The path of the program `name` in `folder`.
pub(crate) fn program(folder: &Path, name: impl AsRef<OsStr>) -> PathBuf {
    let mut file = name.as_ref().to_os_string();
    file.push(std::env::consts::EXE_SUFFIX);
    folder.join(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(parts: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for part in parts {
            std::fs::write(program(folder.path(), part), "").unwrap();
        }
        folder
    }

    #[test]
    fn a_folder_without_all_parts_is_passed_over() {
        let envtest = folder(&["etcd", "kube-apiserver", "kubectl"]);
        let whole = folder(&PARTS);
        let folders = vec![envtest.path().to_path_buf(), whole.path().to_path_buf()];
        assert_eq!(first_complete(folders.clone(), &PARTS).as_deref(), Some(whole.path()));
        assert_eq!(first_complete(folders, &["kubectl"]).as_deref(), Some(envtest.path()));
        assert_eq!(first_complete(vec![envtest.path().to_path_buf()], &PARTS), None);
    }

    #[test]
    fn a_folder_of_a_parts_name_is_no_program() {
        let folder = folder(&PARTS[1..]);
        std::fs::create_dir(program(folder.path(), PARTS[0])).unwrap();
        assert!(!is_complete(folder.path(), &PARTS));
    }
}
