//! Words: which writes a cached read must see.

/// The writes that a read from the cache must see before it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadConsistency {
    /// The writes of the same request key ([`Client::for_request`](crate::Client::for_request)): a reconcile reads
    /// its own writes and those of earlier reconciles of its key. A client without a request waits for nothing.
    #[default]
    OwnKey,
    /// The writes of all clients that were made from one another and note their writes, for any key.
    Process,
    /// No writes. The writes of such a client are not noted either.
    None,
}
