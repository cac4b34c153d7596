//! Machine: the checks that claims of devices share with their allocations.

use serde_json::Value;

use crate::fields::check;
use crate::fields::field_path::{Errors, FieldPath};
use steersman_apimachinery::names;
use steersman_apimachinery::status::FieldError;

/// Largest numbers of items in the lists of a claim.
pub(super) const MOST_REQUESTS: usize = 32;
pub(super) const MOST_CONFIGS: usize = 32;

/// Largest number of bytes in opaque parameters, and in the data of a device.
pub(super) const MOST_DATA: usize = 10 * 1024;

const MOST_POOL: usize = 253;
const MOST_BINDING: usize = 4;
/// The effects of taints.
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
    pub(super) fn check(&self, at: &FieldPath<'_>, errors: &mut Errors) {
        let text = at.text();
        if text.split('/').count() > 2 {
            errors.invalid(at, NO_REQUEST);
            return;
        }
        for segment in text.split('/') {
            for detail in names::check_label(segment) {
                errors.invalid_as(at, &segment.into(), &detail);
            }
        }
        if !self.has(text) {
            errors.invalid_text(at, NO_REQUEST);
        }
    }

    /// Checks the references of a constraint or a configuration.
    pub(super) fn check_all(&self, at: &FieldPath<'_>, errors: &mut Errors) {
        let check = |one: &FieldPath<'_>, errors: &mut Errors| self.check(one, errors);
        each_once(
            at,
            MOST_REQUESTS,
            check,
            |one| one.value().to_string(),
            errors,
        );
    }
}

/// Checks the items of a list. A list that is too long is refused for its length alone (upstream:
/// `validateSlice`).
pub(super) fn each(
    all: &FieldPath<'_>,
    most: usize,
    mut check: impl FnMut(&FieldPath<'_>, &mut Errors),
    errors: &mut Errors,
) {
    if all.len() > most {
        errors.too_many(all, u64::try_from(most).unwrap_or(u64::MAX));
        return;
    }
    for one in all.items() {
        check(&one, errors);
    }
}

/// Checks the items of a list, and refuses items with the key of an earlier item (upstream:
/// `validateSet`). The key is returned in the form of messages.
pub(super) fn each_once(
    all: &FieldPath<'_>,
    most: usize,
    check: impl FnMut(&FieldPath<'_>, &mut Errors),
    key: impl Fn(&FieldPath<'_>) -> String,
    errors: &mut Errors,
) {
    each(all, most, check, errors);
    if all.len() > most {
        return;
    }
    let mut seen = Vec::new();
    for one in all.items() {
        let key = key(&one);
        if seen.contains(&key) {
            errors.push(FieldError::duplicate(one.path(), &key));
        } else {
            seen.push(key);
        }
    }
}

/// Checks the name of a pool: subdomains separated by slashes.
pub(super) fn check_pool(at: &FieldPath<'_>, errors: &mut Errors) {
    if at.is_empty() {
        errors.required(at, "");
        return;
    }
    if at.len() > MOST_POOL {
        errors.too_long(at, MOST_POOL);
    }
    for part in at.text().split('/') {
        let part = Value::from(part);
        check::subdomain(&FieldPath::new(at.path(), &part), errors);
    }
}

/// Checks an identifier of a shared device (upstream: `validateUID`).
pub(super) fn check_uid(at: &FieldPath<'_>, errors: &mut Errors) {
    const FORM: &str = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters";
    let text = at.text();
    if let Err(why) = parse_uuid(text) {
        errors.invalid_text(at, &format!("error validating uid: {why}"));
    } else if text.len() != 36 || text != text.to_lowercase() {
        errors.invalid_text(at, FORM);
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
    bare.iter()
        .enumerate()
        .all(is_fit)
        .then_some(())
        .ok_or_else(format)
}

/// Checks the configuration of a driver (upstream: `validateDeviceConfiguration`).
pub(super) fn check_configuration(at: &FieldPath<'_>, errors: &mut Errors) {
    let opaque = at.at("opaque");
    if !opaque.is_set() {
        errors.required(&opaque, "");
        return;
    }
    check::csi_driver(&opaque.at("driver"), errors);
    check_data(&opaque.at("parameters"), errors);
}

/// Checks JSON of any content, which has to be an object (upstream: `validateRawExtension`).
pub(super) fn check_data(at: &FieldPath<'_>, errors: &mut Errors) {
    if !at.is_set() {
        errors.required(at, "");
    } else if at.value().to_string().len() > MOST_DATA {
        errors.too_long(at, MOST_DATA);
    } else if !at.value().is_object() {
        errors.invalid_as(at, &"<value omitted>".into(), "must be a valid JSON object");
    }
}

/// Checks the tolerations of a request or of an allocated device (upstream: `validateDeviceToleration`).
pub(super) fn check_tolerations(all: &FieldPath<'_>, errors: &mut Errors) {
    for one in all.items() {
        let (key, operator, value) = (one.at("key"), one.at("operator"), one.at("value"));
        if !key.is_empty() {
            check::qualified(&key, errors);
        }
        match operator.text() {
            "Exists" => {
                if !value.is_empty() {
                    errors.invalid(&value, "must be empty for operator `Exists`");
                }
            }
            "Equal" => check::add_messages(&value, names::check_label_value(value.text()), errors),
            _ => check::required_one_of(&operator, &["Equal", "Exists"], errors),
        }
        let effect = one.at("effect");
        if !effect.is_empty() {
            check::one_of(&effect, EFFECTS, errors);
        }
    }
}

/// Checks the conditions that report whether a device is ready for a Pod or has failed (upstream:
/// `validateDeviceBindingParameters`).
pub(super) fn check_binding(result: &FieldPath<'_>, errors: &mut Errors) {
    let (ready, failed) = (
        result.at("bindingConditions"),
        result.at("bindingFailureConditions"),
    );
    for all in [&ready, &failed] {
        each(all, MOST_BINDING, check::qualified, errors);
    }
    let expected: Vec<&str> = ready.items().map(|one| one.text()).collect();
    for (all, other) in [(&ready, None), (&failed, Some(&expected))] {
        let mut seen = Vec::new();
        for one in all.items() {
            if seen.contains(&one.text()) {
                errors.duplicate(&one);
            } else {
                seen.push(one.text());
            }
            if other.is_some_and(|other| other.contains(&one.text())) {
                let detail = "bindingFailureConditions must not overlap with bindingConditions";
                errors.invalid(&one, detail);
            }
        }
    }
    if ready.is_empty() && !failed.is_empty() {
        let detail = "bindingConditions are required to use bindingFailureConditions";
        errors.invalid(&ready, detail);
    }
    if failed.is_empty() && !ready.is_empty() {
        let detail = "bindingFailureConditions are required to use bindingConditions";
        errors.invalid(&failed, detail);
    }
}
