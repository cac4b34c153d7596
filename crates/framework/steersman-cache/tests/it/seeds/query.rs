//! The selection of a read, and the model of its result.

use std::sync::Arc;

use steersman_cache::{ListOptions, Listed, Reads};
use steersman_object::{LabelSelector, Object, ObjectKey, ResourceVersion};
use steersman_testenv::seeds::SeededRng;
use tokio::task::coop::unconstrained;

use super::scope::Scope;
use super::subject::{HAS_VALUE, LABEL};

/// The indexes of the label and of the value.
pub(super) const TERMS: [&str; 2] = [LABEL, HAS_VALUE];

#[derive(Clone, Debug)]
pub(super) struct Query {
    namespace: Option<&'static str>,
    labels: &'static str,
    terms: Vec<(&'static str, &'static str)>,
    limit: Option<usize>,
}

/// The key and version of an object.
type Identity = (ObjectKey, ResourceVersion);

impl Query {
    pub(super) fn everything() -> Self {
        Self {
            namespace: None,
            labels: "",
            terms: Vec::new(),
            limit: None,
        }
    }

    pub(super) fn of(rng: &mut SeededRng) -> Self {
        let selectors = [
            "", "keep=yes", "!keep", "v in (1,2)", "v notin (0)", "keep,v=3",
        ];
        let mut terms = Vec::new();
        if rng.chance(50) {
            terms.push((LABEL, rng.pick(&["0", "1", "2", "3", "none"])));
        }
        if rng.chance(40) {
            terms.push((HAS_VALUE, rng.pick(&["even", "odd", "any", "none"])));
        }
        Self {
            namespace: rng.maybe(40, |rng| rng.pick(&["a", "b", "c"])),
            labels: rng.pick(&selectors),
            terms,
            limit: rng.maybe(30, |rng| rng.index(4)),
        }
    }

    /// Returns the query without conditions on indexes.
    pub(super) fn without_terms(mut self) -> Self {
        self.terms.clear();
        self
    }

    pub(super) fn is_in(&self, scope: &Scope, namespaced: bool) -> bool {
        let asked = self.namespace.filter(|_| namespaced);
        asked.is_none() || scope.place(asked).is_some()
    }

    pub(super) fn options(&self) -> ListOptions {
        let labels = self.labels.parse().unwrap();
        let mut options = ListOptions::new().labels(labels).skip_malformed();
        if let Some(namespace) = self.namespace {
            options = options.namespace(namespace);
        }
        for (index, value) in &self.terms {
            options = options.index(*index, *value);
        }
        match self.limit {
            Some(limit) => options.limit(limit),
            None => options,
        }
    }

    /// Returns the expected result by checking each object.
    fn scan<V: Object>(
        &self,
        all: &[Arc<V>],
        values: impl Fn(&V, &str) -> Vec<String>,
    ) -> Vec<Identity> {
        let selector: LabelSelector = self.labels.parse().unwrap();
        let selects = |object: &&Arc<V>| {
            let meta = object.meta();
            let in_namespace = match (self.namespace, &meta.namespace) {
                (Some(asked), Some(own)) => asked == own,
                _ => true,
            };
            let has = |(index, value): &(&str, &str)| {
                values(object, index).iter().any(|own| own == value)
            };
            in_namespace && selector.matches(meta.labels.as_ref()) && self.terms.iter().all(has)
        };
        let found = all.iter().filter(selects).map(identity);
        found.take(self.limit.unwrap_or(usize::MAX)).collect()
    }

    /// STORE-1: every kind of read finds the objects that a scan finds. Returns all objects.
    pub(super) async fn compare<V: Object>(
        &self,
        reads: &Reads<V>,
        values: impl Fn(&V, &str) -> Vec<String>,
    ) -> Result<Listed<V>, steersman_cache::Error> {
        // This read may wait for an informer, so that the reads below wait for none.
        reads.list(&Self::everything().options()).await?;
        // Unconstrained, so that the reads do not yield (CACHE-12) and no change falls between them.
        unconstrained(self.compare_at_once(reads, values)).await
    }

    async fn compare_at_once<V: Object>(
        &self,
        reads: &Reads<V>,
        values: impl Fn(&V, &str) -> Vec<String>,
    ) -> Result<Listed<V>, steersman_cache::Error> {
        let all = reads.list(&Self::everything().options()).await?;
        let expected = self.scan(&all, values);
        let found = reads.list(&self.options()).await?;
        for version in &found.versions {
            assert!(all.versions.contains(version), "{self:?}");
        }
        let identities: Vec<Identity> = found.iter().map(identity).collect();
        assert_eq!(identities, expected, "{self:?}");
        let keys = reads.keys(&self.options()).await?;
        let expected: Vec<ObjectKey> = expected.into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, expected, "{self:?}");
        let mut passed = Vec::new();
        let pass = |object: &V| passed.push(object.key());
        reads.for_each(&self.options(), pass).await?;
        assert_eq!(passed, expected, "{self:?}");
        Ok(all)
    }
}

pub(super) fn identity<V: Object>(object: &Arc<V>) -> Identity {
    let version = object.meta().resource_version.as_deref().unwrap();
    (object.key(), ResourceVersion::new(version))
}
