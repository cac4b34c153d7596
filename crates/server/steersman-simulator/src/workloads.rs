//! Room: the controllers of workloads.

mod replica_set;
mod rollout;
mod deployment_replica_sets;
mod deployment;
mod revisions;
mod stateful_set;
mod daemon_set;
mod job;
mod cron_job;
