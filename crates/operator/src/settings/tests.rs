//! Precedence of sources, and invalid values.

use super::{table::SETTINGS, *};

/// The settings of every operator and, where this build has them, those of AWS.
pub(crate) fn all() -> Vec<Setting> {
    #[cfg(feature = "ec2")]
    let of_clouds = crate::ec2::settings::SETTINGS;
    #[cfg(not(feature = "ec2"))]
    let of_clouds: &[Setting] = &[];
    SETTINGS.iter().chain(of_clouds).copied().collect()
}

fn resolve(flags: &[(&str, &str)], env: &[(&str, &str)]) -> Result<Values, SettingError> {
    let flags = flags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Values::resolve(&flags, |key| {
        env.iter().find(|(name, _)| *name == key).map(|(_, value)| (*value).to_owned())
    })
}

#[test]
fn flag_over_variable_over_default() {
    let values =
        resolve(&[("metrics-port", "1")], &[("METRICS_PORT", "2"), ("HEALTH_PROBE_PORT", "3")]).unwrap();
    assert_eq!((values.port("METRICS_PORT"), values.port("HEALTH_PROBE_PORT")), (1, 3));
    assert_eq!(values.duration("BATCH_MAX_DURATION"), Duration::from_secs(10));
    assert!(values.warnings.is_empty());
}

#[test]
fn malformed_numbers_and_booleans_in_variables_take_the_default_with_a_warning() {
    let env = [("METRICS_PORT", "many"), ("BATCH_IDLE_DURATION", "5"), ("DISABLE_LEADER_ELECTION", "yes")];
    let values = resolve(&[], &env).unwrap();
    assert!(!values.bool("DISABLE_LEADER_ELECTION"));
    assert_eq!(values.port("METRICS_PORT"), 8080);
    assert_eq!(values.duration("BATCH_IDLE_DURATION"), Duration::from_secs(1));
    assert_eq!(values.warnings.len(), 3);
    assert!(resolve(&[("metrics-port", "many")], &[]).is_err());
}

#[test]
fn other_bad_values_are_errors_that_name_source_and_fix() {
    for (flags, env, expected) in [
        (
            &[("disable-leader-election", "True")][..],
            &[][..],
            "--disable-leader-election: \"True\" is not valid: it takes true or false",
        ),
        (
            &[][..],
            &[("FEATURE_GATES", "NodeRepair=true,StaticCapacity=")][..],
            "FEATURE_GATES: \"StaticCapacity=\" is not valid: a gate is written name=true or name=false",
        ),
        (
            &[][..],
            &[("AWS_FEATURE_GATES", "NodeClassCEL")][..],
            "AWS_FEATURE_GATES: \"NodeClassCEL\" is not valid: a gate is written name=true or name=false",
        ),
        (
            &[("log-level", "loud")][..],
            &[][..],
            "--log-level: \"loud\" is not valid: it takes one of debug, info, error",
        ),
    ] {
        assert_eq!(resolve(flags, env).unwrap_err().to_string(), expected);
    }
}

#[test]
fn booleans_in_variables_are_read_as_go_reads_them() {
    let env = [("ISOLATED_VPC", "True"), ("DISABLE_DRY_RUN", "1"), ("IGNORE_DRA_REQUESTS", "F")];
    let values = resolve(&[], &env).unwrap();
    assert_eq!((values.bool("ISOLATED_VPC"), values.bool("DISABLE_DRY_RUN")), (true, true));
    assert!(!values.bool("IGNORE_DRA_REQUESTS"));
    assert!(values.warnings.is_empty());
}

#[test]
fn the_last_mention_of_a_gate_counts() {
    let gates = "NodeRepair=0, NodeRepair=True, Unknown=true,ReservedCapacity=false";
    let values = resolve(&[], &[("FEATURE_GATES", gates)]).unwrap();
    let on: Vec<&str> = GATES.iter().map(|(name, _)| *name).filter(|name| values.gate(name)).collect();
    assert_eq!(on, ["NodeRepair"]);
}

#[test]
fn unknown_gates_are_named_with_the_nearest_one() {
    let gates = "SpotToSpotConsolidatoin=true,NodeRepair=true,nodeoverlay=false,Drift=true,Drift=false";
    assert_eq!(
        resolve(&[("feature-gates", gates)], &[]).unwrap().all_warnings(),
        [
            "FEATURE_GATES: unknown feature gate Drift is ignored; valid: ReservedCapacity, NodeRepair, SpotToSpotConsolidation, NodeOverlay, StaticCapacity, CapacityBuffer",
            "FEATURE_GATES: unknown feature gate SpotToSpotConsolidatoin is ignored; did you mean SpotToSpotConsolidation?",
            "FEATURE_GATES: unknown feature gate nodeoverlay is ignored; did you mean NodeOverlay?",
        ]
    );
}

#[test]
fn every_default_is_valid() {
    for setting in &all() {
        assert_eq!(check(setting, setting.default), Ok(()), "{}", setting.env);
    }
}
