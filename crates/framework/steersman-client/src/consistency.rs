//! Words: which writes a cached read must see.

/// The writes that a read from the cache must see before it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadConsistency {
    /// The writes of the same request key ([`Client::for_request`](crate::Client::for_request)): a reconcile sees the
    /// writes of all reconciles of its key so far. A read of a client without a request waits for no write.
    #[default]
    OwnKey,
    /// The writes of a client and all its copies, for any request key, except copies that use `ReadConsistency::None`.
    Process,
    /// No writes: a read of this client never waits for a write, and the reads of other copies of the client do not
    /// wait for the writes of this client.
    None,
}
