//! Machine: decodes the kinds that requests contain and the store does not: scales, bindings,
//! evictions and token requests.

use serde_json::{Map, Value};
use steersman_apimachinery::go;
use steersman_apimachinery::status::Status;
use steersman_schema::types;

use super::catalogue::Catalogue;
use super::intake::FieldValidation;

/// A kind that only requests contain.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestKind {
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    /// Another accepted version.
    also: &'static str,
    /// The package of its Go type, and the scheme that decodes it.
    package: &'static str,
    scheme: &'static str,
}

const LEGACY: &str = "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30";

pub(crate) const SCALE: RequestKind = RequestKind {
    version: "autoscaling/v1",
    kind: "Scale",
    also: "autoscaling/v1",
    package: "autoscaling",
    scheme: LEGACY,
};

/// The scale of a custom resource; its scheme has no other kinds.
pub(crate) const CUSTOM_SCALE: RequestKind = RequestKind {
    package: "",
    scheme: "k8s.io/client-go/scale/util.go:132",
    ..SCALE
};

pub(crate) const BINDING: RequestKind = RequestKind {
    version: "v1",
    kind: "Binding",
    also: "v1",
    package: "core",
    scheme: LEGACY,
};

pub(crate) const EVICTION: RequestKind = RequestKind {
    version: "policy/v1",
    kind: "Eviction",
    also: "policy/v1beta1",
    package: "policy",
    scheme: LEGACY,
};

pub(crate) const TOKEN_REQUEST: RequestKind = RequestKind {
    version: "authentication.k8s.io/v1",
    kind: "TokenRequest",
    also: "authentication.k8s.io/v1",
    package: "authentication",
    scheme: LEGACY,
};

impl RequestKind {
    /// Decodes a body. Returns the ignored fields, as messages name them.
    ///
    /// # Errors
    /// 400 for another kind or version, for a value of the wrong type, and under strict validation
    /// for an unknown field.
    pub(crate) fn read(
        &self,
        catalogue: &Catalogue,
        body: &mut Value,
        validation: FieldValidation,
    ) -> Result<Vec<String>, Status> {
        let text = |field: &str, absent: &str| {
            let sent = body[field].as_str().unwrap_or_default();
            if sent.is_empty() { absent } else { sent }.to_owned()
        };
        let (version, kind) = (text("apiVersion", self.version), text("kind", self.kind));
        let short = version.rsplit('/').next().unwrap_or_default();
        let refuse = |why: &str| {
            let (wanted, short) = (self.kind, go::quote(short));
            Status::bad_request(format!(
                "{kind} in version {short} cannot be handled as a {wanted}: {why}"
            ))
        };
        if kind != self.kind || (version != self.version && version != self.also) {
            let (package, wanted, scheme) = (self.package, self.kind, self.scheme);
            return Err(refuse(
                &if !package.is_empty() && catalogue.knows_kind(&version, &kind) {
                    format!(
                        "converting ({short}.{kind}) to ({package}.{wanted}): unknown conversion"
                    )
                } else {
                    let (kind, version) = (go::quote(&kind), go::quote(&version));
                    format!(
                        "no kind {kind} is registered for version {version} in scheme \"{scheme}\""
                    )
                },
            ));
        }
        let mut unknown = Vec::new();
        if let Some(Value::Object(fields)) = body.get("metadata") {
            let mut fields: Map<String, Value> = fields.clone();
            fields.retain(|name, _| name != "selfLink" && name != "managedFields");
            unknown = types::decode_metadata(&mut fields, true).map_err(|why| refuse(&why))?;
        }
        unknown.extend(types::decode(self.version, self.kind, body).map_err(|why| refuse(&why))?);
        let messages: Vec<String> = unknown
            .iter()
            .map(|field| format!("unknown field {}", go::quote(field)))
            .collect();
        match validation {
            FieldValidation::Strict if !messages.is_empty() => {
                let all = messages.join(", ");
                Err(refuse(&format!("strict decoding error: {all}")))
            }
            FieldValidation::Warn => Ok(messages),
            FieldValidation::Strict | FieldValidation::Ignore => Ok(Vec::new()),
        }
    }
}
