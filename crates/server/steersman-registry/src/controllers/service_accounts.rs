//! Machine: gives every namespace the ServiceAccount `default` and a ConfigMap with the certificate of the server's
//! certificate authority, and mounts the token of a ServiceAccount into each Pod.
//!
//! Upstream these are two controllers (`pkg/controller/serviceaccount` and `rootcacertpublisher`) and the admission
//! plugin ServiceAccount, which also refuses Pods with a ServiceAccount that does not exist. Here one option,
//! `furnish_namespaces`, turns on all three.

use std::sync::Arc;

use serde_json::{Value, json};
use steersman_apimachinery::status::Status;
use steersman_schema::resource::StorageKey;
use steersman_store::Stored;

use crate::admission::attributes::WriteAdmission;
use crate::requests::metadata;
use crate::state::registry::Registry;
use crate::values::{items, items_mut, text};

/// The name of the ServiceAccount that every namespace has, and that a Pod gets by default.
const DEFAULT: &str = "default";

/// The name of the ConfigMap with the certificate authority by which Pods verify the server.
const AUTHORITY: &str = "kube-root-ca.crt";
const ABOUT: &str = "kubernetes.io/description";
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

/// The field manager that owns the fields of the ServiceAccount and the ConfigMap of a namespace.
const MANAGER: &str = "kube-controller-manager";

/// The directory in which containers find the token of their Pod's ServiceAccount.
const MOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const VOLUME: &str = "kube-api-access-";

/// The annotation of a mirror Pod: a kubelet's copy of a Pod that it runs from a file. Such a Pod gets no token.
const MIRROR: &str = "kubernetes.io/config.mirror";

impl Registry {
    /// Records that a namespace may lack its ServiceAccount or ConfigMap, if the written or deleted object is the
    /// namespace or one of these two objects. Called after each write or deletion.
    pub(crate) fn note_lack(&mut self, storage: &StorageKey, written: &Stored) {
        if !self.options.furnish_namespaces {
            return;
        }
        match (storage.as_str(), &*written.name) {
            ("namespaces.", name) => self.pending.lacking.insert(name.into()),
            ("serviceaccounts.", DEFAULT) | ("configmaps.", AUTHORITY) => {
                self.pending.lacking.insert(Arc::clone(&written.namespace))
            }
            _ => false,
        };
    }

    /// Records for every namespace that it may lack its ServiceAccount or ConfigMap. Called at a start, and after the
    /// certificate authority of the server has changed.
    pub(crate) fn note_lacks(&mut self) {
        let namespaces = StorageKey::new("", "namespaces");
        let all: Vec<Arc<Stored>> = self.store.list(&namespaces, None).cloned().collect();
        for namespace in all {
            self.note_lack(&namespaces, &namespace);
        }
    }

    /// Creates the missing ServiceAccount and ConfigMap of a namespace, unless the namespace is terminating (SRV-NS-1).
    /// The ConfigMap needs the server's certificate, so it is created only when the server listens.
    pub(crate) fn furnish_namespace(&mut self, name: &str) {
        let found = self.object(("", "namespaces"), "", name);
        if found.is_none_or(|found| found.is_terminating()) {
            return;
        }
        if self.account(name, DEFAULT).is_none() {
            let account = json!({"metadata": {"name": DEFAULT}});
            self.plant(("", "serviceaccounts"), MANAGER, (name, account));
        }
        let Some(authority) = &self.authority else {
            return;
        };
        let data = json!({"ca.crt": authority});
        let storage = StorageKey::new("", "configmaps");
        let Some(there) = self.store.get(&storage, name, AUTHORITY) else {
            let map = json!({
                "metadata": {"name": AUTHORITY, "annotations": {ABOUT: DESCRIPTION}},
                "data": data,
            });
            self.plant(("", "configmaps"), MANAGER, (name, map));
            return;
        };
        let mut draft = there.draft();
        draft.value["data"] = data;
        metadata::map_in(metadata::of(&mut draft.value), "annotations")
            .entry(ABOUT)
            .or_insert_with(|| json!(DESCRIPTION));
        if !there.holds(&draft) {
            self.put(&storage, name, AUTHORITY, draft);
        }
    }

    /// Sets the ServiceAccount of a new Pod, mounts a volume with its token, and copies its image pull secrets. 403 if
    /// the ServiceAccount does not exist, and for a mirror Pod that names a ServiceAccount.
    pub(crate) fn take_account(
        &mut self,
        admission: &WriteAdmission<'_>,
        pod: &mut Value,
    ) -> Result<(), Status> {
        if !self.options.furnish_namespaces {
            return Ok(());
        }
        let named = text(&pod["spec"]["serviceAccountName"]).to_owned();
        if !pod["metadata"]["annotations"][MIRROR].is_null() {
            let why = "a mirror pod may not reference service accounts";
            return if named.is_empty() {
                Ok(())
            } else {
                Err(admission.refusal(pod, why))
            };
        }
        let name = if named.is_empty() { DEFAULT } else { &named };
        let namespace = admission.target.scope();
        let Some(account) = self.account(namespace, name).cloned() else {
            let why = format!(
                "error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found"
            );
            return Err(admission.refusal(pod, &why));
        };
        let account = account.look();
        let spec = &mut pod["spec"];
        for field in ["serviceAccountName", "serviceAccount"] {
            metadata::members(spec).insert(field.to_owned(), name.into());
        }
        let wish = |of: &Value| of["automountServiceAccountToken"].as_bool();
        if wish(spec).or_else(|| wish(&account)).unwrap_or(true) {
            let suffix = self.rng.suffix();
            mount_token(spec, &format!("{VOLUME}{suffix}"));
        }
        if items(&spec["imagePullSecrets"]).is_empty()
            && let Some(secrets) = account.get("imagePullSecrets")
        {
            spec["imagePullSecrets"] = secrets.clone();
        }
        Ok(())
    }

    fn account(&self, namespace: &str, name: &str) -> Option<&Arc<Stored>> {
        self.object(("", "serviceaccounts"), namespace, name)
    }
}

/// Mounts the volume with the ServiceAccount token at [`MOUNT`] in every container that has no mount there. Adds the
/// volume with the name `fresh`, unless the Pod has a token volume.
fn mount_token(spec: &mut Value, fresh: &str) {
    let volumes = items(&spec["volumes"]).iter();
    let mut names = volumes.map(|volume| text(&volume["name"]));
    let there = names.find(|name| name.starts_with(VOLUME));
    let name = there.unwrap_or(fresh).to_owned();
    let mut mounted = false;
    for part in ["initContainers", "containers"] {
        for container in items_mut(spec, part) {
            let mounts = metadata::list_in(metadata::members(container), "volumeMounts");
            if let Some(mounts) = mounts
                && !mounts.iter().any(|mount| mount["mountPath"] == MOUNT)
            {
                mounts.push(json!({"name": name, "readOnly": true, "mountPath": MOUNT}));
                mounted = true;
            }
        }
    }
    if !mounted || name != fresh {
        return;
    }
    if let Some(volumes) = metadata::list_in(metadata::members(spec), "volumes") {
        volumes.push(json!({
            "name": name,
            "projected": {"defaultMode": 0o644, "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {
                    "name": AUTHORITY,
                    "items": [{"key": "ca.crt", "path": "ca.crt"}],
                }},
                {"downwardAPI": {"items": [{
                    "path": "namespace",
                    "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                }]}},
            ]},
        }));
    }
}
