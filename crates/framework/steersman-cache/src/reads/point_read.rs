//! Driver: reads one object from the informer that holds it.

use std::panic::Location;
use std::sync::Arc;

use steersman_api::Malformed;
use steersman_object::{Kind, Object, ObjectKey};

use crate::coverage::Coverage;
use crate::error::Error;
use crate::metrics::Verb;
use crate::shared::SharedCache;

pub(crate) async fn get<K: Object>(
    shared: &SharedCache,
    coverage: &Coverage,
    key: &ObjectKey,
    caller: &'static Location<'static>,
) -> Result<Arc<K>, Error> {
    let (kind, namespace) = (coverage.kind(), coverage.informer_for(key)?);
    let informer = shared.readable::<K>(coverage, namespace.clone(), Some(Verb::Get), caller);
    let found = informer.await?.as_store().try_get(&key.placed(kind));
    // An object that does not decode is an error, because callers would clean up after an absent object.
    let found = found.map_err(|problem| malformed(kind, problem))?;
    found.ok_or_else(|| Error::NotFound {
        kind: kind.clone(),
        key: key.placed(kind).into_owned(),
        scoped_by: coverage.scoped_by_in(namespace.as_deref()),
    })
}

/// Returns the error of a read that finds an object which does not decode.
pub(crate) fn malformed(kind: &Kind, problem: Malformed) -> Error {
    Error::Malformed {
        kind: kind.clone(),
        key: problem.key,
        problem: problem.error,
    }
}
