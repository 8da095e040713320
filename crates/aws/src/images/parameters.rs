//! Parameters of SSM as they were last read, for all classes alike.
//!
//! Two hundred classes of one alias read each parameter once a day, as Karpenter does. A look-up that fails changes nothing: what
//! was read before counts on, however old, so that a throttled call never looks like an image that is gone.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};

use crate::calls::{AwsApi, AwsError};
use crate::recent::is_recent;

/// How long the parameter of an alias counts.
const OF_ALIAS: SignedDuration = SignedDuration::from_hours(24);
/// How long a parameter that a class names counts, and that there is none of a name.
const CUSTOM: SignedDuration = SignedDuration::from_mins(5);
/// How long one counts whose image is deprecated: a newer one is to be expected.
const DEPRECATED: SignedDuration = SignedDuration::from_mins(30);
/// Most parameters that are remembered; beyond that, those that were read longest ago go. Six families with a dozen versions have
/// some four hundred.
const REMEMBERED: usize = 2000;

/// Who names a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// An alias of a fixed version: its value does not change.
    Pinned,
    /// An alias of the latest version.
    Latest,
    /// A class, in `ssmParameter`.
    Custom,
}

#[derive(Clone, Debug)]
struct Entry {
    /// The image's id; `None` where there is no such parameter, or no image's id in it.
    image: Option<String>,
    source: Source,
    read: Timestamp,
    deprecated: bool,
}

impl Entry {
    fn counts(&self, now: Timestamp) -> bool {
        let long = match self {
            Self { image: None, .. } | Self { source: Source::Custom, .. } => CUSTOM,
            Self { source: Source::Latest, deprecated: true, .. } => DEPRECATED,
            Self { source: Source::Pinned | Source::Latest, .. } => OF_ALIAS,
        };
        is_recent(self.read, now, long)
    }
}

/// The parameters by name.
#[derive(Debug, Default)]
pub struct Parameters(Mutex<BTreeMap<String, Entry>>);

impl Parameters {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The image's id that a parameter holds; `None` where there is no such parameter, or no image's id in it.
    ///
    /// # Errors
    /// Where SSM does not answer, and never has.
    pub async fn image(
        &self,
        api: &dyn AwsApi,
        path: &str,
        source: Source,
        now: Timestamp,
    ) -> Result<Option<String>, AwsError> {
        let known = self.lock().get(path).cloned();
        if let Some(entry) = known.as_ref().filter(|entry| entry.counts(now)) {
            return Ok(entry.image.clone());
        }
        let image = match api.parameter(path).await {
            Ok(text) => Some(text).filter(|text| text.starts_with("ami-")),
            Err(error) if error.is_not_found() => None,
            Err(error) => return known.map(|entry| entry.image).ok_or(error),
        };
        let mut all = self.lock();
        all.insert(path.to_owned(), Entry { image: image.clone(), source, read: now, deprecated: false });
        if all.len() > REMEMBERED {
            let oldest = all.iter().min_by_key(|(_, entry)| entry.read).map(|(path, _)| path.clone());
            oldest.map(|path| all.remove(&path));
        }
        Ok(image)
    }

    /// Takes note of an image that is deprecated: parameters that may change by now are read again sooner.
    pub fn deprecated(&self, image: &str) {
        for entry in self.lock().values_mut().filter(|entry| entry.image.as_deref() == Some(image)) {
            entry.deprecated = true;
        }
    }
}

#[cfg(test)]
mod tests {
    //! When a parameter is read.
    use std::pin::Pin;
    use std::sync::Arc;
    use std::time::Duration;

    use rstest::rstest;

    use super::*;
    use crate::testing::{Call, FakeAws, Fault};

    struct Still;

    impl fleetwright_core::clock::Clock for Still {
        fn now(&self) -> Timestamp {
            Timestamp::UNIX_EPOCH
        }
        fn sleep(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
            Box::pin(std::future::ready(()))
        }
    }

    fn at(minutes: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes)
    }

    const PATH: &str = "/some/path";

    /// Calls of a parameter that is looked up each minute of two days.
    #[rstest]
    #[case::pinned(Source::Pinned, Some("ami-1"), false, 2)]
    #[case::latest(Source::Latest, Some("ami-1"), false, 2)]
    #[case::latest_deprecated(Source::Latest, Some("ami-1"), true, 96)]
    #[case::pinned_deprecated(Source::Pinned, Some("ami-1"), true, 2)]
    #[case::custom(Source::Custom, Some("ami-1"), false, 576)]
    #[case::not_there(Source::Latest, None, false, 576)]
    #[case::no_image(Source::Latest, Some("hello"), false, 576)]
    #[tokio::test]
    async fn karpenters_times(
        #[case] source: Source,
        #[case] value: Option<&str>,
        #[case] deprecated: bool,
        #[case] expected: u64,
    ) {
        let aws = FakeAws::new(Arc::new(Still));
        aws.set_parameter(PATH, value);
        let parameters = Parameters::default();
        for minute in 0..2 * 24 * 60 {
            let found = parameters.image(&aws, PATH, source, at(minute)).await.unwrap();
            assert_eq!(found.as_deref(), value.filter(|value| value.starts_with("ami-")));
            if deprecated {
                parameters.deprecated("ami-1");
            }
        }
        assert_eq!(aws.count(Call::Parameter.name()), expected);
    }

    #[tokio::test]
    async fn a_failure_changes_nothing() {
        let aws = FakeAws::new(Arc::new(Still));
        let parameters = Parameters::default();
        let throttled = || Fault::Refuse(AwsError::new("ThrottlingException", "slow down"));
        aws.inject(Call::Parameter, throttled());
        assert!(parameters.image(&aws, PATH, Source::Custom, at(0)).await.is_err(), "nothing is known yet");
        aws.set_parameter(PATH, Some("ami-1"));
        assert_eq!(
            parameters.image(&aws, PATH, Source::Custom, at(1)).await.unwrap().as_deref(),
            Some("ami-1")
        );
        aws.inject(Call::Parameter, throttled());
        aws.set_parameter(PATH, Some("ami-2"));
        let later = parameters.image(&aws, PATH, Source::Custom, at(60)).await.unwrap();
        assert_eq!(later.as_deref(), Some("ami-1"));
        let answered = parameters.image(&aws, PATH, Source::Custom, at(61)).await.unwrap();
        assert_eq!(answered.as_deref(), Some("ami-2"));
        // A clock that jumps back reads again and lasts no longer.
        let back = parameters.image(&aws, PATH, Source::Custom, at(2)).await.unwrap();
        assert_eq!((back.as_deref(), aws.count(Call::Parameter.name())), (Some("ami-2"), 5));
    }

    #[tokio::test]
    async fn memory_has_a_bound() {
        let aws = FakeAws::new(Arc::new(Still));
        let parameters = Parameters::default();
        for number in 0..REMEMBERED + 10 {
            let now = at(i64::try_from(number).unwrap());
            parameters.image(&aws, &format!("/{number}"), Source::Latest, now).await.unwrap();
        }
        assert_eq!(parameters.lock().len(), REMEMBERED);
        assert!(!parameters.lock().contains_key("/0"));
    }
}
