//! Driver: joins all pages of a list.

use std::future::Future;

use crate::error::Error;
use crate::event::ListPage;
use crate::options::{PageRequest, Paging};

/// Requests page after page with `ask`, until the list or `limit` ends. If the continue token expires, the list is
/// requested once more, in a single page and at the newest version, because the requested version has expired, too.
pub(crate) async fn all<T, F>(
    mut request: PageRequest,
    limit: Option<usize>,
    ask: impl Fn(PageRequest) -> F,
) -> Result<ListPage<T>, Error>
where
    F: Future<Output = Result<ListPage<T>, Error>>,
{
    let mut whole = ask(request.clone()).await?;
    while let Some(token) = whole.continue_token.take() {
        if limit.is_some_and(|limit| whole.items.len() >= limit) {
            break;
        }
        request.paging.continue_token = Some(token);
        let page = match ask(request.clone()).await {
            Ok(page) => page,
            Err(error) if error.is_expired() => {
                request.paging = Paging {
                    page_size: limit.and_then(|limit| u32::try_from(limit).ok()),
                    ..Paging::new()
                };
                whole = ask(request).await?;
                break;
            }
            Err(error) => return Err(error),
        };
        whole.items.extend(page.items);
        whole.version = page.version;
        whole.continue_token = page.continue_token;
    }
    whole.items.truncate(limit.unwrap_or(usize::MAX));
    whole.continue_token = None;
    whole.remaining = None;
    Ok(whole)
}
