//! Machine: the controllers that write EndpointSlices and Endpoints of Services with a selector.

use std::sync::Arc;

use serde_json::{Value, json};
use steersman_schema::resource::Resource;
use steersman_store::Stored;

use crate::actions::turn_context::{MAIN, TurnContext};
use crate::state::cluster_facts::selects;
use crate::state::facts::{
    PodStage, SimulatedKind, controller_reference, is_condition_true, items, label, stage_of, text,
};

/// Maximum number of endpoints per EndpointSlice, as upstream by default; further endpoints get further slices.
const ENDPOINTS_PER_SLICE: usize = 100;
/// Maximum number of addresses in an Endpoints object; further addresses are left out, as upstream.
const MAX_ADDRESSES: usize = 1000;
const SERVICE_NAME: &str = "kubernetes.io/service-name";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const CONTROLLER: &str = "endpointslice-controller.k8s.io";

impl TurnContext<'_> {
    pub(crate) fn reconcile_service(&mut self, service: Option<&Stored>) {
        let Some(service) = service else {
            // The Endpoints of a deleted Service have no owner reference: the garbage collector does not delete them.
            let kind = &self.kinds.endpoints;
            if let Some(left) = self.stored(kind, &self.key.namespace, &self.key.name) {
                self.delete(kind, &left, None);
            }
            return;
        };
        let selector = &service.lean()["spec"]["selector"];
        if selector.as_object().is_none_or(serde_json::Map::is_empty) || service.is_terminating() {
            return;
        }
        let storage = &self.kinds.of(SimulatedKind::Pod).storage;
        let store = self.registry.store();
        let all = store.list(storage, Some(&service.namespace));
        let selected = all.filter(|pod| {
            selects(selector, pod)
                && !text(&pod.lean()["status"], "podIP").is_empty()
                && stage_of(pod.lean()) != PodStage::Finished
        });
        let pods: Vec<Arc<Stored>> = selected.cloned().collect();
        self.write_slices(service, &pods);
        self.write_endpoints(service, &pods);
    }

    fn write_slices(&mut self, service: &Stored, pods: &[Arc<Stored>]) {
        let kind = &self.kinds.slices;
        let mut known = self.controlled(kind, service.meta("uid"));
        known.retain(|slice| label(slice.lean(), MANAGED_BY) == CONTROLLER);
        let publish = service.lean()["spec"]["publishNotReadyAddresses"] == true;
        let ports = ports_of(service, pods.first().map(|pod| pod.lean()));
        let mut known = known.into_iter();
        // Without Pods, the Service has one slice without endpoints.
        let empty = pods.is_empty().then_some(pods);
        for chunk in pods.chunks(ENDPOINTS_PER_SLICE).chain(empty) {
            let endpoints: Vec<Value> = chunk.iter().map(|pod| endpoint(pod, publish)).collect();
            let slice = json!({
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {
                    "generateName": format!("{}-", service.name),
                    "namespace": *service.namespace,
                    "labels": {MANAGED_BY: CONTROLLER, SERVICE_NAME: *service.name},
                    "ownerReferences": [controller_reference(service)],
                },
                "addressType": "IPv4",
                "endpoints": endpoints,
                "ports": ports,
            });
            self.create_or_update(kind, known.next(), slice, &["endpoints", "ports"]);
        }
        for left in known {
            self.delete(kind, &left, None);
        }
    }

    fn write_endpoints(&mut self, service: &Stored, pods: &[Arc<Stored>]) {
        let kind = &self.kinds.endpoints;
        let publish = service.lean()["spec"]["publishNotReadyAddresses"] == true;
        let is_live = |pod: &&Arc<Stored>| stage_of(pod.lean()) != PodStage::Terminating;
        let (mut ready, mut unready) = (Vec::new(), Vec::new());
        for pod in pods.iter().filter(is_live).take(MAX_ADDRESSES) {
            let address = json!({
                "ip": pod.lean()["status"]["podIP"],
                "nodeName": pod.lean()["spec"]["nodeName"],
                "targetRef": target_reference(pod),
            });
            if publish || is_condition_true(pod.lean(), "Ready") {
                ready.push(address);
            } else {
                unready.push(address);
            }
        }
        let mut subset = json!({"ports": ports_of(service, pods.first().map(|pod| pod.lean()))});
        let none = ready.is_empty() && unready.is_empty();
        for (field, list) in [("addresses", ready), ("notReadyAddresses", unready)] {
            if !list.is_empty() {
                subset[field] = Value::Array(list);
            }
        }
        let subsets = if none { Vec::new() } else { vec![subset] };
        let endpoints = json!({
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {
                "name": *service.name,
                "namespace": *service.namespace,
                "labels": {"endpoints.kubernetes.io/managed-by": "endpoint-controller"},
            },
            "subsets": subsets,
        });
        let known = self.stored(kind, &service.namespace, &service.name);
        self.create_or_update(kind, known, endpoints, &["subsets"]);
    }

    /// Creates an object, or replaces the named members in the existing object `known` if they differ.
    fn create_or_update(
        &mut self,
        kind: &Resource,
        known: Option<Arc<Stored>>,
        wanted: Value,
        members: &[&str],
    ) {
        let Some(known) = known else {
            let namespace = text(&wanted["metadata"], "namespace").to_owned();
            // The create fails if a client has created an object of this name. That object stays as it is.
            let _ = self.create(kind, &namespace, wanted);
            return;
        };
        let absent = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
        let differs = members.iter().any(|member| {
            let (old, new) = (&known.lean()[*member], &wanted[*member]);
            old != new && !(absent(old) && absent(new))
        });
        if !differs {
            return;
        }
        let mut object = known.lean().clone();
        for member in members {
            object[*member] = wanted[*member].clone();
        }
        self.update(kind, MAIN, object);
    }
}

fn endpoint(pod: &Stored, publish: bool) -> Value {
    let terminating = stage_of(pod.lean()) == PodStage::Terminating;
    let serving = is_condition_true(pod.lean(), "Ready");
    let ready = publish || (serving && !terminating);
    json!({
        "addresses": [pod.lean()["status"]["podIP"]],
        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
        "nodeName": pod.lean()["spec"]["nodeName"],
        "targetRef": target_reference(pod),
    })
}

fn target_reference(pod: &Stored) -> Value {
    json!({
        "kind": "Pod",
        "name": *pod.name,
        "namespace": *pod.namespace,
        "uid": pod.meta("uid"),
    })
}

/// Returns the ports of a Service. A `targetPort` that is a name is looked up in the containers of `pod`.
fn ports_of(service: &Stored, pod: Option<&Value>) -> Value {
    let ports = items(&service.lean()["spec"]["ports"]);
    let named = |name: &str| {
        let mut all = items(&pod?["spec"]["containers"]).flat_map(|one| items(&one["ports"]));
        let found = all.find(|port| port["name"] == *name)?;
        Some(found["containerPort"].clone())
    };
    let ports = ports.filter_map(|port| {
        let target = match &port["targetPort"] {
            Value::Null => port["port"].clone(),
            Value::String(name) => named(name)?,
            number => number.clone(),
        };
        let given = |field: &str, default: &str| {
            port.get(field).map_or_else(|| json!(default), Value::clone)
        };
        let (name, protocol) = (given("name", ""), given("protocol", "TCP"));
        Some(json!({"port": target, "protocol": protocol, "name": name}))
    });
    Value::Array(ports.collect())
}
