//! Randomness from a seed, with an independent generator for each occasion, so that the order of calls changes nothing.

use std::time::Duration;

use fleetwright_kube_semantics::fnv::fnv1a_64;
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use serde::{Deserialize, Serialize};

/// The generator for the occasion `about`.
#[must_use]
pub(crate) fn dice(seed: u64, about: &[&str]) -> ChaCha8Rng {
    // Each part ends with a byte that UTF-8 never contains.
    let hash = fnv1a_64(about.iter().flat_map(|part| part.bytes().chain([0xff])));
    ChaCha8Rng::seed_from_u64(seed ^ hash)
}

/// A duration between `min` and `max`, more often near `min`, with a long tail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Latency {
    /// The minimum, in milliseconds.
    pub min_ms: u64,
    /// The maximum, in milliseconds.
    pub max_ms: u64,
}

impl Latency {
    /// Between `min_ms` and `max_ms` milliseconds.
    #[must_use]
    pub const fn between(min_ms: u64, max_ms: u64) -> Self {
        Self { min_ms, max_ms }
    }

    /// One draw: `min + (max - min) · u²` for a uniform `u`.
    pub(crate) fn draw(self, rng: &mut ChaCha8Rng) -> Duration {
        let spread = u128::from(self.max_ms.saturating_sub(self.min_ms));
        let uniform = u128::from(rng.next_u64() >> 32);
        let extra = (spread * uniform * uniform) >> 64;
        Duration::from_millis(self.min_ms.saturating_add(u64::try_from(extra).unwrap_or(u64::MAX)))
    }
}

impl std::str::FromStr for Latency {
    type Err = String;

    /// `5s`, or a range such as `18s-60s`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (min, max) = text.split_once('-').unwrap_or((text, text));
        let millis = |text| {
            let parsed = fleetwright_api::duration::parse(text).map_err(|error| error.to_string())?;
            u64::try_from(parsed.as_millis()).map_err(|_| "it must not be negative".to_owned())
        };
        Ok(Self::between(millis(min)?, millis(max)?))
    }
}

/// A number from `0` to `below - 1`.
pub(crate) fn below(rng: &mut ChaCha8Rng, below: u64) -> u64 {
    rng.next_u64() % below.max(1)
}

#[cfg(test)]
mod tests {
    //! Draws are bounded and repeatable.
    use super::*;

    #[test]
    fn draws_stay_within_and_repeat() {
        let latency = Latency::between(1000, 5000);
        let draw = |name: &str| latency.draw(&mut dice(1, &["boot", name]));
        let draws: Vec<Duration> = (0..200).map(|n| draw(&n.to_string())).collect();
        assert!(draws.iter().all(|d| (1000..=5000).contains(&d.as_millis())), "{draws:?}");
        assert!(draws.iter().any(|d| d.as_millis() > 3500) && draws.iter().any(|d| d.as_millis() < 1200));
        assert_eq!(draw("a"), draw("a"));
        assert_ne!(dice(1, &["ab", "c"]).next_u64(), dice(1, &["a", "bc"]).next_u64());
        assert_eq!(Latency::between(5, 2).draw(&mut dice(1, &[])), Duration::from_millis(5));
    }
}
