//! Words: the phases of a reflector.

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReflectorPhase {
    /// The next request begins a list.
    Empty,
    /// A list is under way, page by page.
    Listing {
        /// The continue token of the next page; `None` for the first page.
        page: Option<String>,
    },
    /// A streaming list (WatchList) is under way.
    Streaming,
    /// The list is complete; a watch continues from its version.
    Watching,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Streams {
    /// Each list is streamed.
    Yes,
    /// Streaming lists broke off: the next list is an ordinary list.
    NotNow,
    /// No list is streamed: the options disable streaming, or the server does not offer it.
    No,
}
