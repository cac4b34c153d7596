//! Machine: checks the Lease of the leader election.

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use steersman_object::json_text;

use crate::doctor::finding::{DoctorFinding, SeenObject};

/// The last renewal of a Lease, in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseRenewal {
    age: i64,
    limit: i64,
}

/// The greatest expected difference of two machines' clocks, in seconds.
const SKEW: i64 = 5;
const ADVICE: &str = "no replica leads, so no controller works: see \"deployment\" below, and the logs of the operator";

/// Checks the Lease of the leader election. `is_elected` is whether the Deployment runs replicas with `--leader-elect`.
pub(crate) fn check_lease(
    name: &str,
    seen: &SeenObject,
    is_elected: bool,
    now: Timestamp,
) -> DoctorFinding {
    let absent = |text: String| match is_elected {
        true => DoctorFinding::problem(text, ADVICE),
        false => DoctorFinding::unknown(
            text,
            "nothing to do if the operator does not run, or runs without --leader-elect",
        ),
    };
    let spec = match seen {
        Ok(Some(lease)) => &lease["spec"],
        Ok(None) => return absent(format!("Lease {name} does not exist")),
        Err(unseen) => return unseen.finding(&format!("Lease {name}")),
    };
    let holder = json_text(&spec["holderIdentity"]);
    let Some(renewal) = LeaseRenewal::of(spec, now) else {
        return absent(format!("Lease {name} has no time of a renewal"));
    };
    let shown = renewal.ago();
    if holder.is_empty() {
        return absent(format!("Lease {name} was released {shown}"));
    }
    let since = time_of(spec, "acquireTime");
    let since = since.map_or_else(String::new, |since| format!(" since {since}"));
    let text = format!("Lease {name} is held by {holder}{since}, renewed {shown}");
    match renewal.is_expired() {
        true => DoctorFinding::problem(
            format!("{text}, and expired after {} s", renewal.limit),
            ADVICE,
        ),
        false => DoctorFinding::good(text),
    }
}

impl LeaseRenewal {
    /// Reads the `spec` of a Lease; `None` without the time of a renewal or its duration.
    pub(crate) fn of(spec: &Value, now: Timestamp) -> Option<Self> {
        let renewed = time_of(spec, "renewTime")?;
        Some(Self {
            age: now.as_second().saturating_sub(renewed.as_second()),
            limit: spec["leaseDurationSeconds"].as_i64()?,
        })
    }

    pub(crate) fn is_expired(&self) -> bool {
        self.age > self.limit.saturating_add(SKEW)
    }

    /// Returns the age as a text, such as `3 min ago`.
    pub(crate) fn ago(&self) -> String {
        match self.age.max(0) {
            seconds @ ..120 => format!("{seconds} s ago"),
            seconds @ ..7200 => format!("{} min ago", seconds / 60),
            seconds @ ..172_800 => format!("{} h ago", seconds / 3600),
            seconds => format!("{} days ago", seconds / 86400),
        }
    }
}

fn time_of(spec: &Value, field: &str) -> Option<Timestamp> {
    json_text(&spec[field]).parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::doctor::finding::FindingLevel;

    #[test]
    fn a_lease_is_held_expired_released_or_absent() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let lease = |holder: &str, renewed: &str| {
            Ok(Some(json!({"spec": {
                "holderIdentity": holder, "leaseDurationSeconds": 15, "acquireTime": "2026-03-01T09:00:00.000000Z",
                "renewTime": renewed,
            }})))
        };
        let empty = || Ok(Some(json!({"spec": {}})));
        for (seen, elected, level, text) in [
            (
                lease("a", "2026-03-01T11:59:50.5Z"),
                true,
                FindingLevel::Good,
                "held by a since 2026-03-01T09:00:00Z, renewed 10 s ago",
            ),
            // The holder's clock is ahead of the local clock.
            (
                lease("a", "2026-03-01T12:00:40Z"),
                true,
                FindingLevel::Good,
                "renewed 0 s ago",
            ),
            (
                lease("a", "2026-03-01T09:00:00Z"),
                false,
                FindingLevel::Problem,
                "renewed 3 h ago, and expired after 15 s",
            ),
            (
                lease("", "2026-02-01T09:00:00Z"),
                true,
                FindingLevel::Problem,
                "released 28 days ago",
            ),
            (
                lease("", "2026-03-01T11:00:00Z"),
                false,
                FindingLevel::Unknown,
                "released 60 min ago",
            ),
            (
                empty(),
                false,
                FindingLevel::Unknown,
                "no time of a renewal",
            ),
            (Ok(None), true, FindingLevel::Problem, "does not exist"),
            (Ok(None), false, FindingLevel::Unknown, "does not exist"),
        ] {
            let found = check_lease("a/b", &seen, elected, now);
            assert_eq!(found.level, level, "{found:?}");
            assert!(found.text.contains(text), "{found:?}");
        }
    }
}
