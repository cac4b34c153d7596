//! Machine: issues tokens of ServiceAccounts.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use steersman_schema::resource::StorageKey;
use steersman_text::go;
use steersman_text::status::{FieldError, Status, Subject};

use crate::requests::metadata;
use crate::state::registry::Registry;

/// The default audience of a token.
pub(crate) const AUDIENCE: &str = "https://kubernetes.default.svc";

impl Registry {
    /// Issues a token for a ServiceAccount.
    pub(crate) fn token(
        &mut self,
        namespace: &str,
        name: &str,
        body: &Value,
        now: Timestamp,
    ) -> Result<Value, Status> {
        let subject = Subject::new("authentication.k8s.io", "TokenRequest");
        let own = metadata::text(body, "name");
        if !own.is_empty() && own != name {
            let quoted = go::quote(own);
            let why = "must match the service account name if specified";
            let error = FieldError::invalid("metadata.name", &quoted, why);
            return Err(Status::invalid(subject, name, &[error]));
        }
        let accounts = StorageKey::new("", "serviceaccounts");
        let Some(account) = self.store.get(&accounts, namespace, name).cloned() else {
            return Err(Status::not_found(Subject::new("", "serviceaccounts"), name));
        };
        let spec = &body["spec"];
        let lasts = spec["expirationSeconds"].as_i64().unwrap_or(3600);
        let refusal = if lasts < 600 {
            Some("may not specify a duration less than 10 minutes")
        } else if lasts > 1 << 32 {
            Some("may not specify a duration larger than 2^32 seconds")
        } else {
            None
        };
        if let Some(why) = refusal {
            let error = FieldError::invalid("spec.expirationSeconds", &lasts.to_string(), why);
            return Err(Status::invalid(subject, "", &[error]));
        }
        let mut claims = json!({
            "namespace": namespace,
            "serviceaccount": { "name": name, "uid": account.meta("uid") },
        });
        let bound = &spec["boundObjectRef"];
        if !bound.is_null() {
            let (key, reference, node) = self.bound(namespace, bound)?;
            claims[key] = reference;
            if let Some(node) = node {
                claims["node"] = node;
            }
        }
        let audiences = match &spec["audiences"] {
            Value::Array(list) if !list.is_empty() => spec["audiences"].clone(),
            _ => json!([AUDIENCE]),
        };
        let ends = now
            .checked_add(SignedDuration::from_secs(lasts))
            .unwrap_or(now);
        let payload = json!({
            "aud": audiences,
            "exp": ends.as_second(),
            "iat": now.as_second(),
            "iss": AUDIENCE,
            "jti": self.rng.uid(),
            "kubernetes.io": claims,
            "nbf": now.as_second(),
            "sub": format!("system:serviceaccount:{namespace}:{name}"),
        });
        let token = self.key.issue(&payload);
        Ok(json!({
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": self.rng.uid(),
                "creationTimestamp": metadata::time(now),
            },
            "spec": {
                "audiences": audiences,
                "expirationSeconds": lasts,
                "boundObjectRef": bound,
            },
            "status": { "token": token, "expirationTimestamp": metadata::time(ends) },
        }))
    }

    /// Returns the claim about the object that a token is bound to, and for a Pod on a node the
    /// claim about the node.
    fn bound(
        &self,
        namespace: &str,
        bound: &Value,
    ) -> Result<(&'static str, Value, Option<Value>), Status> {
        let (kind, version) = (
            bound["kind"].as_str().unwrap_or_default(),
            bound["apiVersion"].as_str().unwrap_or_default(),
        );
        let (plural, key) = match (version, kind) {
            ("v1", "Pod") => ("pods", "pod"),
            ("v1", "Secret") => ("secrets", "secret"),
            ("v1", "Node") => ("nodes", "node"),
            _ => {
                let (group, version) = version.split_once('/').unwrap_or(("", version));
                return Err(Status::bad_request(format!(
                    "cannot bind token to object of type {group}/{version}, Kind={kind}"
                )));
            }
        };
        let name = bound["name"].as_str().unwrap_or_default();
        let namespace = if plural == "nodes" { "" } else { namespace };
        let storage = StorageKey::new("", plural);
        let Some(found) = self.store.get(&storage, namespace, name) else {
            return Err(Status::not_found(Subject::new("", plural), name));
        };
        let uid = found.meta("uid");
        let wanted = bound["uid"].as_str().unwrap_or_default();
        if !wanted.is_empty() && wanted != uid {
            let why = format!(
                "the UID in the bound object reference ({wanted}) does not match the UID in record. The object might have been deleted and then recreated"
            );
            return Err(Status::conflict(Subject::new("", kind), name, &why));
        }
        let node = found.value["spec"]["nodeName"].as_str();
        let node = node
            .filter(|name| key == "pod" && !name.is_empty())
            .map(|name| {
                let node = self.store.get(&StorageKey::new("", "nodes"), "", name);
                match node {
                    Some(node) => json!({ "name": name, "uid": node.meta("uid") }),
                    None => json!({ "name": name }),
                }
            });
        Ok((key, json!({ "name": name, "uid": uid }), node))
    }
}
