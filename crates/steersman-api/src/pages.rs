//! Driver: all pages of a list as one.

use std::future::Future;

use crate::error::Error;
use crate::event::ListPage;
use crate::options::ListQuery;

/// Asks for page after page, each with `ask`. Where the token expires between two of them the list starts
/// again, once, in a single page and at the newest version: the one that was asked for has expired with it.
pub(crate) async fn all<T, F>(
    mut query: ListQuery,
    ask: impl Fn(ListQuery) -> F,
) -> Result<ListPage<T>, Error>
where
    F: Future<Output = Result<ListPage<T>, Error>>,
{
    let mut whole = ask(query.clone()).await?;
    while let Some(token) = whole.continue_token.take() {
        query.continue_token = Some(token);
        let page = match ask(query.clone()).await {
            Ok(page) => page,
            Err(error) if error.is_expired() => {
                query.continue_token = None;
                query.limit = None;
                query.resource_version = None;
                query.version_match = None;
                return ask(query).await;
            }
            Err(error) => return Err(error),
        };
        whole.items.extend(page.items);
        whole.version = page.version;
        whole.continue_token = page.continue_token;
    }
    whole.remaining = None;
    Ok(whole)
}
