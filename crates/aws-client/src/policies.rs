//! The policies of a role, for `fleetwright iam check`. The controller never calls these: they use the permissions of the person who runs
//! the check.

use fleetwright_aws::calls::AwsError;

use crate::{SdkClient, error};

impl SdkClient {
    /// The documents of all policies of a role, inline ones and attached ones, as JSON.
    ///
    /// # Errors
    /// If IAM does not return them.
    pub async fn role_policies(&self, role: &str) -> Result<Vec<String>, AwsError> {
        let mut documents = Vec::new();
        let names = self.iam.list_role_policies().role_name(role).into_paginator().items();
        for name in names.send().try_collect().await.map_err(error::of)? {
            let asked = self.iam.get_role_policy().role_name(role).policy_name(name);
            documents.push(decoded(asked.send().await.map_err(error::of)?.policy_document()));
        }
        let attached = self.iam.list_attached_role_policies().role_name(role).into_paginator().items();
        for policy in attached.send().try_collect().await.map_err(error::of)? {
            let Some(arn) = policy.policy_arn() else { continue };
            let with_causes = self.iam.get_policy().policy_arn(arn).send().await.map_err(error::of)?;
            let Some(version) = with_causes.policy().and_then(|policy| policy.default_version_id()) else {
                continue;
            };
            let asked = self.iam.get_policy_version().policy_arn(arn).version_id(version);
            let with_causes = asked.send().await.map_err(error::of)?;
            documents
                .extend(with_causes.policy_version().and_then(|version| version.document()).map(decoded));
        }
        Ok(documents)
    }
}

/// A document as IAM returns it: percent-encoded, or plain.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        let code = after.get(..2).filter(|_| first == b'%').and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => bytes.push(first),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    //! Percent-encoded documents.
    use super::*;

    #[test]
    fn documents_are_decoded() {
        for (with_causes, expected) in [
            ("%7B%22Version%22%3A%222012-10-17%22%7D", r#"{"Version":"2012-10-17"}"#),
            (r#"{"Action": "*"}"#, r#"{"Action": "*"}"#),
            ("100%", "100%"),
            ("%zz%4", "%zz%4"),
        ] {
            assert_eq!(decoded(with_causes), expected);
        }
    }
}
