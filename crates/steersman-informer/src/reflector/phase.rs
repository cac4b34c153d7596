//! Words: what a reflector is doing, and whether its lists are streamed.

/// What a reflector is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Everything has to be asked for.
    Empty,
    /// A list is asked for, page by page.
    Listing {
        /// The continue token of the next page; `None` for the first page.
        page: Option<String>,
    },
    /// A streaming list (WatchList) is asked for.
    Streaming,
    /// The list is complete, and a watch continues from its version.
    Watching,
}

/// Whether lists are streamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Streams {
    /// Each list is streamed.
    Yes,
    /// Streams broke: the next list is an ordinary one.
    NotNow,
    /// The options turn streams off, or the server does not offer them.
    No,
}
