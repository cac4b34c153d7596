//! Driver: a server full of objects, written as their authors would write them.

use std::ops::Range;

use steersman_apiserver::ApiServer;

use crate::process::Outcome;
use crate::samples::{Sample, widgets};

/// Where its objects are.
pub(crate) const NAMESPACE: &str = "default";

/// Creates objects and reports their status, so that the server notes who owns which field. Answers
/// how many writes that were.
pub(crate) fn fill(server: &ApiServer, of: Sample, numbers: Range<u64>) -> Outcome<u64> {
    let mut writes = 0;
    for number in numbers {
        writes += add(server, of, number)?;
    }
    Ok(writes)
}

/// Makes what objects of this kind need before they can be.
pub(crate) fn prepare(server: &ApiServer, of: Sample) -> Outcome<()> {
    if of == Sample::Widget {
        server
            .install_crd(widgets()?)
            .map_err(|refusal| refusal.message)?;
    }
    Ok(())
}

/// One of them.
pub(crate) fn add(server: &ApiServer, of: Sample, number: u64) -> Outcome<u64> {
    let made = of.make(number, NAMESPACE);
    let mut object = server
        .create(made.object)
        .map_err(|refusal| refusal.message)?;
    let Some(status) = made.status else {
        return Ok(1);
    };
    object["status"] = status;
    server
        .update(&format!("{}/status", of.resource()), object)
        .map_err(|refusal| refusal.message)?;
    Ok(2)
}
