//! Words: which writes a cached read must see.

/// The writes that a read from the cache must see before it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadConsistency {
    /// The writes of the same request key ([`Client::for_request`](crate::Client::for_request)): a reconcile sees its
    /// own writes and those of earlier reconciles of its key. A client without a request sees whatever the cache has.
    #[default]
    OwnKey,
    /// The writes, for any key, of all clients that were made from one another and note their writes.
    Process,
    /// No writes. The writes of a client with this consistency are not noted for other clients.
    None,
}
