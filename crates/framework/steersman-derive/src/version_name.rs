//! Words: the name of a version, such as `v1beta1`, with its order by age.

/// The stages of a version, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum VersionStage {
    Alpha,
    Beta,
    Stable,
}

/// A parsed version name. Older versions compare as less than newer ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct VersionName {
    major: u64,
    stage: VersionStage,
    /// The number after the stage, such as 2 in `v1beta2`; 0 without a stage.
    minor: u64,
}

impl VersionName {
    /// Parses a version name such as `v1`, `v1beta2` or `v2alpha1`.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let rest = name.strip_prefix('v')?;
        let stages = [("alpha", VersionStage::Alpha), ("beta", VersionStage::Beta)];
        let staged = stages.iter().find_map(|(word, stage)| {
            let (major, minor) = rest.split_once(word)?;
            Some((major, *stage, minor))
        });
        let (major, stage, minor) = staged.unwrap_or((rest, VersionStage::Stable, ""));
        Some(Self {
            major: number(major)?,
            stage,
            minor: if stage == VersionStage::Stable {
                0
            } else {
                number(minor)?
            },
        })
    }
}

/// Parses a positive number without leading zeros.
fn number(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    is_plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::VersionName;

    #[test]
    fn versions_are_ordered_by_age() {
        let names = [
            "v1alpha1", "v1alpha2", "v1beta1", "v1", "v2alpha1", "v2", "v10",
        ];
        let parsed = names.map(|name| VersionName::parse(name).unwrap());
        assert!(parsed.is_sorted(), "{parsed:?}");
        for name in [
            "", "v", "1", "v0", "v01", "v1gamma1", "v1alpha", "v1beta0", "V1", "v1-1",
        ] {
            assert_eq!(VersionName::parse(name), None, "{name}");
        }
    }
}
