//! Handle: adds namespaces to a cache and removes them, also while it runs.

use super::Cache;
use crate::error::Error;
use crate::settings::Settings;

impl Cache {
    /// Returns the present [default namespaces](crate::CacheOptions::default_namespaces); `None` if the cache holds all
    /// namespaces.
    pub fn default_namespaces(&self) -> Option<Vec<String>> {
        self.shared.default_namespaces()
    }

    /// Adds a default namespace, and returns whether it is new. May be called before the cache runs and while it runs.
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

    /// Removes a default namespace; returns false if the namespace is none of the default namespaces.
    ///
    /// The informers of the namespace have ended when this method returns. Their subscriptions end at once, without the
    /// waiting events and without deletes, because the objects exist (CACHE-17). The method blocks while such an
    /// informer applies a change. The requests of the informers are cancelled soon afterwards.
    ///
    /// Controllers go on with the other namespaces. An event that a handler is working on, and requests that already
    /// wait in a queue, still cause runs. Reads of the namespace, also in such runs, fail with [`Error::OutsideScope`],
    /// and so does a list of all namespaces in progress.
    ///
    /// # Errors
    ///
    /// [`Error::Scope`] if the cache holds all namespaces, or the namespace is the last one.
    pub fn remove_namespace(&self, namespace: &str) -> Result<bool, Error> {
        self.shared.remove_namespace(namespace)
    }
}
