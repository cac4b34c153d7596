//! Machine: checks a CustomResourceDefinition: names, versions, conversion, and the parts of each
//! version.

use serde_json::Value;
use steersman_apimachinery::go;
use steersman_apimachinery::names;
use steersman_apimachinery::names::NameRule;
use steersman_apimachinery::status::FieldError;

use crate::fields::authorities;
use crate::fields::field_path::Findings;

use super::approval;
use super::version_parts::{self, VersionParts};
use super::{is_established, versions};
use crate::admission::webhooks;

/// Checks a definition. `old` is the stored definition on an update.
#[must_use]
pub fn validate(crd: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = &crd["spec"];
    let (plural, group) = (text(&spec["names"]["plural"]), text(&spec["group"]));
    let name = text(&crd["metadata"]["name"]);
    if old.is_none() && name != format!("{plural}.{group}") {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid(
            "metadata.name",
            &go::quote(name),
            detail,
        ));
    }
    // A stored spec is valid; its schemas and rules are not compiled once more.
    if old.is_none_or(|old| old["spec"] != *spec) {
        check_spec(crd, old, &mut errors);
    }
    check_stored_versions(crd, &mut errors);
    approval::check(crd, old, &mut errors);
    if let Some(old) = old {
        check_identity(spec, &old["spec"], is_established(old), &mut errors);
    }
    errors
}

fn check_spec(crd: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let spec = &crd["spec"];
    check_group(text(&spec["group"]), errors);
    one_of(
        "spec.scope",
        text(&spec["scope"]),
        &["Cluster", "Namespaced"],
        errors,
    );
    if spec["preserveUnknownFields"] == true {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        let field = "spec.preserveUnknownFields";
        errors.push(FieldError::invalid(field, "true", detail));
    }
    check_versions(crd, errors);
    check_names(&spec["names"], errors);
    if let Some(shared) = VersionParts::shared(crd) {
        shared.check(errors);
    }
    check_conversion(&spec["conversion"], old, errors);
}

/// Checks a write to the status.
#[must_use]
pub fn validate_status(crd: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let names = &crd["status"]["acceptedNames"];
    check_words(names, "status.acceptedNames", &mut errors);
    errors
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn check_group(group: &str, errors: &mut Vec<FieldError>) {
    let field = "spec.group";
    if group.is_empty() {
        errors.push(FieldError::required(field, ""));
        return;
    }
    let wrong = names::check_name(NameRule::Subdomain, group);
    if !wrong.is_empty() {
        let detail = wrong.join(",");
        errors.push(FieldError::invalid(field, &go::quote(group), &detail));
    } else if !group.contains('.') {
        let detail = "should be a domain with at least one dot";
        errors.push(FieldError::invalid(field, &go::quote(group), detail));
    }
}

/// Checks that a text is one of the known values.
fn one_of(field: &str, found: &str, known: &[&str], errors: &mut Vec<FieldError>) {
    if found.is_empty() {
        errors.push(FieldError::required(field, ""));
    } else if !known.contains(&found) {
        let known: Vec<String> = known.iter().map(|word| go::quote(word)).collect();
        errors.push(FieldError::not_supported(field, &go::quote(found), &known));
    }
}

/// Checks that a text is an RFC 1035 label. `lead` comes before the messages of the rule.
fn label(field: &str, found: &str, lead: &str, tested: &str, errors: &mut Vec<FieldError>) {
    if found.is_empty() {
        return;
    }
    let wrong = names::check_name(NameRule::Label1035, tested);
    if !wrong.is_empty() {
        let detail = format!("{lead}{}", wrong.join(","));
        errors.push(FieldError::invalid(field, &go::quote(found), &detail));
    }
}

fn check_versions(crd: &Value, errors: &mut Vec<FieldError>) {
    let mut seen: Vec<&str> = Vec::new();
    let mut unique = true;
    let one_for_all = version_parts::is_shared(crd, "schema");
    for (index, version) in versions(crd).enumerate() {
        let field = format!("spec.versions[{index}]");
        if !version["schema"]["openAPIV3Schema"].is_object() {
            let field = format!("{field}.schema.openAPIV3Schema");
            errors.push(FieldError::required(field, ""));
        }
        let name = text(&version["name"]);
        unique &= !seen.contains(&name);
        seen.push(name);
        check_version_name(&format!("{field}.name"), name, errors);
        check_deprecation(version, &field, errors);
        VersionParts::of_version(crd, version, &field).check(errors);
    }
    let mut refuse = |detail: &str| {
        let printed = version_parts::print_versions(crd, one_for_all);
        errors.push(FieldError::invalid("spec.versions", &printed, detail));
    };
    if !unique {
        refuse("must contain unique version names");
    }
    if versions(crd).filter(|one| one["storage"] == true).count() != 1 {
        refuse("must have exactly one version marked as storage version");
    }
    // As upstream, the first version also counts as `spec.version`, the field for definitions with
    // one version.
    if let Some(first) = versions(crd).next() {
        label(
            "spec.version",
            text(&first["name"]),
            "",
            text(&first["name"]),
            errors,
        );
    }
}

fn check_version_name(field: &str, name: &str, errors: &mut Vec<FieldError>) {
    let wrong = names::check_name(NameRule::Label1035, name);
    if !wrong.is_empty() {
        let detail = wrong.join(",");
        errors.push(FieldError::invalid(field, &go::quote(name), &detail));
    }
}

/// Checks the deprecation warning, which is sent in a header and so must be short and printable.
fn check_deprecation(version: &Value, field: &str, errors: &mut Vec<FieldError>) {
    const LONGEST: usize = 256;
    let Some(warning) = version["deprecationWarning"].as_str() else {
        return;
    };
    let field = format!("{field}.deprecationWarning");
    let mut refuse = |detail: &str| {
        errors.push(FieldError::invalid(&field, &go::quote(warning), detail));
    };
    if version["deprecated"] != true {
        refuse("can only be set for deprecated versions");
        return;
    }
    if warning.len() > LONGEST {
        refuse("must be <= 256 characters long");
    }
    if warning.is_empty() {
        refuse("must not be an empty string");
    }
    // The only printable white space is the blank.
    let printable = |c: char| c == ' ' || !(c.is_control() || c.is_whitespace());
    if let Some((at, _)) = warning.char_indices().find(|(_, c)| !printable(*c)) {
        refuse(&format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {at}"
        ));
    }
}

fn check_names(names: &Value, errors: &mut Vec<FieldError>) {
    for part in ["plural", "singular", "kind", "listKind"] {
        if text(&names[part]).is_empty() {
            errors.push(FieldError::required(format!("spec.names.{part}"), ""));
        }
    }
    check_words(names, "spec.names", errors);
}

/// Checks the characters of names, in the spec or in the status.
fn check_words(names: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for part in ["plural", "singular"] {
        let name = text(&names[part]);
        label(&format!("{path}.{part}"), name, "", name, errors);
    }
    for part in ["kind", "listKind"] {
        let name = text(&names[part]);
        let lead = "may have mixed case, but should otherwise match: ";
        let lower = name.to_lowercase();
        label(&format!("{path}.{part}"), name, lead, &lower, errors);
    }
    let list = |part: &str| names[part].as_array().into_iter().flatten().enumerate();
    for (index, name) in list("shortNames") {
        let field = format!("{path}.shortNames[{index}]");
        label(&field, text(name), "", text(name), errors);
    }
    let kind = text(&names["kind"]);
    if !kind.is_empty() && kind == text(&names["listKind"]) {
        let detail = "kind and listKind may not be the same";
        let field = format!("{path}.listKind");
        errors.push(FieldError::invalid(field, &go::quote(kind), detail));
    }
    for (index, name) in list("categories") {
        let field = format!("{path}.categories[{index}]");
        label(&field, text(name), "", text(name), errors);
    }
}

fn check_conversion(conversion: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    const CLIENT: &str = "spec.conversion.webhookClientConfig";
    const REVIEWS: &str = "spec.conversion.conversionReviewVersions";
    if !conversion.is_object() {
        return;
    }
    let strategy = text(&conversion["strategy"]);
    let field = "spec.conversion.strategy";
    one_of(field, strategy, &["None", "Webhook"], errors);
    let webhook = &conversion["webhook"];
    let client = &webhook["clientConfig"];
    let reviews = webhook["conversionReviewVersions"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    if strategy != "Webhook" {
        let detail = "should not be set when strategy is not set to Webhook";
        if client.is_object() {
            errors.push(FieldError::forbidden(CLIENT, detail));
        }
        if !reviews.is_empty() {
            errors.push(FieldError::forbidden(REVIEWS, detail));
        }
        return;
    }
    // An invalid CA bundle passes if the version is not served yet, or if the stored bundle is
    // invalid too.
    let bundle = |crd: &Value| {
        let bundle = crd.pointer("/spec/conversion/webhook/clientConfig/caBundle");
        authorities::mistake(bundle.and_then(Value::as_str).unwrap_or_default()).is_some()
    };
    let any_bundle = old.is_none_or(|old| !is_established(old) || bundle(old));
    errors.extend(Findings::errors(conversion, |root| {
        let conversion = root.shown_at("spec.conversion", conversion);
        webhooks::check_conversion(&conversion, any_bundle);
    }));
}

fn check_stored_versions(crd: &Value, errors: &mut Vec<FieldError>) {
    let stored = crd["status"]["storedVersions"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    if stored.is_empty() {
        let detail = "must have at least one stored version";
        errors.push(FieldError::invalid("status.storedVersions", "null", detail));
        return;
    }
    for (index, version) in stored.iter().enumerate() {
        if !versions(crd).any(|served| served["name"] == *version) {
            let name = text(version);
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            );
            let field = format!("status.storedVersions[{index}]");
            errors.push(FieldError::invalid(field, &version.to_string(), &detail));
        }
    }
    let storage = versions(crd).filter(|one| one["storage"] == true).last();
    let name = storage.and_then(|one| one["name"].as_str());
    if let Some(name) = name
        && !stored.iter().any(|version| version == name)
    {
        let detail = format!("must have the storage version {name}");
        let listed = Value::from(stored.to_vec()).to_string();
        errors.push(FieldError::invalid(
            "status.storedVersions",
            &listed,
            &detail,
        ));
    }
}

/// Checks that an update keeps group and plural, under which objects are stored, and scope and kind
/// once the definition is established.
fn check_identity(new: &Value, old: &Value, established: bool, errors: &mut Vec<FieldError>) {
    for (field, pointer, always) in [
        ("spec.scope", "/scope", false),
        ("spec.names.kind", "/names/kind", false),
        ("spec.group", "/group", true),
        ("spec.names.plural", "/names/plural", true),
    ] {
        let of = |spec: &Value| spec.pointer(pointer).cloned().unwrap_or_default();
        let (new, old) = (of(new), of(old));
        if new != old && (always || established) {
            let detail = "field is immutable";
            errors.push(FieldError::invalid(field, &new.to_string(), detail));
        }
    }
}
