//! Machine: sets and checks fields that refer to classes, such as `priorityClassName` (upstream: the admission plugins
//! Priority, DefaultStorageClass, RuntimeClass, DefaultIngressClass and PersistentVolumeClaimResize).

use std::cmp::Reverse;
use std::sync::Arc;

use serde_json::{Value, json};
use steersman_apimachinery::quantity::Quantity;
use steersman_apimachinery::status::Status;
use steersman_schema::resource::StorageKey;
use steersman_store::Stored;

use crate::admission::attributes::{AdmittedWrite, WriteAdmission};
use crate::requests::metadata;
use crate::requests::options::Subresource;
use crate::state::registry::Registry;
use crate::values::text;

/// The annotations that mark a StorageClass as the default: the current annotation, and the older one from its beta.
const DEFAULT_STORAGE: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];
const DEFAULT_INGRESS: [&str; 1] = ["ingressclass.kubernetes.io/is-default-class"];

/// The annotation of a PersistentVolumeClaim with its StorageClass, from before the field `storageClassName`.
const OLD_STORAGE: &str = "volume.beta.kubernetes.io/storage-class";
const OLD_INGRESS: &str = "kubernetes.io/ingress.class";

/// The priority and the preemption policy of a Pod if there is no default PriorityClass.
const USUAL: (i64, &str) = (0, "PreemptLowerPriority");

/// The PriorityClasses that every cluster has, each with its priority (`value`).
pub(crate) const SYSTEM: [(&str, i64); 2] = [
    ("system-cluster-critical", 2_000_000_000),
    ("system-node-critical", 2_000_001_000),
];

impl WriteAdmission<'_> {
    /// Returns whether this is a write of an object of this built-in kind, and not of one of its subresources.
    pub(crate) fn is_of(&self, group: &str, kind: &str) -> bool {
        let Self { target, .. } = self;
        target.subresource == Subresource::Main && target.resource.is(group, kind)
    }

    /// Builds the 403 with which an admission plugin refuses a write. It names the object or else its `generateName`.
    pub(crate) fn refusal(&self, object: &Value, why: &str) -> Status {
        let own = ["generateName", "name"].map(|field| metadata::text(object, field));
        let mut names = [self.name].into_iter().chain(own);
        let name = names.find(|name| !name.is_empty()).unwrap_or("Unknown");
        Status::forbidden(self.target.resource.group_resource(), name, why)
    }
}

impl Registry {
    /// Sets fields of a new object from its classes, LimitRanges and ServiceAccount, before webhooks get the object.
    /// 403 for a class or ServiceAccount that does not exist or contradicts a field of the object.
    pub(crate) fn admit_defaults(
        &mut self,
        admission: &WriteAdmission<'_>,
        object: &mut Value,
    ) -> Result<(), Status> {
        if admission.is_of("", "Pod") {
            self.limit_containers(admission, object);
            self.take_account(admission, object)?;
            self.take_topology(object);
            self.prioritize(admission, object)?;
            self.take_runtime_class(admission, object)?;
        } else if admission.is_of("", "PersistentVolumeClaim") {
            let class = ("storage.k8s.io", "storageclasses");
            let fields = (OLD_STORAGE, "storageClassName");
            self.take_default(object, class, &DEFAULT_STORAGE, fields);
        } else if admission.is_of("networking.k8s.io", "Ingress") {
            let class = ("networking.k8s.io", "ingressclasses");
            let fields = (OLD_INGRESS, "ingressClassName");
            self.take_default(object, class, &DEFAULT_INGRESS, fields);
        }
        Ok(())
    }

    /// Runs the admission plugins that check an object after its validation. 403 for an object beyond a LimitRange, for
    /// a second default class, for a claim that may not grow, and for other violations.
    pub(crate) fn admit_limits(&self, write: AdmittedWrite<'_>) -> Result<(), Status> {
        let (admission, _, old) = write;
        if admission.is_of("", "Pod") {
            if old.is_none() {
                self.check_limits_of_pod(write)?;
                self.admit_security(write)?;
                return self.check_overhead(write);
            }
        } else if admission.is_of("", "PersistentVolumeClaim") {
            self.check_limits_of_claim(write)?;
            self.check_growth(write)?;
        } else if admission.is_of("scheduling.k8s.io", "PriorityClass") {
            self.check_only_default(write)?;
        }
        self.admit_signing(write)?;
        self.admit_security(write)
    }

    fn prioritize(&self, admission: &WriteAdmission<'_>, pod: &mut Value) -> Result<(), Status> {
        let named = text(&pod["spec"]["priorityClassName"]);
        let mut default = None;
        let (priority, preemption) = if named.is_empty() {
            let found = self.default_priority();
            default = found.map(|class| class.name.to_string());
            found.map_or((USUAL.0, USUAL.1.to_owned()), |class| {
                of_class(&class.value)
            })
        } else if let Some(class) = self.object(("scheduling.k8s.io", "priorityclasses"), "", named)
        {
            of_class(&class.value)
        } else if let Some((_, value)) = SYSTEM.iter().find(|(name, _)| *name == named) {
            (*value, USUAL.1.to_owned())
        } else {
            let why = format!("no PriorityClass with name {named} was found");
            return Err(admission.refusal(pod, &why));
        };
        let given = pod["spec"]["priority"].as_i64();
        if let Some(given) = given.filter(|given| *given != priority) {
            let why = format!(
                "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {priority} from the given PriorityClass name"
            );
            return Err(admission.refusal(pod, &why));
        }
        let given = pod["spec"]["preemptionPolicy"].as_str();
        if let Some(given) = given.filter(|given| *given != preemption) {
            let why = format!(
                "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {preemption} from the given PriorityClass name"
            );
            return Err(admission.refusal(pod, &why));
        }
        let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else {
            return Ok(());
        };
        if let Some(name) = default {
            spec.insert("priorityClassName".to_owned(), name.into());
        }
        spec.insert("priority".to_owned(), priority.into());
        spec.insert("preemptionPolicy".to_owned(), preemption.into());
        Ok(())
    }

    /// Returns the default PriorityClass; of several default classes, the one with the lowest priority.
    fn default_priority(&self) -> Option<&Arc<Stored>> {
        let all = self.objects(("scheduling.k8s.io", "priorityclasses"), None);
        all.filter(|class| class.value["globalDefault"] == true)
            .min_by_key(|class| class.value["value"].as_i64())
    }

    fn check_only_default(&self, (admission, class, old): AdmittedWrite<'_>) -> Result<(), Status> {
        if class["globalDefault"] != true {
            return Ok(());
        }
        let name = metadata::text(class, "name");
        let other = self.default_priority();
        let Some(other) = other.filter(|other| old.is_none() || *other.name != *name) else {
            return Ok(());
        };
        let why = format!(
            "PriorityClass {} is already marked as default. Only one default can exist",
            other.name
        );
        Err(admission.refusal(class, &why))
    }

    /// Sets the class of an object that names no class to the default class; of several default classes, to the newest.
    fn take_default(
        &self,
        object: &mut Value,
        (group, plural): (&str, &str),
        marks: &[&str],
        (old, field): (&str, &str),
    ) {
        let named = !object["spec"][field].is_null();
        if named || !object["metadata"]["annotations"][old].is_null() {
            return;
        }
        let marked = |class: &&Arc<Stored>| {
            let annotations = &class.value["metadata"]["annotations"];
            marks.iter().any(|mark| annotations[*mark] == "true")
        };
        let all = self.store.list(&StorageKey::new(group, plural), None);
        let newest = all.filter(marked).min_by_key(|class| {
            let made = class.meta("creationTimestamp").to_owned();
            (Reverse(made), class.name.to_string())
        });
        if let Some(class) = newest
            && let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
        {
            spec.insert(field.to_owned(), json!(&*class.name));
        }
    }

    fn take_runtime_class(
        &self,
        admission: &WriteAdmission<'_>,
        pod: &mut Value,
    ) -> Result<(), Status> {
        let Some(named) = pod["spec"]["runtimeClassName"].as_str() else {
            return Ok(());
        };
        let Some(class) = self.object(("node.k8s.io", "runtimeclasses"), "", named) else {
            let why = format!("pod rejected: RuntimeClass {} not found", json!(named));
            return Err(admission.refusal(pod, &why));
        };
        let class = (*class.value).clone();
        let overhead = &class["overhead"]["podFixed"];
        let given = &pod["spec"]["overhead"];
        if !overhead.is_null() && !given.is_null() && given != overhead {
            return Err(admission.refusal(pod, OTHER_OVERHEAD));
        }
        let wanted = class["scheduling"]["nodeSelector"].as_object();
        for (key, value) in wanted.into_iter().flatten() {
            let own = &pod["spec"]["nodeSelector"][key];
            if !own.is_null() && own != value {
                let (own, value) = (text(own), text(value));
                let why = format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {own}"
                );
                return Err(admission.refusal(pod, &why));
            }
        }
        let spec = metadata::members(&mut pod["spec"]);
        if !overhead.is_null() {
            spec.insert("overhead".to_owned(), overhead.clone());
        }
        if let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty()) {
            metadata::map_in(spec, "nodeSelector").extend(wanted.clone());
        }
        if let Some(tolerated) = class["scheduling"]["tolerations"].as_array()
            && let Some(own) = metadata::list_in(spec, "tolerations")
        {
            let is_new = |toleration: &&Value| !own.contains(toleration);
            let new: Vec<Value> = tolerated.iter().filter(is_new).cloned().collect();
            own.extend(new);
        }
        Ok(())
    }

    fn check_overhead(&self, (admission, pod, _): AdmittedWrite<'_>) -> Result<(), Status> {
        let named = text(&pod["spec"]["runtimeClassName"]);
        let class = self.object(("node.k8s.io", "runtimeclasses"), "", named);
        let fixed = class.map(|class| &class.value["overhead"]["podFixed"]);
        let given = &pod["spec"]["overhead"];
        match fixed.filter(|fixed| !fixed.is_null()) {
            Some(fixed) if fixed != given => Err(admission.refusal(pod, OTHER_OVERHEAD)),
            None if given.as_object().is_some_and(|given| !given.is_empty()) => {
                let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
                Err(admission.refusal(pod, why))
            }
            _ => Ok(()),
        }
    }

    /// Refuses an update that raises the storage request of a PersistentVolumeClaim, unless the claim is bound and its
    /// StorageClass allows expansion.
    fn check_growth(&self, (admission, claim, old): AdmittedWrite<'_>) -> Result<(), Status> {
        let Some(old) = old else {
            return Ok(());
        };
        let asked = |claim: &Value| {
            let text = claim["spec"]["resources"]["requests"]["storage"].as_str();
            text.and_then(|text| Quantity::parse(text).ok())
        };
        let (Some(before), Some(after)) = (asked(old), asked(claim)) else {
            return Ok(());
        };
        if after <= before {
            return Ok(());
        }
        if old["status"]["phase"] != "Bound" {
            let why = "Only bound persistent volume claims can be expanded";
            return Err(admission.refusal(claim, why));
        }
        let annotated = claim["metadata"]["annotations"][OLD_STORAGE].as_str();
        let named = annotated.or(claim["spec"]["storageClassName"].as_str());
        let kind = ("storage.k8s.io", "storageclasses");
        let class = self.object(kind, "", named.unwrap_or_default());
        if class.is_some_and(|class| class.value["allowVolumeExpansion"] == true) {
            return Ok(());
        }
        let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
        Err(admission.refusal(claim, why))
    }
}

const OTHER_OVERHEAD: &str =
    "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

fn of_class(class: &Value) -> (i64, String) {
    let policy = class["preemptionPolicy"].as_str().unwrap_or(USUAL.1);
    let value = class["value"].as_i64().unwrap_or_default();
    (value, policy.to_owned())
}
