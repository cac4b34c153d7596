//! Words: semantic versions in expressions.

use std::cmp::Ordering;

/// A semantic version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Semver {
    /// Major, minor and patch.
    pub numbers: [u64; 3],
    pre: Vec<String>,
}

impl Semver {
    /// Parses a version. With `lenient`, a leading `v`, leading zeros and missing numbers are
    /// accepted.
    ///
    /// # Errors
    /// Fails with the reason if the text is not a version.
    pub fn parse(text: &str, lenient: bool) -> Result<Self, String> {
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
            if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
                return Err(format!(
                    "Invalid character(s) found in {name} number {part:?}"
                ));
            }
            if part.len() > 1 && part.starts_with('0') && !lenient {
                let name = capitalized(name);
                return Err(format!(
                    "{name} number must not contain leading zeroes {part:?}"
                ));
            }
            *number = part
                .parse()
                .map_err(|_| format!("strconv.ParseUint: parsing {part:?}: value out of range"))?;
        }
        if pre == Some("") {
            return Err("Prerelease is empty".to_owned());
        }
        if build == Some("") {
            return Err("Build meta data is empty".to_owned());
        }
        let pre: Vec<String> =
            pre.map_or_else(Vec::new, |pre| pre.split('.').map(str::to_owned).collect());
        let named = pre.iter().map(String::as_str);
        for part in named.chain(build.into_iter().flat_map(|build| build.split('.'))) {
            if part.is_empty() || !part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
                return Err(format!(
                    "Invalid character(s) found in prerelease or build {part:?}"
                ));
            }
        }
        let padded = |part: &&String| part.len() > 1 && part.starts_with('0') && is_number(part);
        if let Some(part) = pre.iter().find(padded) {
            return Err(format!(
                "Numeric PreRelease version must not contain leading zeroes {part:?}"
            ));
        }
        Ok(Self { numbers, pre })
    }
}

fn capitalized(name: &str) -> String {
    let (first, rest) = name.split_at(1);
    format!("{}{rest}", first.to_ascii_uppercase())
}

fn is_number(part: &str) -> bool {
    part.bytes().all(|b| b.is_ascii_digit())
}

impl PartialOrd for Semver {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Semver {
    fn cmp(&self, other: &Self) -> Ordering {
        let numbers = self.numbers.cmp(&other.numbers);
        if numbers != Ordering::Equal {
            return numbers;
        }
        // A pre-release comes before the release.
        match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => return Ordering::Equal,
            (true, false) => return Ordering::Greater,
            (false, true) => return Ordering::Less,
            (false, false) => {}
        }
        for (a, b) in self.pre.iter().zip(&other.pre) {
            let order = match (is_number(a), is_number(b)) {
                (true, true) => a.len().cmp(&b.len()).then_with(|| a.cmp(b)),
                (true, false) => Ordering::Less,
                (false, true) => Ordering::Greater,
                (false, false) => a.cmp(b),
            };
            if order != Ordering::Equal {
                return order;
            }
        }
        self.pre.len().cmp(&other.pre.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered() {
        let sorted = [
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-beta.2",
            "1.0.0-beta.11",
            "1.0.0-rc.1",
            "1.0.0",
            "1.0.1",
            "1.10.0",
        ];
        for pair in sorted.windows(2) {
            let read = |text| Semver::parse(text, false).unwrap();
            assert!(read(pair[0]) < read(pair[1]), "{pair:?}");
        }
        assert_eq!(Semver::parse("v1.02", true).unwrap().numbers, [1, 2, 0]);
        for wrong in [
            "",
            "1",
            "1.2",
            "v1.2.3",
            "01.2.3",
            "1.2.3-",
            "1.2.3-01",
            "1.2.x",
            "1.2.3+a_b",
        ] {
            assert!(Semver::parse(wrong, false).is_err(), "{wrong}");
        }
    }
}
