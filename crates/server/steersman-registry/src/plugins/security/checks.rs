//! Machine: runs the checks of a security standard for a Pod (upstream:
//! `pod-security-admission/policy`).
//!
//! Seccomp annotations, which versions before 1.19 checked, are ignored.

use std::fmt;

use serde_json::Value;

use super::baseline::{
    app_armor, capabilities, host_namespaces, host_paths, host_ports, hosts, privileged,
    proc_mount, seccomp, selinux, sysctls, windows_processes,
};
use super::pod::{Pod, Violation};
use super::policy::{Standard, StandardLevel};
use super::restricted::{dropped_capabilities, escalation, non_root, user, volumes};

/// The minor version that `latest` stands for.
const LATEST: u32 = 36;

/// The violations of a standard by a Pod: short reasons, and the details of each.
#[derive(Debug, Default)]
pub(super) struct Violations(Vec<Violation>);

/// A check, and the versions in which it applies.
struct SecurityCheck {
    level: StandardLevel,
    from: u32,
    /// The version from which on a check of the stricter level replaces this one.
    replaced: Option<u32>,
    run: fn(&Pod<'_>) -> Option<Violation>,
}

/// All checks in the order in which violations are reported.
const CHECKS: &[SecurityCheck] = &[
    baseline(0, app_armor),
    replaced(22, |pod| capabilities(pod, "non-default capabilities")),
    baseline(0, host_namespaces),
    replaced(0, host_paths),
    baseline(0, host_ports),
    baseline(34, hosts),
    baseline(0, privileged),
    baseline(0, proc_mount),
    baseline(0, selinux),
    replaced(19, |pod| seccomp(pod, false)),
    baseline(0, sysctls),
    baseline(0, windows_processes),
    restricted(8, escalation),
    restricted(22, dropped_capabilities),
    restricted(0, volumes),
    restricted(0, non_root),
    restricted(23, user),
    restricted(19, |pod| seccomp(pod, true)),
];

const fn baseline(from: u32, run: fn(&Pod<'_>) -> Option<Violation>) -> SecurityCheck {
    SecurityCheck {
        level: StandardLevel::Baseline,
        from,
        replaced: None,
        run,
    }
}

const fn replaced(from: u32, run: fn(&Pod<'_>) -> Option<Violation>) -> SecurityCheck {
    SecurityCheck {
        level: StandardLevel::Baseline,
        from: 0,
        replaced: Some(from),
        run,
    }
}

const fn restricted(from: u32, run: fn(&Pod<'_>) -> Option<Violation>) -> SecurityCheck {
    SecurityCheck {
        level: StandardLevel::Restricted,
        from,
        replaced: None,
        run,
    }
}

impl Violations {
    /// Checks a Pod with this metadata and spec against a standard.
    pub(super) fn of(standard: Standard, metadata: &Value, spec: &Value) -> Self {
        let version = standard.version.unwrap_or(LATEST).min(LATEST);
        let pod = Pod {
            annotations: &metadata["annotations"],
            spec,
            version,
        };
        let counts = |check: &&SecurityCheck| {
            let replaced = check.replaced.is_some_and(|from| version >= from);
            check.level <= standard.level
                && version >= check.from
                && !(standard.level == StandardLevel::Restricted && replaced)
        };
        let checks = CHECKS.iter().filter(counts);
        Self(checks.filter_map(|check| (check.run)(&pod)).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the reasons without details.
    pub(super) fn reasons(&self) -> String {
        let reasons: Vec<&str> = self.0.iter().map(|(reason, _)| reason.as_str()).collect();
        reasons.join(", ")
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (reason, detail)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{reason} ({detail})")?;
        }
        Ok(())
    }
}
