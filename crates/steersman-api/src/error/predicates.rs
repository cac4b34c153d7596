//! Words: what one may ask of an error.

use super::Error;

/// What callers branch on. Where a word stands for a reason of Kubernetes (`metav1.StatusReason`), it is the one that
/// client-go's `apierrors` has for it, unless a plainer one says more.
impl Error {
    /// There is no configuration at all.
    #[must_use]
    pub fn is_no_config(&self) -> bool {
        matches!(self, Self::NoConfig { .. })
    }

    /// There is a configuration, and it is unusable.
    #[must_use]
    pub fn is_config(&self) -> bool {
        matches!(self, Self::Config { .. })
    }

    /// There is no such object.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound(_))
    }

    /// An object of this name is there already.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        matches!(self, Self::AlreadyExists(_))
    }

    /// The object has changed since it was read, or a precondition failed.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict(_))
    }

    /// The version or continue token is no longer available.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        matches!(self, Self::Expired(_))
    }

    /// The object, or the change to it, is not valid.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        matches!(self, Self::Invalid(_))
    }

    /// The server asks its clients to slow down.
    #[must_use]
    pub fn is_throttled(&self) -> bool {
        matches!(self, Self::Throttled { .. })
    }

    /// The server does not allow it.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Forbidden(_))
    }

    /// The server does not know who asks.
    #[must_use]
    pub fn is_unauthorized(&self) -> bool {
        matches!(self, Self::Unauthorized(_))
    }

    /// The server does not serve this kind.
    #[must_use]
    pub fn is_kind_not_served(&self) -> bool {
        matches!(self, Self::KindNotServed(_))
    }

    /// The request itself is wrong: it does not parse, or asks for what cannot be.
    #[must_use]
    pub fn is_bad_request(&self) -> bool {
        self.is_refused_as("BadRequest", 400)
    }

    /// The server serves the kind or the subresource, and not with this verb.
    #[must_use]
    pub fn is_method_not_supported(&self) -> bool {
        self.is_refused_as("MethodNotAllowed", 405)
    }

    /// The server does not take a body of this type, such as a strategic merge patch of a custom resource.
    #[must_use]
    pub fn is_unsupported_media_type(&self) -> bool {
        self.is_refused_as("UnsupportedMediaType", 415)
    }

    /// The body is larger than the server takes.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        self.is_refused_as("RequestEntityTooLarge", 413)
    }

    /// Something is broken behind the server; it does not know whether the request was done.
    #[must_use]
    pub fn is_internal(&self) -> bool {
        self.is_refused_as("InternalError", 500)
    }

    /// The server, or a part of it such as an aggregated API, does not answer at present.
    #[must_use]
    pub fn is_service_unavailable(&self) -> bool {
        self.is_refused_as("ServiceUnavailable", 503)
    }

    /// The request took too long: the server (`Timeout`) or a proxy before it gave up waiting.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        self.is_refused_as("Timeout", 504)
    }

    /// The server could not do it at this time and asks to try again (`ServerTimeout`, a 500);
    /// [`retry_after`](Self::retry_after) says when.
    #[must_use]
    pub fn is_server_timeout(&self) -> bool {
        self.reason() == Some("ServerTimeout")
    }

    /// Nothing is created in this namespace any more, because it is being deleted: a 403 with the cause
    /// `NamespaceTerminating` (apiserver, plugin `NamespaceLifecycle`).
    #[must_use]
    pub fn is_namespace_terminating(&self) -> bool {
        self.has_cause("NamespaceTerminating")
    }

    /// Whether the server named this among its causes (`details.causes[].reason`), such as `FieldManagerConflict`.
    #[must_use]
    pub fn has_cause(&self, reason: &str) -> bool {
        let details = self.status().and_then(|status| status.details.as_ref());
        let mut causes = details.iter().flat_map(|details| &details.causes);
        causes.any(|cause| cause.reason == reason)
    }

    /// The server's word for why, if a server answered with one.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        let reason = self.status().map(|status| status.reason.as_str());
        reason.filter(|reason| !reason.is_empty())
    }

    /// Whether this was the server's reason; where it gave none, its code counts.
    fn is_refused_as(&self, reason: &str, code: u16) -> bool {
        match self.reason() {
            Some(given) => given == reason,
            None => self.code() == Some(code),
        }
    }

    /// The server could not be reached, or the connection broke.
    #[must_use]
    pub fn is_transport(&self) -> bool {
        matches!(self, Self::Transport { .. })
    }

    /// The answer does not decode.
    #[must_use]
    pub fn is_decode(&self) -> bool {
        matches!(self, Self::Decode { .. })
    }

    /// The server has not reached the version asked for (yet): it was restored from a backup, or
    /// this one lags behind another.
    ///
    /// Kubernetes answers 504 Timeout with the cause `ResourceVersionTooLarge`
    /// (apiserver, `storage.NewTooLargeResourceVersionError`).
    #[must_use]
    pub fn is_version_too_large(&self) -> bool {
        let Some(status) = self.status() else {
            return false;
        };
        self.has_cause("ResourceVersionTooLarge")
            || (status.code == 504 && status.message.contains("Too large resource version"))
    }
}
