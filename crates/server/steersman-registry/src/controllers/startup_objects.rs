//! Machine: the objects that a kube-apiserver writes when it starts: its own Service, system priority classes, flow
//! control configurations, APIServices, and its objects in `kube-system` (upstream: `clusterauthenticationtrust` and
//! `legacytokentracking` of `pkg/controlplane/controller`, and `pkg/controlplane/apiserver/server.go`).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_store::{Draft, Stored};

use super::standard_objects;
use crate::objects::field_owners::SERVER;
use crate::objects::managed::{self, Ownership};
use crate::plugins::classes::SYSTEM;
use crate::requests::metadata;
use crate::requests::options::{ObjectTarget, Subresource, WriteOptions};
use crate::state::registry::Registry;
use crate::values::text;

/// The field managers that write flow control objects (first) and their status (second).
const FLOWS: (&str, &str) = (
    "api-priority-and-fairness-config-producer-v1",
    "api-priority-and-fairness-config-consumer-v1",
);

/// The namespace of the server's ConfigMaps and Lease, which kube-controller-manager and extension API servers read.
const NAMESPACE: &str = "kube-system";
/// The name of the ConfigMap with the certificate authorities for client certificates.
const AUTHENTICATION: &str = "extension-apiserver-authentication";
/// The name of the ConfigMap with the day since which the server records the use of ServiceAccount tokens in Secrets.
const TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";
/// The name of this server's Lease. It ends with a hash of the host name, as upstream; the host name is `localhost`.
const IDENTITY: &str = "apiserver-jgla3zmib2ggq5buc4hwi5talm";
const HOST: &str = "localhost";
const LEASE_SECONDS: u64 = 3600;

impl Registry {
    /// Creates the missing objects of the server itself, and updates addresses and certificate authorities in existing
    /// objects. `listens` is the server's address, `authority` has signed the server's certificate, and `clients` sign
    /// client certificates; both are PEM.
    pub fn write_startup_objects(
        &mut self,
        (listens, authority, clients): (SocketAddr, &str, Option<&str>),
        now: Timestamp,
    ) {
        self.now = now;
        self.authority = Some(authority.to_owned());
        self.listens = Some(listens);
        self.note_lacks();
        self.pending.versions = true;
        for (name, value) in SYSTEM {
            let body = json!({
                "metadata": {"name": name},
                "value": value,
                "description": format!("Used for system critical pods that must {}.", match name {
                    "system-node-critical" => "not be moved from their current node",
                    _ => "run in the cluster, but can be moved to another node if necessary",
                }),
            });
            let classes = ("scheduling.k8s.io", "priorityclasses");
            self.supply(classes, SERVER, ("", body));
        }
        self.furnish_flows();
        let time = metadata::time(now);
        for body in standard_objects::api_services() {
            let spec = &body["spec"];
            let (group, version) = (text(&spec["group"]), text(&spec["version"]));
            if !self.catalogue.serves(group, version) {
                continue;
            }
            let services = ("apiregistration.k8s.io", "apiservices");
            let status = |_: &Value| standard_objects::available(&time);
            self.supply_with_status(services, (SERVER, SERVER), body, status);
        }
        let service = json!({
            "metadata": {"name": "kubernetes",
                "labels": {"component": "apiserver", "provider": "kubernetes"}},
            "spec": {
                "type": "ClusterIP", "clusterIP": self.service_network.first().to_string(),
                "sessionAffinity": "None", "ipFamilyPolicy": "SingleStack",
                "ports": [{"name": "https", "protocol": "TCP", "port": 443,
                    "targetPort": listens.port()}],
            },
        });
        self.furnish_network();
        self.supply(("", "services"), SERVER, ("default", service));
        self.furnish_system_namespace(clients);
        self.point_to(listens);
    }

    /// Creates the FlowSchemas and PriorityLevelConfigurations that every cluster has. This server does not limit
    /// requests by them.
    fn furnish_flows(&mut self) {
        const GROUP: &str = "flowcontrol.apiserver.k8s.io";
        let levels = (GROUP, "prioritylevelconfigurations");
        for body in standard_objects::priority_levels() {
            self.supply(levels, FLOWS.0, ("", body));
        }
        let schemas = (GROUP, "flowschemas");
        for body in standard_objects::flow_schemas() {
            let time = metadata::time(self.now);
            let status = |made: &Value| standard_objects::found(made, &time);
            self.supply_with_status(schemas, FLOWS, body, status);
        }
    }

    /// Creates the missing APIService of each served version of custom resources, and deletes the APIServices of
    /// versions that are no longer served (upstream: `crdregistration` and the controller `autoregister`).
    pub(crate) fn register_versions(&mut self) {
        let services = ("apiregistration.k8s.io", "apiservices");
        let resource = self.resource(services.0, "v1", services.1);
        let Some(resource) = resource.filter(|_| self.authority.is_some()) else {
            return;
        };
        let custom = self.catalogue.all.iter().filter(|one| !one.built_in);
        let served: BTreeMap<String, Value> = custom
            .map(|one| standard_objects::api_service(&one.group, &one.version))
            .collect();
        let known: Vec<Arc<Stored>> = self.store.list(&resource.storage, None).cloned().collect();
        for service in &known {
            if service.label(standard_objects::AUTOMANAGED) == Some("true")
                && !served.contains_key(&*service.name)
            {
                self.remove(&resource.storage, service);
            }
        }
        for (name, body) in served {
            if known.iter().any(|one| *one.name == *name) {
                continue;
            }
            if let Some(made) = self.plant(services, SERVER, ("", body)) {
                let mut whole = made.lean().clone();
                whole["status"] = standard_objects::available(&metadata::time(self.now));
                let whole = self.own_status(&resource, &made, whole);
                self.put(&resource.storage, "", &name, whole);
            }
        }
    }

    /// Stores a new object of the server itself, unconditionally: without policies, webhooks, defaults and validation.
    pub(crate) fn plant(
        &mut self,
        (group, plural): (&str, &str),
        manager: &str,
        (namespace, mut object): (&str, Value),
    ) -> Option<Arc<Stored>> {
        let resource = self.resource(group, "v1", plural)?;
        object["kind"] = resource.kind.as_str().into();
        object["apiVersion"] = resource.api_version().into();
        let name = metadata::text(&object, "name").to_owned();
        if resource.namespaced {
            metadata::of(&mut object).insert("namespace".to_owned(), namespace.into());
        }
        self.stamp(&resource, &mut object);
        let options = by(manager);
        let asked = managed::sent_fields(&resource, &object);
        let ownership = Ownership::Track(&options);
        let managed = self.created_managed_fields(&resource, &object, (asked, ownership));
        let draft = Draft::new(object, managed);
        Some(self.put(&resource.storage, namespace, &name, draft))
    }

    /// Creates an object of the server itself by the create verb, unless an object with this name exists.
    pub(super) fn supply(
        &mut self,
        (group, plural): (&str, &str),
        manager: &str,
        (namespace, body): (&str, Value),
    ) -> Option<Value> {
        let name = metadata::text(&body, "name").to_owned();
        let resource = self.resource(group, "v1", plural)?;
        let there = self.store.get(&resource.storage, namespace, &name);
        if there.is_some() {
            return None;
        }
        let place = Some(namespace).filter(|_| resource.namespaced);
        let target = ObjectTarget::collection(&resource, place);
        // A policy or a quota may refuse the object. As in a cluster, it is then missing, and the start goes on.
        let written = self.create(target, body, &by(manager), self.now).ok()?;
        Some(written.object.value().clone())
    }

    /// Creates a cluster-scoped object, and then writes its status with a second field manager. Does nothing if an
    /// object with this name exists.
    pub(super) fn supply_with_status(
        &mut self,
        kind: (&str, &str),
        (manager, status_manager): (&str, &str),
        body: Value,
        status: impl FnOnce(&Value) -> Value,
    ) {
        let made = self.supply(kind, manager, ("", body));
        let (Some(mut object), Some(resource)) = (made, self.resource(kind.0, "v1", kind.1)) else {
            return;
        };
        object["status"] = status(&object);
        let name = metadata::text(&object, "name").to_owned();
        let target = ObjectTarget::object(&resource, None, &name).part(Subresource::Status);
        let _ = self.update(target, object, &by(status_manager), self.now);
    }

    /// Writes the server's ConfigMaps and its Lease in `kube-system`. The Lease is renewed only here, at a start, so
    /// that an idle server writes nothing.
    fn furnish_system_namespace(&mut self, clients: Option<&str>) {
        self.publish_client_authorities(clients);
        let maps = ("", "configmaps");
        if self.object(maps, NAMESPACE, TRACKING).is_none() {
            let since = self.now.strftime("%Y-%m-%d").to_string();
            let map = json!({"metadata": {"name": TRACKING}, "data": {"since": since}});
            self.maintain(maps, (NAMESPACE, map));
        }
        let holder = format!("{IDENTITY}_{}", self.rng.uid());
        let lease = json!({
            "metadata": {"name": IDENTITY, "labels": {
                "apiserver.kubernetes.io/identity": "kube-apiserver",
                "kubernetes.io/hostname": HOST,
            }},
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": LEASE_SECONDS,
                "renewTime": self.now.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string(),
            },
        });
        self.maintain(("coordination.k8s.io", "leases"), (NAMESPACE, lease));
    }

    /// Adds the certificate authorities `clients` to those of other servers in the ConfigMap [`AUTHENTICATION`].
    fn publish_client_authorities(&mut self, clients: Option<&str>) {
        const FIELD: &str = "client-ca-file";
        let stored = self.object(("", "configmaps"), NAMESPACE, AUTHENTICATION);
        let mut data = stored.map_or(Value::Null, |map| map.look()["data"].clone());
        let known = text(&data[FIELD]);
        let new = clients.unwrap_or_default();
        if stored.is_some() && known.contains(new.trim()) {
            return;
        }
        let mut map = json!({"metadata": {"name": AUTHENTICATION}});
        if !new.is_empty() {
            data[FIELD] = format!("{known}{new}").into();
            map["data"] = data;
        }
        self.maintain(("", "configmaps"), (NAMESPACE, map));
    }

    /// Sets the endpoints of the Service `kubernetes` to the address at which the server listens, even to a loopback
    /// address, which validation would refuse.
    fn point_to(&mut self, listens: SocketAddr) {
        let (ip, port) = (listens.ip().to_string(), listens.port());
        let family = if listens.is_ipv4() { "IPv4" } else { "IPv6" };
        let ports = json!([{"name": "https", "port": port, "protocol": "TCP"}]);
        let endpoints = json!({
            "metadata": {"name": "kubernetes",
                "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
            "subsets": [{"addresses": [{"ip": ip}], "ports": ports}],
        });
        let slice = json!({
            "metadata": {"name": "kubernetes", "generation": 1,
                "labels": {"kubernetes.io/service-name": "kubernetes"}},
            "addressType": family,
            "endpoints": [{"addresses": [ip], "conditions": {"ready": true}}],
            "ports": ports,
        });
        self.maintain(("", "endpoints"), ("default", endpoints));
        let slices = ("discovery.k8s.io", "endpointslices");
        self.maintain(slices, ("default", slice));
        self.settle();
    }

    /// Creates an object of the server itself, or sets the fields in `body` other than the metadata in the existing
    /// object. No webhook is called.
    pub(super) fn maintain(&mut self, kind: (&str, &str), (namespace, body): (&str, Value)) {
        let Some(resource) = self.resource(kind.0, "v1", kind.1) else {
            return;
        };
        let name = metadata::text(&body, "name").to_owned();
        let stored = self.store.get(&resource.storage, namespace, &name).cloned();
        let Some(stored) = stored else {
            self.plant(kind, SERVER, (namespace, body));
            return;
        };
        let before = stored.look();
        let mut new = before.clone().into_owned();
        let given = body.as_object().into_iter().flatten();
        for (field, value) in given.filter(|(field, _)| *field != "metadata") {
            new[field] = value.clone();
        }
        if new == *before {
            return;
        }
        metadata::raise_generation(&resource, &mut new, &before, false);
        let face = (&*resource, Subresource::Main);
        let draft = self.server_write(face, SERVER, (&stored, new));
        self.put(&resource.storage, namespace, &name, draft);
    }
}

fn by(manager: &str) -> WriteOptions {
    WriteOptions {
        field_manager: Some(manager.to_owned()),
        ..WriteOptions::default()
    }
}
