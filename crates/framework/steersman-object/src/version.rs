//! Words: resource versions, and the only place that compares them.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// The `resourceVersion` of an object, a list or a bookmark.
///
/// An opaque string to clients, except that since Kubernetes 1.35 (KEP-5504) versions that are
/// positive decimal integers without leading zeros may be compared within one resource;
/// [`compare`](Self::compare) compares only those. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, derive_more::Debug)]
#[debug("{:?}", self.as_str())]
pub struct ResourceVersion(VersionForm);

/// A text that fits is always stored inline, so each text has exactly one representation.
#[derive(Clone, PartialEq, Eq, Hash)]
enum VersionForm {
    Inline { length: u8, bytes: [u8; INLINE] },
    Long(Arc<Box<str>>),
}

/// The capacity of the inline form in bytes, which makes a version 16 bytes in total. A version
/// that counts a thousand changes per second reaches 14 digits after three thousand years.
const INLINE: usize = 14;

impl ResourceVersion {
    /// Creates a version from the string that the server sent.
    pub fn new(version: impl AsRef<str>) -> Self {
        let text = version.as_ref();
        let mut bytes = [0; INLINE];
        Self(match bytes.get_mut(..text.len()) {
            Some(room) => {
                room.copy_from_slice(text.as_bytes());
                // The length is at most `INLINE`, so it fits into a `u8`.
                let length = u8::try_from(text.len()).unwrap_or_default();
                VersionForm::Inline { length, bytes }
            }
            None => VersionForm::Long(Arc::new(text.into())),
        })
    }

    /// Returns `"0"`: any version that the server has in memory, which may be stale.
    pub fn any() -> Self {
        Self::new("0")
    }

    /// Returns the empty version, which stands for the most recent version in a request.
    pub fn unset() -> Self {
        Self::new("")
    }

    /// Returns the string that the server sent.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            VersionForm::Inline { length, bytes } => {
                // The bytes come from a `str` of this length, so neither fallback is ever used.
                let text = bytes.get(..usize::from(*length)).unwrap_or_default();
                str::from_utf8(text).unwrap_or_default()
            }
            VersionForm::Long(text) => text,
        }
    }

    /// Returns whether this names a state of the server: neither empty nor `"0"`.
    pub fn is_exact(&self) -> bool {
        !matches!(self.as_str(), "" | "0")
    }

    /// Compares two versions of the same resource, if Kubernetes permits it.
    ///
    /// Returns `None` unless both are positive decimal integers: all other versions can only be tested for equality.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        let (a, b) = (self.decimal()?, other.decimal()?);
        // Of numbers without leading zeros, the longer one is larger.
        Some(a.len().cmp(&b.len()).then_with(|| a.cmp(b)))
    }

    /// Returns whether this version is known to be at least as new as `other`.
    pub fn is_at_least(&self, other: &Self) -> bool {
        self.compare(other).is_some_and(Ordering::is_ge)
    }

    fn decimal(&self) -> Option<&str> {
        let text = self.as_str();
        let digits = text.bytes().all(|b| b.is_ascii_digit());
        (digits && !text.is_empty() && !text.starts_with('0')).then_some(text)
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(a: &str, b: &str) -> Option<Ordering> {
        ResourceVersion::new(a).compare(&ResourceVersion::new(b))
    }

    #[test]
    fn only_positive_decimal_integers_are_ordered() {
        assert_eq!(compare("9", "10"), Some(Ordering::Less));
        assert_eq!(compare("10", "10"), Some(Ordering::Equal));
        assert_eq!(
            compare("18446744073709551616", "18446744073709551615"),
            Some(Ordering::Greater)
        );
        for odd in ["", "0", "07", "-1", "1.0", "a1", "1e3"] {
            assert_eq!(compare(odd, "1"), None, "{odd:?}");
            assert_eq!(compare("1", odd), None, "{odd:?}");
        }
    }

    #[test]
    fn a_version_of_any_length_keeps_its_text() {
        for length in 0..40 {
            let text = "äb3".repeat(14)[..]
                .chars()
                .take(length)
                .collect::<String>();
            let version = ResourceVersion::new(&text);
            assert_eq!(version.as_str(), text);
            assert_eq!(version, ResourceVersion::new(&text));
            assert_ne!(version, ResourceVersion::new(text + "0"));
        }
        assert_eq!(size_of::<ResourceVersion>(), 16);
    }

    #[test]
    fn zero_and_empty_are_not_exact_versions() {
        assert!(!ResourceVersion::any().is_exact());
        assert!(!ResourceVersion::unset().is_exact());
        assert!(ResourceVersion::new("7").is_exact());
    }
}
