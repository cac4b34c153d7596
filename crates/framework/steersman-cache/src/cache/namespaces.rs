//! Handle: adds namespaces to a cache and removes them, also while it runs.

use super::Cache;
use crate::error::Error;
use crate::settings::Settings;

impl Cache {
    /// Returns the [default namespaces](crate::CacheOptions::default_namespaces) as they are now; `None` if the
    /// cache holds all namespaces.
    pub fn default_namespaces(&self) -> Option<Vec<String>> {
        self.shared.default_namespaces()
    }

    /// Adds a default namespace, and returns whether it is new. May be called before the cache runs and while
    /// it runs.
    ///
    /// Every declared kind without namespaces of its own ([`ByObject::namespaces`](crate::ByObject::namespaces))
    /// gets an informer of the namespace, with its indexes; controllers that watch the kind follow (CACHE-17).
    /// Reads of all namespaces wait for the first syncs of these informers, so a namespace that the credentials
    /// do not permit to read makes such reads fail.
    ///
    /// # Errors
    ///
    /// [`Error::Scope`] if the cache holds all namespaces, or the name is empty; [`Error::Stopped`].
    pub fn add_namespace(&self, namespace: &str) -> Result<bool, Error> {
        self.add_namespace_with(namespace, Settings::new())
    }

    /// Adds a default namespace like [`add_namespace`](Self::add_namespace), with its own settings, as
    /// [`CacheOptions::default_namespace`](crate::CacheOptions::default_namespace) does. The selectors are not
    /// checked: the state of the informers has the error of an invalid selector.
    ///
    /// # Errors
    ///
    /// Those of [`add_namespace`](Self::add_namespace).
    pub fn add_namespace_with(&self, namespace: &str, settings: Settings) -> Result<bool, Error> {
        self.shared.add_namespace(namespace, settings)
    }

    /// Removes a default namespace, and returns whether it was one.
    ///
    /// The informers of the namespace have ended when this method returns: subscriptions to them end at once,
    /// without the events that wait and without deletes, because the objects exist (CACHE-17). Waits, without
    /// yielding, for a change that such an informer is applying. Their requests are cancelled soon afterwards.
    ///
    /// Controllers go on with the other namespaces. Only an event that a handler works on at that moment, and
    /// requests that wait in a queue already, still cause runs. Reads of the namespace fail with
    /// [`Error::OutsideScope`], also those of such runs, and a list of all namespaces that is in progress.
    ///
    /// # Errors
    ///
    /// [`Error::Scope`] if the cache holds all namespaces, or the namespace is the last one.
    pub fn remove_namespace(&self, namespace: &str) -> Result<bool, Error> {
        self.shared.remove_namespace(namespace)
    }
}
