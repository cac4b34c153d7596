//! Machine: records the author of a CertificateSigningRequest, and checks that a user may approve or sign it (upstream:
//! `pkg/registry/certificates` and `plugin/pkg/admission/certificates`).

use jiff::Timestamp;
use serde_json::Value;
use steersman_apimachinery::status::Status;
use steersman_auth::{Attributes, MASTERS, User};
use steersman_builtins::signing_request::SigningRequest;
use steersman_schema::resource::Resource;

use crate::admission::attributes::AdmittedWrite;
use crate::requests::metadata;
use crate::requests::options::Subresource;
use crate::state::registry::Registry;
use crate::values::{items, items_mut, text};

const GROUP: &str = "certificates.k8s.io";
/// The signer name for client certificates of the API server.
const CLIENTS: &str = "kubernetes.io/kube-apiserver-client";

pub(crate) fn is_request(resource: &Resource) -> bool {
    resource.is(GROUP, "CertificateSigningRequest")
}

/// Sets the user fields (`username`, `groups` and so on) of a new CertificateSigningRequest to the user that sent it,
/// and drops those in the body, so that no client can request a certificate as another user.
pub(crate) fn sign_for(user: &User, request: &mut Value) {
    let spec = metadata::members(&mut request["spec"]);
    for field in ["username", "uid", "groups", "extra"] {
        spec.remove(field);
    }
    spec.extend(user.info().as_object().cloned().unwrap_or_default());
}

/// Sets those times of conditions that the client left out. A transition time changes only with the status.
pub(crate) fn time_conditions(request: &mut Value, old: &Value, now: Timestamp) {
    let now = Value::from(metadata::time(now));
    let before = items(&old["status"]["conditions"]);
    for condition in items_mut(&mut request["status"], "conditions") {
        let same = before.iter().find(|known| {
            known["type"] == condition["type"] && known["status"] == condition["status"]
        });
        let changed = same.map_or(&now, |same| &same["lastTransitionTime"]);
        let changed = if changed.is_null() { &now } else { changed }.clone();
        let fields = metadata::members(condition);
        for (field, time) in [
            ("lastUpdateTime", now.clone()),
            ("lastTransitionTime", changed),
        ] {
            if fields.get(field).is_none_or(Value::is_null) {
                fields.insert(field.to_owned(), time);
            }
        }
    }
}

impl Registry {
    /// Checks a new CertificateSigningRequest, its approval, and a status write that changes its certificate or
    /// conditions. 403 for a user without the permission to approve or to sign for the named signer, and for a client
    /// certificate in the group `system:masters`.
    pub(crate) fn admit_signing(&self, write: AdmittedWrite<'_>) -> Result<(), Status> {
        let (admission, request, old) = write;
        if !is_request(admission.target.resource) {
            return Ok(());
        }
        let Some(old) = old else {
            if request["spec"]["signerName"] == CLIENTS && asks_for_all(request) {
                let why = format!("use of {CLIENTS} signer with {MASTERS} group is not allowed");
                return Err(admission.refusal(request, &why));
            }
            return Ok(());
        };
        let changed = |field: &str| old["status"][field] != request["status"][field];
        let verb = match admission.target.subresource {
            Subresource::Approval => "approve",
            Subresource::Status if changed("certificate") || changed("conditions") => "sign",
            _ => return Ok(()),
        };
        let signer = text(&old["spec"]["signerName"]);
        let domain = signer.split('/').next().unwrap_or_default();
        let allowed = [signer, &format!("{domain}/*")].iter().any(|name| {
            let asked = Attributes::of(verb, GROUP, "signers", name);
            self.authorizer().authorize(admission.user, &asked).allowed
        });
        if allowed {
            return Ok(());
        }
        let why = format!("user not permitted to {verb} requests with signerName \"{signer}\"");
        Err(admission.refusal(request, &why))
    }
}

/// Returns whether a request asks for a certificate in the group `system:masters`, which may do everything.
fn asks_for_all(request: &Value) -> bool {
    // A request that does not parse is refused later by validation, with the same parser.
    let asked = SigningRequest::read(text(&request["spec"]["request"]));
    asked.is_ok_and(|asked| asked.is_of(MASTERS))
}
