//! Machine: checks a CustomResourceDefinition: names, versions, conversion, and the parts of each version.

use std::collections::HashSet;

use serde_json::Value;
use steersman_apimachinery::names::{self, NameRule};
use steersman_apimachinery::status::FieldError;

use crate::fields::{FieldPath, Findings, authorities, check};

use super::{approval, is_established, version_parts, versions};
use crate::admission::webhooks;

/// Checks a definition. `old` is the stored definition on an update.
#[must_use]
pub fn validate(crd: &Value, old: Option<&Value>) -> Vec<FieldError> {
    Findings::errors(crd, |root| {
        let spec = root.at("spec");
        let (plural, group) = (spec.down("names.plural").text(), spec.at("group").text());
        let name = root.down("metadata.name");
        if old.is_none() && name.text() != format!("{plural}.{group}") {
            name.invalid_text("must be spec.names.plural+\".\"+spec.group");
        }
        // A stored spec is valid; its schemas and rules are not compiled once more.
        if old.is_none_or(|old| old["spec"] != *spec.value()) {
            check_spec(root, old);
        }
        check_stored_versions(root);
        approval::check(root, old);
        if let Some(old) = old {
            check_identity(&spec, &old["spec"], is_established(old));
        }
    })
}

fn check_spec(root: &FieldPath<'_>, old: Option<&Value>) {
    let spec = root.at("spec");
    check_group(&spec.at("group"));
    check::required_one_of(&spec.at("scope"), &["Cluster", "Namespaced"]);
    let preserve = spec.at("preserveUnknownFields");
    if preserve.flag() {
        preserve.invalid("cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead");
    }
    check_versions(root);
    let names = spec.at("names");
    names.need_all(&["plural", "singular", "kind", "listKind"]);
    check_words(&names);
    version_parts::check_shared(root);
    check_conversion(&spec.at("conversion"), old);
}

/// Checks a write to the status.
#[must_use]
pub fn validate_status(crd: &Value) -> Vec<FieldError> {
    Findings::errors(crd, |root| check_words(&root.down("status.acceptedNames")))
}

fn check_group(group: &FieldPath<'_>) {
    let wrong = names::check_name(NameRule::Subdomain, group.text());
    group.need("");
    if group.is_empty() {
    } else if !wrong.is_empty() {
        group.invalid_joined(group.text(), &wrong);
    } else if !group.text().contains('.') {
        group.invalid_text("should be a domain with at least one dot");
    }
}

/// Checks that a text is an RFC 1035 label.
fn check_label(at: &FieldPath<'_>) {
    let wrong = names::check_name(NameRule::Label1035, at.text());
    at.invalid_joined(at.text(), &wrong);
}

fn check_versions(root: &FieldPath<'_>) {
    let crd = root.value();
    let mut seen = HashSet::new();
    let mut unique = true;
    let all = root.down("spec.versions");
    for version in all.items() {
        let [name, schema] = version.parts(["name", "schema"]);
        let schema = schema.at("openAPIV3Schema");
        if !schema.value().is_object() {
            schema.required("");
        }
        unique &= seen.insert(name.text());
        check_label(&name);
        check_deprecation(&version);
        version_parts::check_own(crd, &version);
    }
    let refuse = |detail: &str| version_parts::refuse(&all, crd, detail);
    if !unique {
        refuse("must contain unique version names");
    }
    if versions(crd).filter(|one| one["storage"] == true).count() != 1 {
        refuse("must have exactly one version marked as storage version");
    }
    // As upstream, the first version also counts as `spec.version`.
    if let Some(first) = versions(crd).next() {
        root.at("spec")
            .named("version", first.get("name"))
            .if_filled(check_label);
    }
}

/// Checks the deprecation warning, which is sent in a header and so must be short and printable.
fn check_deprecation(version: &FieldPath<'_>) {
    const LONGEST: usize = 256;
    let at = version.at("deprecationWarning");
    let Some(warning) = at.value().as_str() else {
        return;
    };
    if !version.at("deprecated").flag() {
        return at.invalid("can only be set for deprecated versions");
    }
    if warning.len() > LONGEST {
        at.invalid("must be <= 256 characters long");
    }
    if warning.is_empty() {
        at.invalid("must not be an empty string");
    }
    // The only printable white space is the blank.
    let printable = |c: char| c == ' ' || !(c.is_control() || c.is_whitespace());
    if let Some((index, _)) = warning.char_indices().find(|(_, c)| !printable(*c)) {
        at.invalid(&format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        ));
    }
}

/// Checks the characters of names, in the spec or in the status.
fn check_words(names: &FieldPath<'_>) {
    for name in names.parts(["plural", "singular"]) {
        name.if_filled(check_label);
    }
    let [kind, list_kind] = names.parts(["kind", "listKind"]);
    kind.if_filled(check::kind);
    list_kind.if_filled(check::kind);
    let [short, categories] = names.parts(["shortNames", "categories"]);
    short.each(|name| name.if_filled(check_label));
    if !kind.is_empty() && kind.text() == list_kind.text() {
        list_kind.invalid_text("kind and listKind may not be the same");
    }
    categories.each(|name| name.if_filled(check_label));
}

fn check_conversion(conversion: &FieldPath<'_>, old: Option<&Value>) {
    if !conversion.value().is_object() {
        return;
    }
    check::required_one_of(&conversion.at("strategy"), &["None", "Webhook"]);
    if conversion.at("strategy").text() != "Webhook" {
        let webhook = &conversion.value()["webhook"];
        let detail = "should not be set when strategy is not set to Webhook";
        let config = conversion.named("webhookClientConfig", webhook.get("clientConfig"));
        config.deny(detail);
        let reviews = "conversionReviewVersions";
        let listed = conversion.named(reviews, webhook.get(reviews));
        return listed.deny_filled(detail);
    }
    // An invalid CA bundle passes before the version is served, and if the stored one is invalid.
    let bundle = |crd: &Value| {
        let bundle = crd.pointer("/spec/conversion/webhook/clientConfig/caBundle");
        authorities::mistake(bundle.and_then(Value::as_str).unwrap_or_default()).is_some()
    };
    let any_bundle = old.is_none_or(|old| !is_established(old) || bundle(old));
    webhooks::check_conversion(conversion, any_bundle);
}

fn check_stored_versions(root: &FieldPath<'_>) {
    let stored = root.down("status.storedVersions");
    if stored.is_empty() {
        return stored.invalid_as(Value::Null, "must have at least one stored version");
    }
    for version in stored.items() {
        if !versions(root.value()).any(|served| served["name"] == *version.value()) {
            let name = version.text();
            version.invalid_text(&format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            ));
        }
    }
    let storage = versions(root.value())
        .filter(|one| one["storage"] == true)
        .last();
    let name = storage.and_then(|one| one["name"].as_str());
    if let Some(name) = name
        && !stored.items().any(|version| version.value() == name)
    {
        let listed = stored.value().to_string();
        stored.invalid_written(&listed, &format!("must have the storage version {name}"));
    }
}

/// Checks that an update keeps group and plural, and once established, scope and kind.
fn check_identity(new: &FieldPath<'_>, old: &Value, established: bool) {
    let before = new.with(old);
    for (field, always) in [
        ("scope", false),
        ("names.kind", false),
        ("group", true),
        ("names.plural", true),
    ] {
        if always || established {
            check::immutable(&new.down(field), before.down(field).value());
        }
    }
}
