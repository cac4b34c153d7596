//! Machine: decodes the bodies of requests with a kind that is not stored: scales, bindings, evictions and token
//! requests.

use serde_json::Value;
use steersman_apimachinery::status::Status;
use steersman_schema::types;

use super::catalogue::Catalogue;
use super::intake::{FieldValidation, LEGACY_SCHEME, judge_unknown, unconvertible};
use super::metadata;
use crate::values::text;

#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestKind {
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    /// A second `apiVersion` in which the body may be; equal to `version` if no other version is accepted.
    also: &'static str,
    /// The package of the kind's Go type, and (`scheme`) the Go scheme that knows this type; for error messages.
    package: &'static str,
    scheme: &'static str,
}

/// Returns a kind with the Go scheme of the built-in kinds in its error messages.
const fn built_in(version: &'static str, kind: &'static str, package: &'static str) -> RequestKind {
    RequestKind {
        version,
        kind,
        also: version,
        package,
        scheme: LEGACY_SCHEME,
    }
}

pub(crate) const SCALE: RequestKind = built_in("autoscaling/v1", "Scale", "autoscaling");

/// The Scale of a custom resource: upstream decodes it with another Go scheme, which error messages name.
pub(crate) const CUSTOM_SCALE: RequestKind = RequestKind {
    package: "",
    scheme: "k8s.io/client-go/scale/util.go:132",
    ..SCALE
};

pub(crate) const BINDING: RequestKind = built_in("v1", "Binding", "core");

pub(crate) const EVICTION: RequestKind = RequestKind {
    also: "policy/v1beta1",
    ..built_in("policy/v1", "Eviction", "policy")
};

pub(crate) const TOKEN_REQUEST: RequestKind =
    built_in("authentication.k8s.io/v1", "TokenRequest", "authentication");

impl RequestKind {
    /// Decodes a body of this kind, and returns warnings about its unknown fields. Fails with 400 for another kind or
    /// version, for a value of a wrong type, and with `FieldValidation::Strict` for an unknown field.
    pub(crate) fn read(
        &self,
        catalogue: &Catalogue,
        body: &mut Value,
        validation: FieldValidation,
    ) -> Result<Vec<String>, Status> {
        let sent = |field: &str, absent: &str| match text(&body[field]) {
            "" => absent.to_owned(),
            sent => sent.to_owned(),
        };
        let (version, kind) = (sent("apiVersion", self.version), sent("kind", self.kind));
        let refuse = |why: &str| metadata::unhandled((&version, &kind), self.kind, why);
        if kind != self.kind || (version != self.version && version != self.also) {
            let ty = (self.package, self.kind, self.scheme);
            return Err(refuse(&unconvertible(catalogue, ty, &version, &kind)));
        }
        let mut unknown = Vec::new();
        if let Some(Value::Object(fields)) = body.get("metadata") {
            let mut fields = fields.clone();
            fields.retain(|name, _| name != "selfLink" && name != "managedFields");
            unknown = types::decode_metadata(&mut fields, true).map_err(|why| refuse(&why))?;
        }
        unknown.extend(types::decode(self.version, self.kind, body).map_err(|why| refuse(&why))?);
        judge_unknown(&unknown, validation).map_err(|why| refuse(&why))
    }
}
