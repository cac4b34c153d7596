//! Machine: decides whether an object is as its spec says, by the rules of kstatus.
//!
//! The rules are those of kstatus (`sigs.k8s.io/cli-utils`, `pkg/kstatus/status`), with three differences. A Job is
//! current when it is complete, not when it has started, because other objects wait for its work. A workload is current
//! only after its controller has seen it (`observedGeneration`). An unschedulable Pod stays in progress without a time
//! limit, because this decision reads no clock.

mod fields;
mod built_in;

use serde::Serialize;
use serde_json::Value;
use steersman_object::status_conditions::{READY, RECONCILING, STALLED, TRUE};
use steersman_object::{Gvk, Kind};

use fields::JsonFields;

/// Whether an object is as its spec says.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
#[non_exhaustive]
pub enum Readiness {
    /// The object is as its spec says.
    #[display("is current")]
    Current,
    /// A controller works on the object, which becomes current without help. The text states what is missing.
    #[display("is in progress: {_0}")]
    InProgress(String),
    /// The object cannot become current without help. The text states the reason.
    #[display("has failed: {_0}")]
    Failed(String),
    /// The object is being deleted.
    #[display("is being deleted")]
    Terminating,
}

impl Readiness {
    /// Returns the readiness of an object of a kind.
    ///
    /// A custom object is judged by `metadata.generation`, `status.observedGeneration`, and the conditions `Stalled`,
    /// `Reconciling` and `Ready`. Without them it is current, as in kstatus, even if its controller has not seen it and
    /// writes no `observedGeneration`.
    ///
    /// # Examples
    ///
    /// ```
    /// use k8s_openapi::api::batch::v1::Job;
    /// use steersman_desired::Readiness;
    /// use steersman_object::Kind;
    ///
    /// let job: Job = serde_json::from_value(serde_json::json!({
    ///     "metadata": {"name": "migrate"},
    ///     "status": {"conditions": [{"type": "Complete", "status": "True"}]},
    /// }))?;
    /// assert_eq!(Readiness::of(&Kind::of::<Job>(), &job), Readiness::Current);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[must_use]
    pub fn of(kind: &Kind, object: &impl Serialize) -> Self {
        match serde_json::to_value(object) {
            Ok(object) => Self::of_json(kind.gvk(), &object),
            Err(error) => Self::Failed(format!("the object cannot be encoded: {error}")),
        }
    }

    /// Returns the readiness of an object in JSON.
    #[must_use]
    pub fn of_json(gvk: &Gvk, object: &Value) -> Self {
        let fields = JsonFields::of(object);
        if fields.has("/metadata/deletionTimestamp") {
            return Self::Terminating;
        }
        generation(&fields)
            .or_else(|| standard_conditions(&fields))
            .or_else(|| built_in::readiness(gvk, &fields))
            .or_else(|| ready_condition(&fields))
            .unwrap_or(Self::Current)
    }

    /// Returns whether the object is as its spec says.
    pub fn is_current(&self) -> bool {
        *self == Self::Current
    }
}

/// Returns `InProgress` if the status is about an earlier generation.
fn generation(fields: &JsonFields<'_>) -> Option<Readiness> {
    let generation = fields.int("/metadata/generation")?;
    let observed = fields.int("/status/observedGeneration")?;
    (observed != generation).then(|| {
        let why =
            format!("generation {generation} was not observed yet, the status is of {observed}");
        Readiness::InProgress(why)
    })
}

/// Returns the readiness that the standard conditions of kstatus imply, if any.
fn standard_conditions(fields: &JsonFields<'_>) -> Option<Readiness> {
    let is_true = |type_: &str| fields.condition(type_).filter(|found| found.status == TRUE);
    let stalled = is_true(STALLED).map(|found| Readiness::Failed(found.text()));
    stalled.or_else(|| is_true(RECONCILING).map(|found| Readiness::InProgress(found.text())))
}

fn ready_condition(fields: &JsonFields<'_>) -> Option<Readiness> {
    let ready = fields.condition(READY)?;
    Some(match ready.status == TRUE {
        true => Readiness::Current,
        false => Readiness::InProgress(ready.text()),
    })
}

#[cfg(test)]
mod tests;
