//! Machine: decides whether the cache or the API server answers a read.

/// The side that answers a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadRoute {
    /// The cache, without a request.
    Cache,
    /// The API server, without a look at the cache.
    Live,
}

/// Returns the side that answers a read through the client (CLIENT-1): the server if the kind is declared uncached,
/// otherwise the cache. Writes, and reads through `live()`, always go to the server.
pub(crate) fn route(kind_is_cached: bool) -> ReadRoute {
    if kind_is_cached {
        ReadRoute::Cache
    } else {
        ReadRoute::Live
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CLIENT-1
    #[test]
    fn only_an_uncached_kind_is_read_from_the_server() {
        assert_eq!(route(true), ReadRoute::Cache);
        assert_eq!(route(false), ReadRoute::Live);
    }
}
