//! Machine: keeps the ServiceCIDR of the server, and one IPAddress object for each address of a Service (upstream:
//! `pkg/controlplane/controller/defaultservicecidr` and `pkg/registry/core/service/ipallocator`).

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use serde_json::json;
use steersman_schema::resource::StorageKey;
use steersman_store::Stored;

use crate::objects::field_owners::SERVER;
use crate::requests::metadata;
use crate::state::pending_work::ServiceAddress;
use crate::state::registry::Registry;
use crate::values::texts;

const GROUP: &str = "networking.k8s.io";
/// The field manager that writes the status of the ServiceCIDR.
const CIDR_MANAGER: &str = "kubernetes-service-cidr-controller";
const MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";
const ALLOCATOR: &str = "ipallocator.k8s.io";

impl Registry {
    /// Records the IP addresses that a Service got or lost. Called after each write or deletion.
    pub(crate) fn note_addresses(
        &mut self,
        storage: &StorageKey,
        old: Option<&Stored>,
        new: Option<&Stored>,
    ) {
        if storage.as_str() != "services." {
            return;
        }
        let (before, after) = (addresses_of(old), addresses_of(new));
        if let Some(service) = new.or(old) {
            for address in before.symmetric_difference(&after) {
                let (namespace, name) = (&service.namespace, &service.name);
                let noted = (*address, Arc::clone(namespace), Arc::clone(name));
                self.pending.addresses.push(noted);
            }
        }
    }

    /// Creates the missing IPAddress object for an address that a Service has, or deletes the IPAddress object of an
    /// address that the Service no longer has (SRV-IP-2).
    pub(crate) fn settle_address(&mut self, noted: &ServiceAddress) {
        let (address, namespace, name) = noted;
        let service = self.object(("", "services"), namespace, name);
        let is_used = addresses_of(service.map(|one| &**one)).contains(address);
        let text = address.to_string();
        let parent = json!({"resource": "services", "namespace": &**namespace, "name": &**name});
        let stored = self.store.get(&ip_addresses(), "", &text).cloned();
        match stored {
            Some(stored) if !is_used && stored.look()["spec"]["parentRef"] == parent => {
                self.remove(&ip_addresses(), &stored);
            }
            None if is_used && self.service_network.contains(&text) => {
                let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
                let body = json!({
                    "metadata": {"name": text, "labels": {
                        "ipaddress.kubernetes.io/ip-family": family, MANAGED_BY: ALLOCATOR}},
                    "spec": {"parentRef": parent},
                });
                self.plant((GROUP, "ipaddresses"), SERVER, ("", body));
            }
            _ => {}
        }
    }

    /// Creates the ServiceCIDR `kubernetes` and the IPAddress objects that a new server or an old snapshot lacks.
    pub(super) fn furnish_network(&mut self) {
        let kind = (GROUP, "servicecidrs");
        let body = json!({
            "metadata": {"name": "kubernetes"},
            "spec": {"cidrs": [self.service_network.to_string()]},
        });
        let status = json!({"conditions": [{
            "type": "Ready", "status": "True", "lastTransitionTime": metadata::time(self.now),
            "reason": "", "message": "Kubernetes default Service CIDR is ready",
        }]});
        self.supply_with_status(kind, (SERVER, CIDR_MANAGER), body, |_| status);
        let services = StorageKey::new("", "services");
        let all: Vec<Arc<Stored>> = self.store.list(&services, None).cloned().collect();
        for service in all {
            self.note_addresses(&services, None, Some(&service));
        }
        self.settle();
    }

    pub(crate) fn is_allocated(&self, address: &IpAddr) -> bool {
        let name = address.to_string();
        self.store.get(&ip_addresses(), "", &name).is_some()
    }
}

fn ip_addresses() -> StorageKey {
    StorageKey::new(GROUP, "ipaddresses")
}

fn addresses_of(service: Option<&Stored>) -> BTreeSet<IpAddr> {
    let service = service.map(Stored::look).unwrap_or_default();
    let addresses = texts(&service["spec"]["clusterIPs"]);
    addresses.filter_map(|one| one.parse().ok()).collect()
}
