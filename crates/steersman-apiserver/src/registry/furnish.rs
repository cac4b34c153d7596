//! Machine: what a kube-apiserver writes by itself when it begins to serve: its own Service, and the
//! priorities of a cluster's own Pods.

use std::net::SocketAddr;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::schema::StorageKey;

use super::classes::SYSTEM;
use super::metadata;
use super::options::{Target, WriteOptions};
use super::state::Registry;

/// The first address of the network of Services.
const ADDRESS: &str = "10.96.0.1";

impl Registry {
    /// Writes what is missing of it, and where the server listens now. What is there already stays,
    /// but for the address.
    pub(crate) fn furnish(&mut self, listens: SocketAddr, now: Timestamp) {
        for (name, value) in SYSTEM {
            let critical = name
                .trim_start_matches("system-")
                .trim_end_matches("-critical");
            let body = json!({
                "metadata": {"name": name},
                "value": value,
                "description": format!("Used for system critical pods that must {}.", match critical {
                    "node" => "not be moved from their current node",
                    _ => "run in the cluster, but can be moved to another node if necessary",
                }),
            });
            self.supply(("scheduling.k8s.io", "priorityclasses"), "", body, now);
        }
        let service = json!({
            "metadata": {"name": "kubernetes",
                "labels": {"component": "apiserver", "provider": "kubernetes"}},
            "spec": {
                "type": "ClusterIP", "clusterIP": ADDRESS,
                "sessionAffinity": "None", "ipFamilyPolicy": "SingleStack",
                "ports": [{"name": "https", "protocol": "TCP", "port": 443,
                    "targetPort": listens.port()}],
            },
        });
        self.supply(("", "services"), "default", service, now);
        self.point_to(listens, now);
    }

    /// Creates an object unless it is there.
    fn supply(
        &mut self,
        (group, plural): (&str, &str),
        namespace: &str,
        body: Value,
        now: Timestamp,
    ) {
        let name = metadata::text(&body, "name").to_owned();
        let Some(resource) = self.resource(group, "v1", plural) else {
            return;
        };
        let there = self.store.get(&resource.storage, namespace, &name);
        if there.is_some() {
            return;
        }
        let options = WriteOptions {
            field_manager: Some("kube-apiserver".to_owned()),
            ..WriteOptions::default()
        };
        let place = Some(namespace).filter(|_| resource.namespaced);
        // Where a policy or a quota forbids it, a cluster goes without too.
        let _ = self.create(Target::collection(&resource, place), body, &options, now);
    }

    /// The Service leads to the listener. Its address is of loopback, which no client could write.
    fn point_to(&mut self, listens: SocketAddr, now: Timestamp) {
        let (ip, port) = (listens.ip().to_string(), listens.port());
        let family = if listens.is_ipv4() { "IPv4" } else { "IPv6" };
        let ports = json!([{"name": "https", "port": port, "protocol": "TCP"}]);
        let endpoints = json!({
            "kind": "Endpoints", "apiVersion": "v1",
            "metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
            "subsets": [{"addresses": [{"ip": ip}], "ports": ports}],
        });
        let slice = json!({
            "kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1",
            "metadata": {"labels": {"kubernetes.io/service-name": "kubernetes"}, "generation": 1},
            "addressType": family,
            "endpoints": [{"addresses": [ip], "conditions": {"ready": true}}],
            "ports": ports,
        });
        for (group, plural, mut object) in [
            ("", "endpoints", endpoints),
            ("discovery.k8s.io", "endpointslices", slice),
        ] {
            let storage = StorageKey::new(group, plural);
            let name = "kubernetes";
            let there = self.store.get(&storage, "default", name).cloned();
            let (uid, created) = match &there {
                Some(there) => (
                    there.meta("uid").to_owned(),
                    there.meta("creationTimestamp").to_owned(),
                ),
                None => (self.rng.uid(), metadata::time(now)),
            };
            let fields = metadata::of(&mut object);
            for (field, value) in [
                ("name", name),
                ("namespace", "default"),
                ("uid", &uid),
                ("creationTimestamp", &created),
            ] {
                fields.insert(field.to_owned(), value.into());
            }
            self.put(&storage, "default", name, object);
        }
        self.settle(now);
    }
}
