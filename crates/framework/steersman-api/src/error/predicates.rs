//! Words: the predicates of an error.

use super::Error;

/// Predicates for branches. A predicate for a reason of Kubernetes (`metav1.StatusReason`) has the name of client-go's
/// `apierrors`, unless a plainer name says more.
impl Error {
    /// Returns whether no configuration was found.
    pub fn is_no_config(&self) -> bool {
        matches!(self, Self::NoConfig { .. })
    }

    /// Returns whether a configuration was found and cannot be used.
    pub fn is_config(&self) -> bool {
        matches!(self, Self::Config { .. })
    }

    /// Returns whether the object is absent.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound(_))
    }

    /// Returns whether an object of this name exists already.
    pub fn is_already_exists(&self) -> bool {
        matches!(self, Self::AlreadyExists(_))
    }

    /// Returns whether the object has changed since it was read, or a precondition failed.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict(_))
    }

    /// Returns whether the version or continue token is no longer available.
    pub fn is_expired(&self) -> bool {
        matches!(self, Self::Expired(_))
    }

    /// Returns whether the object, or the change to it, is invalid.
    pub fn is_invalid(&self) -> bool {
        matches!(self, Self::Invalid(_))
    }

    /// Returns whether the server throttles its clients.
    pub fn is_throttled(&self) -> bool {
        matches!(self, Self::Throttled { .. })
    }

    /// Returns whether the server does not allow the request.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Forbidden(_))
    }

    /// Returns whether the server does not accept the credentials.
    pub fn is_unauthorized(&self) -> bool {
        matches!(self, Self::Unauthorized(_))
    }

    /// Returns whether the server does not serve this kind.
    pub fn is_kind_not_served(&self) -> bool {
        matches!(self, Self::KindNotServed(_))
    }

    /// Returns whether the request is wrong: it does not parse, or cannot be fulfilled.
    pub fn is_bad_request(&self) -> bool {
        self.is_refused_as("BadRequest", 400)
    }

    /// Returns whether the server serves the kind or the subresource, but not with this verb.
    pub fn is_method_not_supported(&self) -> bool {
        self.is_refused_as("MethodNotAllowed", 405)
    }

    /// Returns whether the server does not accept a body of this type, such as a strategic merge patch of a custom
    /// resource.
    pub fn is_unsupported_media_type(&self) -> bool {
        self.is_refused_as("UnsupportedMediaType", 415)
    }

    /// Returns whether the body is larger than the server accepts.
    pub fn is_too_large(&self) -> bool {
        self.is_refused_as("RequestEntityTooLarge", 413)
    }

    /// Returns whether the server failed internally. It is unknown whether the request was executed.
    pub fn is_internal(&self) -> bool {
        self.is_refused_as("InternalError", 500)
    }

    /// Returns whether the server, or a part of it such as an aggregated API, is unavailable.
    pub fn is_service_unavailable(&self) -> bool {
        self.is_refused_as("ServiceUnavailable", 503)
    }

    /// Returns whether the request took too long: the server (`Timeout`) or a proxy gave up waiting.
    pub fn is_timeout(&self) -> bool {
        self.is_refused_as("Timeout", 504)
    }

    /// Returns whether the server asks for another attempt later (`ServerTimeout`, a 500);
    /// [`retry_after`](Self::retry_after) has the time.
    pub fn is_server_timeout(&self) -> bool {
        self.reason() == Some("ServerTimeout")
    }

    /// Returns whether the namespace is being deleted, so that nothing can be created in it: a 403 with the cause
    /// `NamespaceTerminating` (apiserver, plugin `NamespaceLifecycle`).
    pub fn is_namespace_terminating(&self) -> bool {
        self.has_cause("NamespaceTerminating")
    }

    /// Returns whether the server named this cause (`details.causes[].reason`), such as `FieldManagerConflict`.
    pub fn has_cause(&self, reason: &str) -> bool {
        let details = self.status().and_then(|status| status.details.as_ref());
        let mut causes = details.iter().flat_map(|details| &details.causes);
        causes.any(|cause| cause.reason == reason)
    }

    /// Returns the reason that the server named; `None` if it named none.
    pub fn reason(&self) -> Option<&str> {
        let reason = self.status().map(|status| status.reason.as_str());
        reason.filter(|reason| !reason.is_empty())
    }

    /// Returns whether the server's reason is `reason` or, if it named none, its code is `code`.
    fn is_refused_as(&self, reason: &str, code: u16) -> bool {
        match self.reason() {
            Some(given) => given == reason,
            None => self.code() == Some(code),
        }
    }

    /// Returns whether the server could not be reached, or the connection broke.
    pub fn is_transport(&self) -> bool {
        matches!(self, Self::Transport { .. })
    }

    /// Returns whether the answer does not decode.
    pub fn is_decode(&self) -> bool {
        matches!(self, Self::Decode { .. })
    }

    /// Returns whether the server has not reached the requested version: it was restored from a backup, or lags
    /// behind another server.
    ///
    /// Kubernetes answers 504 Timeout with the cause `ResourceVersionTooLarge` (apiserver,
    /// `storage.NewTooLargeResourceVersionError`).
    pub fn is_version_too_large(&self) -> bool {
        let Some(status) = self.status() else {
            return false;
        };
        self.has_cause("ResourceVersionTooLarge")
            || (status.code == 504 && status.message.contains("Too large resource version"))
    }
}
