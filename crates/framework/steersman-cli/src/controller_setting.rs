//! Words: settings of one controller, in the notation of `--controller NAME.KEY=VALUE` and of the file.

use std::collections::BTreeMap;
use std::time::Duration;

use steersman_controller::{ControllerSettings, Priority};
use steersman_object::parse_duration;

use crate::named_value::{parse_delay, parse_workers};

/// The keys of the settings of one controller.
pub const CONTROLLER_KEYS: [&str; 8] = [
    "max-concurrent-reconciles", "reconcile-timeout", "cache-sync-timeout", "backoff-base",
    "backoff-max", "max-retries", "initial-priority", "lower-priority-share",
];

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NamedSetting {
    pub(crate) controller: String,
    pub(crate) value: ControllerValue,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ControllerValue {
    MaxConcurrentReconciles(usize),
    ReconcileTimeout(Duration),
    CacheSyncTimeout(Duration),
    BackoffBase(Duration),
    BackoffMax(Duration),
    MaxRetries(u32),
    InitialPriority(i32),
    LowerPriorityShare(u32),
}

/// The backoff delays of a controller, of which one may be missing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BackoffSetting {
    pub(crate) base: Duration,
    pub(crate) max: Duration,
}

/// Parses `NAME.KEY=VALUE`. The name of a controller may contain dots.
pub(crate) fn parse_named(text: &str) -> Result<NamedSetting, String> {
    let form =
        || "the form is NAME.KEY=VALUE, such as website.max-concurrent-reconciles=8".to_owned();
    let (path, value) = text.split_once('=').ok_or_else(form)?;
    let (controller, key) = path.rsplit_once('.').ok_or_else(form)?;
    if controller.trim().is_empty() {
        return Err(form());
    }
    Ok(NamedSetting {
        controller: controller.trim().to_owned(),
        value: parse_value(key.trim(), value.trim())?,
    })
}

pub(crate) fn parse_value(key: &str, value: &str) -> Result<ControllerValue, String> {
    Ok(match key {
        "max-concurrent-reconciles" => {
            ControllerValue::MaxConcurrentReconciles(parse_workers(value)?)
        }
        "reconcile-timeout" => ControllerValue::ReconcileTimeout(parse_duration(value)?),
        "cache-sync-timeout" => ControllerValue::CacheSyncTimeout(parse_duration(value)?),
        "backoff-base" => ControllerValue::BackoffBase(parse_delay(value)?),
        "backoff-max" => ControllerValue::BackoffMax(parse_delay(value)?),
        "max-retries" => match value.parse() {
            Ok(retries) => ControllerValue::MaxRetries(retries),
            Err(_) => {
                return Err("the number of retries is a whole number; 0 is no retry".to_owned());
            }
        },
        "initial-priority" => match value.parse() {
            Ok(priority) => ControllerValue::InitialPriority(priority),
            Err(_) => {
                return Err("a priority is a whole number; -100 is low, 0 is normal".to_owned());
            }
        },
        "lower-priority-share" => match value.parse() {
            Ok(turns @ 2..) => ControllerValue::LowerPriorityShare(turns),
            _ => return Err("the number of turns is at least 2".to_owned()),
        },
        _ => {
            return Err(format!(
                "a controller has no setting {key:?}; its settings are {}",
                CONTROLLER_KEYS.join(", ")
            ));
        }
    })
}

/// Groups the settings by controller. The last value of a setting counts. A backoff that lacks a delay takes it from
/// `backoff`.
pub(crate) fn by_controller(
    settings: &[NamedSetting],
    backoff: BackoffSetting,
) -> BTreeMap<String, ControllerSettings> {
    let mut found: BTreeMap<String, (ControllerSettings, BackoffSetting)> = BTreeMap::new();
    for NamedSetting { controller, value } in settings {
        let entry = found.entry(controller.clone());
        let (settings, delays) = entry.or_insert((ControllerSettings::new(), backoff));
        let taken = std::mem::take(settings);
        *settings = match *value {
            ControllerValue::MaxConcurrentReconciles(workers) => {
                taken.max_concurrent_reconciles(workers)
            }
            ControllerValue::ReconcileTimeout(timeout) => taken.deadline(timeout),
            ControllerValue::CacheSyncTimeout(timeout) => taken.require_sync(timeout),
            ControllerValue::BackoffBase(base) => {
                delays.base = base;
                taken.backoff(delays.base, delays.max)
            }
            ControllerValue::BackoffMax(max) => {
                delays.max = max;
                taken.backoff(delays.base, delays.max)
            }
            ControllerValue::MaxRetries(retries) => taken.max_retries(retries),
            ControllerValue::InitialPriority(priority) => {
                taken.initial_priority(Priority::new(priority))
            }
            ControllerValue::LowerPriorityShare(turns) => taken.lower_priority_share(turns),
        };
    }
    let settings = found.into_iter();
    settings
        .map(|(name, (settings, _))| (name, settings))
        .collect()
}
