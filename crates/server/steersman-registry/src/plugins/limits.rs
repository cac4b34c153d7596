//! Machine: applies LimitRanges: sets the default requests and limits of containers, and checks Pods and claims
//! (upstream: the plugin LimitRanger).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};
use steersman_apimachinery::quantity::Quantity;
use steersman_apimachinery::status::Status;
use steersman_store::Stored;

use crate::admission::attributes::{AdmittedWrite, WriteAdmission};
use crate::requests::metadata;
use crate::state::registry::Registry;
use crate::values::{items, items_mut, text};

/// The annotation of a Pod that lists the requests and limits which LimitRanges have set in it.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// Quantities by the name of their resource, such as `cpu`.
pub(crate) type Amounts = BTreeMap<String, Quantity>;

pub(crate) struct RequestsAndLimits {
    pub(crate) requests: Amounts,
    pub(crate) limits: Amounts,
}

impl Registry {
    fn limit_ranges(&self, namespace: &str) -> Vec<Arc<Stored>> {
        let all = self.objects(("", "limitranges"), Some(namespace));
        all.cloned().collect()
    }

    pub(crate) fn limit_containers(&self, admission: &WriteAdmission<'_>, pod: &mut Value) {
        for range in self.limit_ranges(admission.target.scope()) {
            let mut defaulted = Vec::new();
            for (part, word) in [
                ("containers", "container"),
                ("initContainers", "init container"),
            ] {
                for container in items_mut(&mut pod["spec"], part) {
                    give(&range.value, container, word, &mut defaulted);
                }
            }
            if !defaulted.is_empty() {
                let annotations = metadata::map_in(metadata::of(pod), "annotations");
                let text = format!("LimitRanger plugin set: {}", defaulted.join("; "));
                annotations.insert(ANNOTATION.to_owned(), text.into());
            }
        }
    }

    pub(crate) fn check_limits_of_pod(&self, write: AdmittedWrite<'_>) -> Result<(), Status> {
        let (admission, pod, _) = write;
        for range in self.limit_ranges(admission.target.scope()) {
            let mut wrong = Vec::new();
            for limit in limits(&range.value) {
                match limit["type"].as_str() {
                    Some("Container") => {
                        for part in ["containers", "initContainers"] {
                            for container in items(&pod["spec"][part]) {
                                check(limit, &asked(container), &mut wrong);
                            }
                        }
                    }
                    Some("Pod") => check(limit, &asked_by_pod(&pod["spec"]), &mut wrong),
                    _ => {}
                }
            }
            refuse(admission, pod, &wrong)?;
        }
        Ok(())
    }

    pub(crate) fn check_limits_of_claim(&self, write: AdmittedWrite<'_>) -> Result<(), Status> {
        let (admission, claim, _) = write;
        let asked = asked(&claim["spec"]);
        for range in self.limit_ranges(admission.target.scope()) {
            let mut wrong = Vec::new();
            for limit in limits(&range.value) {
                if limit["type"] != "PersistentVolumeClaim" {
                    continue;
                }
                for (name, least) in amounts(&limit["min"]) {
                    let found = (asked.requests.get(&name), None);
                    wrong.extend(too_little(("PersistentVolumeClaim", &name), least, found));
                }
                for (name, most) in amounts(&limit["max"]) {
                    let found = asked.requests.get(&name).copied();
                    let found = found.unwrap_or(Quantity::of(0));
                    if found > most {
                        wrong.push(format!(
                            "maximum {name} usage per PersistentVolumeClaim is {most}, but request is {found}"
                        ));
                    }
                }
            }
            refuse(admission, claim, &wrong)?;
        }
        Ok(())
    }
}

fn limits(range: &Value) -> impl Iterator<Item = &Value> {
    items(&range["spec"]["limits"]).iter()
}

fn refuse(admission: &WriteAdmission<'_>, object: &Value, wrong: &[String]) -> Result<(), Status> {
    match wrong {
        [] => Ok(()),
        [one] => Err(admission.refusal(object, one)),
        several => Err(admission.refusal(object, &format!("[{}]", several.join(", ")))),
    }
}

fn give(range: &Value, container: &mut Value, word: &str, defaulted: &mut Vec<String>) {
    let name = text(&container["name"]).to_owned();
    for (part, from, called) in [
        ("requests", "defaultRequest", "request"),
        ("limits", "default", "limit"),
    ] {
        let mut given = Map::new();
        for limit in limits(range).filter(|limit| limit["type"] == "Container") {
            given.extend(limit[from].as_object().cloned().unwrap_or_default());
        }
        given.retain(|resource, _| container["resources"][part][resource].is_null());
        if given.is_empty() {
            continue;
        }
        let names: Vec<&str> = given.keys().map(String::as_str).collect();
        defaulted.push(format!("{} {called} for {word} {name}", names.join(", ")));
        let resources = metadata::map_in(metadata::members(container), "resources");
        metadata::map_in(resources, part).extend(given);
    }
}

pub(crate) fn amounts(of: &Value) -> Amounts {
    let members = of.as_object().into_iter().flatten();
    let read = |(name, text): (&String, &Value)| {
        let amount = Quantity::parse(text.as_str()?).ok()?;
        Some((name.clone(), amount))
    };
    members.filter_map(read).collect()
}

fn asked(holder: &Value) -> RequestsAndLimits {
    RequestsAndLimits {
        requests: amounts(&holder["resources"]["requests"]),
        limits: amounts(&holder["resources"]["limits"]),
    }
}

/// Returns the requests and limits of a whole Pod: for each resource, the sum over the containers that run at the same
/// time or, if it is larger, the amount of an init container with the sidecars that run beside it.
pub(crate) fn asked_by_pod(spec: &Value) -> RequestsAndLimits {
    let total = |part: &str| {
        let mut sum = Amounts::new();
        let mut peak = Amounts::new();
        for container in items(&spec["containers"]) {
            add(&mut sum, amounts(&container["resources"][part]));
        }
        let mut aside = Amounts::new();
        for container in items(&spec["initContainers"]) {
            let mut own = amounts(&container["resources"][part]);
            if container["restartPolicy"] == "Always" {
                add(&mut sum, own.clone());
                add(&mut aside, own);
                raise(&mut peak, aside.clone());
            } else {
                add(&mut own, aside.clone());
                raise(&mut peak, own);
            }
        }
        raise(&mut sum, peak);
        sum.extend(amounts(&spec["resources"][part]));
        sum
    };
    RequestsAndLimits {
        requests: total("requests"),
        limits: total("limits"),
    }
}

pub(crate) fn add(to: &mut Amounts, more: Amounts) {
    for (name, amount) in more {
        let sum = to.get(&name).map_or(amount, |own| own.plus(amount));
        to.insert(name, sum);
    }
}

fn raise(to: &mut Amounts, least: Amounts) {
    for (name, amount) in least {
        let own = to.entry(name).or_insert(amount);
        if *own < amount {
            *own = amount;
        }
    }
}

fn check(limit: &Value, asked: &RequestsAndLimits, wrong: &mut Vec<String>) {
    let of = text(&limit["type"]);
    let judges: [(&str, BoundCheck); 3] = [
        ("min", too_little),
        ("max", too_much),
        ("maxLimitRequestRatio", too_wide),
    ];
    for (bound, judge) in judges {
        for (name, amount) in amounts(&limit[bound]) {
            let found = (asked.requests.get(&name), asked.limits.get(&name));
            wrong.extend(judge((of, &name), amount, found));
        }
    }
}

/// The request and the limit of one resource, such as `cpu`; `None` for a request or limit that is not set.
type ResourcePair<'a> = (Option<&'a Quantity>, Option<&'a Quantity>);

/// A function that checks a request and a limit against one bound of a LimitRange (min, max or the ratio), and returns
/// the error message if they violate the bound.
type BoundCheck = fn((&str, &str), Quantity, ResourcePair<'_>) -> Option<String>;

fn too_little(
    (of, name): (&str, &str),
    least: Quantity,
    (request, limit): ResourcePair<'_>,
) -> Option<String> {
    let lead = format!("minimum {name} usage per {of} is {least}");
    match (request, limit) {
        (None, _) => Some(format!("{lead}.  No request is specified")),
        (Some(request), _) if *request < least => Some(format!("{lead}, but request is {request}")),
        (_, Some(limit)) if *limit < least => Some(format!("{lead}, but limit is {limit}")),
        _ => None,
    }
}

fn too_much(
    (of, name): (&str, &str),
    most: Quantity,
    (request, limit): ResourcePair<'_>,
) -> Option<String> {
    let lead = format!("maximum {name} usage per {of} is {most}");
    match (request, limit) {
        (_, None) => Some(format!("{lead}.  No limit is specified")),
        (_, Some(limit)) if *limit > most => Some(format!("{lead}, but limit is {limit}")),
        (Some(request), _) if *request > most => Some(format!("{lead}, but request is {request}")),
        _ => None,
    }
}

fn too_wide(
    (of, name): (&str, &str),
    ratio: Quantity,
    (request, limit): ResourcePair<'_>,
) -> Option<String> {
    let lead = format!("{name} max limit to request ratio per {of} is {ratio}");
    let some = |found: Option<&Quantity>| found.map(|q| q.approximate()).filter(|q| *q != 0.0);
    let none = |what: &str| Some(format!("{lead}, but no {what} is specified or {what} is 0"));
    let Some(request) = some(request) else {
        return none("request");
    };
    let Some(limit) = some(limit) else {
        return none("limit");
    };
    let found = limit / request;
    (found > ratio.approximate()).then(|| format!("{lead}, but provided ratio is {found:.6}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cpu(amount: &str) -> Quantity {
        Quantity::parse(amount).unwrap()
    }

    /// The requests of containers that run at the same time add up. An init container runs alone, so its request counts
    /// only as far as it is larger than this sum.
    #[test]
    fn a_pod_requests_the_sum_of_its_concurrent_containers() {
        let container = |amount: &str| json!({"resources": {"requests": {"cpu": amount}}});
        let mut beside = container("1");
        beside["restartPolicy"] = json!("Always");
        for (containers, before, needed) in [
            (vec![container("1"), container("1")], vec![], "2"),
            (vec![container("1")], vec![container("3")], "3"),
            (vec![container("1")], vec![beside.clone()], "2"),
            (
                vec![container("1")],
                vec![beside.clone(), container("3")],
                "4",
            ),
            (vec![container("1")], vec![container("3"), beside], "3"),
        ] {
            let spec = json!({"containers": containers, "initContainers": before});
            let asked = asked_by_pod(&spec).requests;
            assert_eq!(asked.get("cpu"), Some(&cpu(needed)), "{spec}");
        }
    }

    #[test]
    fn values_equal_to_a_limit_are_allowed() {
        let (one, two) = (cpu("1"), cpu("2"));
        let of = ("Container", "cpu");
        assert_eq!(too_little(of, one, (Some(&one), Some(&one))), None);
        assert_eq!(too_much(of, two, (Some(&two), Some(&two))), None);
        assert_eq!(too_wide(of, two, (Some(&one), Some(&two))), None);
        let message = |wrong: Option<String>| wrong.unwrap();
        assert!(message(too_little(of, two, (Some(&one), None))).ends_with("but request is 1"));
        assert!(message(too_little(of, two, (Some(&two), Some(&one)))).ends_with("but limit is 1"));
        assert!(message(too_little(of, two, (None, None))).ends_with("No request is specified"));
        assert!(message(too_much(of, one, (Some(&one), Some(&two)))).ends_with("but limit is 2"));
        assert!(message(too_much(of, one, (Some(&two), Some(&one)))).ends_with("but request is 2"));
        assert!(message(too_much(of, one, (None, None))).ends_with("No limit is specified"));
        assert!(
            message(too_wide(of, one, (Some(&one), Some(&two)))).ends_with("ratio is 2.000000")
        );
    }
}
