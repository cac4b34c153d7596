//! Machine: issues tokens of ServiceAccounts (TokenRequest).

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use steersman_apimachinery::go;
use steersman_apimachinery::status::{FieldError, GroupResource, Status};

use crate::requests::metadata;
use crate::state::registry::Registry;
use crate::values::{items, text};
use crate::verbs::acts::ActRequest;

/// The lifetime, in seconds, for which kubelets request the tokens of Pods. As in kube-apiserver, only a request for
/// exactly this lifetime gets a token that lives longer (`EXTENDED`): for programs that do not read renewed tokens.
const PROJECTED: i64 = 3607;
/// The lifetime, in seconds, of a token that was requested for `PROJECTED` seconds: one year.
const EXTENDED: i64 = 365 * 24 * 60 * 60;

impl Registry {
    pub(crate) fn token(&mut self, request: ActRequest<'_>) -> Result<Value, Status> {
        let (namespace, name, body) = (request.namespace, request.name, request.body);
        let group_kind = GroupResource::new("authentication.k8s.io", "TokenRequest");
        let own = metadata::text(body, "name");
        if !own.is_empty() && own != name {
            let quoted = go::quote(own);
            let why = "must match the service account name if specified";
            let error = FieldError::invalid("metadata.name", &quoted, why);
            return Err(Status::invalid(group_kind, name, &[error]));
        }
        let account = self.existing(("", "serviceaccounts"), namespace, name)?;
        let spec = &body["spec"];
        let lasts = spec["expirationSeconds"].as_i64().unwrap_or(3600);
        let refuse = |why: &str| {
            let error = FieldError::invalid("spec.expirationSeconds", &lasts.to_string(), why);
            Err(Status::invalid(group_kind, "", &[error]))
        };
        if lasts < 600 {
            return refuse("may not specify a duration less than 10 minutes");
        }
        if lasts > 1 << 32 {
            return refuse("may not specify a duration larger than 2^32 seconds");
        }
        let mut claims = json!({
            "namespace": namespace,
            "serviceaccount": { "name": name, "uid": account.meta("uid") },
        });
        let bound = &spec["boundObjectRef"];
        if !bound.is_null() {
            self.bind_claims(&mut claims, (namespace, name), bound)?;
        }
        let audiences = match &spec["audiences"] {
            Value::Array(list) if !list.is_empty() => spec["audiences"].clone(),
            _ => json!(self.issuer.audiences()),
        };
        let lifetime = self.lifetime(lasts, &audiences, &claims);
        if lifetime > lasts {
            claims["warnafter"] = json!(after(self.now, lasts).as_second());
        }
        let payload = json!({
            "aud": audiences,
            "exp": after(self.now, lifetime).as_second(),
            "iat": self.now.as_second(),
            "iss": self.issuer.name(),
            "jti": self.rng.uid(),
            "kubernetes.io": claims,
            "nbf": self.now.as_second(),
            "sub": format!("system:serviceaccount:{namespace}:{name}"),
        });
        let token = self.issuer.issue(&payload);
        let token = token
            .map_err(|why| Status::internal_plain(format!("failed to generate token: {why}")))?;
        Ok(json!({
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": self.rng.uid(),
                "creationTimestamp": metadata::time(self.now),
            },
            "spec": {
                "audiences": audiences,
                "expirationSeconds": lasts,
                "boundObjectRef": bound,
            },
            "status": { "token": token, "expirationTimestamp": metadata::time(after(self.now, lasts)) },
        }))
    }

    /// Returns the lifetime, in seconds, of a token that was requested for `lasts` seconds. As in kube-apiserver, a
    /// kubelet's token for a Pod lives longer than requested, unless an option disables this.
    fn lifetime(&self, lasts: i64, audiences: &Value, claims: &Value) -> i64 {
        let own = self.issuer.audiences();
        let is_own = |audience: &Value| own.iter().any(|own| audience == own);
        let extends = !self.issuer.has_exact_expiration()
            && lasts == PROJECTED
            && !claims["pod"].is_null()
            && items(audiences).iter().all(is_own);
        if extends { EXTENDED } else { lasts }
    }

    /// Adds the claims about the object to which a token is bound (`bound`), and for a Pod with a node also those about
    /// the node.
    fn bind_claims(
        &self,
        claims: &mut Value,
        (namespace, account): (&str, &str),
        bound: &Value,
    ) -> Result<(), Status> {
        let (kind, version) = (text(&bound["kind"]), text(&bound["apiVersion"]));
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
        let name = text(&bound["name"]);
        let namespace = if plural == "nodes" { "" } else { namespace };
        let found = self.existing(("", plural), namespace, name)?;
        if key == "pod" && found.value["spec"]["serviceAccountName"] != account {
            return Err(Status::bad_request(format!(
                "cannot bind token for serviceaccount {} to pod running with different serviceaccount name.",
                go::quote(account)
            )));
        }
        let uid = found.meta("uid");
        let wanted = text(&bound["uid"]);
        if !wanted.is_empty() && wanted != uid {
            let why = format!(
                "the UID in the bound object reference ({wanted}) does not match the UID in record. The object might have been deleted and then recreated"
            );
            return Err(Status::conflict(GroupResource::new("", kind), name, &why));
        }
        claims[key] = json!({ "name": name, "uid": uid });
        let node = text(&found.value["spec"]["nodeName"]);
        if key == "pod" && !node.is_empty() {
            claims["node"] = match self.object(("", "nodes"), "", node) {
                Some(found) => json!({ "name": node, "uid": found.meta("uid") }),
                None => json!({ "name": node }),
            };
        }
        Ok(())
    }
}

fn after(time: Timestamp, seconds: i64) -> Timestamp {
    let duration = SignedDuration::from_secs(seconds);
    time.checked_add(duration).unwrap_or(time)
}
