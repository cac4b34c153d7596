//! Machine: evicts Pods: deletes a Pod, if the PodDisruptionBudget that selects the Pod allows a disruption.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_apimachinery::conditions;
use steersman_apimachinery::status::{Cause, Details, GroupResource, Status};
use steersman_builtins::selects;
use steersman_schema::resource::StorageKey;
use steersman_store::Stored;

use crate::requests::metadata;
use crate::requests::options::{DeleteOptions, ObjectTarget, WriteOptions};
use crate::state::registry::Registry;
use crate::values::text;
use crate::verbs::acts::ActRequest;

/// Maximum number of Pods in `status.disruptedPods` of a PodDisruptionBudget. If there are more, evictions are refused
/// until a controller removes some.
const REMEMBERED: usize = 2000;

const BLOCKED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

impl Registry {
    pub(crate) fn evict(
        &mut self,
        request: ActRequest<'_>,
        query: &WriteOptions,
    ) -> Result<(), Status> {
        let (namespace, name, body) = (request.namespace, request.name, request.body);
        if metadata::text(body, "name") != name {
            let message = "name in URL does not match name in Eviction object";
            return Err(Status::bad_request(message));
        }
        let mut options = match &body["deleteOptions"] {
            Value::Null => DeleteOptions::default(),
            given => serde_json::from_value(given.clone()).map_err(|error| {
                Status::bad_request(format!(
                    "Eviction in version \"v1\" cannot be handled as a Eviction: {error}"
                ))
            })?,
        };
        if options.dry_run.is_empty() {
            options.dry_run.clone_from(&query.dry_run);
        } else if !query.dry_run.is_empty() && query.dry_run != options.dry_run {
            let list = |values: &[String]| format!("[{}]", values.join(" "));
            return Err(Status::internal_plain(format!(
                "Non-matching dry-run options in request and content: {} and {}",
                list(&query.dry_run),
                list(&options.dry_run)
            )));
        }
        options.user = Arc::clone(&query.user);
        let Some(pods) = self.resource("", "v1", "pods") else {
            return Err(Status::no_such_path());
        };
        let pod = self.pod(namespace, name)?;
        // First deletes the Pod in a dry run: if the delete is refused, the budget must not lose a disruption.
        let rehearsal = DeleteOptions {
            dry_run: vec!["All".to_owned()],
            ..options.clone()
        };
        let target = ObjectTarget::object(&pods, Some(namespace), name);
        self.delete_asked(target, &rehearsal, false)?;
        if let Some(budget) = self.budget_of(&pod)? {
            let taken = take_disruption(budget.lean(), name, self.now)?;
            if options.dry_run.is_empty() {
                let storage = StorageKey::new("policy", "poddisruptionbudgets");
                if let Some(resource) = self.catalogue.of_storage(&storage).cloned() {
                    let taken = self.own_status(&resource, &budget, taken);
                    self.put(&storage, namespace, &budget.name, taken);
                }
            }
        }
        if options.dry_run.is_empty() {
            let marked = self.mark_disrupted(&pod);
            // The write of the condition has changed the Pod's resource version, so a precondition that named the old
            // resource version must name the new one.
            let wanted = options.preconditions.as_mut();
            if let Some(version) = wanted.and_then(|wanted| wanted.resource_version.as_mut()) {
                *version = marked.revision.to_string();
            }
        }
        self.delete_asked(target, &options, false)?;
        Ok(())
    }

    /// Sets the condition `DisruptionTarget` of a Pod. As in upstream's `addConditionAndDeletePod`, no field manager
    /// becomes the owner of this condition.
    fn mark_disrupted(&mut self, pod: &Arc<Stored>) -> Arc<Stored> {
        let mut draft = pod.draft();
        let known = conditions::find(&draft.value, "DisruptionTarget");
        let known = known.filter(|one| one["status"] == "True");
        let since = known.map(|one| one["lastTransitionTime"].clone());
        let condition = json!({
            "type": "DisruptionTarget",
            "status": "True",
            "observedGeneration": draft.value["metadata"]["generation"],
            "lastProbeTime": null,
            "lastTransitionTime": since.unwrap_or_else(|| metadata::time(self.now).into()),
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        });
        conditions::put(&mut draft.value, condition);
        if pod.holds(&draft) {
            return Arc::clone(pod);
        }
        let storage = StorageKey::new("", "pods");
        self.put(&storage, &pod.namespace, &pod.name, draft)
    }

    fn budget_of(&self, pod: &Stored) -> Result<Option<Arc<Stored>>, Status> {
        let phase = text(&pod.lean()["status"]["phase"]);
        if pod.is_terminating() || matches!(phase, "Succeeded" | "Failed" | "Pending") {
            return Ok(None);
        }
        let all = self.objects(("policy", "poddisruptionbudgets"), Some(&pod.namespace));
        let labels = &pod.lean()["metadata"]["labels"];
        let mut budgets = all.filter(|one| selects(&one.lean()["spec"]["selector"], labels));
        let Some(budget) = budgets.next() else {
            return Ok(None);
        };
        if budgets.next().is_some() {
            let why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            let message = format!("Internal error occurred: {why}");
            return Err(Status::failure(500, "InternalError", message));
        }
        let ready = conditions::holds(pod.lean(), "Ready");
        let status = &budget.lean()["status"];
        let healthy = count(status, "currentHealthy");
        let wanted = count(status, "desiredHealthy");
        let always = budget.lean()["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow";
        if !ready && (always || (healthy >= wanted && wanted > 0)) {
            return Ok(None);
        }
        Ok(Some(Arc::clone(budget)))
    }
}

fn count(status: &Value, field: &str) -> i64 {
    status[field].as_i64().unwrap_or_default()
}

/// Returns a PodDisruptionBudget with `status.disruptionsAllowed` reduced by 1 and with the Pod in `disruptedPods`. 429
/// if the budget allows no disruption now.
fn take_disruption(budget: &Value, pod: &str, now: Timestamp) -> Result<Value, Status> {
    let name = metadata::text(budget, "name");
    let status = &budget["status"];
    let blocked = |why: String, seconds: u32| {
        let cause = Cause {
            reason: "DisruptionBudget".to_owned(),
            message: why,
            ..Cause::default()
        };
        let details = Details {
            causes: vec![cause],
            retry_after_seconds: seconds,
            ..Details::default()
        };
        Err(Status::failure(429, "TooManyRequests", BLOCKED).with_details(details))
    };
    let generation = count(&budget["metadata"], "generation");
    if count(status, "observedGeneration") < generation {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return blocked(why, 10);
    }
    let allowed = count(status, "disruptionsAllowed");
    let group_resource = GroupResource::new("policy", "poddisruptionbudget");
    if allowed < 0 {
        let why = "pdb disruptions allowed is negative";
        return Err(Status::forbidden(group_resource, name, why));
    }
    let disrupted = status["disruptedPods"].as_object();
    if disrupted.is_some_and(|pods| pods.len() > REMEMBERED) {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(Status::forbidden(group_resource, name, why));
    }
    if allowed == 0 {
        let wanted = count(status, "desiredHealthy");
        let healthy = count(status, "currentHealthy");
        let why = format!(
            "The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently"
        );
        return blocked(why, 0);
    }
    let mut new = budget.clone();
    let fields = metadata::members(&mut new["status"]);
    fields.insert("disruptionsAllowed".to_owned(), json!(allowed - 1));
    let pods = metadata::map_in(fields, "disruptedPods");
    pods.insert(pod.to_owned(), metadata::time(now).into());
    if allowed == 1 {
        let condition = json!({
            "type": "DisruptionAllowed",
            "status": "False",
            "observedGeneration": generation,
            "lastTransitionTime": metadata::time(now),
            "reason": "InsufficientPods",
            "message": "",
        });
        conditions::put(&mut new, condition);
    }
    Ok(new)
}
