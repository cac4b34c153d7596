//! Machine: DeviceClasses, ResourceClaims, their templates and ResourceSlices (upstream:
//! `pkg/apis/resource/validation`).

mod parts;
mod go_types;
mod status;
mod slice;

use serde_json::{Value, json};

use crate::Strategy;
use crate::fields::check;
use crate::fields::field_path::{Errors, FieldPath};
use crate::fields::fill::{given, list, part, set};
use parts::{MOST_REQUESTS, RequestNames};

pub(super) const DEVICE_CLASS: Strategy = Strategy {
    defaults: |object| {
        part(object, "spec");
    },
    validate: |object, _| {
        let mut errors = Errors::default();
        let spec = FieldPath::root(object).at("spec");
        selectors(&spec, &mut errors);
        let (config, most) = (spec.at("config"), parts::MOST_CONFIGS);
        parts::each(&config, most, parts::check_configuration, &mut errors);
        errors
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
        let mut errors = Errors::default();
        let spec = FieldPath::root(object).at("spec");
        match old {
            None => check_claim(&spec, &mut errors),
            Some(old) => {
                check::immutable_struct(&spec, &old["spec"], &go_types::CLAIM_SPEC, &mut errors);
            }
        }
        errors
    },
    validate_status: status::check,
    finish_status: Some(|new, old, _| {
        let allocated = |claim: &Value| -> Vec<[Value; 4]> {
            let results = claim["status"]["allocation"]["devices"]["results"].as_array();
            results.into_iter().flatten().map(device).collect()
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
        let mut errors = Errors::default();
        let spec = FieldPath::root(object).at("spec");
        match old {
            None => check_claim(&spec.at("spec"), &mut errors),
            Some(old) if spec.value() != &old["spec"] => {
                let printed = go_types::template_spec(spec.value());
                errors.invalid_written(&spec, &printed, check::IMMUTABLE);
            }
            Some(_) => {}
        }
        errors
    },
    ..Strategy::PLAIN
};

pub(super) const RESOURCE_SLICE: Strategy = Strategy {
    defaults: |object| {
        part(object, "spec");
    },
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

fn selectors(at: &FieldPath<'_>, errors: &mut Errors) {
    let check = |selector: &FieldPath<'_>, errors: &mut Errors| {
        let cel = selector.at("cel");
        let expression = cel.at("expression");
        if !cel.is_set() {
            errors.required(&cel, "");
        } else if expression.is_empty() {
            errors.required(&expression, "");
        } else if expression.len() > MOST_EXPRESSION {
            errors.too_long(&expression, MOST_EXPRESSION);
        }
    };
    parts::each(&at.at("selectors"), MOST_SELECTORS, check, errors);
}

/// Checks the requests, constraints and configurations of a claim (upstream:
/// `validateDeviceClaim`).
fn check_claim(spec: &FieldPath<'_>, errors: &mut Errors) {
    let devices = spec.at("devices");
    let names = RequestNames::of(&devices);
    let name = |one: &FieldPath<'_>| Value::from(one.at("name").text()).to_string();
    let requests = devices.at("requests");
    let check = |request: &FieldPath<'_>, errors: &mut Errors| {
        check::label(&request.at("name"), errors);
        let (exactly, first) = (request.at("exactly"), request.at("firstAvailable"));
        match (exactly.is_set(), !first.is_empty()) {
            (true, true) => {
                let detail = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
                errors.invalid_as(request, &Value::Null, detail);
            }
            (false, false) => {
                let detail = "exactly one of `exactly` or `firstAvailable` is required";
                errors.required(request, detail);
            }
            (true, false) => check_request(&exactly, errors),
            (false, true) => {
                let check = |one: &FieldPath<'_>, errors: &mut Errors| {
                    check::label(&one.at("name"), errors);
                    check_request(one, errors);
                };
                parts::each_once(&first, MOST_SUBREQUESTS, check, name, errors);
            }
        }
    };
    parts::each_once(&requests, MOST_REQUESTS, check, name, errors);
    let check = |constraint: &FieldPath<'_>, errors: &mut Errors| {
        names.check_all(&constraint.at("requests"), errors);
        let attributes = ["matchAttribute", "distinctAttribute"].map(|field| constraint.at(field));
        if let Some(attribute) = attributes.iter().find(|one| one.is_set()) {
            check_attribute_name(attribute, errors);
        } else {
            let detail = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
            errors.required(constraint, detail);
        }
    };
    parts::each(&devices.at("constraints"), MOST_CONSTRAINTS, check, errors);
    let check = |config: &FieldPath<'_>, errors: &mut Errors| {
        names.check_all(&config.at("requests"), errors);
        parts::check_configuration(config, errors);
    };
    parts::each(&devices.at("config"), parts::MOST_CONFIGS, check, errors);
}

/// Checks the name of an attribute with its domain (upstream: `validateFullyQualifiedName`).
fn check_attribute_name(at: &FieldPath<'_>, errors: &mut Errors) {
    const FULL: &str = "a fully qualified name must be a domain and a name separated by a slash";
    let parts: Vec<&str> = at.text().split('/').collect();
    match parts.as_slice() {
        [name] => check_identifier(at, name, errors),
        [domain, name] => {
            if domain.is_empty() {
                errors.invalid_as(at, &"".into(), "the domain must not be empty");
            } else {
                let domain = Value::from(*domain);
                check::csi_driver(&FieldPath::new(at.path(), &domain), errors);
            }
            if name.is_empty() {
                errors.invalid_as(at, &"".into(), "the name must not be empty");
            } else {
                check_identifier(at, name, errors);
            }
        }
        // As upstream, a name with more than one slash has no further checks.
        _ => {}
    }
    if parts.len() == 1 {
        errors.invalid(at, FULL);
    }
}

/// Checks an identifier of the language C (upstream: `IsCIdentifier`).
fn check_identifier(at: &FieldPath<'_>, name: &str, errors: &mut Errors) {
    const IDENTIFIER: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";
    if name.len() > MOST_IDENTIFIER {
        errors.too_long(at, MOST_IDENTIFIER);
    }
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let starts_well = !name.starts_with(|first: char| first.is_ascii_digit());
    if name.is_empty() || !starts_well || !name.bytes().all(is_legal) {
        errors.invalid_as(at, &name.into(), IDENTIFIER);
    }
}

fn check_request(at: &FieldPath<'_>, errors: &mut Errors) {
    let class = at.at("deviceClassName");
    check::required(&class, check::subdomain, errors);
    selectors(at, errors);
    let (mode, count) = (at.at("allocationMode"), at.at("count"));
    match mode.text() {
        "All" => {
            if count.int() != 0 {
                let detail = "must not be specified when allocationMode is 'All'";
                errors.invalid(&count, detail);
            }
        }
        "ExactCount" => {
            if count.int() <= 0 {
                errors.invalid_as(&count, &count.int().into(), "must be greater than zero");
            }
        }
        _ => errors.not_supported(&mode, &["All", "ExactCount"]),
    }
    parts::check_tolerations(&at.at("tolerations"), errors);
}

#[cfg(test)]
mod tests;
