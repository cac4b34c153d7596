//! Machine: the objects of a kube-apiserver in the namespace `kube-system`: what other servers and
//! kube-controller-manager read about its authentication, and its Lease.
//!
//! Kubernetes source: `pkg/controlplane/controller` (`clusterauthenticationtrust`,
//! `legacytokentracking`) and `pkg/controlplane/apiserver/server.go`.

use serde_json::{Value, json};
use steersman_schema::resource::StorageKey;

use crate::state::registry::Registry;

const NAMESPACE: &str = "kube-system";
/// The ConfigMap with the authorities that sign client certificates.
const AUTHENTICATION: &str = "extension-apiserver-authentication";
/// The ConfigMap with the day since which the server looks for used tokens of Secrets.
const TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";
/// The name of the Lease: the hash of the name of the host, as upstream computes it.
const IDENTITY: &str = "apiserver-jgla3zmib2ggq5buc4hwi5talm";
const HOST: &str = "localhost";
/// Duration of the Lease, in seconds.
const LEASE_SECONDS: u64 = 3600;

impl Registry {
    /// Writes these objects. The Lease is renewed at each start only, so that an idle server writes
    /// nothing.
    pub(super) fn furnish_system_namespace(&mut self, clients: Option<&str>) {
        self.publish_client_authorities(clients);
        let maps = StorageKey::new("", "configmaps");
        if self.store.get(&maps, NAMESPACE, TRACKING).is_none() {
            let since = self.now.strftime("%Y-%m-%d").to_string();
            let map = json!({"metadata": {"name": TRACKING}, "data": {"since": since}});
            self.maintain(("", "configmaps"), (NAMESPACE, map));
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

    /// Adds the authorities of client certificates to those that other servers published.
    fn publish_client_authorities(&mut self, clients: Option<&str>) {
        const FIELD: &str = "client-ca-file";
        let maps = StorageKey::new("", "configmaps");
        let stored = self.store.get(&maps, NAMESPACE, AUTHENTICATION);
        let mut data = stored.map_or(Value::Null, |map| map.look()["data"].clone());
        let known = data[FIELD].as_str().unwrap_or_default();
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
}
