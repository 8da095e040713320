//! Vectors of Kubernetes' quantity grammar, and the algebra of rounding.

use proptest::prelude::*;

use super::*;

#[test]
fn canonical_text() {
    for (input, expected) in [
        ("0", "0"),
        ("-0", "0"),
        ("100m", "100m"),
        ("1000m", "1"),
        ("1.5", "1500m"),
        (".5", "500m"),
        ("5.", "5"),
        ("+2", "2"),
        ("-1", "-1"),
        ("1024", "1024"),
        ("1Ki", "1Ki"),
        ("1024Ki", "1Mi"),
        ("0.5Gi", "512Mi"),
        ("1.5Gi", "1536Mi"),
        ("1000Ki", "1000Ki"),
        ("512Ki", "512Ki"),
        ("0.5Ki", "512"),
        ("0.1Gi", "107374182400m"),
        (".0001Pi", "112589990684262400u"),
        ("-1.0000001Ki", "-1024000102400n"),
        ("1e3", "1e3"),
        ("1E3", "1e3"),
        ("12e-1", "1200e-3"),
        ("1n", "1n"),
        ("0.1n", "1n"),
        ("1000k", "1M"),
        ("9E", "9E"),
        ("7Ei", "7Ei"),
        ("0.0000000001", "1n"),
        ("9223372036854775807", "9223372036854775807"),
    ] {
        assert_eq!(input.parse::<Quantity>().unwrap().to_string(), expected, "{input}");
    }
}

#[test]
fn refused() {
    for input in
        ["", "-", "Gi", "1.2.3", "1 Gi", "1gi", "9E9E", "1e", "1e+", "0x10", "1KI", "NaN", "--1", "1m2", "١"]
    {
        assert!(matches!(input.parse::<Quantity>(), Err(QuantityError::Malformed(_))), "{input}");
    }
    for input in ["1e400", "10E", "8Ei", "1e99999999999999999999", "9223372036854775808", "1e38"] {
        assert!(matches!(input.parse::<Quantity>(), Err(QuantityError::OutOfRange(_))), "{input}");
    }
}

#[test]
fn demand_rounds_up_and_supply_down() {
    let quantity: Quantity = "1.0001".parse().unwrap();
    assert_eq!((quantity.milli_floor(), quantity.milli_ceil()), (1000, 1001));
    assert_eq!((quantity.units_floor(), quantity.units_ceil()), (1, 2));
    let negative: Quantity = "-1.0001".parse().unwrap();
    assert_eq!((negative.milli_floor(), negative.milli_ceil()), (-1001, -1000));
    assert!("1e-400".parse::<Quantity>().unwrap().nanos() == 1, "a positive amount never becomes nothing");
}

#[test]
fn the_api_server_caps_what_is_too_large() {
    for (text, stored) in [
        ("1e400", "9223372036854775807"),
        ("-10E", "-9223372036854775807"),
        ("8Ei", "9223372036854775807"),
        ("100m", "100m"),
        ("1e-99999999999999999999", "1e-9"),
    ] {
        assert_eq!(Quantity::capped(text).unwrap().to_string(), stored, "{text}");
    }
    assert!(Quantity::capped("9E9E").is_err());
}

proptest! {
    #[test]
    fn text_round_trips(nanos in -MAX_NANOS..=MAX_NANOS, format in 0..3) {
        let format = [Format::DecimalSi, Format::BinarySi, Format::DecimalExponent][usize::try_from(format).unwrap()];
        let quantity = Quantity { nanos, format };
        prop_assert_eq!(quantity.to_string().parse::<Quantity>().unwrap(), quantity);
    }

    #[test]
    fn any_text_is_answered(text in "[-+0-9.eEinumkKMGTP]{0,60}") {
        let _ = text.parse::<Quantity>();
    }
}
