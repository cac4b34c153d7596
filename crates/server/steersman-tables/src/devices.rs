//! Machine: the columns of ResourceClaims, ResourceSlices and HorizontalPodAutoscalers.

use serde_json::{Value, json};

use super::cells::{NONE, UNSET, at, is_set, list, number, plain, text, text_or};
use super::columns::{AGE, Columns, shown};

const UNKNOWN: &str = "<unknown>";

pub(super) const RESOURCE_CLAIMS: Columns = Columns {
    headings: &[shown("State", "Allocation and reservation."), AGE],
    row: |claim, _| {
        let going = is_set(claim, "metadata.deletionTimestamp");
        let mut states = Vec::new();
        if going {
            states.push("deleted");
        }
        if is_set(claim, "status.allocation") {
            states.push("allocated");
            if !list(claim, "status.reservedFor").is_empty() {
                states.push("reserved");
            }
        } else if !going {
            states.push("pending");
        }
        json!([states.join(",")])
    },
};

pub(super) const RESOURCE_SLICES: Columns = Columns {
    headings: &[
        shown("Node", "Node that has the devices."),
        shown("Driver", "Driver of the devices."),
        shown("Pool", "Pool that the devices are of."),
        AGE,
    ],
    row: |slice, _| {
        let paths = ["spec.nodeName", "spec.driver", "spec.pool.name"];
        json!(paths.map(|path| text(slice, path)))
    },
};

pub(super) const AUTOSCALERS: Columns = Columns {
    headings: &[
        shown("Reference", "Object that is scaled."),
        shown("Targets", "Current and target values of the metrics."),
        shown("MinPods", "Minimum number of pods."),
        shown("MaxPods", "Maximum number of pods."),
        shown("Replicas", "Current number of pods."),
        AGE,
    ],
    row: |scaler, _| {
        let target = at(scaler, "spec.scaleTargetRef").unwrap_or(&Value::Null);
        let fewest = at(scaler, "spec.minReplicas").filter(|bound| !bound.is_null());
        json!([
            format!("{}/{}", text(target, "kind"), text(target, "name")),
            targets(scaler),
            fewest.map_or_else(|| UNSET.to_owned(), plain),
            number(scaler, "spec.maxReplicas"),
            number(scaler, "status.currentReplicas")
        ])
    },
};

fn targets(scaler: &Value) -> String {
    const SHOWN: usize = 2;
    // autoscaling/v1 knows only the CPU metric, in fields of its own.
    if let Some(wanted) = at(scaler, "spec.targetCPUUtilizationPercentage") {
        let found = at(scaler, "status.currentCPUUtilizationPercentage");
        let found = found.map_or_else(|| UNKNOWN.to_owned(), |found| format!("{found}%"));
        return format!("cpu: {found}/{wanted}%");
    }
    let wanted = list(scaler, "spec.metrics");
    let found = list(scaler, "status.currentMetrics");
    if wanted.is_empty() {
        return NONE.to_owned();
    }
    let shown: Vec<String> = wanted
        .iter()
        .take(SHOWN)
        .enumerate()
        .map(|(index, metric)| target(metric, found.get(index)))
        .collect();
    match wanted.len().checked_sub(SHOWN) {
        Some(more) if more > 0 => format!("{} + {more} more...", shown.join(", ")),
        _ => shown.join(", "),
    }
}

/// Formats one metric: its current and its target value.
fn target(metric: &Value, found: Option<&Value>) -> String {
    let member = match text(metric, "type") {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let spec = at(metric, member).unwrap_or(&Value::Null);
    let found = found.and_then(|status| at(&status[member], "current"));
    let average = is_set(spec, "target.averageValue");
    let quantity = |name: &str| {
        let now = found.map_or(UNKNOWN, |found| text_or(found, name, "0"));
        format!("{now}/{}", text_or(&spec["target"], name, "0"))
    };
    match member {
        "pods" => quantity("averageValue"),
        "external" | "object" if average => {
            let now = found.map_or(UNKNOWN, |found| text_or(found, "averageValue", UNKNOWN));
            format!("{now}/{} (avg)", text(spec, "target.averageValue"))
        }
        "external" | "object" => quantity("value"),
        _ if average => format!("{}: {}", text(spec, "name"), quantity("averageValue")),
        _ => {
            let percent = |value: Option<&Value>, other: &str| {
                value
                    .filter(|value| !value.is_null())
                    .map_or_else(|| other.to_owned(), |value| format!("{value}%"))
            };
            let now = found.and_then(|found| at(found, "averageUtilization"));
            let wanted = at(spec, "target.averageUtilization");
            format!(
                "{}: {}/{}",
                text(spec, "name"),
                percent(now, UNKNOWN),
                percent(wanted, "<auto>")
            )
        }
    }
}
