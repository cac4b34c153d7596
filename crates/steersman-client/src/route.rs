//! Machine: the split: what is answered from the cache, and what by the server.

/// Who answers a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// The cache, without a request.
    Cache,
    /// The api-server, without a look at the cache.
    Live,
}

/// CLIENT-1: a read through the client goes to the server where its kind is declared uncached, and nowhere
/// else. Writes, and reads through `live()`, are not routed: they know only the server.
pub(crate) fn route(kind_is_cached: bool) -> Route {
    if kind_is_cached {
        Route::Cache
    } else {
        Route::Live
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CLIENT-1
    #[test]
    fn only_an_uncached_kind_is_read_from_the_server() {
        assert_eq!(route(true), Route::Cache);
        assert_eq!(route(false), Route::Live);
    }
}
