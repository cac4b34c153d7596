//! Room: the scheduler, the kubelets and the volume binder.

mod statuses;
mod container_events;
mod volume_binder;
pub(crate) mod owned_pods;
mod pod;
