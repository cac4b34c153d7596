//! Tests of the dashboard, the alerts and the monitor, with the metrics that an operator serves.

mod exposition;
mod recording;
mod promtool;
mod names;
mod alerts;
mod dashboard;
mod data;
