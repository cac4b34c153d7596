//! Words: the `CronJob` kind, as its users write it and read it back.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use steersman::CustomResource;
use steersman::k8s_openapi::api::batch::v1::JobTemplateSpec;
use steersman::k8s_openapi::api::core::v1::ObjectReference;
use steersman::k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use steersman::status_conditions::HasConditions;

/// Jobs that start by a schedule.
#[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::duplicated_attributes, reason = "columns may share a type")]
#[kube(
    group = "batch.example.com",
    version = "v1",
    kind = "CronJob",
    plural = "cronjobs",
    shortname = "ecj",
    namespaced,
    status = "CronJobStatus",
    printcolumn(name = "Schedule", type_ = "string", json_path = ".spec.schedule"),
    printcolumn(name = "Suspend", type_ = "boolean", json_path = ".spec.suspend"),
    printcolumn(name = "Last", type_ = "date", json_path = ".status.lastScheduleTime"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
pub struct CronJobSpec {
    /// The times at which Jobs start: minute, hour, day of the month, month and day of the week.
    pub schedule: String,
    /// The time zone of the schedule, by its name in the IANA database; UTC by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// The number of seconds after its time during which a Job may still start; no limit by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub starting_deadline_seconds: Option<i64>,
    /// What happens at a time at which an earlier Job still runs.
    #[serde(default)]
    pub concurrency_policy: ConcurrencyPolicy,
    /// Whether no Jobs start.
    #[serde(default)]
    pub suspend: bool,
    /// The Job to start. The server checks it when a Job is created, and not before.
    #[schemars(schema_with = "any_object")]
    pub job_template: JobTemplateSpec,
    /// The number of complete Jobs to keep.
    #[serde(default = "three")]
    #[schemars(range(min = 0))]
    pub successful_jobs_history_limit: i32,
    /// The number of failed Jobs to keep.
    #[serde(default = "one")]
    #[schemars(range(min = 0))]
    pub failed_jobs_history_limit: i32,
}

/// What happens at a time at which an earlier Job of the same [`CronJob`] still runs.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
pub enum ConcurrencyPolicy {
    /// Both Jobs run.
    #[default]
    Allow,
    /// The new Job starts after the earlier one has ended, if its deadline permits.
    Forbid,
    /// The earlier Job is deleted.
    Replace,
}

/// What the operator last saw of a [`CronJob`].
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CronJobStatus {
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The Jobs that run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub active: Vec<ObjectReference>,
    /// The scheduled time of the last Job that was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<Time>,
    /// The time at which the last successful Job completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_successful_time: Option<Time>,
    /// `Ready` is true while Jobs start by the schedule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

impl HasConditions for CronJob {
    fn conditions(&self) -> &[Condition] {
        let status = self.status.as_ref();
        status.map_or(&[], |status| &status.conditions)
    }

    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        &mut self.status.get_or_insert_default().conditions
    }
}

/// Returns the schema of the template: the complete one is longer than the rest of the definition.
fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

fn three() -> i32 {
    3
}

fn one() -> i32 {
    1
}
