//! Driver: reads the object of a request for the reconcilers of this crate.

use std::sync::Arc;

use steersman_object::TypedObject;

use crate::context::Context;
use crate::error::Error;
use crate::request::Request;

/// Returns the object of a request from the cache; `None` if it does not exist, or is outside the scope of the cache.
///
/// CTRL-42: a namespace may be removed from the cache while its requests wait. A retry would not find the object
/// either, so the request ends. If the namespace is added again, all its objects are requested.
pub(super) async fn requested_object<K: TypedObject>(
    ctx: &Context,
    request: &Request,
) -> Result<Option<Arc<K>>, Error> {
    match ctx.client().get_opt::<K>(&request.key).await {
        Ok(found) => Ok(found),
        Err(steersman_client::Error::Cache(error)) if error.is_outside_scope() => {
            tracing::debug!(
                object = %request.key,
                "the object of a request is outside the scope of the cache: the request ends"
            );
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}
