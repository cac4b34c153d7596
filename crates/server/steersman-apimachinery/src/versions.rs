//! Machine: the order of preference of the versions of an API group.

use std::cmp::Ordering;

/// Compares versions by preference: stable, beta, alpha; newer before older; other names last, in alphabetical order.
///
/// Upstream: `k8s.io/apimachinery/pkg/version`, `CompareKubeAwareVersionStrings`.
pub fn compare_versions(a: &str, b: &str) -> Ordering {
    match (rank(a), rank(b)) {
        (Some(a), Some(b)) => b.cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// Returns the stage of a version (stable is the largest), its major and its minor number.
fn rank(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let split = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let major = rest[..split].parse().ok()?;
    let minor = &rest[split..];
    if minor.is_empty() {
        Some((2, major, 0))
    } else if let Some(beta) = minor.strip_prefix("beta") {
        Some((1, major, beta.parse().ok()?))
    } else {
        Some((0, major, minor.strip_prefix("alpha")?.parse().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::compare_versions;

    #[test]
    fn versions_sort_by_preference() {
        let mut all = [
            "foo", "v1alpha1", "v10", "bar", "v2", "v11beta2", "v1beta1", "v1", "v1alpha2",
        ];
        all.sort_by(|a, b| compare_versions(a, b));
        let sorted = [
            "v10", "v2", "v1", "v11beta2", "v1beta1", "v1alpha2", "v1alpha1", "bar", "foo",
        ];
        assert_eq!(all, sorted);
    }
}
