//! Words: the settings of controllers from a manager or a configuration, and their order of precedence.

use std::collections::BTreeMap;
use std::time::Duration;

use steersman_workqueue::Priority;

use crate::error::ControllerError;
use crate::limit::ReconcileLimit;

/// How long a reconcile may go on after its deadline, if neither the code nor a setting sets it.
const DEADLINE_GRACE: Duration = Duration::from_secs(5);

/// The settings of a controller. For a setting without a value, the next source in the order of [`ControllerDefaults`]
/// counts.
///
/// The methods have the names and the defaults of the methods of [`ControllerBuilder`](crate::ControllerBuilder).
#[derive(Debug, Clone, Default, PartialEq)]
#[must_use = "settings do nothing until they are part of `ControllerDefaults`"]
pub struct ControllerSettings {
    pub(crate) max_concurrent_reconciles: Option<usize>,
    pub(crate) backoff: Option<(Duration, Duration)>,
    pub(crate) require_sync: Option<Duration>,
    pub(crate) deadline: Option<Duration>,
    pub(crate) deadline_grace: Option<Duration>,
    pub(crate) initial_priority: Option<Priority>,
    pub(crate) lower_priority_share: Option<u32>,
    pub(crate) max_retries: Option<u32>,
}

/// The settings of all controllers of a manager, settings of single controllers by name, and the limit of
/// reconciles that all of them share: controller-runtime's `config.Controller`.
///
/// Of several sources of one setting the first in this order wins:
///
/// 1. the settings [named](Self::named) for the controller: they come from the configuration of the running program,
///    which overrides the code;
/// 2. the code that declares the controller ([`ControllerBuilder`](crate::ControllerBuilder));
/// 3. the settings of [every](Self::every) controller;
/// 4. the default of the setting.
///
/// ```
/// use std::num::NonZeroUsize;
/// use std::time::Duration;
///
/// use steersman_controller::{ControllerDefaults, ControllerSettings, ReconcileLimit};
///
/// let defaults = ControllerDefaults::new()
///     .every(
///         ControllerSettings::new()
///             .max_concurrent_reconciles(4)
///             .deadline(Duration::from_secs(120)),
///     )
///     .named("website", ControllerSettings::new().max_concurrent_reconciles(16))
///     .reconcile_limit(ReconcileLimit::new(NonZeroUsize::new(32).unwrap()));
/// assert_eq!(defaults.names().collect::<Vec<_>>(), ["website"]);
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "defaults do nothing until a manager is built with them"]
pub struct ControllerDefaults {
    every: ControllerSettings,
    by_name: BTreeMap<String, ControllerSettings>,
    pub(crate) limit: Option<ReconcileLimit>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ResolvedSettings {
    pub(crate) max_concurrent_reconciles: usize,
    /// The first and the longest delay after a failure; `None` means the rate limiter of the builder, or else the
    /// default rate limiter.
    pub(crate) backoff: Option<(Duration, Duration)>,
    /// Whether `backoff` was set for the controller's name, and so replaces the rate limiter of its builder.
    pub(crate) backoff_is_named: bool,
    /// The time limit of the first syncs; `None` is no limit.
    pub(crate) require_sync: Option<Duration>,
    pub(crate) deadline: Option<Duration>,
    pub(crate) deadline_grace: Duration,
    pub(crate) initial_priority: Priority,
    pub(crate) lower_priority_share: Option<u32>,
    pub(crate) max_retries: Option<u32>,
}

// === impl ResolvedSettings ===

impl ResolvedSettings {
    /// Returns the longest time that a reconcile may take: its deadline and the grace after it; `None` without a
    /// deadline.
    pub(crate) fn longest_reconcile(&self) -> Option<Duration> {
        let deadline = self.deadline?;
        Some(deadline.saturating_add(self.deadline_grace))
    }
}

// === impl ControllerSettings ===

impl ControllerSettings {
    /// Makes settings in which nothing is set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the number of requests that are reconciled at the same time. The default is 1; the manager refuses zero.
    pub fn max_concurrent_reconciles(mut self, workers: usize) -> Self {
        self.max_concurrent_reconciles = Some(workers);
        self
    }

    /// Sets the first and the longest delay of a request that failed; the delay doubles with each failure. The default
    /// is 5 ms to 1000 s; the manager refuses a first delay of zero.
    ///
    /// In the settings of a [named](ControllerDefaults::named) controller, these delays replace the rate limiter that
    /// its builder set.
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        self.backoff = Some((first, longest));
        self
    }

    /// Sets how long a watched kind may take to sync before the manager ends. By default, and with zero, without limit.
    pub fn require_sync(mut self, timeout: Duration) -> Self {
        self.require_sync = Some(timeout);
        self
    }

    /// Sets the time limit of one reconcile. The default is no limit, and zero means no limit, too.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Sets how long a reconcile may go on after its deadline. The default is 5 s.
    pub fn deadline_grace(mut self, grace: Duration) -> Self {
        self.deadline_grace = Some(grace);
        self
    }

    /// Sets the priority of requests that initial lists and resyncs cause. The default is [`Priority::LOW`];
    /// [`Priority::NORMAL`] gives these requests the priority of live events.
    pub fn initial_priority(mut self, priority: Priority) -> Self {
        self.initial_priority = Some(priority);
        self
    }

    /// Takes every `turns`-th request by age instead of priority. The default is 8; values below 2 count as 2.
    pub fn lower_priority_share(mut self, turns: u32) -> Self {
        self.lower_priority_share = Some(turns);
        self
    }

    /// Sets how often a request that fails is retried. The default is no limit; zero is no retry.
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.max_retries = Some(retries);
        self
    }

    /// Returns an error if no request would run, or if the first delay is zero or greater than the longest delay.
    fn check(&self, controller: &str) -> Result<(), ControllerError> {
        let controller = controller.to_owned();
        if self.max_concurrent_reconciles == Some(0) {
            return Err(ControllerError::NoWorkers { controller });
        }
        match self.backoff {
            Some((first, longest)) if first.is_zero() || longest < first => {
                Err(ControllerError::Backoff {
                    controller,
                    first,
                    longest,
                })
            }
            _ => Ok(()),
        }
    }
}

// === impl ControllerDefaults ===

impl ControllerDefaults {
    /// Makes defaults in which nothing is set, without a limit of reconciles.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the settings of every controller. Each applies where neither the code of a controller nor the settings for
    /// its name set a value.
    pub fn every(mut self, settings: ControllerSettings) -> Self {
        self.every = settings;
        self
    }

    /// Sets the settings of one controller, which win over its code. A manager without a controller of this name does
    /// not start, so that a misspelled name is noticed.
    pub fn named(mut self, controller: impl Into<String>, settings: ControllerSettings) -> Self {
        self.by_name.insert(controller.into(), settings);
        self
    }

    /// Sets the limit of reconciles that run at once over all controllers. By default there is no limit.
    pub fn reconcile_limit(mut self, limit: ReconcileLimit) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Returns the names of the controllers with [settings of their own](Self::named), sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    /// Checks that with these settings requests can run, and that a failed request waits before its retry.
    ///
    /// # Errors
    ///
    /// [`ControllerError::NoWorkers`]; [`ControllerError::Backoff`] for a first delay of zero or beyond the longest.
    pub fn check(&self) -> Result<(), ControllerError> {
        self.every.check("*")?;
        self.by_name
            .iter()
            .try_for_each(|(name, settings)| settings.check(name))
    }

    pub(crate) fn resolve(&self, name: &str, code: &ControllerSettings) -> ResolvedSettings {
        let nothing = ControllerSettings::new();
        let named = self.by_name.get(name).unwrap_or(&nothing);
        let sources = [named, code, &self.every];
        // CTRL-11: the first source that sets a value wins.
        fn first<T: Copy>(
            sources: [&ControllerSettings; 3],
            get: impl Fn(&ControllerSettings) -> Option<T>,
        ) -> Option<T> {
            sources.into_iter().find_map(get)
        }
        let unless_zero = |time: Duration| Some(time).filter(|time| !time.is_zero());
        ResolvedSettings {
            max_concurrent_reconciles: first(sources, |s| s.max_concurrent_reconciles).unwrap_or(1),
            backoff: first(sources, |s| s.backoff),
            backoff_is_named: named.backoff.is_some(),
            require_sync: first(sources, |s| s.require_sync).and_then(unless_zero),
            deadline: first(sources, |s| s.deadline).and_then(unless_zero),
            deadline_grace: first(sources, |s| s.deadline_grace).unwrap_or(DEADLINE_GRACE),
            initial_priority: first(sources, |s| s.initial_priority).unwrap_or(Priority::LOW),
            lower_priority_share: first(sources, |s| s.lower_priority_share),
            max_retries: first(sources, |s| s.max_retries),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workers(count: usize) -> ControllerSettings {
        ControllerSettings::new().max_concurrent_reconciles(count)
    }

    // CTRL-11: of several values of a setting, the first in the order of `ControllerDefaults` applies.
    #[test]
    fn a_named_setting_wins_over_code_and_code_over_the_setting_of_every_controller() {
        let defaults = ControllerDefaults::new()
            .every(workers(2).deadline(Duration::from_secs(9)))
            .named("a", workers(4));
        let of = |name: &str, code: &ControllerSettings| {
            let resolved = defaults.resolve(name, code);
            (resolved.max_concurrent_reconciles, resolved.deadline)
        };
        let nine = Some(Duration::from_secs(9));
        assert_eq!(of("a", &workers(3)), (4, nine));
        assert_eq!(of("b", &workers(3)), (3, nine));
        assert_eq!(of("b", &ControllerSettings::new()), (2, nine));
        // A deadline of zero counts as set: the code removes the deadline that the settings of every controller have.
        assert_eq!(
            of("b", &ControllerSettings::new().deadline(Duration::ZERO)),
            (2, None)
        );
    }

    #[test]
    fn without_settings_the_documented_defaults_apply() {
        let resolved = ControllerDefaults::new().resolve("a", &ControllerSettings::new());
        let expected = ResolvedSettings {
            max_concurrent_reconciles: 1,
            backoff: None,
            backoff_is_named: false,
            require_sync: None,
            deadline: None,
            deadline_grace: Duration::from_secs(5),
            initial_priority: Priority::LOW,
            lower_priority_share: None,
            max_retries: None,
        };
        assert_eq!(resolved, expected);
    }

    #[test]
    fn settings_that_cannot_work_are_refused() {
        let ms = Duration::from_millis;
        let every = |settings| ControllerDefaults::new().every(settings).check();
        assert!(every(workers(0)).is_err());
        let swapped = ControllerSettings::new().backoff(ms(9), ms(8));
        let error = ControllerDefaults::new().named("a", swapped).check();
        assert!(error.unwrap_err().to_string().contains("\"a\""));
        assert!(every(ControllerSettings::new().backoff(ms(0), ms(8))).is_err());
        assert!(every(ControllerSettings::new().backoff(ms(8), ms(8))).is_ok());
        assert!(every(ControllerSettings::new().backoff(ms(1), Duration::MAX)).is_ok());
    }
}
