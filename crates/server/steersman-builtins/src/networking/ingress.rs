//! Machine: Ingresses and their classes (upstream: `pkg/apis/networking/validation`).

use serde_json::{Value, json};
use steersman_apimachinery::names;
use steersman_apimachinery::names::NameRule;

use crate::Strategy;
use crate::fields::address;
use crate::fields::check;
use crate::fields::field_path::{Errors, FieldPath};
use crate::fields::fill::{given, part, set};
use crate::fields::reference;

pub(crate) const INGRESS: Strategy = Strategy {
    defaults: |object| {
        part(object, "spec");
        if let Some(status) = part(object, "status") {
            set(status, "loadBalancer", json!({}));
        }
    },
    validate,
    validate_status: |object, _| {
        let mut errors = Errors::default();
        let list = FieldPath::root(object).down("status.loadBalancer.ingress");
        for ingress in list.items() {
            if !ingress.at("ip").is_empty() {
                address::check(&ingress.at("ip"), &mut errors);
            }
            check_host_name(&ingress.at("hostname"), &mut errors);
        }
        errors
    },
    warnings: |new, old| {
        let warning = format!(
            "annotation {} is deprecated, please use 'spec.ingressClassName' instead",
            Value::from(CLASS_NOTE)
        );
        let noted = new["metadata"]["annotations"].get(CLASS_NOTE).is_some();
        let named = !new["spec"]["ingressClassName"].is_null();
        let warned = old.is_none() && noted && !named;
        warned.then_some(warning).into_iter().collect()
    },
    ..Strategy::PLAIN
};

pub(crate) const INGRESS_CLASS: Strategy = Strategy {
    defaults: |object| {
        let spec = part(object, "spec");
        if let Some(parameters) = spec.and_then(|spec| given(spec, "parameters")) {
            set(parameters, "scope", json!("Cluster"));
        }
    },
    validate: class,
    ..Strategy::PLAIN
};

const CLASS_NOTE: &str = "kubernetes.io/ingress.class";
const NOT_IP: &str = "must be a DNS name, not an IP address";
const WILDCARD: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// Checks the host name of a load balancer.
pub(crate) fn check_host_name(at: &FieldPath<'_>, errors: &mut Errors) {
    if at.is_empty() {
        return;
    }
    check::subdomain(at, errors);
    if address::parse(at.text()).is_some() {
        errors.invalid(at, NOT_IP);
    }
}

/// Checks a host name. The first label may be a wildcard.
fn host(at: &FieldPath<'_>, errors: &mut Errors) {
    let text = at.text();
    if !text.contains('*') {
        check::subdomain(at, errors);
        return;
    }
    if text.len() > 253 {
        errors.invalid(at, "must be no more than 253 characters");
    }
    let rest = text.strip_prefix("*.");
    if rest.is_none_or(|rest| !names::check_name(NameRule::Subdomain, rest).is_empty()) {
        errors.invalid(at, WILDCARD);
    }
}

fn validate(object: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::default();
    let root = FieldPath::root(object);
    let spec = root.at("spec");
    let (rules, backend) = (spec.at("rules"), spec.at("defaultBackend"));
    if rules.is_empty() && !backend.is_set() {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.invalid_as(&spec, &Value::Null, detail);
    }
    if backend.is_set() {
        check_backend(&backend, &mut errors);
    }
    for rule in rules.items() {
        let at = rule.at("host");
        if !at.is_empty() {
            if address::parse(at.text()).is_some() {
                errors.invalid(&at, NOT_IP);
            }
            host(&at, &mut errors);
        }
        let http = rule.at("http");
        if http.is_set() {
            let paths = http.at("paths");
            if paths.is_empty() {
                errors.required(&paths, "");
            }
            for path in paths.items() {
                check_path(&path, &mut errors);
            }
        }
    }
    for tls in spec.at("tls").items() {
        for at in tls.at("hosts").items() {
            host(&at, &mut errors);
        }
        if !tls.at("secretName").is_empty() {
            check::subdomain(&tls.at("secretName"), &mut errors);
        }
    }
    let class = spec.at("ingressClassName");
    if class.is_set() {
        check::subdomain(&class, &mut errors);
    }
    let note = root.down("metadata.annotations").key(CLASS_NOTE);
    if old.is_none() && note.is_set() && class.is_set() && note.text() != class.text() {
        let at = FieldPath::new(format!("annotations.{CLASS_NOTE}"), note.value());
        let detail = "must match `ingressClassName` when both are specified";
        errors.invalid(&at, detail);
    }
    errors
}

fn check_path(path: &FieldPath<'_>, errors: &mut Errors) {
    let (kind, at) = (path.at("pathType"), path.at("path"));
    if !kind.is_set() {
        errors.required(&kind, "pathType must be specified");
        return;
    }
    let text = at.text();
    let absolute = text.starts_with('/');
    match kind.text() {
        "Exact" | "Prefix" => {
            if !absolute {
                errors.invalid_text(&at, "must be an absolute path");
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"] {
                if text.contains(part) {
                    errors.invalid(&at, &format!("must not contain '{part}'"));
                }
            }
            for end in ["/..", "/."] {
                if text.ends_with(end) {
                    errors.invalid(&at, &format!("cannot end with '{end}'"));
                }
            }
        }
        "ImplementationSpecific" => {
            if !text.is_empty() && !absolute {
                errors.invalid(&at, "must be an absolute path");
            }
        }
        _ => errors.not_supported(&kind, &["Exact", "ImplementationSpecific", "Prefix"]),
    }
    check_backend(&path.at("backend"), errors);
}

fn check_backend(backend: &FieldPath<'_>, errors: &mut Errors) {
    let (resource, service) = (backend.at("resource"), backend.at("service"));
    let empty = json!("");
    match (resource.is_set(), service.is_set()) {
        (true, true) => {
            let detail = "cannot set both resource and service backends";
            errors.invalid_as(backend, &empty, detail);
        }
        (true, false) => reference::check_local(&resource, errors),
        (false, true) => {
            let name = service.at("name");
            check::required(&name, check::label, errors);
            let (name, number) = (service.down("port.name"), service.down("port.number"));
            match (!name.is_empty(), number.int() != 0) {
                (true, true) => {
                    let detail = "cannot set both port name & port number";
                    errors.invalid_as(backend, &empty, detail);
                }
                (true, false) => check::add_messages(&name, check::port_name(name.text()), errors),
                (false, true) => check::port(&number, errors),
                (false, false) => errors.required(backend, "port name or number is required"),
            }
        }
        (false, false) => {
            let detail = "resource or service backend is required";
            errors.invalid_as(backend, &empty, detail);
        }
    }
}

fn class(object: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::default();
    let spec = FieldPath::root(object).at("spec");
    let controller = spec.at("controller");
    if let Some(old) = old {
        check::immutable(&controller, &old["spec"]["controller"], &mut errors);
    }
    if controller.is_empty() {
        errors.required(&controller, "");
    } else {
        if controller.len() > 250 {
            errors.too_long(&controller, 250);
        }
        reference::check_domain_path(&controller, &mut errors);
    }
    let parameters = spec.at("parameters");
    if !parameters.is_set() {
        return errors;
    }
    reference::check_local(&parameters, &mut errors);
    let (scope, namespace) = (parameters.at("scope"), parameters.at("namespace"));
    match scope.text() {
        "Namespace" if !namespace.is_set() => {
            let detail = "`parameters.scope` is set to 'Namespace'";
            errors.required(&namespace, detail);
        }
        "Namespace" => check::label(&namespace, &mut errors),
        "Cluster" if namespace.is_set() => {
            let detail = "`parameters.scope` is set to 'Cluster'";
            errors.forbidden(&namespace, detail);
        }
        "Cluster" => {}
        _ => errors.not_supported(&scope, &["Cluster", "Namespace"]),
    }
    errors
}
