//! Words: semantic versions, such as `1.2.3-rc.1`, as values of expressions.

use semver::Prerelease;
use steersman_apimachinery::go;

/// A semantic version (semver.org). A pre-release such as `1.0.0-rc.1` is lower than its release `1.0.0`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Semver {
    /// The major, minor and patch numbers.
    pub(crate) numbers: [u64; 3],
    pre: Prerelease,
}

impl Semver {
    /// Parses a version. With `lenient`, a leading `v`, leading zeros and missing numbers (`1.0`) are accepted.
    pub(crate) fn parse(text: &str, lenient: bool) -> Result<Self, String> {
        let rest = match text.strip_prefix('v') {
            Some(rest) if lenient => rest,
            _ => text,
        };
        if rest.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let (rest, build) = rest
            .split_once('+')
            .map_or((rest, None), |(rest, build)| (rest, Some(build)));
        let (core, pre) = rest
            .split_once('-')
            .map_or((rest, None), |(core, pre)| (core, Some(pre)));
        let parts: Vec<&str> = core.splitn(3, '.').collect();
        if parts.len() < 3 && !lenient {
            return Err("No Major.Minor.Patch elements found".to_owned());
        }
        let mut numbers = [0; 3];
        let names = ["major", "minor", "patch"];
        for ((number, part), name) in numbers.iter_mut().zip(&parts).zip(names) {
            if part.is_empty() || !is_number(part) {
                return Err(format!(
                    "Invalid character(s) found in {name} number {part:?}"
                ));
            }
            if part.len() > 1 && part.starts_with('0') && !lenient {
                let name = go::capital(name);
                return Err(format!(
                    "{name} number must not contain leading zeroes {part:?}"
                ));
            }
            let too_large = |_| format!("strconv.ParseUint: parsing {part:?}: value out of range");
            *number = part.parse().map_err(too_large)?;
        }
        if pre == Some("") {
            return Err("Prerelease is empty".to_owned());
        }
        if build == Some("") {
            return Err("Build meta data is empty".to_owned());
        }
        let pre = pre.unwrap_or_default();
        let named = pre.split('.').filter(|_| !pre.is_empty());
        let of_build = build.into_iter().flat_map(|build| build.split('.'));
        for part in named.clone().chain(of_build) {
            if part.is_empty() || !part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
                return Err(format!(
                    "Invalid character(s) found in prerelease or build {part:?}"
                ));
            }
        }
        let padded = |part: &&str| part.len() > 1 && part.starts_with('0') && is_number(part);
        if let Some(part) = named.clone().find(padded) {
            return Err(format!(
                "Numeric PreRelease version must not contain leading zeroes {part:?}"
            ));
        }
        let pre = Prerelease::new(pre).map_err(|why| why.to_string())?;
        Ok(Self { numbers, pre })
    }
}

fn is_number(part: &str) -> bool {
    part.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered() {
        let sorted = [
            "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta.2", "1.0.0-beta.11",
            "1.0.0-rc.1", "1.0.0", "1.0.1", "1.10.0",
        ];
        for pair in sorted.windows(2) {
            let read = |text| Semver::parse(text, false).unwrap();
            assert!(read(pair[0]) < read(pair[1]), "{pair:?}");
        }
        assert_eq!(Semver::parse("v1.02", true).unwrap().numbers, [1, 2, 0]);
        for wrong in [
            "", "1", "1.2", "v1.2.3", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.x", "1.2.3+a_b",
        ] {
            assert!(Semver::parse(wrong, false).is_err(), "{wrong}");
        }
    }
}
