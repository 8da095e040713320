//! Duration texts against the values that Go gives them.

use jiff::SignedDuration;
use proptest::prelude::*;
use rstest::rstest;

use super::*;

#[rstest]
#[case("0", 0)]
#[case("0s", 0)]
#[case("+5s", 5_000_000_000)]
#[case("-5.6s", -5_600_000_000)]
#[case("720h", 2_592_000_000_000_000)]
#[case("1h15m30.918273645s", 4_530_918_273_645)]
#[case("1.000000000000000001s", 1_000_000_000)]
#[case(".5m", 30_000_000_000)]
#[case("5.m", 300_000_000_000)]
#[case("1us1\u{b5}s1\u{3bc}s", 3_000)]
#[case("9223372036854775807ns", i64::MAX)]
#[case("-9223372036854775808ns", i64::MIN)]
fn reads_what_go_reads(#[case] text: &str, #[case] nanos: i64) {
    assert_eq!(parse(text), Ok(SignedDuration::from_nanos(nanos)), "{text}");
}

#[rstest]
#[case("", DurationError::NoNumber)]
#[case("-", DurationError::NoNumber)]
#[case(".s", DurationError::NoNumber)]
#[case("h", DurationError::NoNumber)]
#[case("3", DurationError::NoUnit)]
#[case("1h3", DurationError::NoUnit)]
#[case("1d", DurationError::UnknownUnit)]
#[case("1 h", DurationError::UnknownUnit)]
#[case("9223372036854775808ns", DurationError::OutOfRange)]
#[case("3000000h", DurationError::OutOfRange)]
#[case("99999999999999999999999999999999999999999h", DurationError::OutOfRange)]
#[case("99999999999999999999999999999999999999h", DurationError::OutOfRange)]
fn refuses_what_go_refuses(#[case] text: &str, #[case] error: DurationError) {
    assert_eq!(parse(text), Err(error), "{text}");
}

#[rstest]
#[case(0, "0s")]
#[case(1, "1ns")]
#[case(1_100, "1.1\u{b5}s")]
#[case(2_200_000, "2.2ms")]
#[case(3_300_000_000, "3.3s")]
#[case(245_000_000_000, "4m5s")]
#[case(3_600_000_000_000, "1h0m0s")]
#[case(-3_723_001_000_000, "-1h2m3.001s")]
#[case(i64::MAX, "2562047h47m16.854775807s")]
fn writes_as_go_writes(#[case] nanos: i64, #[case] text: &str) {
    assert_eq!(format(SignedDuration::from_nanos(nanos)), text);
}

#[test]
fn never_is_none_and_texts_survive() {
    for raw in ["Never", "1h30m", "90m", "banana"] {
        let json = serde_json::json!(raw);
        let read: NillableDuration = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), json);
    }
    assert_eq!(NillableDuration::never().get(), Ok(None));
    assert_eq!(NillableDuration::new("90m").finite(), Some(SignedDuration::from_mins(90)));
    assert_eq!(NillableDuration::new("banana").finite(), None);
    assert_eq!(NillableDuration::new("banana").get(), Err(DurationError::NoNumber));
}

proptest! {
    #[test]
    fn format_then_parse_is_identity(nanos: i64) {
        let duration = SignedDuration::from_nanos(nanos);
        prop_assert_eq!(parse(&format(duration)), Ok(duration));
    }

    #[test]
    fn no_text_panics(text in "[-+0-9.nusmh\u{b5}]{0,60}") {
        let _ = NillableDuration::new(text);
    }
}
