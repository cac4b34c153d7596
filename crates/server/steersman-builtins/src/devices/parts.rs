//! Machine: the checks that claims of devices share with their allocations.

use std::collections::HashSet;

use serde_json::Value;

use crate::fields::{FieldPath, check};
use steersman_apimachinery::names;

/// Largest numbers of items in the lists of a claim.
pub(super) const MOST_REQUESTS: usize = 32;
pub(super) const MOST_CONFIGS: usize = 32;

/// Largest number of bytes in opaque parameters, and in the data of a device.
pub(super) const MOST_DATA: usize = 10 * 1024;

const MOST_POOL: usize = 253;
const MOST_BINDING: usize = 4;
pub(super) const EFFECTS: &[&str] = &["NoExecute", "NoSchedule", "None"];

const NO_REQUEST: &str = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";

/// The names of the requests of a claim, each with the names of its subrequests.
#[derive(Debug)]
pub(super) struct RequestNames<'a>(Vec<(&'a str, Vec<&'a str>)>);

impl<'a> RequestNames<'a> {
    /// Reads the names from the member `devices` of a claim's spec.
    pub(super) fn of(devices: &FieldPath<'a>) -> Self {
        let requests = devices.at("requests").items().map(|request| {
            let first = request.at("firstAvailable");
            let subrequests = first.items().map(|one| one.at("name").text());
            (request.at("name").text(), subrequests.collect())
        });
        Self(requests.collect())
    }

    fn has(&self, reference: &str) -> bool {
        let (name, subrequest) = match reference.split_once('/') {
            Some((name, subrequest)) => (name, Some(subrequest)),
            None => (reference, None),
        };
        // If two requests have the same name, the last one counts, as in a Go map.
        let mut known = self.0.iter().rev();
        let Some((_, subrequests)) = known.find(|(known, _)| *known == name) else {
            return false;
        };
        subrequest.is_none_or(|subrequest| subrequests.contains(&subrequest))
    }

    /// Checks a reference to a request, or to a request and one of its subrequests.
    pub(super) fn check(&self, at: &FieldPath<'_>) {
        let text = at.text();
        if text.split('/').count() > 2 {
            return at.invalid(NO_REQUEST);
        }
        for segment in text.split('/') {
            at.invalid_each(segment, names::check_label(segment));
        }
        if !self.has(text) {
            at.invalid_text(NO_REQUEST);
        }
    }

    pub(super) fn check_all(&self, at: &FieldPath<'_>) {
        let check = |one: &FieldPath<'_>| self.check(one);
        each_once(at, MOST_REQUESTS, check, |one| one.value().to_string());
    }
}

/// Checks the items of a list that is not too long (upstream: `validateSlice`).
pub(super) fn each(all: &FieldPath<'_>, most: usize, check: impl FnMut(&FieldPath<'_>)) {
    if !all.has_too_many(most) {
        all.each(check);
    }
}

/// Checks the items of a list, and that their printed keys differ (upstream: `validateSet`).
pub(super) fn each_once(
    all: &FieldPath<'_>,
    most: usize,
    check: impl FnMut(&FieldPath<'_>),
    key: impl Fn(&FieldPath<'_>) -> String,
) {
    each(all, most, check);
    if all.len() > most {
        return;
    }
    let mut seen = HashSet::new();
    for one in all.items() {
        let key = key(&one);
        if !seen.insert(key.clone()) {
            one.duplicate_written(&key);
        }
    }
}

/// Checks the name of a pool: subdomains separated by slashes.
pub(super) fn check_pool(at: &FieldPath<'_>) {
    at.need("");
    at.at_most_bytes(MOST_POOL);
    for part in at.text().split('/').filter(|_| !at.is_empty()) {
        check::subdomain(&at.with(&Value::from(part)));
    }
}

/// Checks an identifier of a shared device (upstream: `validateUID`).
pub(super) fn check_uid(at: &FieldPath<'_>) {
    const FORM: &str = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters";
    let text = at.text();
    if let Err(why) = parse_uuid(text) {
        at.invalid_text(&format!("error validating uid: {why}"));
    } else if text.len() != 36 || text != text.to_lowercase() {
        at.invalid_text(FORM);
    }
}

/// Parses the forms of a UUID that Go's package `uuid` parses.
fn parse_uuid(text: &str) -> Result<(), String> {
    let format = || "invalid UUID format".to_owned();
    let bytes = text.as_bytes();
    let bare = match bytes.len() {
        36 => bytes,
        45 => {
            let (prefix, rest) = bytes.split_at(9);
            if !prefix.eq_ignore_ascii_case(b"urn:uuid:") {
                let prefix = steersman_apimachinery::go::quote(&String::from_utf8_lossy(prefix));
                return Err(format!("invalid urn prefix: {prefix}"));
            }
            rest
        }
        38 => match bytes {
            [b'{', inner @ .., b'}'] => inner,
            _ => return Err("invalid bracketed UUID format".to_owned()),
        },
        32 => {
            let is_hex = bytes.iter().all(u8::is_ascii_hexdigit);
            return is_hex.then_some(()).ok_or_else(format);
        }
        other => return Err(format!("invalid UUID length: {other}")),
    };
    let is_fit = |(index, byte): (usize, &u8)| {
        if matches!(index, 8 | 13 | 18 | 23) {
            *byte == b'-'
        } else {
            byte.is_ascii_hexdigit()
        }
    };
    let fits = bare.iter().enumerate().all(is_fit);
    fits.then_some(()).ok_or_else(format)
}

/// Checks the configuration of a driver (upstream: `validateDeviceConfiguration`).
pub(super) fn check_configuration(at: &FieldPath<'_>) {
    let opaque = at.at("opaque");
    if !opaque.need_set("") {
        return;
    }
    check::csi_driver(&opaque.at("driver"));
    check_data(&opaque.at("parameters"));
}

/// Checks JSON of any content, which has to be an object (upstream: `validateRawExtension`).
pub(super) fn check_data(at: &FieldPath<'_>) {
    if !at.is_set() {
        at.required("");
    } else if at.value().to_string().len() > MOST_DATA {
        at.too_long(MOST_DATA);
    } else if !at.value().is_object() {
        at.invalid_as("<value omitted>", "must be a valid JSON object");
    }
}

/// Checks the tolerations of a request or of an allocated device (upstream: `validateDeviceToleration`).
pub(super) fn check_tolerations(all: &FieldPath<'_>) {
    for one in all.items() {
        let (key, operator, value) = (one.at("key"), one.at("operator"), one.at("value"));
        key.if_filled(check::qualified);
        match operator.text() {
            "Exists" => {
                value.if_filled(|value| value.invalid("must be empty for operator `Exists`"))
            }
            "Equal" => check::label_value(&value),
            _ => check::required_one_of(&operator, &["Equal", "Exists"]),
        }
        one.at("effect")
            .if_filled(|effect| check::one_of(effect, EFFECTS));
    }
}

/// Checks the binding conditions (upstream: `validateDeviceBindingParameters`).
pub(super) fn check_binding(result: &FieldPath<'_>) {
    let [ready, failed] = result.parts(["bindingConditions", "bindingFailureConditions"]);
    for all in [&ready, &failed] {
        each(all, MOST_BINDING, check::qualified);
    }
    let expected: Vec<&str> = ready.items().map(|one| one.text()).collect();
    for (all, other) in [(&ready, None), (&failed, Some(&expected))] {
        let mut seen = HashSet::new();
        for one in all.items() {
            one.unique(&mut seen);
            if other.is_some_and(|other| other.contains(&one.text())) {
                one.invalid("bindingFailureConditions must not overlap with bindingConditions");
            }
        }
    }
    if ready.is_empty() && !failed.is_empty() {
        ready.invalid("bindingConditions are required to use bindingFailureConditions");
    }
    if failed.is_empty() && !ready.is_empty() {
        failed.invalid("bindingFailureConditions are required to use bindingConditions");
    }
}
