//! Machine: checks the Leases of replicas that share the work.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use steersman_object::{ObjectKey, ShardSlot, SlotSet, json_items, json_text};

use crate::doctor::election::LeaseRenewal;
use crate::doctor::finding::{DoctorFinding, Findings, SeenFact};

/// The label of all Leases of a group.
pub(crate) const GROUP_LABEL: &str = "steersman/shard-group";
const ADVICE: &str = "no replica has a part of the objects, so no controller works: see \"deployment\" below, and the logs of the operator";
const LATER: &str =
    "nothing to do if it is gone within 30 s; otherwise see the logs of the operator";

/// The slots of one owner, of all its grants.
#[derive(Default)]
struct OwnerPart {
    slots: SlotSet,
    /// The slots among these that former owners may still work on, and these owners.
    awaited: SlotSet,
    waits_for: BTreeSet<String>,
}

/// The Leases of a group.
struct GroupLeases<'a> {
    group: &'a Value,
    members: BTreeMap<&'a str, &'a Value>,
    now: Timestamp,
}

/// Checks the Leases with the label of a group.
pub(crate) fn check_shards(
    group: &ObjectKey,
    seen: &SeenFact<Vec<Value>>,
    now: Timestamp,
) -> Findings {
    let mut findings = Findings::default();
    let Some(leases) = findings.known(seen, &format!("the Leases of the shards {group}")) else {
        return findings;
    };
    let mut members: BTreeMap<&str, &Value> = leases
        .iter()
        .map(|lease| (json_text(&lease["metadata"]["name"]), lease))
        .collect();
    let Some(lease) = members.remove(group.name()) else {
        findings.problem(format!("Lease {group} does not exist"), ADVICE);
        return findings;
    };
    let text = annotation(lease, "steersman/shards-assignment");
    let Ok(assignment) = serde_json::from_str::<Value>(text) else {
        let text = format!("Lease {group} has no assignment of the shards that can be read");
        findings.problem(text, LATER);
        return findings;
    };
    let leases = GroupLeases {
        group: lease,
        members,
        now,
    };
    let parts = leases.parts(&assignment);
    for (owner, part) in &parts {
        findings.0.push(leases.check(owner, part));
    }
    let spare = leases
        .members
        .iter()
        .filter(|(name, _)| !parts.contains_key(*name));
    let division = json_text(&assignment["division"]);
    for (member, lease) in spare {
        findings.0.push(check_spare(member, lease, division));
    }
    if assignment["settled"] == false {
        let text = format!("the assignment of Lease {group} is not valid yet, so no replica works");
        findings.0.push(DoctorFinding::unknown(text, LATER));
    }
    findings
}

impl GroupLeases<'_> {
    fn parts<'a>(&self, assignment: &'a Value) -> BTreeMap<&'a str, OwnerPart> {
        let mut parts = BTreeMap::<&str, OwnerPart>::new();
        for grant in json_items(&assignment["grants"]) {
            let slots: SlotSet = json_text(&grant["slots"]).parse().unwrap_or_default();
            let part = parts.entry(json_text(&grant["owner"])).or_default();
            part.slots = part.slots.union(&slots);
            let former = json_items(&grant["former"]).map(json_text);
            let since = grant["since"].as_u64().unwrap_or_default();
            let working: Vec<&str> = former.filter(|name| self.may_work(name, since)).collect();
            if !working.is_empty() {
                part.awaited = part.awaited.union(&slots);
                part.waits_for
                    .extend(working.into_iter().map(str::to_owned));
            }
        }
        parts
    }

    /// Returns whether a former owner may work on slots that a generation takes away from it.
    fn may_work(&self, name: &str, since: u64) -> bool {
        let Some(lease) = self.members.get(name) else {
            return false;
        };
        let uid = json_text(&self.group["metadata"]["uid"]);
        let obeyed = annotation(lease, "steersman/shards-obeyed").rsplit_once('/');
        let obeyed = obeyed.is_some_and(|(of, generation)| {
            of == uid && generation.parse::<u64>().is_ok_and(|one| one >= since)
        });
        let is_released = annotation(lease, "steersman/shards-standing") == "released";
        let renewal = LeaseRenewal::of(&lease["spec"], self.now);
        !obeyed && !is_released && renewal.is_some_and(|one| !one.is_expired())
    }

    fn check(&self, owner: &str, part: &OwnerPart) -> DoctorFinding {
        let (count, all) = (part.slots.len(), ShardSlot::COUNT);
        let has = format!("{owner} has {count} of {all} slots");
        let renewal = self.members.get(owner).map(|lease| {
            let renewal = LeaseRenewal::of(&lease["spec"], self.now);
            renewal.filter(|renewal| !renewal.is_expired())
        });
        match renewal {
            None => DoctorFinding::problem(format!("{has}, and no Lease"), LATER),
            Some(None) => {
                DoctorFinding::problem(format!("{has}, and its Lease has expired"), LATER)
            }
            Some(Some(_)) if !part.waits_for.is_empty() => {
                let others: Vec<&str> = part.waits_for.iter().map(String::as_str).collect();
                let text = format!(
                    "{has}, and waits with {} of them for {}",
                    part.awaited.len(),
                    others.join(", ")
                );
                let advice = "nothing to do if it lasts seconds; otherwise a reconcile does not end there: see its section \
                              \"shards\" under /debug/steersman, and set a reconcile-timeout";
                DoctorFinding::unknown(text, advice)
            }
            Some(Some(renewal)) => {
                DoctorFinding::good(format!("{has}; its Lease was renewed {}", renewal.ago()))
            }
        }
    }
}

/// Returns the finding about a member without slots; `division` is how the group divides the objects.
fn check_spare(member: &str, lease: &Value, division: &str) -> DoctorFinding {
    let own = annotation(lease, "steersman/shards-division");
    let leaves = !annotation(lease, "steersman/shards-standing").is_empty();
    if own == division || own.is_empty() || leaves {
        return DoctorFinding::unknown(
            format!("{member} has no slots"),
            "nothing to do if it has just started or ended, or if there are more replicas than slots",
        );
    }
    DoctorFinding::unknown(
        format!(
            "{member} has no slots, because it divides the objects as {own}, and the group as {division}"
        ),
        "nothing to do during a rollout that changes --shard-by or the function of the shards: it gets slots when the replicas \
         of the other form have ended. Otherwise give all replicas the same form",
    )
}

/// Returns the finding about a server that should filter by shard; `filters` is whether it does.
pub(crate) fn check_filter(filters: &SeenFact<bool>) -> DoctorFinding {
    match filters {
        Ok(true) => DoctorFinding::good("the server filters lists and watches by shard"),
        Ok(false) => DoctorFinding::problem(
            "the server does not know shardSelector, so each replica receives the objects of all shards",
            "enable the feature gate ShardedListAndWatch of Kubernetes 1.36 (KEP-5866), or use --shard-by=namespace, which \
             spreads better and receives as much",
        ),
        Err(unseen) => unseen.finding("whether the server filters by shard"),
    }
}

fn annotation<'a>(lease: &'a Value, name: &str) -> &'a str {
    json_text(&lease["metadata"]["annotations"][name])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::doctor::finding::{FindingLevel, Unseen};

    const NOW: &str = "2026-03-01T12:00:00Z";

    fn checked(seen: &SeenFact<Vec<Value>>) -> Vec<DoctorFinding> {
        let group = ObjectKey::namespaced("ops", "shop-shards");
        check_shards(&group, seen, NOW.parse().unwrap()).0
    }

    fn group(assignment: &str) -> Value {
        json!({"metadata": {
            "name": "shop-shards", "uid": "g", "annotations": {"steersman/shards-assignment": assignment},
        }})
    }

    fn member(name: &str, obeyed: &str, renewed: &str) -> Value {
        json!({
            "metadata": {"name": name, "annotations": {
                "steersman/shards-obeyed": obeyed, "steersman/shards-division": "name-0",
            }},
            "spec": {"leaseDurationSeconds": 15, "renewTime": renewed},
        })
    }

    #[test]
    fn each_owner_is_reported_with_what_it_waits_for() {
        let assignment = json!({"generation": 3, "settled": false, "division": "name-0", "grants": [
            {"slots": "0-127", "owner": "a", "since": 1},
            {"slots": "128-191", "owner": "b", "since": 3, "former": ["a"]},
            {"slots": "192-200", "owner": "c", "since": 2, "former": ["a"]},
            {"slots": "201-210", "owner": "d", "since": 1},
            {"slots": "211-255", "owner": "e", "since": 1},
        ]});
        let fresh = "2026-03-01T11:59:58Z";
        let mut other = member("h", "g/3", fresh);
        other["metadata"]["annotations"]["steersman/shards-division"] = json!("namespace-0");
        let found = checked(&Ok(vec![
            group(&assignment.to_string()),
            member("a", "g/2", fresh),
            member("b", "g/3", fresh),
            member("c", "g/3", fresh),
            member("d", "g/3", "2026-03-01T11:00:00Z"),
            member("f", "g/3", fresh),
            other,
        ]));
        let expected = [
            (
                FindingLevel::Good,
                "a has 128 of 256 slots; its Lease was renewed 2 s ago",
            ),
            (
                FindingLevel::Unknown,
                "b has 64 of 256 slots, and waits with 64 of them for a",
            ),
            (
                FindingLevel::Good,
                "c has 9 of 256 slots; its Lease was renewed 2 s ago",
            ),
            (
                FindingLevel::Problem,
                "d has 10 of 256 slots, and its Lease has expired",
            ),
            (FindingLevel::Problem, "e has 45 of 256 slots, and no Lease"),
            (FindingLevel::Unknown, "f has no slots"),
            (
                FindingLevel::Unknown,
                "h has no slots, because it divides the objects as namespace-0, and the group as name-0",
            ),
            (
                FindingLevel::Unknown,
                "the assignment of Lease ops/shop-shards is not valid yet, so no replica works",
            ),
        ];
        let found: Vec<(FindingLevel, &str)> =
            found.iter().map(|one| (one.level, &*one.text)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn an_absent_group_and_an_unreadable_assignment_are_problems() {
        for (seen, level, text) in [
            (
                Ok(Vec::new()),
                FindingLevel::Problem,
                "Lease ops/shop-shards does not exist",
            ),
            (Ok(vec![group("{")]), FindingLevel::Problem, "no assignment"),
            (
                Err(Unseen::forbidden("403")),
                FindingLevel::Unknown,
                "cannot be checked",
            ),
        ] {
            let found = checked(&seen);
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].level, level);
            assert!(found[0].text.contains(text), "{found:?}");
        }
        assert_eq!(check_filter(&Ok(true)).level, FindingLevel::Good);
        assert_eq!(check_filter(&Ok(false)).level, FindingLevel::Problem);
    }
}
