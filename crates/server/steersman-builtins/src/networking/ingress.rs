//! Machine: Ingresses and their classes (upstream: `pkg/apis/networking/validation`).

use serde_json::{Value, json};
use steersman_apimachinery::names::{self, NameRule};

use crate::Strategy;
use crate::fields::fill::{complete, complete_given, part};
use crate::fields::{FieldPath, address, check, reference};

pub(crate) const INGRESS: Strategy = Strategy {
    defaults: |object| complete(object, json!({"spec": {}, "status": {"loadBalancer": {}}})),
    validate,
    validate_status: |object, _| {
        let list = object.down("status.loadBalancer.ingress");
        for ingress in list.items() {
            ingress.at("ip").if_filled(address::check);
            check_host_name(&ingress.at("hostname"));
        }
    },
    warn: |new, old| {
        let notes = new.down("metadata.annotations");
        let named = new.down("spec.ingressClassName").is_set();
        if old.is_none() && notes.value().get(CLASS_NOTE).is_some() && !named {
            new.warn_as(&format!(
                "annotation {CLASS_NOTE:?} is deprecated, please use 'spec.ingressClassName' instead"
            ));
        }
    },
    ..Strategy::PLAIN
};

pub(crate) const INGRESS_CLASS: Strategy = Strategy {
    defaults: |object| {
        if let Some(spec) = part(object, "spec") {
            complete_given(spec, "parameters", json!({"scope": "Cluster"}));
        }
    },
    validate: class,
    ..Strategy::PLAIN
};

const CLASS_NOTE: &str = "kubernetes.io/ingress.class";
const NOT_IP: &str = "must be a DNS name, not an IP address";
const WILDCARD: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

pub(crate) fn check_host_name(at: &FieldPath<'_>) {
    at.if_filled(check::subdomain);
    if address::parse(at.text()).is_some() {
        at.invalid(NOT_IP);
    }
}

/// Checks a host name. The first label may be a wildcard.
fn host(at: &FieldPath<'_>) {
    let text = at.text();
    if !text.contains('*') {
        check::subdomain(at);
        return;
    }
    if text.len() > 253 {
        at.invalid("must be no more than 253 characters");
    }
    let rest = text.strip_prefix("*.");
    if rest.is_none_or(|rest| !names::check_name(NameRule::Subdomain, rest).is_empty()) {
        at.invalid(WILDCARD);
    }
}

fn validate(root: &FieldPath<'_>, old: Option<&Value>) {
    let spec = root.at("spec");
    let (rules, backend) = (spec.at("rules"), spec.at("defaultBackend"));
    if rules.is_empty() && !backend.is_set() {
        let detail = "either `defaultBackend` or `rules` must be specified";
        spec.invalid_as(Value::Null, detail);
    }
    backend.if_set(check_backend);
    for rule in rules.items() {
        let [at, http] = rule.parts(["host", "http"]);
        if address::parse(at.text()).is_some() {
            at.invalid(NOT_IP);
        }
        at.if_filled(host);
        http.if_set(|http| {
            http.at("paths").need("");
            http.at("paths").each(check_path);
        });
    }
    for tls in spec.at("tls").items() {
        tls.at("hosts").each(host);
        tls.at("secretName").if_filled(check::subdomain);
    }
    let class = spec.at("ingressClassName");
    class.if_set(check::subdomain);
    let note = root.down("metadata.annotations").key(CLASS_NOTE);
    if old.is_none() && note.is_set() && class.is_set() && note.text() != class.text() {
        let annotations = root.named("annotations", None);
        let at = annotations.named(CLASS_NOTE, Some(note.value()));
        at.invalid("must match `ingressClassName` when both are specified");
    }
}

fn check_path(path: &FieldPath<'_>) {
    let (kind, at) = (path.at("pathType"), path.at("path"));
    if !kind.need_set("pathType must be specified") {
        return;
    }
    let text = at.text();
    let absolute = text.starts_with('/');
    match kind.text() {
        "Exact" | "Prefix" => {
            if !absolute {
                at.invalid_text("must be an absolute path");
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"] {
                if text.contains(part) {
                    at.invalid(&format!("must not contain '{part}'"));
                }
            }
            for end in ["/..", "/."] {
                if text.ends_with(end) {
                    at.invalid(&format!("cannot end with '{end}'"));
                }
            }
        }
        "ImplementationSpecific" => {
            if !text.is_empty() && !absolute {
                at.invalid("must be an absolute path");
            }
        }
        _ => kind.not_supported(&["Exact", "ImplementationSpecific", "Prefix"]),
    }
    check_backend(&path.at("backend"));
}

fn check_backend(backend: &FieldPath<'_>) {
    let (resource, service) = (backend.at("resource"), backend.at("service"));
    match (resource.is_set(), service.is_set()) {
        (true, true) => backend.invalid_as("", "cannot set both resource and service backends"),
        (true, false) => reference::check_local(&resource),
        (false, true) => {
            check::required(&service.at("name"), check::label);
            let (name, number) = (service.down("port.name"), service.down("port.number"));
            match (!name.is_empty(), number.int() != 0) {
                (true, true) => {
                    backend.invalid_as("", "cannot set both port name & port number");
                }
                (true, false) => check::port_name(&name),
                (false, true) => check::port(&number),
                (false, false) => backend.required("port name or number is required"),
            }
        }
        (false, false) => backend.invalid_as("", "resource or service backend is required"),
    }
}

fn class(object: &FieldPath<'_>, old: Option<&Value>) {
    let spec = object.at("spec");
    let controller = spec.at("controller");
    check::immutable(&controller, old.map(|old| &old["spec"]["controller"]));
    check::required(&controller, |controller| {
        controller.at_most_bytes(250);
        reference::check_domain_path(controller);
    });
    spec.at("parameters").if_set(check_parameters);
}

fn check_parameters(parameters: &FieldPath<'_>) {
    reference::check_local(parameters);
    let (scope, namespace) = (parameters.at("scope"), parameters.at("namespace"));
    match scope.text() {
        "Namespace" if !namespace.is_set() => {
            namespace.required("`parameters.scope` is set to 'Namespace'");
        }
        "Namespace" => check::label(&namespace),
        "Cluster" if namespace.is_set() => {
            namespace.forbidden("`parameters.scope` is set to 'Cluster'");
        }
        "Cluster" => {}
        _ => scope.not_supported(&["Cluster", "Namespace"]),
    }
}
