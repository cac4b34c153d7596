//! Machine: DeviceClasses, ResourceClaims, their templates and ResourceSlices (upstream:
//! `pkg/apis/resource/validation`).

mod parts;
mod go_types;
mod status;
mod slice;

use serde_json::{Value, json};

use crate::Strategy;
use crate::fields::fill::{elements, given, list, part, set, with_spec};
use crate::fields::{FieldPath, check};
use parts::{MOST_REQUESTS, RequestNames};

pub(super) const DEVICE_CLASS: Strategy = Strategy {
    defaults: with_spec,
    validate: |object, _| {
        let spec = object.at("spec");
        selectors(&spec);
        let (config, most) = (spec.at("config"), parts::MOST_CONFIGS);
        parts::each(&config, most, parts::check_configuration);
    },
    ..Strategy::PLAIN
};

pub(super) const RESOURCE_CLAIM: Strategy = Strategy {
    defaults: |object| {
        if let Some(spec) = part(object, "spec") {
            claim_defaults(spec);
        }
    },
    validate: |object, old| {
        let spec = object.at("spec");
        match old {
            None => check_claim(&spec),
            Some(old) => check::immutable_struct(&spec, &old["spec"], &go_types::CLAIM_SPEC),
        }
    },
    validate_status: status::check,
    finish_status: Some(|new, old, _| {
        let allocated = |claim: &Value| -> Vec<[Value; 4]> {
            let results = &claim["status"]["allocation"]["devices"]["results"];
            elements(results).iter().map(device).collect()
        };
        let (before, after) = (allocated(old), allocated(new));
        let Some(status) = given(new, "status") else {
            return;
        };
        // The status of a device is removed together with its allocation.
        if let Some(devices) = status.get_mut("devices").and_then(Value::as_array_mut) {
            devices.retain(|one| {
                let device = device(one);
                !before.contains(&device) || after.contains(&device)
            });
            let none = devices.is_empty();
            if let Some(members) = status.as_object_mut().filter(|_| none) {
                members.remove("devices");
            }
        }
    }),
    ..Strategy::PLAIN
};

/// Returns the identity of a device: driver, pool, name and share.
fn device(allocated: &Value) -> [Value; 4] {
    ["driver", "pool", "device", "shareID"].map(|field| allocated[field].clone())
}

pub(super) const CLAIM_TEMPLATE: Strategy = Strategy {
    defaults: |object| {
        if let Some(spec) = part(object, "spec").and_then(|spec| part(spec, "spec")) {
            claim_defaults(spec);
        }
    },
    validate: |object, old| {
        let spec = object.at("spec");
        match old {
            None => check_claim(&spec.at("spec")),
            Some(old) if spec.value() != &old["spec"] => {
                let printed = go_types::template_spec(spec.value());
                spec.invalid_written(&printed, check::IMMUTABLE);
            }
            Some(_) => {}
        }
    },
    ..Strategy::PLAIN
};

pub(super) const RESOURCE_SLICE: Strategy = Strategy {
    defaults: with_spec,
    validate: slice::check,
    ..Strategy::PLAIN
};

const MOST_SELECTORS: usize = 32;
const MOST_CONSTRAINTS: usize = 32;
const MOST_SUBREQUESTS: usize = 8;

/// Largest number of bytes in an expression of a selector, and in the name of an attribute.
const MOST_EXPRESSION: usize = 10 * 1024;
const MOST_IDENTIFIER: usize = 32;

fn claim_defaults(spec: &mut Value) {
    let Some(devices) = part(spec, "devices") else {
        return;
    };
    for request in list(devices, "requests") {
        if let Some(exactly) = given(request, "exactly") {
            count_defaults(exactly);
        }
        for one in list(request, "firstAvailable") {
            count_defaults(one);
        }
    }
}

fn count_defaults(request: &mut Value) {
    set(request, "allocationMode", json!("ExactCount"));
    if request["allocationMode"] == "ExactCount" {
        set(request, "count", json!(1));
    }
}

fn selectors(at: &FieldPath<'_>) {
    let check = |selector: &FieldPath<'_>| {
        let cel = selector.at("cel");
        if cel.need_set("") {
            check::required(&cel.at("expression"), |at| {
                at.at_most_bytes(MOST_EXPRESSION)
            });
        }
    };
    parts::each(&at.at("selectors"), MOST_SELECTORS, check);
}

/// Checks a claim's requests, constraints and configurations (upstream: `validateDeviceClaim`).
fn check_claim(spec: &FieldPath<'_>) {
    let devices = spec.at("devices");
    let names = RequestNames::of(&devices);
    let name = |one: &FieldPath<'_>| Value::from(one.at("name").text()).to_string();
    let requests = devices.at("requests");
    let check = |request: &FieldPath<'_>| {
        check::label(&request.at("name"));
        let (exactly, first) = (request.at("exactly"), request.at("firstAvailable"));
        match (exactly.is_set(), !first.is_empty()) {
            (true, true) => {
                request.invalid_as(&Value::Null, "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set");
            }
            (false, false) => {
                request.required("exactly one of `exactly` or `firstAvailable` is required");
            }
            (true, false) => check_request(&exactly),
            (false, true) => {
                let check = |one: &FieldPath<'_>| {
                    check::label(&one.at("name"));
                    check_request(one);
                };
                parts::each_once(&first, MOST_SUBREQUESTS, check, name);
            }
        }
    };
    parts::each_once(&requests, MOST_REQUESTS, check, name);
    let check = |constraint: &FieldPath<'_>| {
        names.check_all(&constraint.at("requests"));
        let attributes = ["matchAttribute", "distinctAttribute"].map(|field| constraint.at(field));
        if let Some(attribute) = attributes.iter().find(|one| one.is_set()) {
            check_attribute_name(attribute);
        } else {
            constraint.required("exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set");
        }
    };
    parts::each(&devices.at("constraints"), MOST_CONSTRAINTS, check);
    let check = |config: &FieldPath<'_>| {
        names.check_all(&config.at("requests"));
        parts::check_configuration(config);
    };
    parts::each(&devices.at("config"), parts::MOST_CONFIGS, check);
}

/// Checks the name of an attribute with its domain (upstream: `validateFullyQualifiedName`).
fn check_attribute_name(at: &FieldPath<'_>) {
    const FULL: &str = "a fully qualified name must be a domain and a name separated by a slash";
    let parts: Vec<&str> = at.text().split('/').collect();
    match parts.as_slice() {
        [name] => check_identifier(at, name),
        [domain, name] => {
            if domain.is_empty() {
                at.invalid_as("", "the domain must not be empty");
            } else {
                let domain = Value::from(*domain);
                check::csi_driver(&at.with(&domain));
            }
            if name.is_empty() {
                at.invalid_as("", "the name must not be empty");
            } else {
                check_identifier(at, name);
            }
        }
        // As upstream, a name with more than one slash has no further checks.
        _ => {}
    }
    if parts.len() == 1 {
        at.invalid(FULL);
    }
}

/// Checks an identifier of the language C (upstream: `IsCIdentifier`).
fn check_identifier(at: &FieldPath<'_>, name: &str) {
    const IDENTIFIER: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";
    if name.len() > MOST_IDENTIFIER {
        at.too_long(MOST_IDENTIFIER);
    }
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let starts_well = !name.starts_with(|first: char| first.is_ascii_digit());
    if name.is_empty() || !starts_well || !name.bytes().all(is_legal) {
        at.invalid_as(name, IDENTIFIER);
    }
}

fn check_request(at: &FieldPath<'_>) {
    check::required(&at.at("deviceClassName"), check::subdomain);
    selectors(at);
    let (mode, count) = (at.at("allocationMode"), at.at("count"));
    match mode.text() {
        "All" => {
            if count.int() != 0 {
                count.invalid("must not be specified when allocationMode is 'All'");
            }
        }
        "ExactCount" => count.at_least(1, "must be greater than zero"),
        _ => mode.not_supported(&["All", "ExactCount"]),
    }
    parts::check_tolerations(&at.at("tolerations"));
}

#[cfg(test)]
mod tests;
