//! Machine: checks StatefulSets.

use serde_json::{Value, json};

use crate::fields::fill::{elements, put};
use crate::fields::go_value::GoType::{self, Number, Plain, Pointer, Struct, Text};
use crate::fields::{FieldPath, check};
use crate::pod;
use crate::storage::claim;

const ROLLING: GoType = Struct(&[("partition", Number), ("maxUnavailable", Plain)]);
const STRATEGY: GoType = Struct(&[("type", Text), ("rollingUpdate", Pointer(&ROLLING))]);

/// Checks a StatefulSet. Upstream: `ValidateStatefulSetSpec` and `ValidateStatefulSetUpdate`.
pub(super) fn check(new: &FieldPath<'_>, old: Option<&Value>) {
    let spec = new.at("spec");
    let policy = spec.at("podManagementPolicy");
    if !matches!(policy.text(), "OrderedReady" | "Parallel") {
        policy.invalid_text("must be 'OrderedReady' or 'Parallel'");
    }
    check_stateful_strategy(&spec.at("updateStrategy"));
    let retention = spec.at("persistentVolumeClaimRetentionPolicy");
    for field in ["whenDeleted", "whenScaled"] {
        check::one_of(&retention.at(field), &["Retain", "Delete"]);
    }
    check::not_negative_members(&spec, &["replicas", "minReadySeconds"]);
    check::not_negative(&spec.down("ordinals.start"));
    let service = spec.at("serviceName");
    if old.is_none() && !service.is_empty() {
        check::label(&service);
    }
    let empty = "empty selector is invalid for statefulset";
    let valid = super::check_selector(&spec, empty);
    if valid {
        check_stateful_template(&spec);
    } else {
        spec.at("selector").invalid("");
    }
    super::check_endless(&spec.at("template"), "StatefulSet");
    if old.is_none() {
        for one in spec.at("volumeClaimTemplates").items() {
            claim::check_spec(&one.at("spec"));
        }
    }
    if let Some(old) = old {
        check_stateful_update(&spec, &old["spec"]);
    }
}

/// Checks a template. Its Pods also mount the volume claims of the set.
fn check_stateful_template(spec: &FieldPath<'_>) {
    super::check_match(spec);
    let mut template = spec.at("template").value().clone();
    let claims: Vec<Value> = spec
        .at("volumeClaimTemplates")
        .items()
        .map(|claim| {
            let name = claim.down("metadata.name").text();
            json!({"name": name, "persistentVolumeClaim": {"claimName": name}})
        })
        .collect();
    if !claims.is_empty()
        && let Some(pod) = template.get_mut("spec")
    {
        let named = |volume: &Value| claims.iter().any(|claim| claim["name"] == volume["name"]);
        let own = elements(&pod["volumes"]).iter();
        // A claim replaces the volume of the same name.
        let mut all: Vec<Value> = own.filter(|volume| !named(volume)).cloned().collect();
        all.extend(claims.iter().cloned());
        put(pod, "volumes", Value::Array(all));
    }
    pod::check_template(&spec.at("template").with(&template));
}

fn check_stateful_strategy(strategy: &FieldPath<'_>) {
    let rolling = strategy.at("rollingUpdate");
    match strategy.at("type").text() {
        "" => strategy.required(""),
        "OnDelete" => rolling.if_set(|rolling| {
            let detail = "only allowed for updateStrategy 'RollingUpdate'";
            rolling.invalid_printed(&ROLLING, detail);
        }),
        "RollingUpdate" => {
            check::not_negative(&rolling.at("partition"));
            let most = rolling.at("maxUnavailable");
            if most.is_set() {
                check::number_or_percent(&most);
                if check::number_or_percent_value(&most) == 0 {
                    most.invalid("cannot be 0");
                }
                check::at_most_hundred_percent(&most);
            }
        }
        _ => {
            let has_partition = rolling.at("partition").number().is_some();
            let kind = if has_partition {
                &STRATEGY
            } else {
                &super::STRATEGY
            };
            strategy.invalid_printed(kind, "must be 'RollingUpdate' or 'OnDelete'");
        }
    }
}

fn check_stateful_update(spec: &FieldPath<'_>, old: &Value) {
    const OPEN: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let fixed = |spec: &Value| {
        let mut spec = spec.clone();
        if let Some(members) = spec.as_object_mut() {
            members
                .retain(|name, value| !OPEN.contains(&name.as_str()) && value.as_str() != Some(""));
        }
        spec
    };
    if fixed(spec.value()) != fixed(old) {
        spec.forbidden("updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden");
    }
}
