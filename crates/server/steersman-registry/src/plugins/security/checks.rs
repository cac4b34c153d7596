//! Machine: runs the checks of a Pod Security Standard on a Pod (upstream: `pod-security-admission/policy`).
//!
//! Seccomp annotations are ignored: only versions of the standards before 1.19 checked them.

use std::fmt;

use serde_json::Value;

use super::baseline::{
    app_armor, capabilities, host_namespaces, host_paths, host_ports, hosts, privileged,
    proc_mount, seccomp, selinux, sysctls, windows_processes,
};
use super::pod::{Pod, Violation};
use super::policy::Standard;
use super::policy::StandardLevel::{self, Baseline, Restricted};
use super::restricted::{dropped_capabilities, escalation, non_root, user, volumes};

/// The minor version of the Pod Security Standards that `latest` means. A later version in a label counts as this one.
const LATEST: u32 = 36;

/// The violations of a Pod Security Standard by a Pod: for each failed check a short reason, and details.
#[derive(Debug, Default)]
pub(super) struct Violations(Vec<Violation>);

/// A check of the Pod Security Standards: its level, the first minor version with this check, the minor version from
/// which on the level `restricted` has a stricter check in its place, and its function.
type SecurityCheck = (StandardLevel, u32, u32, fn(&Pod<'_>) -> Option<Violation>);

const NEVER: u32 = u32::MAX;

/// The checks of all versions of the Pod Security Standards, in the order in which error messages list violations.
const CHECKS: &[SecurityCheck] = &[
    (Baseline, 0, NEVER, app_armor),
    (Baseline, 0, 22, capabilities),
    (Baseline, 0, NEVER, host_namespaces),
    (Baseline, 0, 0, host_paths),
    (Baseline, 0, NEVER, host_ports),
    (Baseline, 34, NEVER, hosts),
    (Baseline, 0, NEVER, privileged),
    (Baseline, 0, NEVER, proc_mount),
    (Baseline, 0, NEVER, selinux),
    (Baseline, 0, 19, |pod| seccomp(pod, false)),
    (Baseline, 0, NEVER, sysctls),
    (Baseline, 0, NEVER, windows_processes),
    (Restricted, 8, NEVER, escalation),
    (Restricted, 22, NEVER, dropped_capabilities),
    (Restricted, 0, NEVER, volumes),
    (Restricted, 0, NEVER, non_root),
    (Restricted, 23, NEVER, user),
    (Restricted, 19, NEVER, |pod| seccomp(pod, true)),
];

impl Violations {
    pub(super) fn of(standard: Standard, metadata: &Value, spec: &Value) -> Self {
        let version = standard.version.unwrap_or(LATEST).min(LATEST);
        let pod = Pod {
            annotations: &metadata["annotations"],
            spec,
            version,
        };
        let is_restricted = standard.level == Restricted;
        let counts = |(level, from, replaced, _): &&SecurityCheck| {
            *level <= standard.level
                && (*from..).contains(&version)
                && !(is_restricted && version >= *replaced)
        };
        let checks = CHECKS.iter().filter(counts);
        Self(checks.filter_map(|(.., run)| run(&pod)).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn reasons(&self) -> String {
        let each: Vec<&str> = self.0.iter().map(|(reason, _)| *reason).collect();
        each.join(", ")
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let print = |(reason, detail): &Violation| format!("{reason} ({detail})");
        let each: Vec<String> = self.0.iter().map(print).collect();
        f.write_str(&each.join(", "))
    }
}
