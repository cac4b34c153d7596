//! Room: the controllers of EndpointSlices and PodDisruptionBudgets.

mod endpoints;
mod budget;
