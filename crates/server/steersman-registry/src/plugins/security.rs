//! Machine: refuses Pods that violate the Pod Security Standard in their namespace's labels (upstream: PodSecurity).

mod policy;
mod pod;
mod baseline;
mod restricted;
mod checks;

use std::collections::BTreeMap;

use serde_json::Value;
use steersman_apimachinery::status::{FieldError, Status};

use crate::admission::attributes::{AdmittedWrite, WriteAdmission};
use crate::requests::options::Subresource;
use crate::state::registry::Registry;
use crate::values::{items, text};

use checks::Violations;
use policy::{NamespacePolicy, Standard, StandardLevel};

/// Maximum number of existing Pods that are checked when a namespace gets a stricter Pod Security Standard.
const MOST_PODS: usize = 3000;

impl Registry {
    /// Checks Pods, objects with Pod templates, and labels of namespaces. 403 for a Pod that violates the enforced Pod
    /// Security Standard, and 422 for invalid labels; a template with a violation only causes a warning.
    pub(crate) fn admit_security(&self, write: AdmittedWrite<'_>) -> Result<(), Status> {
        let (admission, object, _) = write;
        let resource = admission.target.resource;
        let main = admission.target.subresource == Subresource::Main;
        if !resource.built_in {
            return Ok(());
        }
        match (resource.group.as_str(), resource.kind.as_str()) {
            ("", "Namespace") if main => self.judge_namespace(write),
            ("", "Pod") if admission.target.subresource != Subresource::Status => {
                self.judge_pod(write)
            }
            ("", "ReplicationController" | "PodTemplate")
            | ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet")
            | ("batch", "Job" | "CronJob")
                if main =>
            {
                self.judge_template(admission, template(&resource.kind, object));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn policy_of(&self, namespace: &str) -> Option<NamespacePolicy> {
        let found = self.object(("", "namespaces"), "", namespace)?;
        // Most namespaces have no pod security label. These are skipped without decoding the Namespace.
        let mut levels = policy::LEVELS.iter();
        levels.find(|key| found.label(key).is_some())?;
        let object = found.look();
        let labels = &object["metadata"]["labels"];
        Some(NamespacePolicy::of(labels, &mut Vec::new()))
    }

    fn judge_pod(&self, (admission, pod, old): AdmittedWrite<'_>) -> Result<(), Status> {
        let Some(policy) = self.policy_of(admission.target.scope()) else {
            return Ok(());
        };
        if old.is_some_and(|old| !is_significant(pod, old)) {
            return Ok(());
        }
        let found = Violations::of(policy.enforce, &pod["metadata"], &pod["spec"]);
        if !found.is_empty() {
            let why = format!("violates PodSecurity \"{}\": {found}", policy.enforce);
            return Err(admission.refusal(pod, &why));
        }
        self.warn_of_security(policy.warn, &pod["metadata"], &pod["spec"]);
        Ok(())
    }

    fn judge_template(&self, admission: &WriteAdmission<'_>, template: &Value) {
        let policy = self.policy_of(admission.target.scope());
        if let Some(policy) = policy.filter(|_| template.is_object()) {
            self.warn_of_security(policy.warn, &template["metadata"], &template["spec"]);
        }
    }

    fn warn_of_security(&self, standard: Standard, metadata: &Value, spec: &Value) {
        let found = Violations::of(standard, metadata, spec);
        if !found.is_empty() {
            let text = format!("would violate PodSecurity \"{standard}\": {found}");
            self.note_warnings(vec![text]);
        }
    }

    fn judge_namespace(&self, write: AdmittedWrite<'_>) -> Result<(), Status> {
        let (admission, namespace, old) = write;
        let read = |namespace: &Value| {
            let mut errors: Vec<FieldError> = Vec::new();
            let policy = NamespacePolicy::of(&namespace["metadata"]["labels"], &mut errors);
            (policy, errors)
        };
        let (policy, errors) = read(namespace);
        let before = old.map(read);
        let known = before.as_ref().is_some_and(|(_, known)| *known == errors);
        if !errors.is_empty() && !known {
            let group_kind = admission.target.resource.group_kind();
            return Err(Status::invalid(group_kind, admission.name, &errors));
        }
        if let Some((before, _)) = before {
            let (new, old) = (policy.enforce, before.enforce);
            let relaxed = new.version == old.version && new.level <= old.level;
            if new != old && new.level != StandardLevel::Privileged && !relaxed {
                self.note_warnings(self.violations_in(admission.name, new));
            }
        }
        Ok(())
    }

    fn violations_in(&self, namespace: &str, standard: Standard) -> Vec<String> {
        let all: Vec<_> = self.objects(("", "pods"), Some(namespace)).collect();
        let mut found: BTreeMap<String, (&str, usize)> = BTreeMap::new();
        for pod in all.iter().take(MOST_PODS) {
            let object = pod.look();
            let violations = Violations::of(standard, &object["metadata"], &object["spec"]);
            if !violations.is_empty() {
                let (_, count) = found.entry(violations.reasons()).or_insert((&pod.name, 0));
                *count += 1;
            }
        }
        let mut messages = Vec::new();
        if all.len() > MOST_PODS {
            let count = all.len();
            messages.push(format!(
                "new PodSecurity enforce level only checked against the first {MOST_PODS} of {count} existing pods"
            ));
        }
        if !found.is_empty() {
            messages.push(format!(
                "existing pods in namespace \"{namespace}\" violate the new PodSecurity enforce level \"{standard}\""
            ));
        }
        let mut each: Vec<String> = found
            .into_iter()
            .map(|(reasons, (pod, count))| match count - 1 {
                0 => format!("{pod}: {reasons}"),
                1 => format!("{pod} (and 1 other pod): {reasons}"),
                more => format!("{pod} (and {more} other pods): {reasons}"),
            })
            .collect();
        each.sort();
        messages.extend(each);
        messages
    }
}

fn template<'a>(kind: &str, object: &'a Value) -> &'a Value {
    match kind {
        "PodTemplate" => &object["template"],
        "CronJob" => &object["spec"]["jobTemplate"]["spec"]["template"],
        _ => &object["spec"]["template"],
    }
}

/// Returns whether an update of a Pod has to be checked again. Only a change of images, seccomp annotations or the list
/// of containers matters: the other fields that Pod Security Standards restrict are immutable.
fn is_significant(pod: &Value, old: &Value) -> bool {
    const PREFIX: &str = "container.seccomp.security.alpha.kubernetes.io/";
    let is_annotated_anew = |key: &str| {
        let [new, old] = [pod, old].map(|pod| pod["metadata"]["annotations"][key].as_str());
        new != old
    };
    let mut parts = ["containers", "initContainers", "ephemeralContainers"].into_iter();
    is_annotated_anew("seccomp.security.alpha.kubernetes.io/pod")
        || parts.any(|part| {
            let (new, before) = (items(&pod["spec"][part]), items(&old["spec"][part]));
            let fewer = part != "ephemeralContainers" && new.len() != before.len();
            fewer
                || new.iter().any(|container| {
                    let same = before.iter().find(|one| one["name"] == container["name"]);
                    same.is_none_or(|same| same["image"] != container["image"])
                        || is_annotated_anew(&format!("{PREFIX}{}", text(&container["name"])))
                })
        })
}
