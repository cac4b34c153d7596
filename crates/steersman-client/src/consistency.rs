//! Words: whose writes a cached read sees.

/// Whose writes a read from the cache has to see before it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadConsistency {
    /// Those of the same request key ([`Client::for_request`](crate::Client::for_request)): what a reconcile
    /// wrote, that one and the next of its key read. A client without a request waits for nothing.
    #[default]
    OwnKey,
    /// Those of all clients that were made from one another and note their writes, whatever the key.
    Process,
    /// Nobody's. What such a client writes is not noted either.
    None,
}
