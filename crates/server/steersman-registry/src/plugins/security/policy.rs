//! Words: the Pod Security Standards of a namespace, parsed from its labels.

use std::fmt;

use serde_json::Value;
use steersman_apimachinery::status::FieldError;

/// The labels of a namespace with the levels of its Pod Security Standards. Without them, every Pod is allowed.
pub(super) const LEVELS: [&str; 3] = [
    "pod-security.kubernetes.io/enforce",
    "pod-security.kubernetes.io/audit",
    "pod-security.kubernetes.io/warn",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum StandardLevel {
    #[default]
    Privileged,
    Baseline,
    Restricted,
}

/// The names in labels of the levels of Pod Security Standards, in the order of the variants of `StandardLevel`.
const NAMES: [(&str, StandardLevel); 3] = [
    ("privileged", StandardLevel::Privileged),
    ("baseline", StandardLevel::Baseline),
    ("restricted", StandardLevel::Restricted),
];

/// A Pod Security Standard: a level, as one version of Kubernetes defines it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Standard {
    pub(super) level: StandardLevel,
    /// The minor version of Kubernetes that defines the level; `None` for `latest`.
    pub(super) version: Option<u32>,
}

/// The Pod Security Standards of a namespace, one for each way to react to a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct NamespacePolicy {
    /// The Pod Security Standard that Pods must meet: a Pod that violates it is refused.
    pub(super) enforce: Standard,
    /// The Pod Security Standard of the label `warn`: a violation becomes a warning for the client.
    pub(super) warn: Standard,
}

impl NamespacePolicy {
    /// Parses the pod security labels of a namespace. Invalid labels are added to `errors`; an invalid level in
    /// `enforce` counts as `restricted`, so that no Pod passes by mistake.
    pub(super) fn of(labels: &Value, errors: &mut Vec<FieldError>) -> Self {
        let mut read = |mode: &str, fallback: StandardLevel| {
            let mut refuse = |key: &str, value: &Value, detail: &str| {
                let field = format!("metadata.labels[{key}]");
                errors.push(FieldError::invalid(field, &value.to_string(), detail));
            };
            let mut standard = Standard::default();
            let key = format!("pod-security.kubernetes.io/{mode}");
            if let Some(value) = labels.get(&key) {
                let known = NAMES.iter().find(|(name, _)| value == name);
                standard.level = known.map_or(fallback, |(_, level)| *level);
                if known.is_none() {
                    let detail = "must be one of privileged, baseline, restricted";
                    refuse(&key, value, detail);
                }
            }
            let key = format!("{key}-version");
            if let Some(value) = labels.get(&key) {
                match version(value.as_str().unwrap_or_default()) {
                    Some(version) => standard.version = version,
                    None => refuse(&key, value, "must be \"latest\" or \"v1.x\""),
                }
            }
            standard
        };
        let enforce = read("enforce", StandardLevel::Restricted);
        // Only checks the label: this server has no audit log.
        read("audit", StandardLevel::Privileged);
        let warn = read("warn", StandardLevel::Privileged);
        Self { enforce, warn }
    }
}

impl fmt::Display for Standard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (level, _) = NAMES[self.level as usize];
        match self.version {
            None => write!(f, "{level}:latest"),
            Some(minor) => write!(f, "{level}:v1.{minor}"),
        }
    }
}

#[expect(clippy::option_option, reason = "the latest version has no number")]
fn version(text: &str) -> Option<Option<u32>> {
    if text == "latest" {
        return Some(None);
    }
    let minor = text.strip_prefix("v1.")?;
    let plain = minor.bytes().all(|b| b.is_ascii_digit());
    let plain = plain && (minor == "0" || !minor.starts_with('0'));
    minor.parse().ok().filter(|_| plain).map(Some)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn security_labels_are_parsed() {
        let read = |labels: Value| {
            let mut errors = Vec::new();
            let policy = NamespacePolicy::of(&labels, &mut errors);
            let messages: Vec<String> = errors
                .iter()
                .map(|error| format!("{}: {}", error.field, error.message))
                .collect();
            (
                policy.enforce.to_string(),
                policy.warn.to_string(),
                messages,
            )
        };
        let label = |name: &str| format!("pod-security.kubernetes.io/{name}");
        assert_eq!(
            read(json!({label("enforce"): "baseline", label("enforce-version"): "v1.25"})),
            ("baseline:v1.25".into(), "privileged:latest".into(), vec![])
        );
        assert_eq!(
            read(json!({label("enforce"): "none", label("warn-version"): "v1.025"})),
            (
                "restricted:latest".into(),
                "privileged:latest".into(),
                vec![
                    "metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"none\": must be one of privileged, baseline, restricted".to_owned(),
                    "metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: \"v1.025\": must be \"latest\" or \"v1.x\"".to_owned(),
                ]
            )
        );
    }
}
