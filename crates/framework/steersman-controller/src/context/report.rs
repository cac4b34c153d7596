//! Handle: the methods of [`Context`] that report about an object: by a Kubernetes Event, and by conditions in its
//! status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use steersman_client::{Ensured, Error as ClientError};
use steersman_object::status_conditions::{self, HasConditions, Progress, READY, UNKNOWN};
use steersman_object::{AsObject, TypedObject};

use super::Context;
use crate::error::Error;

pub(crate) struct ConditionsOf<K> {
    pub(crate) get: fn(&K) -> &[Condition],
    pub(crate) get_mut: fn(&mut K) -> &mut Vec<Condition>,
}

/// The values that a report writes into the conditions of an object.
pub(crate) struct ProgressReport<'a> {
    pub(crate) progress: Progress,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
    /// Whether to write conditions that differ from the present ones in their messages only (CTRL-33).
    pub(crate) is_due: bool,
}

/// Reports about an object of the manager's own cluster.
///
/// # Cancel safety
///
/// A request that was sent is finished even if its future is dropped, as with the [`Client`](steersman_client::Client).
impl Context {
    /// Writes the progress of an object into its conditions `Ready`, `Reconciling` and `Stalled`, by the rules of
    /// [kstatus](Progress). Sends nothing if the conditions are up to date.
    ///
    /// `object` is the object as the reconcile read it: the conditions carry its generation as
    /// `observedGeneration`, even if the server has a newer one by now.
    ///
    /// # Errors
    ///
    /// The errors of [`status().modify`](steersman_client::StatusClient::modify).
    ///
    /// ```
    /// # use steersman_controller::{Context, Error};
    /// # use steersman_object::TypedObject;
    /// # use steersman_object::status_conditions::HasConditions;
    /// use steersman_object::status_conditions::Progress;
    ///
    /// # async fn f(ctx: &Context, site: &(impl TypedObject + HasConditions), ready: i32) -> Result<(), Error> {
    /// let (progress, reason) = match ready {
    ///     3 => (Progress::Current, "Running"),
    ///     _ => (Progress::InProgress, "Starting"),
    /// };
    /// ctx.report(site, progress, reason, &format!("{ready} of 3 Pods are ready")).await?;
    /// # Ok(()) }
    /// ```
    pub async fn report<K: TypedObject + HasConditions>(
        &self,
        object: &impl AsObject<K>,
        progress: Progress,
        reason: &str,
        message: &str,
    ) -> Result<Ensured<K>, ClientError> {
        let report = ProgressReport {
            progress,
            reason,
            message,
            is_due: true,
        };
        self.write_progress(object.as_object(), ConditionsOf::of(), report)
            .await
    }

    /// Reports an error about an object: records a Kubernetes Event of type `Warning`, and writes the
    /// conditions of [`report`](Self::report), with the error and its causes as the note and the message.
    ///
    /// The object is [in progress](Progress::InProgress), because the request is retried; after a
    /// [terminal](Error::terminal) error it has [failed](Progress::Failed). The error text is visible to
    /// every reader of the object.
    ///
    /// An update of the status requests the object soon (WQ-12), unless a predicate refuses the update. So a write that
    /// changes only messages is sent only on the first attempt of a request and on the attempts 1, 2, 4, 8 and so on,
    /// and never for an error that is not retried; otherwise an error with another text each time would not be retried
    /// with backoff (CTRL-33).
    ///
    /// # Errors
    ///
    /// The errors of [`status().modify`](steersman_client::StatusClient::modify). A reconcile that reports its
    /// error ignores them, and returns its own error.
    ///
    /// ```
    /// # use steersman_controller::{Action, Context, Error};
    /// # use steersman_object::TypedObject;
    /// # use steersman_object::status_conditions::HasConditions;
    /// # async fn publish<K>(_: &K) -> Result<Action, Error> { Ok(Action::done()) }
    /// # async fn f(ctx: &Context, site: &(impl TypedObject + HasConditions)) -> Result<Action, Error> {
    /// let published = publish(site).await;
    /// if let Err(error) = &published {
    ///     ctx.report_error(site, "PublishFailed", error).await.ok();
    /// }
    /// published
    /// # }
    /// ```
    pub async fn report_error<K: TypedObject + HasConditions>(
        &self,
        object: &impl AsObject<K>,
        reason: &str,
        error: &Error,
    ) -> Result<Ensured<K>, ClientError> {
        let (object, chain) = (object.as_object(), error.chain());
        self.events().warning(object, reason, "Reconcile", &chain);
        let progress = match error.is_terminal() {
            true => Progress::Failed,
            false => Progress::InProgress,
        };
        let report = ProgressReport {
            progress,
            reason,
            message: &chain,
            is_due: self.may_rewrite_messages(error),
        };
        self.write_progress(object.as_object(), ConditionsOf::of(), report)
            .await
    }

    /// Returns whether a report of `error` may write conditions that differ in nothing but their messages.
    ///
    /// CTRL-33: returns false for an error that is not retried, because the write would request the object without a
    /// backoff.
    pub(crate) fn may_rewrite_messages(&self, error: &Error) -> bool {
        !error.is_terminal() && !self.is_last_attempt() && is_due(self.attempt())
    }

    pub(crate) async fn write_progress<K: TypedObject>(
        &self,
        object: &K,
        conditions: ConditionsOf<K>,
        report: ProgressReport<'_>,
    ) -> Result<Ensured<K>, ClientError> {
        // `like` is made here and not in the closure below: after a conflict the closure gets a newer object, and the
        // conditions must carry the generation that the reconcile has observed.
        let (reason, message, now) = (report.reason, report.message, self.now());
        let like = status_conditions::condition(object, READY, UNKNOWN, reason, message, now);
        let status = self.client().status();
        let write = status.modify(object, |object| {
            let present = (conditions.get_mut)(object);
            let mut updated = present.clone();
            report.progress.set_in(&mut updated, &like);
            if report.is_due || differ_beyond_messages(present, &updated) {
                *present = updated;
            }
        });
        write.await
    }
}

impl<K: HasConditions> ConditionsOf<K> {
    pub(crate) fn of() -> Self {
        Self {
            get: K::conditions,
            get_mut: K::conditions_mut,
        }
    }
}

impl<K> Clone for ConditionsOf<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for ConditionsOf<K> {}

/// Returns whether a report in this attempt may write conditions that differ only in their messages: in the attempts 0,
/// 1, 2, 4, 8 and so on.
fn is_due(attempt: u32) -> bool {
    attempt == 0 || attempt.is_power_of_two()
}

pub(crate) fn differ_beyond_messages(present: &[Condition], updated: &[Condition]) -> bool {
    let without = |condition: &Condition| Condition {
        message: String::new(),
        ..condition.clone()
    };
    let (present, updated) = (present.iter().map(without), updated.iter().map(without));
    !present.eq(updated)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CTRL-33: a status write that changes only messages is sent in the attempts 0, 1, 2, 4, 8 and so on.
    #[test]
    fn messages_alone_are_written_less_and_less_often() {
        let due: Vec<u32> = (0..40).filter(|attempt| is_due(*attempt)).collect();
        assert_eq!(due, [0, 1, 2, 4, 8, 16, 32]);
        let condition = |reason: &str, message: &str| {
            let now = k8s_openapi::jiff::Timestamp::UNIX_EPOCH;
            Condition {
                type_: "Ready".to_owned(),
                status: "False".to_owned(),
                reason: reason.to_owned(),
                message: message.to_owned(),
                last_transition_time: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now),
                observed_generation: None,
            }
        };
        let present = [condition("Failed", "request 1")];
        assert!(!differ_beyond_messages(
            &present,
            &[condition("Failed", "request 2")]
        ));
        assert!(differ_beyond_messages(
            &present,
            &[condition("Refused", "request 1")]
        ));
        assert!(differ_beyond_messages(&present, &[]));
    }
}
