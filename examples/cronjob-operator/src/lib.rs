//! An operator that starts Jobs by a schedule: kubebuilder's CronJob tutorial, written for Steersman.
//!
//! A [`CronJob`](cron_job::CronJob) of the group `batch.example.com` has a schedule and a template of
//! Jobs. The operator starts a Job at each time of the schedule, within the deadline and the
//! concurrency policy, deletes old Jobs, and reports running Jobs and the last times in the status.
//!
//! Each Job has a name that its CronJob and its time determine. So a reconcile that runs again after a
//! crash finds the Job instead of starting a second one.
//!
//! The modules in reading order:
//!
//! - [`cron_job`] is the kind, as its users write it.
//! - `schedule` parses schedules and finds their times; `plan` decides what is to be done at a
//!   given time; [`job`] makes the Jobs; `status` computes the status. None of them waits.
//! - [`controller`] is the reconciler with its watches, and the file to read if you read only one.
//! - [`once`] waits until Jobs have completed.

use steersman::cli::OperatorSettings;

pub mod cron_job;
mod schedule;
pub mod job;
mod plan;
mod status;
pub mod controller;
pub mod once;

/// The settings of this operator below the key `operator` of its configuration file: none.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {}

impl OperatorSettings for Settings {
    // A first run on a laptop prints what happens to CronJobs, and needs no free port.
    const DEFAULTS: &'static [(&'static str, &'static str)] =
        &[("log-level", "warn"), ("health-probe-bind-address", "0")];
}
