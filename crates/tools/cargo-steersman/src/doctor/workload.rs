//! Machine: checks whether the Deployment of the operator runs.

use serde_json::Value;
use steersman_object::{ObjectKey, json_items, json_text};

use crate::doctor::finding::{DoctorFinding, Findings, SeenFact, SeenObject};

#[derive(Clone, Debug, Default)]
pub(crate) struct PodFacts {
    pub(crate) pod: Value,
    /// The message of the last failed readiness probe; `None` if no such message could be read.
    pub(crate) readiness: Option<String>,
}

/// The reasons for which a starting container waits; none of them is a problem.
const STARTING: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// Returns whether a container of the Deployment has a flag: `--flag` or `--flag=value`.
pub(crate) fn has_flag(deployment: &Value, flag: &str) -> bool {
    words(deployment).any(|word| {
        let rest = word.strip_prefix(flag);
        rest.is_some_and(|rest| rest.is_empty() || (rest.starts_with('=') && rest != "=false"))
    })
}

/// Returns the value of a Deployment's flag: `--flag=value` or `--flag value`.
pub(crate) fn flag_value<'a>(deployment: &'a Value, flag: &str) -> Option<&'a str> {
    let mut words = words(deployment);
    while let Some(word) = words.next() {
        match word.strip_prefix(flag) {
            Some("") => return words.next(),
            Some(rest) if rest.starts_with('=') => return rest.strip_prefix('='),
            _ => {}
        }
    }
    None
}

/// Returns the value of a flag of a Deployment that was seen.
pub(crate) fn seen_flag_value<'a>(seen: &'a SeenObject, flag: &str) -> Option<&'a str> {
    flag_value(seen.as_ref().ok()?.as_ref()?, flag)
}

fn words(deployment: &Value) -> impl Iterator<Item = &str> {
    let containers = json_items(&deployment["spec"]["template"]["spec"]["containers"]);
    let lists = containers.flat_map(|one| [&one["command"], &one["args"]]);
    lists.flat_map(json_items).filter_map(Value::as_str)
}

/// Returns whether a Deployment runs replicas that elect a leader.
pub(crate) fn elects(seen: &SeenObject) -> bool {
    runs_with(seen, "--leader-elect")
}

/// Returns whether a Deployment runs replicas that share the work.
pub(crate) fn shares(seen: &SeenObject) -> bool {
    runs_with(seen, "--shards")
}

fn runs_with(seen: &SeenObject, flag: &str) -> bool {
    let Ok(Some(deployment)) = seen else {
        return false;
    };
    wanted_replicas(deployment) > 0 && has_flag(deployment, flag)
}

/// DEF-7: reports a Deployment that installs a converted definition without the webhook that converts its objects. The
/// operator refuses to start with such flags; an earlier release installs the definition without a conversion.
pub(crate) fn check_conversion_flags(
    key: &ObjectKey,
    deployment: &SeenObject,
) -> Option<DoctorFinding> {
    let deployment = deployment.as_ref().ok()?.as_ref()?;
    let address = flag_value(deployment, "--webhook-bind-address");
    let is_served = address.is_some_and(|address| address != "0");
    let is_newest = has_flag(deployment, "--install-newest-version-only");
    if is_served || is_newest || !has_flag(deployment, "--install") {
        return None;
    }
    let text = format!(
        "Deployment {key} has --install without --webhook-bind-address, and the versions of a kind need the webhook"
    );
    let advice = "add --webhook-bind-address=:9443 to its args, as the generated Deployment has it; or install the newest \
                  version alone with --install-newest-version-only";
    Some(DoctorFinding::problem(text, advice))
}

pub(crate) fn check_deployment(
    key: &ObjectKey,
    seen: &SeenObject,
    pods: &SeenFact<Vec<PodFacts>>,
) -> Findings {
    let mut findings = Findings::default();
    let Some(deployment) = findings.known(seen, &format!("Deployment {key}")) else {
        return findings;
    };
    let Some(deployment) = deployment else {
        let text = format!("Deployment {key} does not exist");
        let advice = "nothing to do if the operator runs elsewhere; otherwise run `cargo steersman deploy`, with \
                      --namespace if it is in another one";
        findings.0.push(DoctorFinding::unknown(text, advice));
        return findings;
    };
    let containers = &deployment["spec"]["template"]["spec"]["containers"];
    let image = json_text(&containers[0]["image"]);
    let wanted = wanted_replicas(deployment);
    let available = &deployment["status"]["availableReplicas"];
    let available = available.as_i64().unwrap_or(0);
    let text = format!(
        "Deployment {key} has {available} of {wanted} replicas available, with the image {image}"
    );
    let namespace = key.namespace().unwrap_or_default();
    let place = format!("--namespace {namespace} {}", key.name());
    if wanted == 0 {
        let advice = format!("it is scaled to 0: `kubectl scale deployment --replicas=1 {place}`");
        findings.problem(text, advice);
    } else if available < wanted {
        let advice = format!("see its Pods: `kubectl describe deployment {place}`");
        findings.problem(text, advice);
    } else {
        findings.good(text);
    }
    let pods = findings.known(pods, &format!("the Pods of {key}"));
    let pods = pods.into_iter().flatten().filter_map(check_pod);
    findings.0.extend(pods);
    findings
}

fn check_pod(facts: &PodFacts) -> Option<DoctorFinding> {
    let pod = &facts.pod;
    let metadata = &pod["metadata"];
    let [name, namespace] = [&metadata["name"], &metadata["namespace"]].map(json_text);
    if is_ready(pod) || !metadata["deletionTimestamp"].is_null() {
        return None;
    }
    for container in json_items(&pod["status"]["containerStatuses"]) {
        let waiting = &container["state"]["waiting"];
        let reason = json_text(&waiting["reason"]);
        if reason.is_empty() || STARTING.contains(&reason) {
            continue;
        }
        let ended = &container["lastState"]["terminated"];
        let (end, message) = (json_text(&ended["reason"]), json_text(&ended["message"]));
        let last = match ended["exitCode"].as_i64() {
            Some(code) => format!("{end} (exit code {code}) {message}"),
            None => json_text(&waiting["message"]).to_owned(),
        };
        let command = match ended.is_null() {
            true => "describe pod",
            false => "logs --previous",
        };
        let text = format!("Pod {name} is in {reason}: {}", last.trim());
        let advice = format!("`kubectl {command} --namespace {namespace} {name}`");
        return Some(DoctorFinding::problem(text, advice));
    }
    let conditions = json_items(&pod["status"]["conditions"]);
    let failed = conditions.filter(|condition| condition["status"] == "False");
    let messages = failed.map(|condition| json_text(&condition["message"]));
    let mut messages: Vec<&str> = messages.filter(|message| !message.is_empty()).collect();
    messages.dedup();
    messages.extend(facts.readiness.as_deref());
    let colon = if messages.is_empty() { "" } else { ": " };
    let text = format!("Pod {name} is not ready{colon}{}", messages.join("; "));
    let advice = format!(
        "`kubectl logs --namespace {namespace} {name}`; its /readyz?verbose says which check fails"
    );
    Some(DoctorFinding::problem(text, advice))
}

pub(crate) fn is_ready(pod: &Value) -> bool {
    json_items(&pod["status"]["conditions"])
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn wanted_replicas(deployment: &Value) -> i64 {
    deployment["spec"]["replicas"].as_i64().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::doctor::finding::FindingLevel;

    fn deployment(available: i64) -> Value {
        json!({
            "spec": {"replicas": 2, "template": {"spec": {"containers": [
                {"image": "greeter:1", "args": ["--leader-elect", "--webhook-cert-path=/a", "--install=false"]},
            ]}}},
            "status": {"availableReplicas": available},
        })
    }

    fn pod(status: &Value, readiness: Option<&str>) -> PodFacts {
        PodFacts {
            pod: json!({"metadata": {"name": "greeter-a", "namespace": "greeter-system"}, "status": status}),
            readiness: readiness.map(str::to_owned),
        }
    }

    #[test]
    fn flags_of_a_deployment_are_read() {
        let deployment = deployment(2);
        assert!(
            has_flag(&deployment, "--leader-elect") && has_flag(&deployment, "--webhook-cert-path")
        );
        assert!(!has_flag(&deployment, "--install") && !has_flag(&deployment, "--leader"));
        assert_eq!(flag_value(&deployment, "--webhook-cert-path"), Some("/a"));
        assert_eq!(flag_value(&deployment, "--webhook-cert"), None);
        let words = ["--leader-election-id", "other"];
        let apart = json!({"spec": {"template": {"spec": {"containers": [{"args": words}]}}}});
        assert_eq!(flag_value(&apart, words[0]), Some("other"));
        assert!(elects(&Ok(Some(deployment))) && !elects(&Ok(None)));
    }

    /// DEF-7: different versions of a kind need a conversion webhook.
    #[test]
    fn a_deployment_that_installs_versions_without_their_webhook_is_a_problem() {
        let check = |args: &[&str]| {
            let deployment =
                json!({"spec": {"template": {"spec": {"containers": [{"args": args}]}}}});
            check_conversion_flags(&ObjectKey::namespaced("a", "b"), &Ok(Some(deployment)))
        };
        for wrong in [
            &["--install"][..],
            &["--install", "--webhook-bind-address=0"],
        ] {
            let found = check(wrong).unwrap();
            assert_eq!(found.level, FindingLevel::Problem);
            assert!(found.advice[0].contains("--webhook-bind-address=:9443"));
        }
        for right in [
            &["--install", "--webhook-bind-address=:9443"][..],
            &["--install", "--install-newest-version-only"],
            &["--leader-elect"],
        ] {
            assert!(check(right).is_none());
        }
    }

    #[test]
    fn a_pod_that_crashes_or_is_not_ready_says_why() {
        let crashing = json!({"containerStatuses": [{
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
            "lastState": {"terminated": {"reason": "Error", "exitCode": 1, "message": "error: no cluster"}},
        }]});
        let pulling = json!({"containerStatuses": [
            {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}},
        ]});
        let unready = json!({"conditions": [{"type": "Ready", "status": "False", "message": "unready status: [operator]"}]});
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        let pods = vec![
            pod(&crashing, None),
            pod(&pulling, None),
            pod(&unready, Some("Readiness probe failed: 503")),
            pod(&ready, None),
        ];
        let found = check_deployment(
            &ObjectKey::namespaced("greeter-system", "greeter"),
            &Ok(Some(deployment(0))),
            &Ok(pods),
        )
        .0;
        let texts: Vec<&str> = found.iter().map(|finding| &*finding.text).collect();
        let expected = [
            "Deployment greeter-system/greeter has 0 of 2 replicas available, with the image greeter:1",
            "Pod greeter-a is in CrashLoopBackOff: Error (exit code 1) error: no cluster",
            "Pod greeter-a is in ImagePullBackOff: no such image",
            "Pod greeter-a is not ready: unready status: [operator]; Readiness probe failed: 503",
        ];
        assert_eq!(texts, expected);
        assert!(
            found
                .iter()
                .all(|finding| finding.level == FindingLevel::Problem)
        );
        let healthy = check_deployment(
            &ObjectKey::namespaced("a", "b"),
            &Ok(Some(deployment(2))),
            &Ok(vec![pod(&ready, None)]),
        )
        .0;
        assert!(
            matches!(&*healthy, [one] if one.level == FindingLevel::Good),
            "{healthy:?}"
        );
    }
}
