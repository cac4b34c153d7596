//! Driver: fills a server with objects, with separate writes for spec and status.

use std::ops::Range;

use steersman_apiserver::ApiServer;

use crate::process::BenchResult;
use crate::samples::document::documents;
use crate::samples::{Sample, widgets};

pub(crate) const NAMESPACE: &str = "default";

/// Creates objects and their status, so that the server tracks field owners. Returns the number of writes.
pub(crate) fn fill(server: &ApiServer, of: Sample, numbers: Range<u64>) -> BenchResult<u64> {
    numbers.map(|number| add(server, of, number)).sum()
}

/// Creates the prerequisites of objects of this kind.
pub(crate) fn prepare(server: &ApiServer, of: Sample) -> BenchResult<()> {
    let definition = match of {
        Sample::Widget => widgets()?,
        Sample::Document => documents()?,
        Sample::Pod | Sample::ConfigMap | Sample::Secret | Sample::Event => return Ok(()),
    };
    server.install_crd(definition)?;
    Ok(())
}

pub(crate) fn add(server: &ApiServer, of: Sample, number: u64) -> BenchResult<u64> {
    let (object, status) = of.make(number, NAMESPACE);
    let mut object = server.create(object)?;
    let Some(status) = status else {
        return Ok(1);
    };
    object["status"] = status;
    server.update(&format!("{}/status", of.resource()), object)?;
    Ok(2)
}
