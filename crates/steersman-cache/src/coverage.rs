//! Machine: decides which informers a kind gets, and which namespaces they can see.

use std::sync::Arc;

use steersman_object::{Kind, LabelSelector, ObjectKey};

use crate::error::Error;
use crate::options::{ByObject, CacheOptions};

/// Kinds that an undeclared read never caches cluster-wide: they hold secrets, or files.
const GUARDED: &[&str] = &["Secret", "ConfigMap"];

/// What the cache sees of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Coverage {
    kind: Kind,
    /// Empty where all namespaces are seen, or the kind has none.
    namespaces: Vec<Arc<str>>,
    labels: Option<String>,
    fields: Option<String>,
    cached: bool,
    declared: bool,
}

impl Coverage {
    /// What `options` say about `kind`: its own entry before the defaults.
    pub(crate) fn of(kind: &Kind, options: &CacheOptions) -> Self {
        let inherited = ByObject::default();
        let entry = options
            .objects
            .get(kind.gvk())
            .map(|(_, by_object)| by_object);
        let by_object = entry.unwrap_or(&inherited);
        let namespaces = by_object
            .namespaces
            .as_ref()
            .unwrap_or(&options.default_namespaces);
        let namespaces = if kind.is_namespaced() {
            namespaces.iter().map(|n| n.as_str().into()).collect()
        } else {
            Vec::new()
        };
        Self {
            kind: kind.clone(),
            namespaces,
            labels: by_object.labels.clone(),
            fields: by_object.fields.clone(),
            cached: !by_object.uncached,
            declared: entry.is_some(),
        }
    }

    /// The kind this is about.
    pub(crate) fn kind(&self) -> &Kind {
        &self.kind
    }

    /// One informer for each element; `None` looks at all namespaces.
    pub(crate) fn informers(&self) -> Vec<Option<Arc<str>>> {
        if self.namespaces.is_empty() {
            vec![None]
        } else {
            self.namespaces.iter().cloned().map(Some).collect()
        }
    }

    /// The namespace whose informer holds the object, or `None` where one holds them all.
    pub(crate) fn informer_for(&self, key: &ObjectKey) -> Result<Option<Arc<str>>, Error> {
        match (self.kind.is_namespaced(), key.namespace()) {
            (false, _) => Ok(None),
            (true, None) => Err(Error::NamespaceMissing {
                kind: self.kind.clone(),
                key: key.clone(),
            }),
            (true, Some(namespace)) => self.informer_in(namespace),
        }
    }

    /// The informers a list needs: all of them, or the one that covers a namespace.
    pub(crate) fn informers_for(
        &self,
        namespace: Option<&str>,
    ) -> Result<Vec<Option<Arc<str>>>, Error> {
        match namespace.filter(|_| self.kind.is_namespaced()) {
            None => Ok(self.informers()),
            Some(namespace) => Ok(vec![self.informer_in(namespace)?]),
        }
    }

    /// The one informer of the kind.
    pub(crate) fn only_informer(&self) -> Result<Option<Arc<str>>, Error> {
        match self.namespaces.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some(Arc::clone(one))),
            _ => Err(Error::SeveralInformers {
                kind: self.kind.clone(),
                scope: self.scope(),
            }),
        }
    }

    /// Refuses a read that would be served from nowhere, or start what nobody asked for.
    pub(crate) fn allows_read(&self, is_declared: bool) -> Result<(), Error> {
        if !self.cached {
            return Err(Error::NotCached {
                kind: self.kind.clone(),
            });
        }
        let guarded =
            self.kind.gvk().group().is_empty() && GUARDED.contains(&self.kind.gvk().kind());
        // CACHE-3: only a declaration starts a cluster-wide informer of these.
        if guarded && self.namespaces.is_empty() && !self.declared && !is_declared {
            let line = format!(
                ".by_object::<{}>(ByObject::new().namespaces([\"…\"]))",
                self.kind.gvk().kind()
            );
            return Err(Error::MustBeDeclared {
                kind: self.kind.clone(),
                line,
            });
        }
        Ok(())
    }

    /// Whether the options name this kind.
    pub(crate) fn is_declared(&self) -> bool {
        self.declared
    }

    /// Whether reads of this kind are served from memory.
    pub(crate) fn is_cached(&self) -> bool {
        self.cached
    }

    /// The label selector the server filters by.
    pub(crate) fn labels(&self) -> Option<&str> {
        self.labels.as_deref()
    }

    /// The field selector the server filters by.
    pub(crate) fn fields(&self) -> Option<&str> {
        self.fields.as_deref()
    }

    /// The selectors that may hide an object, as text.
    pub(crate) fn scoped_by(&self) -> Option<String> {
        let labels = self.labels.as_ref().map(|l| format!("labels {l:?}"));
        let fields = self.fields.as_ref().map(|f| format!("fields {f:?}"));
        let parts: Vec<String> = labels.into_iter().chain(fields).collect();
        (!parts.is_empty()).then(|| parts.join(" and "))
    }

    fn scope(&self) -> Vec<String> {
        self.namespaces.iter().map(ToString::to_string).collect()
    }

    fn informer_in(&self, namespace: &str) -> Result<Option<Arc<str>>, Error> {
        if self.namespaces.is_empty() {
            return Ok(None);
        }
        if let Some(found) = self.namespaces.iter().find(|n| ***n == *namespace) {
            return Ok(Some(Arc::clone(found)));
        }
        Err(Error::OutsideScope {
            kind: self.kind.clone(),
            asked: Some(namespace.to_owned()),
            scope: self.scope(),
        })
    }
}

/// Refuses options that contradict themselves, naming the kind.
pub(crate) fn check(options: &CacheOptions) -> Result<(), Error> {
    for (kind, by_object) in options.objects.values() {
        let refuse = |problem: String| {
            Err(Error::Options {
                kind: kind.clone(),
                problem,
            })
        };
        let own = by_object.namespaces.as_deref().unwrap_or_default();
        if !kind.is_namespaced() && !own.is_empty() {
            return refuse("it is cluster-scoped, so it has no namespaces to choose".to_owned());
        }
        if own.iter().any(String::is_empty) {
            return refuse("an empty namespace is none: use `all_namespaces`".to_owned());
        }
        if let Some(Err(error)) = by_object
            .labels
            .as_ref()
            .map(|l| l.parse::<LabelSelector>())
        {
            return refuse(error.to_string());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret};
    use steersman_object::TypedObject;

    use super::*;

    fn coverage<K: TypedObject>(options: &CacheOptions) -> Coverage {
        Coverage::of(&Kind::of::<K>(), options)
    }

    fn texts(namespaces: &[Option<Arc<str>>]) -> Vec<&str> {
        namespaces
            .iter()
            .map(|n| n.as_deref().unwrap_or("*"))
            .collect()
    }

    #[test]
    fn the_entry_of_a_kind_beats_the_defaults() {
        let options = CacheOptions::new()
            .default_namespaces(["a", "b", "a"])
            .by_object::<Secret>(ByObject::new().namespaces(["s"]))
            .by_object::<ConfigMap>(ByObject::new().all_namespaces());
        assert_eq!(texts(&coverage::<Pod>(&options).informers()), ["a", "b"]);
        assert_eq!(texts(&coverage::<Secret>(&options).informers()), ["s"]);
        assert_eq!(texts(&coverage::<ConfigMap>(&options).informers()), ["*"]);
        assert_eq!(texts(&coverage::<Namespace>(&options).informers()), ["*"]);
    }

    #[test]
    fn a_namespace_outside_the_scope_is_a_typed_error() {
        let pods = coverage::<Pod>(&CacheOptions::new().default_namespaces(["a", "b"]));
        assert_eq!(
            pods.informer_for(&ObjectKey::namespaced("b", "x")).unwrap(),
            Some("b".into())
        );
        let error = pods
            .informer_for(&ObjectKey::namespaced("c", "x"))
            .unwrap_err();
        assert!(error.is_outside_scope());
        assert_eq!(
            error.to_string(),
            "Pod.v1 is cached in the namespaces a, b only, not in namespace \"c\": \
             widen the scope in `CacheOptions`, or read live"
        );
        assert!(pods.informers_for(Some("c")).is_err());
        assert_eq!(texts(&pods.informers_for(None).unwrap()), ["a", "b"]);
        assert!(matches!(
            pods.only_informer(),
            Err(Error::SeveralInformers { .. })
        ));
    }

    #[test]
    fn a_cluster_scoped_kind_ignores_namespaces_and_a_namespaced_one_needs_them() {
        let options = CacheOptions::new();
        let key = ObjectKey::namespaced("a", "x");
        assert_eq!(
            coverage::<Namespace>(&options).informer_for(&key).unwrap(),
            None
        );
        let error = coverage::<Pod>(&options)
            .informer_for(&ObjectKey::cluster("x"))
            .unwrap_err();
        assert!(matches!(error, Error::NamespaceMissing { .. }));
    }

    /// CACHE-3
    #[test]
    fn secrets_and_config_maps_are_never_cached_cluster_wide_by_a_read() {
        let options = CacheOptions::new();
        let error = coverage::<Secret>(&options).allows_read(false).unwrap_err();
        assert!(
            error.to_string().contains(".by_object::<Secret>("),
            "{error}"
        );
        assert!(coverage::<ConfigMap>(&options).allows_read(false).is_err());
        assert!(coverage::<ConfigMap>(&options).allows_read(true).is_ok());
        assert!(coverage::<Pod>(&options).allows_read(false).is_ok());
        let narrow = CacheOptions::new().default_namespaces(["a"]);
        assert!(coverage::<Secret>(&narrow).allows_read(false).is_ok());
        let declared = CacheOptions::new().by_object::<Secret>(ByObject::new());
        assert!(coverage::<Secret>(&declared).allows_read(false).is_ok());
    }

    #[test]
    fn selectors_are_named_where_they_may_hide_an_object() {
        let options = CacheOptions::new()
            .by_object::<Pod>(
                ByObject::new()
                    .labels("app=web")
                    .fields("status.phase=Running"),
            )
            .by_object::<Secret>(ByObject::new().uncached());
        assert_eq!(
            coverage::<Pod>(&options).scoped_by().as_deref(),
            Some("labels \"app=web\" and fields \"status.phase=Running\"")
        );
        assert_eq!(coverage::<ConfigMap>(&options).scoped_by(), None);
        let error = coverage::<Secret>(&options).allows_read(true).unwrap_err();
        assert!(matches!(error, Error::NotCached { .. }));
    }

    #[test]
    fn contradictions_are_refused_by_kind() {
        let refused = |options: CacheOptions| check(&options).unwrap_err().to_string();
        let text =
            refused(CacheOptions::new().by_object::<Namespace>(ByObject::new().namespaces(["a"])));
        assert!(
            text.contains("Namespace.v1") && text.contains("cluster-scoped"),
            "{text}"
        );
        let text = refused(CacheOptions::new().by_object::<Pod>(ByObject::new().labels("a in b")));
        assert!(text.contains("\"a in b\""), "{text}");
        let text = refused(CacheOptions::new().by_object::<Pod>(ByObject::new().namespaces([""])));
        assert!(text.contains("all_namespaces"), "{text}");
        assert!(check(&CacheOptions::new()).is_ok());
    }
}
