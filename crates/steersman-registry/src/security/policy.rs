//! Words: the standards that a namespace holds its Pods to, by its labels.

use std::fmt;

use serde_json::Value;
use steersman_text::status::FieldError;

/// The labels without which a namespace allows everything.
pub(super) const LEVELS: [&str; 3] = [
    "pod-security.kubernetes.io/enforce",
    "pod-security.kubernetes.io/audit",
    "pod-security.kubernetes.io/warn",
];

/// How strict a standard is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum Level {
    #[default]
    Privileged,
    Baseline,
    Restricted,
}

/// A standard as one version of Kubernetes has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Standard {
    pub(super) level: Level,
    /// The minor version; none for the latest.
    pub(super) version: Option<u32>,
}

/// What becomes of Pods below a standard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Policy {
    /// They are refused.
    pub(super) enforce: Standard,
    /// They are noted in the audit log, of which there is none.
    pub(super) audit: Standard,
    /// Their author is warned.
    pub(super) warn: Standard,
}

impl Policy {
    /// Reads labels; notes those that cannot be read, which count as the strictest where Pods are
    /// refused by them. Nothing where no label is about security.
    pub(super) fn of(labels: &Value, errors: &mut Vec<FieldError>) -> Option<Self> {
        const PREFIX: &str = "pod-security.kubernetes.io/";
        let labels = labels.as_object()?;
        if !labels.keys().any(|key| key.starts_with(PREFIX)) {
            return None;
        }
        let mut read = |mode: &str, fallback: Level| {
            let mut refuse = |key: &str, value: &Value, detail: &str| {
                let field = format!("metadata.labels[{key}]");
                errors.push(FieldError::invalid(field, &value.to_string(), detail));
            };
            let mut standard = Standard::default();
            let key = format!("{PREFIX}{mode}");
            if let Some(value) = labels.get(&key) {
                standard.level = match value.as_str() {
                    Some("privileged") => Level::Privileged,
                    Some("baseline") => Level::Baseline,
                    Some("restricted") => Level::Restricted,
                    _ => {
                        let detail = "must be one of privileged, baseline, restricted";
                        refuse(&key, value, detail);
                        fallback
                    }
                };
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
        Some(Self {
            enforce: read("enforce", Level::Restricted),
            audit: read("audit", Level::Privileged),
            warn: read("warn", Level::Privileged),
        })
    }

    /// Whether it says nothing about any Pod.
    pub(super) fn allows_all(&self) -> bool {
        [self.enforce, self.audit, self.warn]
            .iter()
            .all(|standard| standard.level == Level::Privileged)
    }
}

impl fmt::Display for Standard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        };
        match self.version {
            None => write!(f, "{level}:latest"),
            Some(minor) => write!(f, "{level}:v1.{minor}"),
        }
    }
}

/// Reads `latest` or `v1.x`.
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
    fn labels_are_read() {
        let read = |labels: Value| {
            let mut errors = Vec::new();
            let policy = Policy::of(&labels, &mut errors).unwrap_or_default();
            let told: Vec<String> = errors
                .iter()
                .map(|error| format!("{}: {}", error.field, error.message))
                .collect();
            (policy.enforce.to_string(), policy.warn.to_string(), told)
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
