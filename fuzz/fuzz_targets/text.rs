//! Texts of fields: quantities, durations, schedules, price changes, AMI aliases. What is read is written as text that reads the same.
#![no_main]

use fleetwright_api::duration;
use fleetwright_aws_api::Alias;
use fleetwright_core::disruption::Schedule;
use fleetwright_core::overlay::PriceChange;
use fleetwright_kube_semantics::Quantity;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(quantity) = text.parse::<Quantity>() {
        let again: Quantity = quantity.to_string().parse().expect("what is written can be read");
        assert_eq!(again.nanos(), quantity.nanos(), "{text:?} is written as {quantity}");
        assert!(quantity.milli_floor() <= quantity.milli_ceil());
    }
    if let Ok(read) = duration::parse(text) {
        let written = duration::format(read);
        assert_eq!(duration::parse(&written), Ok(read), "{text:?} is written as {written}");
    }
    if let Ok(schedule) = Schedule::parse(text) {
        let now = jiff::Timestamp::UNIX_EPOCH;
        assert!(schedule.next_after(now).is_none_or(|next| next > now), "{text:?}");
    }
    let _ = (PriceChange::parse_price(text), PriceChange::parse_adjustment(text));
    if let Ok(alias) = text.parse::<Alias>() {
        assert!(!alias.version.is_empty());
    }
});
