//! Machine: checks StatefulSets.

use serde_json::{Value, json};

use crate::fields::check;
use crate::fields::field_path::{Errors, FieldPath};
use crate::fields::fill::put;
use crate::pod;
use crate::storage::claim;

/// Checks a StatefulSet. Upstream: `ValidateStatefulSetSpec` and `ValidateStatefulSetUpdate`.
pub(super) fn check(new: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::default();
    let spec = FieldPath::root(new).at("spec");
    let policy = spec.at("podManagementPolicy");
    if !matches!(policy.text(), "OrderedReady" | "Parallel") {
        errors.invalid_text(&policy, "must be 'OrderedReady' or 'Parallel'");
    }
    check_stateful_strategy(&spec.at("updateStrategy"), &mut errors);
    let retention = spec.at("persistentVolumeClaimRetentionPolicy");
    for field in ["whenDeleted", "whenScaled"] {
        check::one_of(&retention.at(field), &["Retain", "Delete"], &mut errors);
    }
    check::not_negative(&spec.at("replicas"), &mut errors);
    check::not_negative(&spec.at("minReadySeconds"), &mut errors);
    let start = spec.down("ordinals.start");
    check::not_negative(&start, &mut errors);
    let service = spec.at("serviceName");
    if old.is_none() && !service.is_empty() {
        check::label(&service, &mut errors);
    }
    let empty = "empty selector is invalid for statefulset";
    let valid = super::check_selector(&spec, empty, &mut errors);
    if valid {
        check_stateful_template(&spec, &mut errors);
    } else {
        errors.invalid(&spec.at("selector"), "");
    }
    super::check_endless(&spec.at("template"), "StatefulSet", &mut errors);
    if old.is_none() {
        for one in spec.at("volumeClaimTemplates").items() {
            claim::check_spec(&one.at("spec"), &mut errors);
        }
    }
    if let Some(old) = old {
        check_stateful_update(&spec, &old["spec"], &mut errors);
    }
    errors
}

/// Checks a template. Its Pods mount the volume claims of the set in addition to the volumes of the
/// template.
fn check_stateful_template(spec: &FieldPath<'_>, errors: &mut Errors) {
    super::check_match(spec, errors);
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
        let own = pod["volumes"].as_array().into_iter().flatten();
        // A claim replaces the volume of the same name.
        let mut all: Vec<Value> = own.filter(|volume| !named(volume)).cloned().collect();
        all.extend(claims.iter().cloned());
        put(pod, "volumes", Value::Array(all));
    }
    let path = spec.at("template").path();
    pod::check_template(&FieldPath::new(path, &template), errors);
}

fn check_stateful_strategy(strategy: &FieldPath<'_>, errors: &mut Errors) {
    let rolling = strategy.at("rollingUpdate");
    match strategy.at("type").text() {
        "" => errors.required(strategy, ""),
        "OnDelete" => {
            if rolling.is_set() {
                let partition = rolling.at("partition").int();
                let most = rolling.at("maxUnavailable").value();
                let written = format!("{{\"Partition\":{partition},\"MaxUnavailable\":{most}}}");
                let detail = "only allowed for updateStrategy 'RollingUpdate'";
                errors.invalid_written(&rolling, &written, detail);
            }
        }
        "RollingUpdate" => {
            check::not_negative(&rolling.at("partition"), errors);
            let most = rolling.at("maxUnavailable");
            if most.is_set() {
                check::number_or_percent(&most, errors);
                if check::number_or_percent_value(&most) == 0 {
                    errors.invalid(&most, "cannot be 0");
                }
                check::at_most_hundred_percent(&most, errors);
            }
        }
        _ => {
            let detail = "must be 'RollingUpdate' or 'OnDelete'";
            errors.invalid_written(strategy, &super::strategy_written(strategy), detail);
        }
    }
}

fn check_stateful_update(spec: &FieldPath<'_>, old: &Value, errors: &mut Errors) {
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
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        errors.forbidden(spec, detail);
    }
}
