//! Image families, and aliases that name an EKS-optimized image by family and version.

use std::{fmt, str::FromStr};

/// An image family: what its instances run and how they join the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Amazon Linux 2.
    Al2,
    /// Amazon Linux 2023.
    Al2023,
    /// Bottlerocket.
    Bottlerocket,
    /// A custom image; user data is passed unchanged.
    Custom,
    /// Windows Server 2019.
    Windows2019,
    /// Windows Server 2022.
    Windows2022,
    /// Windows Server 2025.
    Windows2025,
}

/// Why a text is not a family or an alias.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AliasError {
    /// No such family.
    #[error(
        "amiFamily {0:?} is unknown: use AL2, AL2023, Bottlerocket, Custom, Windows2019, Windows2022 or Windows2025"
    )]
    Family(String),
    /// Not `family@version`.
    #[error("alias {0:?} is not of the form family@version")]
    Form(String),
    /// A Windows family with a version.
    #[error("alias {0:?} pins a version: Windows families may only specify 'latest'")]
    Pinned(String),
}

impl Family {
    /// Every family's name, in the order of the CRD.
    pub const NAMES: [&'static str; 7] =
        ["AL2", "AL2023", "Bottlerocket", "Custom", "Windows2019", "Windows2022", "Windows2025"];
    /// Every family, in the same order.
    pub const ALL: [Self; 7] = [
        Self::Al2,
        Self::Al2023,
        Self::Bottlerocket,
        Self::Custom,
        Self::Windows2019,
        Self::Windows2022,
        Self::Windows2025,
    ];

    /// The name as in `spec.amiFamily`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Al2 => "AL2",
            Self::Al2023 => "AL2023",
            Self::Bottlerocket => "Bottlerocket",
            Self::Custom => "Custom",
            Self::Windows2019 => "Windows2019",
            Self::Windows2022 => "Windows2022",
            Self::Windows2025 => "Windows2025",
        }
    }

    /// Reads a name as in `spec.amiFamily`.
    ///
    /// # Errors
    /// If there is no such family.
    pub fn from_name(name: &str) -> Result<Self, AliasError> {
        let found = Self::ALL.into_iter().find(|family| family.as_str() == name);
        found.ok_or_else(|| AliasError::Family(name.to_owned()))
    }

    /// Whether its instances run Windows.
    #[must_use]
    pub fn is_windows(self) -> bool {
        matches!(self, Self::Windows2019 | Self::Windows2022 | Self::Windows2025)
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `family@version`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Alias {
    /// The family, never Custom.
    pub family: Family,
    /// The version as written: `latest`, or a version of the family.
    pub version: String,
}

impl Alias {
    /// The version that means the newest image.
    pub const LATEST: &'static str = "latest";

    /// Whether it follows new images.
    #[must_use]
    pub fn is_latest(&self) -> bool {
        self.version == Self::LATEST
    }
}

impl FromStr for Alias {
    type Err = AliasError;

    fn from_str(text: &str) -> Result<Self, AliasError> {
        let form = || AliasError::Form(text.to_owned());
        let (name, version) = text.split_once('@').ok_or_else(form)?;
        if version.is_empty() || version.contains('@') {
            return Err(form());
        }
        let mut families = Family::ALL.into_iter().filter(|family| *family != Family::Custom);
        let family = families.find(|family| family.as_str().to_ascii_lowercase() == name);
        let family = family.ok_or_else(|| AliasError::Family(name.to_owned()))?;
        if family.is_windows() && version != Self::LATEST {
            return Err(AliasError::Pinned(text.to_owned()));
        }
        Ok(Self { family, version: version.to_owned() })
    }
}

impl fmt::Display for Alias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.family.as_str().to_ascii_lowercase(), self.version)
    }
}

#[cfg(test)]
mod tests {
    //! Which aliases are valid.
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("al2023@latest", Ok((Family::Al2023, "latest")))]
    #[case("al2@v20240807", Ok((Family::Al2, "v20240807")))]
    #[case("bottlerocket@v1.20.3", Ok((Family::Bottlerocket, "v1.20.3")))]
    #[case("windows2025@latest", Ok((Family::Windows2025, "latest")))]
    #[case("windows2022@1", Err(AliasError::Pinned("windows2022@1".into())))]
    #[case("AL2023@latest", Err(AliasError::Family("AL2023".into())))]
    #[case("custom@latest", Err(AliasError::Family("custom".into())))]
    #[case("al2023", Err(AliasError::Form("al2023".into())))]
    #[case("al2023@", Err(AliasError::Form("al2023@".into())))]
    #[case("al2023@a@b", Err(AliasError::Form("al2023@a@b".into())))]
    fn aliases(#[case] text: &str, #[case] expected: Result<(Family, &str), AliasError>) {
        let found: Result<Alias, _> = text.parse();
        let expected = expected.map(|(family, version)| Alias { family, version: version.to_owned() });
        assert_eq!(found, expected);
        if let Ok(alias) = found {
            assert_eq!(alias.to_string(), text);
        }
    }

    #[test]
    fn names_and_families_have_the_same_order() {
        assert_eq!(Family::ALL.map(Family::as_str), Family::NAMES);
    }
}
