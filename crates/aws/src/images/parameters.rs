//! A cache of SSM parameters, shared by all EC2NodeClasses.
//!
//! Two hundred EC2NodeClasses of one alias read each parameter once a day, as in Karpenter. A failed look-up keeps the previous value,
//! however old, so that a throttled call never looks like a missing image.

use jiff::{SignedDuration, Timestamp};

use crate::cache::Cache;
use crate::calls::{AwsApi, AwsError};

/// How long the parameter of an alias is valid.
const OF_ALIAS: SignedDuration = SignedDuration::from_hours(24);
/// How long a parameter that an EC2NodeClass names is valid, and the absence of a parameter.
const CUSTOM: SignedDuration = SignedDuration::from_mins(5);
/// How long a parameter with a deprecated image is valid: a newer image is to be expected.
const DEPRECATED: SignedDuration = SignedDuration::from_mins(30);
/// Most cached parameters; beyond that, the least recently used are evicted. Six families with a dozen versions have about 400.
const REMEMBERED: u64 = 2000;

/// Where a parameter's name comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterSource {
    /// An alias of a fixed version: its value does not change.
    Pinned,
    /// An alias of the latest version.
    Latest,
    /// The field `ssmParameter` of an EC2NodeClass.
    Custom,
}

/// A cached value.
#[derive(Clone, Debug)]
struct CachedParameter {
    /// The image id; `None` if there is no such parameter, or no image id in it.
    image: Option<String>,
    source: ParameterSource,
    at: Timestamp,
}

impl CachedParameter {
    fn valid_for(&self, deprecated: bool) -> SignedDuration {
        match self {
            Self { image: None, .. } | Self { source: ParameterSource::Custom, .. } => CUSTOM,
            Self { source: ParameterSource::Latest, .. } if deprecated => DEPRECATED,
            Self { source: ParameterSource::Pinned | ParameterSource::Latest, .. } => OF_ALIAS,
        }
    }
}

/// The parameters by name.
#[derive(Debug, Default)]
pub struct Parameters(Cache<String, CachedParameter, REMEMBERED>);

impl Parameters {
    /// Returns the image id in a parameter; `None` if there is no such parameter, or no image id in it.
    ///
    /// # Errors
    /// If SSM does not answer and no previous value is cached.
    pub async fn image(
        &self,
        api: &dyn AwsApi,
        path: &str,
        source: ParameterSource,
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
        let read = CachedParameter { image: image.clone(), source, at: now };
        let long = read.valid_for(false);
        self.0.insert(key, read, now, long);
        Ok(image)
    }

    /// Marks an image as deprecated: parameters that may have changed are read again sooner.
    pub fn deprecated(&self, image: &str) {
        for (path, read) in self.0.all() {
            if read.image.as_deref() == Some(image) {
                let (at, long) = (read.at, read.valid_for(true));
                self.0.insert(path, read, at, long);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! When parameters are read.
    use std::pin::Pin;
    use std::sync::Arc;
    use std::time::Duration;

    use rstest::rstest;

    use super::*;
    use crate::testing::{Call, FakeAws, Fault};

    struct FixedClock;

    impl fleetwright_core::clock::Clock for FixedClock {
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

    /// The calls for a parameter that is looked up every minute for two days.
    #[rstest]
    #[case::pinned(ParameterSource::Pinned, Some("ami-1"), false, 2)]
    #[case::latest(ParameterSource::Latest, Some("ami-1"), false, 2)]
    #[case::latest_deprecated(ParameterSource::Latest, Some("ami-1"), true, 96)]
    #[case::pinned_deprecated(ParameterSource::Pinned, Some("ami-1"), true, 2)]
    #[case::custom(ParameterSource::Custom, Some("ami-1"), false, 576)]
    #[case::not_there(ParameterSource::Latest, None, false, 576)]
    #[case::no_image(ParameterSource::Latest, Some("hello"), false, 576)]
    #[tokio::test]
    async fn karpenters_times(
        #[case] source: ParameterSource,
        #[case] value: Option<&str>,
        #[case] deprecated: bool,
        #[case] expected: u64,
    ) {
        let aws = FakeAws::new(Arc::new(FixedClock));
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
        let aws = FakeAws::new(Arc::new(FixedClock));
        let parameters = Parameters::default();
        let throttled = || Fault::Refuse(AwsError::new("ThrottlingException", "slow down"));
        aws.inject(Call::Parameter, throttled());
        assert!(
            parameters.image(&aws, PATH, ParameterSource::Custom, at(0)).await.is_err(),
            "no value is cached yet"
        );
        aws.set_parameter(PATH, Some("ami-1"));
        assert_eq!(
            parameters.image(&aws, PATH, ParameterSource::Custom, at(1)).await.unwrap().as_deref(),
            Some("ami-1")
        );
        aws.inject(Call::Parameter, throttled());
        aws.set_parameter(PATH, Some("ami-2"));
        let later = parameters.image(&aws, PATH, ParameterSource::Custom, at(60)).await.unwrap();
        assert_eq!(later.as_deref(), Some("ami-1"));
        let answered = parameters.image(&aws, PATH, ParameterSource::Custom, at(61)).await.unwrap();
        assert_eq!(answered.as_deref(), Some("ami-2"));
        // A clock that jumps back causes a read and does not extend validity.
        let back = parameters.image(&aws, PATH, ParameterSource::Custom, at(2)).await.unwrap();
        assert_eq!((back.as_deref(), aws.count(Call::Parameter.name())), (Some("ami-2"), 5));
    }

    #[tokio::test]
    async fn memory_has_a_bound() {
        let aws = FakeAws::new(Arc::new(FixedClock));
        let parameters = Parameters::default();
        for number in 0..REMEMBERED + 10 {
            let now = at(i64::try_from(number).unwrap());
            parameters.image(&aws, &format!("/{number}"), ParameterSource::Latest, now).await.unwrap();
        }
        assert_eq!(parameters.0.len(), REMEMBERED);
        assert!(parameters.0.peek(&"/0".to_owned()).is_none());
    }
}
