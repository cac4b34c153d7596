//! Room: functions on single objects: conversion between versions, scales, managedFields, addresses of Services, CRDs.

pub(crate) mod nesting;
pub(crate) mod scale;
pub(crate) mod managed;
pub(crate) mod field_owners;
mod convert;
pub(crate) mod definitions;
mod service_address;
