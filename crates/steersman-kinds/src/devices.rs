//! Machine: devices, and claims to them (upstream: `pkg/apis/resource/validation`).

use serde_json::{Value, json};

use super::Kind;
use super::check;
use super::fill::{given, list, part, set};
use super::place::{Errors, Place};

pub(super) const DEVICE_CLASS: Kind = Kind {
    defaults: |object| {
        part(object, "spec");
    },
    validate: |object, _| {
        let mut errors = Errors::default();
        let spec = Place::root(object).at("spec");
        selectors(&spec, &mut errors);
        errors
    },
    ..Kind::PLAIN
};

pub(super) const RESOURCE_CLAIM: Kind = Kind {
    defaults: |object| {
        if let Some(spec) = part(object, "spec") {
            claim_defaults(spec);
        }
    },
    validate: |object, old| {
        let mut errors = Errors::default();
        let spec = Place::root(object).at("spec");
        match old {
            None => check_claim(&spec, &mut errors),
            Some(old) => check::immutable(&spec, &old["spec"], &mut errors),
        }
        errors
    },
    finish_status: |new, old, _| {
        let allocated = |claim: &Value| -> Vec<[Value; 3]> {
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
    },
    ..Kind::PLAIN
};

/// What names a device: its driver, its pool and its own name.
fn device(place: &Value) -> [Value; 3] {
    ["driver", "pool", "device"].map(|field| place[field].clone())
}

pub(super) const CLAIM_TEMPLATE: Kind = Kind {
    defaults: |object| {
        if let Some(spec) = part(object, "spec").and_then(|spec| part(spec, "spec")) {
            claim_defaults(spec);
        }
    },
    validate: |object, old| {
        let mut errors = Errors::default();
        let spec = Place::root(object).at("spec");
        match old {
            None => check_claim(&spec.at("spec"), &mut errors),
            Some(old) => check::immutable(&spec, &old["spec"], &mut errors),
        }
        errors
    },
    ..Kind::PLAIN
};

pub(super) const RESOURCE_SLICE: Kind = Kind {
    defaults: |object| {
        part(object, "spec");
    },
    validate: slice,
    ..Kind::PLAIN
};

const MOST_REQUESTS: usize = 32;
const MOST_SELECTORS: usize = 32;

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

fn too_many(at: &Place<'_>, most: usize, errors: &mut Errors) {
    if at.len() > most {
        errors.too_many(at, u64::try_from(most).unwrap_or(u64::MAX));
    }
}

fn selectors(at: &Place<'_>, errors: &mut Errors) {
    let all = at.at("selectors");
    too_many(&all, MOST_SELECTORS, errors);
    for selector in all.items() {
        let cel = selector.at("cel");
        if !cel.is_set() {
            errors.required(&cel, "");
        } else if cel.at("expression").is_empty() {
            errors.required(&cel.at("expression"), "");
        }
    }
}

fn check_claim(spec: &Place<'_>, errors: &mut Errors) {
    let requests = spec.down("devices.requests");
    too_many(&requests, MOST_REQUESTS, errors);
    let mut seen = Vec::new();
    for request in requests.items() {
        let name = request.at("name");
        if name.is_empty() {
            errors.required(&name, "");
        } else {
            check::label(&name, errors);
            if seen.contains(&name.text()) {
                errors.duplicate(&name);
            }
            seen.push(name.text());
        }
        let (exactly, first) = (request.at("exactly"), request.at("firstAvailable"));
        match (exactly.is_set(), !first.is_empty()) {
            (true, true) => {
                let detail = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
                errors.invalid_as(&request, &Value::Null, detail);
            }
            (false, false) => {
                let detail = "exactly one of `exactly` or `firstAvailable` is required";
                errors.required(&request, detail);
            }
            (true, false) => check_request(&exactly, errors),
            (false, true) => {
                for one in first.items() {
                    check_request(&one, errors);
                }
            }
        }
    }
}

fn check_request(at: &Place<'_>, errors: &mut Errors) {
    let class = at.at("deviceClassName");
    if class.is_empty() {
        errors.required(&class, "");
    } else {
        check::subdomain(&class, errors);
    }
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
                errors.invalid(&count, "must be greater than zero");
            }
        }
        _ => errors.not_supported(&mode, &["All", "ExactCount"]),
    }
}

fn slice(object: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::default();
    let spec = Place::root(object).at("spec");
    let (driver, node) = (spec.at("driver"), spec.at("nodeName"));
    if driver.is_empty() {
        errors.required(&driver, "");
    } else {
        check::subdomain(&driver, &mut errors);
    }
    let pool = spec.at("pool");
    if pool.at("name").is_empty() {
        errors.required(&pool.at("name"), "");
    }
    let count = pool.at("resourceSliceCount");
    if count.int() <= 0 {
        errors.invalid_as(&count, &json!(count.int()), "must be greater than zero");
    }
    check::not_negative(&pool.at("generation"), &mut errors);
    let ways = [
        !node.is_empty(),
        spec.at("nodeSelector").is_set(),
        spec.at("allNodes").flag(),
        spec.at("perDeviceNodeSelection").flag(),
    ];
    let given = ways.iter().filter(|given| **given).count();
    if given != 1 {
        let detail = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
        if given == 0 {
            errors.required(&spec, detail);
        } else {
            errors.invalid_as(
                &spec,
                &Value::Null,
                &format!("{detail}, but multiple fields are set"),
            );
        }
    }
    let mut seen = Vec::new();
    for device in spec.at("devices").items() {
        let name = device.at("name");
        if name.is_empty() {
            errors.required(&name, "");
            continue;
        }
        check::label(&name, &mut errors);
        if seen.contains(&name.text()) {
            errors.duplicate(&name);
        }
        seen.push(name.text());
    }
    if let Some(old) = old {
        check::immutable(&driver, &old["spec"]["driver"], &mut errors);
        check::immutable(&node, &old["spec"]["nodeName"], &mut errors);
    }
    errors
}
