//! Machine: CertificateSigningRequests and APIServices (upstream: `pkg/apis/certificates` and `kube-aggregator`).

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use steersman_apimachinery::names::{self, NameRule};

use crate::Strategy;
use crate::access::signing_request::SigningRequest;
use crate::fields::fill::{complete, complete_given, elements, given, list, part, put, set};
use crate::fields::{FieldPath, authorities, check, reference};

pub(crate) const SIGNING_REQUEST: Strategy = Strategy {
    defaults: |object| {
        complete(object, json!({"spec": {"request": null, "signerName": ""}}));
        if let Some(status) = given(object, "status") {
            for condition in list(status, "conditions") {
                for time in ["lastUpdateTime", "lastTransitionTime"] {
                    set(condition, time, Value::Null);
                }
            }
        }
    },
    prepare: |object, old| {
        // An update keeps the spec of a request.
        if let Some(old) = old {
            put(object, "spec", old["spec"].clone());
        }
    },
    validate: signing_request,
    validate_status: |object, old| check_part(object, old, WrittenPart::Status),
    ..Strategy::PLAIN
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum WrittenPart {
    Status,
    Approval,
}

pub(crate) const API_SERVICE: Strategy = Strategy {
    defaults: |object| {
        if let Some(spec) = part(object, "spec") {
            complete_given(spec, "service", json!({"port": 443}));
        }
    },
    // An API service without a Service is served by this server itself, and so is available.
    prepare: |object, old| {
        if old.is_none() && object["spec"]["service"].is_null() {
            let made = object["metadata"]["creationTimestamp"].clone();
            let condition = json!({
                "type": "Available", "status": "True", "lastTransitionTime": made,
                "reason": "Local", "message": "Local APIServices are always available",
            });
            put(object, "status", json!({ "conditions": [condition] }));
        }
    },
    validate: api_service,
    validate_status: |object, _| {
        let known = ["False", "True", "Unknown"];
        let conditions = object.down("status.conditions");
        conditions.each(|condition| check::one_of(&condition.at("status"), &known));
    },
    ..Strategy::PLAIN
};

const USAGES: &[&str] = &[
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign",
    "data encipherment", "decipher only", "digital signature", "email protection", "encipher only",
    "ipsec end system", "ipsec tunnel", "ipsec user", "key agreement", "key encipherment",
    "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime", "server auth", "signing",
    "timestamping",
];

fn signing_request(object: &FieldPath<'_>, _old: Option<&Value>) {
    let spec = object.at("spec");
    let request = spec.at("request");
    let asked = SigningRequest::read(request.text());
    if let Err(why) = asked.and_then(|asked| asked.check_signature()) {
        request.invalid(&why);
    }
    let usages = spec.at("usages");
    usages.need("");
    usages.each(|usage| check::one_of(usage, USAGES));
    let mut seen = HashSet::new();
    usages.items().for_each(|usage| usage.unique(&mut seen));
    let signer = spec.at("signerName");
    if signer.text() == "kubernetes.io/legacy-unknown" {
        signer.invalid("the legacy signerName is not allowed via this API version");
    } else {
        reference::check_signer(&signer);
    }
    let expiry = spec.at("expirationSeconds");
    let detail = "may not specify a duration less than 600 seconds (10 minutes)";
    expiry.if_set(|at| at.at_least(600, detail));
}

pub(crate) fn check_approval(object: &FieldPath<'_>, old: &Value) {
    check_part(object, old, WrittenPart::Approval);
}

/// Checks the conditions and the certificate of a request (upstream: `validateConditions` and
/// `validateCertificateSigningRequestUpdate`).
fn check_part(object: &FieldPath<'_>, old: &Value, part: WrittenPart) {
    let status = object.at("status");
    let conditions = status.at("conditions");
    check_conditions(&conditions, old);
    let of = |object: &Value, kind: &str| -> Vec<Value> {
        let all = elements(&object["status"]["conditions"]).iter();
        all.filter(|one| one["type"] == kind).cloned().collect()
    };
    for kind in ["Approved", "Denied", "Failed"] {
        if of(object.value(), kind).len() < of(old, kind).len() {
            let detail = format!("updates may not remove a condition of type \"{kind}\"");
            conditions.forbidden(&detail);
        }
    }
    for kind in ["Approved", "Denied"] {
        let (new, before) = (of(object.value(), kind), of(old, kind));
        if part == WrittenPart::Approval || new.len() < before.len() || new == before {
            continue;
        }
        let adds = new.len() > before.len();
        let what = if adds { "add" } else { "modify" };
        let detail = format!("updates may not {what} a condition of type \"{kind}\"");
        conditions.forbidden(&detail);
    }
    let certificate = status.at("certificate");
    let before = &old["status"]["certificate"];
    if certificate.value() != before {
        if part == WrittenPart::Approval {
            certificate.forbidden("updates may not set certificate content");
        } else if !before.is_null() && before != "" {
            certificate.forbidden("updates may not modify existing certificate content");
        }
        // Only a new content: an object keeps what it had.
        let content = STANDARD.decode(certificate.text()).unwrap_or_default();
        if let Some(why) = authorities::certificate_mistake(&content) {
            certificate.invalid_as("<certificate data>", &why);
        }
    }
}

fn check_conditions(conditions: &FieldPath<'_>, old: &Value) {
    let before = elements(&old["status"]["conditions"]);
    let had = |kind: &str| before.iter().any(|one| one["type"] == kind);
    let both = had("Approved") && had("Denied");
    let mut seen = HashSet::new();
    for condition in conditions.items() {
        let (kind, status) = (condition.at("type"), condition.at("status"));
        kind.need("");
        let allowed: &[&str] = match kind.text() {
            "Approved" | "Denied" | "Failed" => &["True"],
            _ => &["False", "True", "Unknown"],
        };
        check::required_one_of(&status, allowed);
        let other = match kind.text() {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "",
        };
        if !both && !other.is_empty() && seen.contains(other) {
            kind.invalid("Approved and Denied conditions are mutually exclusive");
        }
        kind.unique(&mut seen);
    }
}

fn api_service(root: &FieldPath<'_>, _old: Option<&Value>) {
    let spec = root.at("spec");
    let (group, version) = (spec.at("group"), spec.at("version"));
    let wanted = format!("{}.{}", version.text(), group.text());
    let name = root.down("metadata.name");
    if name.text() != wanted {
        let detail = format!("must be `spec.version+\".\"+spec.group`: \"{wanted}\"");
        name.invalid_text(&detail);
    }
    if group.is_empty() {
        if version.text() != "v1" {
            group.required("only v1 may have an empty group and it better be legacy kube");
        }
    } else {
        let wrong = names::check_name(NameRule::Subdomain, group.text());
        group.invalid_joined(group.value(), &wrong);
    }
    let wrong = names::check_name(NameRule::Label1035, version.text());
    version.invalid_joined(version.text(), &wrong);
    for (field, most) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1_000)] {
        let at = spec.at(field);
        if at.int() <= 0 || at.int() > most {
            at.invalid_as(at.int(), &format!("must be positive and less than {most}"));
        }
    }
    let (service, bundle) = (spec.at("service"), spec.at("caBundle"));
    let insecure = spec.at("insecureSkipTLSVerify");
    if !service.is_set() {
        if !bundle.is_empty() {
            let size = STANDARD.decode(bundle.text()).unwrap_or_default().len();
            let detail = "local APIServices may not have a caBundle";
            bundle.invalid_as(format!("{size} bytes"), detail);
        }
        if insecure.flag() {
            insecure.invalid("local APIServices may not have insecureSkipTLSVerify");
        }
        return;
    }
    service.need_all(&["namespace", "name"]);
    check::service_port(&service.at("port"));
    if insecure.flag() && !bundle.is_empty() {
        insecure.invalid("may not be true if caBundle is present");
    }
}
