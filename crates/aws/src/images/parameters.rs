//! Parameters of SSM as they were last read, for all classes alike.
//!
//! Two hundred classes of one alias read each parameter once a day, as Karpenter does. A look-up that fails changes nothing: what
//! was read before counts on, however old, so that a throttled call never looks like an image that is gone.

use jiff::{SignedDuration, Timestamp};

use crate::cache::Cache;
use crate::calls::{AwsApi, AwsError};

/// How long the parameter of an alias counts.
const OF_ALIAS: SignedDuration = SignedDuration::from_hours(24);
/// How long a parameter that a class names counts, and that there is none of a name.
const CUSTOM: SignedDuration = SignedDuration::from_mins(5);
/// How long one counts whose image is deprecated: a newer one is to be expected.
const DEPRECATED: SignedDuration = SignedDuration::from_mins(30);
/// Most parameters that are remembered; beyond that, those that were not asked for for longest go. Six families with a dozen versions have
/// some four hundred.
const REMEMBERED: u64 = 2000;

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

/// What was read.
#[derive(Clone, Debug)]
struct Read {
    /// The image's id; `None` where there is no such parameter, or no image's id in it.
    image: Option<String>,
    source: Source,
    at: Timestamp,
}

impl Read {
    fn counts_for(&self, deprecated: bool) -> SignedDuration {
        match self {
            Self { image: None, .. } | Self { source: Source::Custom, .. } => CUSTOM,
            Self { source: Source::Latest, .. } if deprecated => DEPRECATED,
            Self { source: Source::Pinned | Source::Latest, .. } => OF_ALIAS,
        }
    }
}

/// The parameters by name.
#[derive(Debug, Default)]
pub struct Parameters(Cache<String, Read, REMEMBERED>);

impl Parameters {
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
        let key = path.to_owned();
        if let Some(read) = self.0.get(&key, now) {
            return Ok(read.image);
        }
        let image = match api.parameter(path).await {
            Ok(text) => Some(text).filter(|text| text.starts_with("ami-")),
            Err(error) if error.is_not_found() => None,
            Err(error) => return self.0.peek(&key).map(|read| read.image).ok_or(error),
        };
        let read = Read { image: image.clone(), source, at: now };
        let long = read.counts_for(false);
        self.0.insert(key, read, now, long);
        Ok(image)
    }

    /// Takes note of an image that is deprecated: parameters that may change by now are read again sooner.
    pub fn deprecated(&self, image: &str) {
        for (path, read) in self.0.all() {
            if read.image.as_deref() == Some(image) {
                let (at, long) = (read.at, read.counts_for(true));
                self.0.insert(path, read, at, long);
            }
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
        assert_eq!(parameters.0.len(), REMEMBERED);
        assert!(parameters.0.peek(&"/0".to_owned()).is_none());
    }
}
