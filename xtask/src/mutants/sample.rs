//! The sample: the same number of mutants of each module, by a seed.

use super::find::Mutant;

/// The modules that decide, each a stratum of the sample.
pub(super) const MODULES: [&str; 5] = [
    "crates/core/src/safety",
    "crates/core/src/nodeclaim",
    "crates/core/src/disruption",
    "crates/core/src/scheduling",
    "crates/state/src",
];

/// The module of a source file; `None` for files that are not mutated, such as tests.
pub(super) fn module(file: &str) -> Option<&'static str> {
    let is_test =
        |part: &str| matches!(part, "tests" | "tests.rs" | "testing" | "validator" | "validator.rs");
    if !file.ends_with(".rs") || file.split('/').any(is_test) {
        return None;
    }
    MODULES
        .into_iter()
        .find(|module| file.strip_prefix(module).is_some_and(|rest| rest.starts_with('/') || rest == ".rs"))
}

/// Draws at most `count` of `all`. Whether a mutant is drawn depends on the seed and on its name: a change elsewhere in the module keeps most
/// of the sample.
pub(super) fn draw(mut all: Vec<Mutant>, count: usize, seed: u64) -> Vec<Mutant> {
    all.sort_by_cached_key(|mutant| (hash(seed, &mutant.key()), mutant.key()));
    all.truncate(count);
    all
}

/// FNV-1a, finished by the mixer of SplitMix64 (Steele et al., 2014).
fn hash(seed: u64, text: &str) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325 ^ seed;
    let folded =
        text.bytes().fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let mixed = (folded ^ (folded >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
