//! Invalid user data: the class reports it in a condition and an event, and recovers once they are corrected.

use rstest::rstest;

use super::cluster::{TestCluster, fresh};
use super::*;

/// The events until nothing changes.
async fn run_until_stable(cluster: &mut TestCluster) -> Vec<String> {
    let mut messages = Vec::new();
    for _ in 0..10 {
        let round = cluster.round("nodeclass").await;
        let text = |notice: &fleetwright_core::cloud::Notice| format!("{} {}", notice.reason, notice.message);
        messages.extend(round.notices.iter().map(text));
        cluster.pass(6).await;
    }
    messages
}

#[rstest]
#[case::of_sixteen_kib("AL2023", format!("#!/bin/bash\n# {}\n", "x".repeat(16 * 1024)), "UserDataSizeLimitExceeded")]
#[case::an_archive_without_a_boundary("AL2023", "Content-Type: multipart/mixed\n\n--B\n\n--B--".to_owned(), "UserDataInvalid")]
#[case::an_archive_of_nothing("AL2", "MIME-Version: 1.0\n\nbroken".to_owned(), "UserDataInvalid")]
#[case::a_toml_bomb("Bottlerocket", format!("a = {}{}", "[".repeat(5000), "]".repeat(5000)), "UserDataInvalid")]
#[case::no_toml("Bottlerocket", "#!/bin/bash\n".repeat(3) + "echo", "UserDataInvalid")]
#[case::settings_that_are_none("Bottlerocket", "settings = 1".to_owned(), "UserDataInvalid")]
#[tokio::test]
async fn invalid_user_data_is_reported(
    #[case] family: &str,
    #[case] user_data: String,
    #[case] reason: &str,
) {
    let mut class = fresh("default");
    class.spec.ami_family = Some(family.to_owned());
    class.spec.ami_selector_terms =
        serde_json::from_value(json!([{"name": "amazon-eks-node-al2023-x86_64-standard-1.35"}])).unwrap();
    let mut cluster = TestCluster::new(settings(), class).await;
    run_until_stable(&mut cluster).await;
    assert_eq!(cluster.condition("default", "Ready"), "True Ready");
    cluster.edit("default", |class| class.spec.user_data = Some(user_data));
    let messages = run_until_stable(&mut cluster).await;
    assert_eq!(cluster.condition("default", "ValidationSucceeded"), format!("False {reason}"));
    assert!(cluster.condition("default", "Ready").starts_with("False "));
    let is_reported = |text: &String| text.starts_with("ValidationSucceeded ") && text.contains(reason);
    assert_eq!(messages.iter().filter(|text| is_reported(text)).count(), 1, "{messages:?}");
    assert!(messages.iter().all(|text| text.len() < 1024), "{messages:?}");
    assert!(cluster.aws.provider().launch(&batch(1)).await[0].is_err(), "nothing is launched from it");
    cluster.edit("default", |class| class.spec.user_data = None);
    run_until_stable(&mut cluster).await;
    assert_eq!(cluster.condition("default", "Ready"), "True Ready");
}
