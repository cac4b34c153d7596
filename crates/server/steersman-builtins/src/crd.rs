//! Machine: CustomResourceDefinitions: defaults, status conditions and names, and the resources of a definition.

use std::sync::Arc;

use serde_json::{Value, json};

mod lists;
mod cel_rules;
mod print;
mod fields;
mod skeleton;
mod openapi;
mod version_parts;
mod approval;
mod check;
mod version_schemas;

pub use approval::set_approval;
pub use cel_rules::RuleCost;
pub use check::{validate, validate_status};
pub use fields::decode;
pub use openapi::unknown_formats;

use bytes::Bytes;
use steersman_apimachinery::conditions;
use steersman_apimachinery::names::NameRule;
use steersman_apimachinery::versions::compare_versions;
use steersman_schema::builtin::CUSTOM_VERBS;
use steersman_schema::resource::{
    FieldRefusal, Generation, MetadataChecks, PrinterColumn, Resource, ScalePaths, SelectableField,
    StatusMetadata, StorageKey,
};
use steersman_schema::stored_schemas::{SchemaReads, StoredSchemas};

use crate::fields::Findings;
use crate::fields::fill::{elements, given, lacks, part, put, set, set_text};

/// The finalizer of a definition in deletion that still has objects.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The reason of the condition `Terminating` while the objects of a definition are deleted.
pub const CLEANUP: &str = "InstanceDeletionInProgress";

/// Fills in the defaults, and records the storage version in the status.
pub fn apply_defaults(crd: &mut Value) {
    let Some(spec) = given(crd, "spec") else {
        return;
    };
    set(spec, "conversion", json!({"strategy": "None"}));
    if let Some(service) = spec.pointer_mut("/conversion/webhook/clientConfig/service") {
        set(service, "port", json!(443));
    }
    if let Some(names) = given(spec, "names") {
        let kind = names["kind"].as_str().unwrap_or_default().to_owned();
        if !kind.is_empty() {
            set_text(names, "singular", &kind.to_lowercase());
            set_text(names, "listKind", &format!("{kind}List"));
        }
    }
    if lacks(&crd["status"], "storedVersions") {
        remember_storage(crd);
    }
    if let Some(status) = part(crd, "status") {
        set(status, "conditions", Value::Null);
        set(status, "acceptedNames", json!({"plural": "", "kind": ""}));
    }
}

/// Records the storage version in the status.
pub fn remember_storage(crd: &mut Value) {
    let Some(storage) = storage_version(crd).map(Value::from) else {
        return;
    };
    let Some(status) = part(crd, "status") else {
        return;
    };
    set(status, "storedVersions", json!([]));
    if let Some(stored) = status["storedVersions"].as_array_mut()
        && !stored.contains(&storage)
    {
        stored.push(storage);
    }
}

fn versions(crd: &Value) -> impl Iterator<Item = &Value> {
    elements(&crd["spec"]["versions"]).iter()
}

fn storage(crd: &Value) -> Option<&Value> {
    versions(crd).find(|version| version["storage"] == true)
}

fn storage_version(crd: &Value) -> Option<&str> {
    storage(crd)?["name"].as_str()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns the estimated costs of the CEL rules of all versions of a valid definition.
#[must_use]
pub fn rule_costs(crd: &Value) -> Vec<RuleCost> {
    let mut costs = Vec::new();
    Findings::errors(crd, |root| {
        for version in root.down("spec.versions").items() {
            costs.extend(cel_rules::costs(&version.down("schema.openAPIV3Schema")));
        }
    });
    costs
}

/// Returns whether the definition is served.
#[must_use]
pub fn is_established(crd: &Value) -> bool {
    conditions::holds(crd, "Established")
}

/// Returns whether the objects of a terminating definition are being deleted.
#[must_use]
pub fn is_in_cleanup(crd: &Value) -> bool {
    conditions::find(crd, "Terminating").is_some_and(|one| one["reason"] == CLEANUP)
}

/// Accepts the definition's names, as the naming and establishing controllers do.
pub fn accept(crd: &mut Value, names: Value, now: &str) {
    let why = ("NoConflicts", "no conflicts found");
    conditions::set(crd, "NamesAccepted", true, why, now);
    let why = (
        "InitialNamesAccepted",
        "the initial names have been accepted",
    );
    conditions::set(crd, "Established", true, why, now);
    set_names(crd, names);
}

/// Refuses some of the definition's names because another definition of the group has them. `names`
/// are the names that are accepted. An established definition stays established.
pub fn refuse_names(crd: &mut Value, names: Value, why: (&str, &str), now: &str) {
    conditions::set(crd, "NamesAccepted", false, why, now);
    if !is_established(crd) {
        let why = ("NotAccepted", "not all names are accepted");
        conditions::set(crd, "Established", false, why, now);
    }
    set_names(crd, names);
}

fn set_names(crd: &mut Value, names: Value) {
    if let Some(status) = given(crd, "status") {
        put(status, "acceptedNames", names);
    }
}

/// Returns the resources that a definition serves, preferred version first. `json` is the JSON of
/// the same definition; the schemas of the resources share its bytes.
#[must_use]
pub fn resources(crd: &Value, json: &Bytes, edition: u64) -> Vec<Resource> {
    let storage = storage_version(crd).unwrap_or_default().to_owned();
    let schemas = stored_schemas(crd, json);
    let mut served: Vec<&Value> = versions(crd).filter(|one| one["served"] == true).collect();
    served.sort_by(|a, b| compare_versions(text(&a["name"]), text(&b["name"])));
    let newest = served.first().map_or("", |newest| text(&newest["name"]));
    let resources = served.iter().map(|version| Resource {
        edition,
        storage_version: storage.clone(),
        ..resource(crd, version, newest, &schemas)
    });
    resources.collect()
}

/// Returns the resource of the storage version, served or not. `json` is the JSON of the same definition.
pub fn stored_resource(crd: &Value, json: &Bytes) -> Option<Resource> {
    let version = storage(crd)?;
    let name = version["name"].as_str()?;
    Some(resource(crd, version, name, &stored_schemas(crd, json)))
}

/// Returns the schemas of all versions, served or not, because each of them may have stored objects.
fn stored_schemas(crd: &Value, json: &Bytes) -> StoredSchemas {
    StoredSchemas::new(version_schemas::of(json), reads(crd))
}

/// Returns which objects of a definition may be stored without a default.
fn reads(crd: &Value) -> SchemaReads {
    let storage = storage(crd).map(|version| &version["schema"]["openAPIV3Schema"]);
    let status = storage.map_or(&Value::Null, |schema| &schema["properties"]["status"]);
    let mut faces = versions(crd).filter(|one| one["subresources"].get("status").is_some());
    if versions(crd).nth(1).is_some() && storage.is_some_and(has_defaults) {
        SchemaReads::Always
    } else if status.get("default").is_some() && faces.next().is_some() {
        SchemaReads::WithoutStatus
    } else {
        SchemaReads::Never
    }
}

fn has_defaults(schema: &Value) -> bool {
    let properties = schema["properties"].as_object().into_iter().flatten();
    schema.get("default").is_some()
        || ["items", "additionalProperties"]
            .iter()
            .any(|below| schema.get(below).is_some_and(has_defaults))
        || properties.into_iter().any(|(_, below)| has_defaults(below))
}

fn resource(crd: &Value, version: &Value, newest: &str, schemas: &StoredSchemas) -> Resource {
    let spec = &crd["spec"];
    let names = &spec["names"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| -> Vec<String> { elements(value).iter().map(text).collect() };
    let (group, plural) = (text(&spec["group"]), text(&names["plural"]));
    let scale = version["subresources"]
        .get("scale")
        .map(|scale| ScalePaths {
            spec_replicas: keys(&text(&scale["specReplicasPath"])),
            status_replicas: keys(&text(&scale["statusReplicasPath"])),
            selector: scale["labelSelectorPath"].as_str().map(keys),
        });
    let fields = elements(&version["selectableFields"]).iter();
    let name = text(&version["name"]);
    let schema = schemas.schema_of(&name).cloned().unwrap_or_default();
    let deprecation_warning = deprecation_warning(crd, version, newest);
    Resource {
        version: name,
        kind: text(&names["kind"]),
        list_kind: text(&names["listKind"]),
        singular: text(&names["singular"]),
        short_names: list(&names["shortNames"]),
        categories: list(&names["categories"]),
        namespaced: spec["scope"] == "Namespaced",
        verbs: CUSTOM_VERBS,
        status: version["subresources"].get("status").is_some(),
        scale,
        columns: columns(version),
        fields: fields
            .map(|field| {
                let path = text(&field["jsonPath"]);
                let label = path.trim_start_matches('.').to_owned();
                SelectableField {
                    label,
                    path: keys(&path),
                    default: "",
                }
            })
            .collect(),
        field_refusal: FieldRefusal::NotSupported,
        status_metadata: StatusMetadata::Kept,
        metadata_checks: MetadataChecks::one_update(),
        schema: Some(schema),
        stored_schemas: schemas.clone(),
        conversion: (spec["conversion"]["strategy"] == "Webhook")
            .then(|| Arc::new(spec["conversion"]["webhook"].clone())),
        terminating: conditions::holds(crd, "Terminating"),
        built_in: false,
        generation: Generation::OutsideMetadata,
        delete_returns_object: false,
        create_on_update: false,
        unconditional_update: false,
        names: NameRule::Subdomain,
        storage: StorageKey::new(&group, &plural),
        storage_version: String::new(),
        definition_versions: versions(crd).map(|one| text(&one["name"])).collect(),
        deprecation_warning,
        edition: 0,
        group,
        plural,
    }
}

/// Returns a deprecated version's own warning, or one that names the newest version.
fn deprecation_warning(crd: &Value, version: &Value, newest: &str) -> Option<String> {
    if version["deprecated"] != true {
        return None;
    }
    if let Some(text) = version["deprecationWarning"].as_str() {
        return Some(text.to_owned());
    }
    let (group, name) = (text(&crd["spec"]["group"]), text(&version["name"]));
    let kind = text(&crd["spec"]["names"]["kind"]);
    let successor = if newest == name {
        String::new()
    } else {
        format!("; use {group}/{newest} {kind}")
    };
    Some(format!("{group}/{name} {kind} is deprecated{successor}"))
}

fn keys(path: &str) -> Vec<String> {
    path.split('.')
        .filter(|key| !key.is_empty())
        .map(str::to_owned)
        .collect()
}

fn columns(version: &Value) -> Vec<PrinterColumn> {
    let listed = elements(&version["additionalPrinterColumns"]).iter();
    let column = |column: &Value| {
        let text = |name: &str| column[name].as_str().unwrap_or_default().to_owned();
        PrinterColumn {
            name: text("name"),
            kind: text("type"),
            format: text("format"),
            description: text("description"),
            priority: column["priority"].as_i64().unwrap_or_default(),
            json_path: text("jsonPath"),
        }
    };
    listed.map(column).collect()
}

#[cfg(test)]
mod tests;
