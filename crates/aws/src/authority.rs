//! Proves that the EKS cluster of the configured name is the one behind the API server: both have the same certificate authority.
//!
//! Certificates are compared by their DER. Line endings, wrapping, blanks, order and comments of a bundle do not matter.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use fleetwright_core::cloud::Identity;

/// Longest bundle in bytes: some five hundred certificates.
const LONGEST: usize = 1 << 20;
const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";
/// The tag that every certificate's DER begins with.
const SEQUENCE: u8 = 0x30;

/// Padding may be missing: some tools strip it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Why a text is not a bundle of certificates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthorityError {
    /// It has no certificate.
    #[error("is neither PEM nor base64 of PEM: give the cluster's certificate authority")]
    NotPem,
    /// A certificate's body cannot be read.
    #[error("has a certificate that is not base64 of DER: number {0}")]
    NotDer(usize),
    /// It is longer than the limit.
    #[error("has {0} bytes, and at most {LONGEST} are read")]
    TooLong(usize),
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let dense: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    BASE64.decode(dense).ok()
}

/// Returns the DER of each certificate of a bundle: PEM, or base64 of PEM as in kubeconfigs.
///
/// # Errors
/// If it has no certificate, or one that cannot be read.
pub fn certificates(bundle: &str) -> Result<BTreeSet<Vec<u8>>, AuthorityError> {
    if bundle.len() > LONGEST {
        return Err(AuthorityError::TooLong(bundle.len()));
    }
    let decoded;
    let pem = if bundle.contains(BEGIN) {
        bundle
    } else {
        let bytes = decode(bundle).ok_or(AuthorityError::NotPem)?;
        decoded = String::from_utf8(bytes).map_err(|_| AuthorityError::NotPem)?;
        decoded.as_str()
    };
    let mut found = BTreeSet::new();
    for (at, rest) in pem.split(BEGIN).skip(1).enumerate() {
        let unreadable = AuthorityError::NotDer(at.saturating_add(1));
        let Some((body, _)) = rest.split_once(END) else { return Err(unreadable) };
        let der = decode(body).filter(|der| der.first() == Some(&SEQUENCE));
        found.insert(der.ok_or(unreadable)?);
    }
    if found.is_empty() { Err(AuthorityError::NotPem) } else { Ok(found) }
}

/// Compares the certificate authority that EKS reports for a cluster with the API server's. One certificate in common is proof: EKS
/// creates an authority for each cluster, and a bundle has several while the authority is rotated. An unreadable bundle proves nothing
/// and refutes nothing.
#[must_use]
pub fn compare(cluster: &str, of_api_server: &str, of_eks: &str) -> Identity {
    if of_api_server.trim().is_empty() {
        return Identity::Unproven("no certificate authority of the API server is known".into());
    }
    let dense = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
    // Identical texts need no parsing.
    if dense(of_api_server) == dense(of_eks) {
        return Identity::Proven;
    }
    if let (Err(_), Err(_)) = (certificates(of_api_server), certificates(of_eks)) {
        return mismatch(cluster);
    }
    let unreadable =
        |what: &str, error: &AuthorityError| Identity::Unproven(format!("{what} {error}").into());
    let ours = match certificates(of_api_server) {
        Ok(ours) => ours,
        Err(error) => {
            return unreadable("the API server's certificate authority (CLUSTER_CA_BUNDLE)", &error);
        }
    };
    let theirs = match certificates(of_eks) {
        Ok(theirs) => theirs,
        Err(error) => return unreadable("the certificate authority that EKS reports", &error),
    };
    if ours.is_disjoint(&theirs) {
        return mismatch(cluster);
    }
    Identity::Proven
}

fn mismatch(cluster: &str) -> Identity {
    let why = format!(
        "EKS knows another cluster called {cluster}: its certificate authority is not the API server's"
    );
    Identity::Mismatch(why.into())
}

#[cfg(test)]
mod tests {
    //! Equal authorities, different ones, and unreadable ones.
    use base64::engine::general_purpose::STANDARD as PADDED;
    use rstest::rstest;

    use super::*;

    fn pem(seed: u8) -> String {
        let der: Vec<u8> = std::iter::once(SEQUENCE).chain((0..99).map(|at| at ^ seed)).collect();
        let body = PADDED.encode(der);
        let lines: Vec<String> =
            body.as_bytes().chunks(64).map(|line| String::from_utf8(line.to_vec()).unwrap()).collect();
        format!("{BEGIN}\n{}\n{END}\n", lines.join("\n"))
    }

    fn bundle(pem: &str) -> String {
        PADDED.encode(pem)
    }

    #[rstest]
    #[case::same(bundle(&pem(1)))]
    #[case::raw_pem(pem(1))]
    #[case::line_endings(bundle(&pem(1).replace('\n', "\r\n")))]
    #[case::blanks(format!("  {}\n\n", bundle(&format!("\n{}\n \n", pem(1)))))]
    #[case::no_last_newline(bundle(pem(1).trim_end()))]
    #[case::one_line(bundle(&pem(1).replace('\n', "").replace("-----M", "-----\nM")))]
    #[case::wrapped_base64(bundle(&pem(1)).as_bytes().chunks(76).map(|l| String::from_utf8_lossy(l).into_owned()).collect::<Vec<_>>().join("\n"))]
    #[case::no_padding(bundle(&pem(1)).trim_end_matches('=').to_owned())]
    #[case::comments(bundle(&format!("# subject=CN = kubernetes\n{}", pem(1))))]
    #[case::several(bundle(&format!("{}{}", pem(2), pem(1))))]
    #[case::twice(bundle(&format!("{}{}", pem(1), pem(1))))]
    fn the_same_authority(#[case] ours: String) {
        assert_eq!(compare("prod", &ours, &bundle(&pem(1))), Identity::Proven);
        assert_eq!(compare("prod", &bundle(&pem(1)), &ours), Identity::Proven);
    }

    #[test]
    fn another_authority() {
        let both = bundle(&format!("{}{}", pem(2), pem(3)));
        let Identity::Mismatch(why) = compare("prod", &both, &bundle(&pem(1))) else { panic!("not refused") };
        assert!(why.contains("another cluster called prod"), "{why}");
    }

    #[rstest]
    #[case::none("", "no certificate authority of the API server is known")]
    #[case::no_base64("§", "CLUSTER_CA_BUNDLE) is neither PEM nor base64 of PEM")]
    #[case::no_pem("bm90IHBlbQ==", "CLUSTER_CA_BUNDLE) is neither PEM nor base64 of PEM")]
    #[case::not_text("gIGC", "CLUSTER_CA_BUNDLE) is neither PEM nor base64 of PEM")]
    #[case::cut("-----BEGIN CERTIFICATE-----\nMAMCAQE=", "not base64 of DER: number 1")]
    #[case::no_der(
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
        "not base64 of DER: number 1"
    )]
    fn invalid_documents_are_reported_and_skipped(#[case] ours: &str, #[case] part: &str) {
        let Identity::Unproven(why) = compare("prod", ours, &bundle(&pem(1))) else { panic!("not unproven") };
        assert!(why.contains(part), "{why}");
    }

    #[test]
    fn equal_bundles_that_are_not_pem_match() {
        assert_eq!(compare("prod", " bm90IHBlbQ==\n", "bm90IHBlbQ=="), Identity::Proven);
        assert!(matches!(compare("prod", "bm90IHBlbQ==", "b3RoZXI="), Identity::Mismatch(_)));
    }

    #[test]
    fn an_unreadable_eks_bundle_proves_nothing() {
        let Identity::Unproven(why) = compare("prod", &pem(1), "x") else { panic!("not unproven") };
        assert!(why.starts_with("the certificate authority that EKS reports is neither"), "{why}");
        assert_eq!(certificates(&"A".repeat(LONGEST + 1)), Err(AuthorityError::TooLong(LONGEST + 1)));
    }
}
