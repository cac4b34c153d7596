//! Machine: decides which informers a kind gets, and the namespace and selectors of each informer.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::Arc;

use steersman_object::{FieldSelector, Kind, LabelSelector, ObjectKey};

use crate::error::Error;
use crate::options::{ByObject, CacheOptions, Namespaces, Undeclared};
use crate::settings::Settings;

/// Kinds that only a declaration caches cluster-wide, because they hold credentials or large files (CACHE-3).
const GUARDED: &[&str] = &["Secret", "ConfigMap"];

/// The part of one kind that the cache holds, as the options define it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Coverage {
    kind: Kind,
    /// The scopes of the informers, one per informer. Never empty; each namespace occurs once.
    scopes: Vec<InformerScope>,
    cached: bool,
    pub(crate) declared: bool,
    /// Whether the cache holds only the objects of the slots of this replica.
    pub(crate) is_sharded: bool,
    /// The Rust types that the options declare for the kind: their views are kept (CACHE-15).
    pub(crate) types: Vec<TypeId>,
    undeclared: Undeclared,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct InformerScope {
    /// The namespace of the informer; `None` covers all namespaces without their own informer.
    namespace: Option<Arc<str>>,
    settings: Settings,
}

/// Whether an informer holds an object, judged by the key and the labels of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Membership {
    /// The selectors of the informer select the object.
    Inside,
    /// A selector of the informer excludes the object.
    Outside,
    /// The labels are unknown, or a field selector names a field other than name and namespace.
    Unknown,
}

const NAMESPACE: &str = "metadata.namespace";
const NAME: &str = "metadata.name";

impl Coverage {
    /// Returns which informers `kind` gets under `options`, with `namespaces` as the default namespaces. For each
    /// setting the most specific value applies: of the kind's namespace, the kind, the default namespace, or the
    /// defaults.
    pub(crate) fn of(kind: &Kind, options: &CacheOptions, namespaces: &Namespaces) -> Self {
        let inherited = ByObject::default();
        let entry = options
            .objects
            .get(kind.gvk())
            .map(|(_, by_object)| by_object);
        let by_object = entry.unwrap_or(&inherited);
        Self {
            kind: kind.clone(),
            scopes: informer_scopes(kind, by_object, options, namespaces),
            cached: !by_object.is_uncached(),
            declared: entry.is_some(),
            is_sharded: options.shards.is_some() && !by_object.everywhere,
            types: by_object.types.clone(),
            undeclared: options.undeclared,
        }
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Returns the namespace of each informer; `None` stands for all namespaces without their own informer.
    pub(crate) fn informers(&self) -> Vec<Option<Arc<str>>> {
        self.scopes.iter().map(|p| p.namespace.clone()).collect()
    }

    pub(crate) fn settings(&self, namespace: Option<&str>) -> Option<&Settings> {
        let mut scopes = self.scopes.iter();
        let scope = scopes.find(|scope| scope.namespace.as_deref() == namespace)?;
        Some(&scope.settings)
    }

    /// Returns the object name that the field selector of a namespace's informer requires; `None` without such a name.
    ///
    /// The server takes this name from the field selector of a list or watch and authorizes the
    /// request for it (`RequestInfoFactory` of k8s.io/apiserver), so a rule with `resourceNames`
    /// allows the request. The server ignores a name that is not a valid path segment.
    pub(crate) fn only_name(&self, namespace: Option<&str>) -> Option<String> {
        let fields = FieldSelector::parse(self.settings(namespace)?.sent_fields()?)?;
        let name = fields.required(NAME)?;
        let is_segment =
            !name.is_empty() && !matches!(name, "." | "..") && !name.contains(['/', '%']);
        is_segment.then(|| name.to_owned())
    }

    /// Returns the namespace of the informer that holds the object of a key; `None` stands for the informer of all
    /// namespaces.
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

    /// Returns the namespace of the informer that holds the object of a key: `Some(None)` is the informer of all
    /// namespaces, and `None` says that no informer covers the key.
    pub(crate) fn find_informer_for(&self, key: &ObjectKey) -> Option<&Option<Arc<str>>> {
        match key.namespace().filter(|_| self.kind.is_namespaced()) {
            Some(namespace) => Some(&self.scope_in(namespace)?.namespace),
            None if self.kind.is_namespaced() => None,
            None => Some(&None),
        }
    }

    /// Returns the namespaces of the informers that a list reads: of all informers, or of the informer that covers
    /// `namespace`.
    pub(crate) fn informers_for(
        &self,
        namespace: Option<&str>,
    ) -> Result<Vec<Option<Arc<str>>>, Error> {
        match namespace.filter(|_| self.kind.is_namespaced()) {
            None => Ok(self.informers()),
            Some(namespace) => Ok(vec![self.informer_in(namespace)?]),
        }
    }

    /// Returns the namespace of the kind's only informer; an error if there are several.
    pub(crate) fn only_informer(&self) -> Result<Option<Arc<str>>, Error> {
        match self.scopes.as_slice() {
            [one] => Ok(one.namespace.clone()),
            _ => Err(Error::SeveralInformers {
                kind: self.kind.clone(),
                scope: self.scope(),
            }),
        }
    }

    /// Refuses reads of an uncached kind, and reads of a kind without a declaration if the options do not allow them.
    pub(crate) fn allows_read(&self, is_declared: bool) -> Result<(), Error> {
        if !self.cached {
            return Err(Error::NotCached {
                kind: self.kind.clone(),
            });
        }
        if self.declared || is_declared {
            return Ok(());
        }
        let kind = self.kind.gvk().kind();
        match self.undeclared {
            Undeclared::Start => {}
            Undeclared::Live => {
                return Err(Error::NotCached {
                    kind: self.kind.clone(),
                });
            }
            Undeclared::Fail => {
                return Err(Error::NotDeclared {
                    kind: self.kind.clone(),
                    line: format!(".by_object::<{kind}>(ByObject::new())"),
                });
            }
        }
        let guarded = self.kind.gvk().group().is_empty() && GUARDED.contains(&kind);
        // CACHE-3: only a declaration starts a cluster-wide informer of Secrets or ConfigMaps.
        if guarded && self.scopes.iter().any(|scope| scope.namespace.is_none()) {
            let line = format!(".by_object::<{kind}>(ByObject::new().namespaces([\"…\"]))");
            return Err(Error::MustBeDeclared {
                kind: self.kind.clone(),
                line,
            });
        }
        Ok(())
    }

    /// Returns whether the informer of the key's namespace holds an object with this key and these labels (RYOW-4,
    /// RYOW-8). `labels` is `None` if they are unknown. Returns `None` if no informer covers the namespace.
    pub(crate) fn membership(
        &self,
        key: &ObjectKey,
        labels: Option<&BTreeMap<String, String>>,
    ) -> Option<Membership> {
        let namespace = self.informer_for(key).ok().filter(|_| self.cached)?;
        let settings = self.settings(namespace.as_deref())?;
        let by_labels = settings.sent_labels().map_or(Some(true), |text| {
            let selector = text.parse::<LabelSelector>().ok()?;
            Some(selector.matches(Some(labels?)))
        });
        let by_fields = settings.sent_fields().map_or(Some(true), |text| {
            // The informer was chosen by its namespace, so the selector's requirements of the namespace are met.
            let fields = FieldSelector::parse(text)?.without(NAMESPACE);
            fields.matches_name(key.name())
        });
        Some(match (by_labels, by_fields) {
            (Some(true), Some(true)) => Membership::Inside,
            (Some(false), _) | (_, Some(false)) => Membership::Outside,
            _ => Membership::Unknown,
        })
    }

    /// Returns whether reads of the kind are served from memory. Calls `is_permanent` only if the
    /// answer depends on whether a caller declared the kind at runtime.
    pub(crate) fn is_cached(&self, is_permanent: impl FnOnce() -> bool) -> bool {
        let live = self.undeclared == Undeclared::Live && !self.declared;
        self.cached && (!live || is_permanent())
    }

    /// Returns the selectors of a namespace's informer as text; `None` without selectors.
    pub(crate) fn scoped_by_in(&self, namespace: Option<&str>) -> Option<String> {
        self.settings(namespace).and_then(Settings::scoped_by)
    }

    /// Returns the selectors of all informers of the kind as text; `None` without selectors.
    pub(crate) fn scoped_by(&self) -> Option<String> {
        joined(self.scopes.iter().filter_map(|p| p.settings.scoped_by()))
    }

    /// Returns the names of the transforms that may change objects of the kind; `None` without a transform.
    pub(crate) fn transformed(&self) -> Option<String> {
        let changing = self.scopes.iter().filter_map(|p| p.settings.changing());
        joined(changing.map(|transform| transform.name().to_owned()))
    }

    /// Returns the cached namespaces; empty if the cache holds all namespaces.
    fn scope(&self) -> Vec<String> {
        let name = |scope: &InformerScope| scope.namespace.as_deref().map(Into::into);
        let named: Option<Vec<String>> = self.scopes.iter().map(name).collect();
        named.unwrap_or_default()
    }

    fn informer_in(&self, namespace: &str) -> Result<Option<Arc<str>>, Error> {
        match self.scope_in(namespace) {
            Some(scope) => Ok(scope.namespace.clone()),
            None => Err(Error::OutsideScope {
                kind: self.kind.clone(),
                asked: namespace.to_owned(),
                scope: self.scope(),
            }),
        }
    }

    fn scope_in(&self, namespace: &str) -> Option<&InformerScope> {
        let named = |scope: &&InformerScope| scope.namespace.as_deref() == Some(namespace);
        let others = |scope: &&InformerScope| scope.namespace.is_none();
        let scope = self.scopes.iter().find(named);
        scope.or_else(|| self.scopes.iter().find(others))
    }
}

/// Joins the distinct texts by `, or `, in the order of their first occurrence; `None` if there are none.
fn joined(texts: impl Iterator<Item = String>) -> Option<String> {
    let mut all: Vec<String> = Vec::new();
    for text in texts {
        if !all.contains(&text) {
            all.push(text);
        }
    }
    (!all.is_empty()).then(|| all.join(", or "))
}

fn informer_scopes(
    kind: &Kind,
    by_object: &ByObject,
    options: &CacheOptions,
    defaults: &Namespaces,
) -> Vec<InformerScope> {
    let closest = |own: Option<&Settings>, default: Option<&Settings>| {
        let none = Settings::new();
        let settings = own.unwrap_or(&none).clone().or(&by_object.settings);
        settings.or(default.unwrap_or(&none)).or(&options.defaults)
    };
    if !kind.is_namespaced() {
        return vec![InformerScope {
            namespace: None,
            settings: closest(None, None),
        }];
    }
    let namespaces = by_object.namespaces.as_ref().unwrap_or(defaults);
    let own = by_object.namespaces.as_ref();
    let named = namespaces.named.iter().map(|(namespace, _)| {
        let own = own.and_then(|own| own.settings(namespace));
        InformerScope {
            namespace: Some(namespace.as_str().into()),
            settings: closest(own, defaults.settings(namespace)),
        }
    });
    let mut scopes: Vec<InformerScope> = named.collect();
    if scopes.is_empty() || namespaces.others.is_some() {
        let own = own.and_then(|own| own.others.as_ref());
        let mut others = InformerScope {
            namespace: None,
            settings: closest(own, defaults.others.as_ref()),
        };
        if scopes.is_empty() {
            restrict(&mut others);
        } else {
            exclude(&mut others.settings, &scopes);
        }
        scopes.push(others);
    }
    scopes
}

/// If a selector of the informer of all namespaces requires one namespace, restricts the informer to this namespace:
/// the watch then needs fewer permissions, and reads of other namespaces fail with [`Error::OutsideScope`].
fn restrict(scope: &mut InformerScope) {
    let Some(fields) = scope.settings.sent_fields().and_then(FieldSelector::parse) else {
        return;
    };
    if let Some(namespace) = fields.required(NAMESPACE) {
        scope.namespace = Some(namespace.into());
        scope.settings.fields = Some(fields.without(NAMESPACE).into());
    }
}

/// CACHE-1: excludes the namespaces with their own informer from the informer of all other namespaces.
fn exclude(settings: &mut Settings, named: &[InformerScope]) {
    let named = named.iter().filter_map(|scope| scope.namespace.as_deref());
    let excluded = named.fold(FieldSelector::new(), |selector, namespace| {
        selector.not_equals(NAMESPACE, namespace)
    });
    settings.fields = Some(match settings.sent_fields() {
        Some(fields) => format!("{fields},{excluded}"),
        None => excluded.into(),
    });
}

/// Refuses contradictory options with an error that names the kind.
pub(crate) fn check(options: &CacheOptions) -> Result<(), Error> {
    let none = Namespaces::default();
    let said = check_settings(&options.namespaces, &options.defaults);
    said.map_err(|problem| Error::DefaultOptions { problem })?;
    for (kind, by_object) in options.objects.values() {
        let own = by_object.namespaces.as_ref();
        let cluster = !kind.is_namespaced() && own.is_some_and(|own| *own != none);
        let said = if cluster {
            Err("the kind is cluster-scoped, so `namespaces` does not apply: remove it".to_owned())
        } else {
            check_settings(own.unwrap_or(&none), &by_object.settings)
        };
        said.map_err(|problem| Error::Options {
            kind: kind.clone(),
            problem,
        })?;
    }
    Ok(())
}

fn check_settings(namespaces: &Namespaces, settings: &Settings) -> Result<(), String> {
    if namespaces.named.iter().any(|(name, _)| name.is_empty()) {
        return Err(
            "a namespace is the empty string: use `all_namespaces` or `other_namespaces`"
                .to_owned(),
        );
    }
    let named = namespaces.named.iter().map(|(_, settings)| settings);
    for settings in named.chain(&namespaces.others).chain([settings]) {
        if let Some(labels) = &settings.labels {
            let parsed = labels.parse::<LabelSelector>();
            parsed.map_err(|error| error.to_string())?;
        }
        if let Some(fields) = &settings.fields
            && FieldSelector::parse(fields).is_none()
        {
            return Err(format!(
                "the field selector {fields:?} does not parse: write `field=value` or `field!=value`, separated by \
                 commas, and escape commas, `=` and backslashes in a value with a backslash"
            ));
        }
        if settings
            .indexed_labels
            .iter()
            .flatten()
            .any(String::is_empty)
        {
            return Err("`index_labels` contains an empty label name: remove it".to_owned());
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
        Coverage::of(&Kind::of::<K>(), options, &options.namespaces)
    }

    fn texts(namespaces: &[Option<Arc<str>>]) -> Vec<&str> {
        namespaces
            .iter()
            .map(|n| n.as_deref().unwrap_or("*"))
            .collect()
    }

    /// CACHE-3
    #[test]
    fn undeclared_reads_start_no_secret_informer_of_all_other_namespaces() {
        let named = CacheOptions::new().default_namespaces(["a"]);
        assert!(coverage::<Secret>(&named).allows_read(false).is_ok());
        let others = named.default_other_namespaces(Settings::new());
        let secrets = coverage::<Secret>(&others);
        let error = secrets.allows_read(false).unwrap_err();
        assert!(matches!(error, Error::MustBeDeclared { .. }), "{error}");
        assert!(secrets.allows_read(true).is_ok());
        assert!(coverage::<Pod>(&others).allows_read(false).is_ok());
    }

    /// RYOW-4, RYOW-8
    #[test]
    fn membership_follows_key_and_labels_and_is_unknown_for_other_fields() {
        use Membership::{Inside, Outside, Unknown};
        let key = ObjectKey::namespaced("a", "x");
        let of = |by_object: ByObject, label: Option<&str>| {
            let options = CacheOptions::new().by_object::<Pod>(by_object);
            let labels = label.map(|label| BTreeMap::from([("app".to_owned(), label.to_owned())]));
            coverage::<Pod>(&options).membership(&key, labels.as_ref())
        };
        let web = || ByObject::new().labels("app=web");
        let fields = |fields: &str| of(ByObject::new().fields(fields), Some("web"));
        assert_eq!(of(web(), Some("web")), Some(Inside));
        assert_eq!(of(web(), Some("db")), Some(Outside));
        assert_eq!(of(web(), None), Some(Unknown));
        assert_eq!(of(ByObject::new(), None), Some(Inside));
        assert_eq!(fields("spec.nodeName=n"), Some(Unknown));
        assert_eq!(fields("metadata.namespace=a"), Some(Inside));
        assert_eq!(fields("metadata.name=x"), Some(Inside));
        assert_eq!(fields("metadata.name!=x"), Some(Outside));
        assert_eq!(fields("metadata.name=y,spec.nodeName=n"), Some(Outside));
        assert_eq!(fields("metadata.name=x,spec.nodeName=n"), Some(Unknown));
        let both = web().fields("spec.nodeName=n");
        assert_eq!(of(both.clone(), Some("db")), Some(Outside));
        assert_eq!(of(both, Some("web")), Some(Unknown));
        assert_eq!(of(ByObject::new().namespaces(["b"]), Some("web")), None);
        assert_eq!(of(ByObject::new().uncached(), Some("web")), None);
    }

    #[test]
    fn namespaces_of_a_kind_override_the_default_namespaces() {
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
    fn a_read_outside_the_cached_namespaces_names_them() {
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
    fn keys_of_cluster_scoped_kinds_ignore_the_namespace_and_others_require_it() {
        let options = CacheOptions::new();
        let key = ObjectKey::namespaced("a", "x");
        assert_eq!(
            coverage::<Namespace>(&options).informer_for(&key).unwrap(),
            None
        );
        let error = coverage::<Pod>(&options)
            .informer_for(&ObjectKey::cluster_scoped("x"))
            .unwrap_err();
        assert!(matches!(error, Error::NamespaceMissing { .. }));
    }

    /// CACHE-3
    #[test]
    fn undeclared_reads_never_cache_secrets_and_config_maps_cluster_wide() {
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
    fn scoped_by_names_the_selectors_of_a_kind() {
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
    fn contradictory_options_are_refused_with_the_kind() {
        let refused = |options: CacheOptions| check(&options).unwrap_err().to_string();
        let text =
            refused(CacheOptions::new().by_object::<Namespace>(ByObject::new().namespaces(["a"])));
        assert!(
            text.contains("Namespace.v1") && text.contains("cluster-scoped"),
            "{text}"
        );
        let text = refused(CacheOptions::new().by_object::<Pod>(ByObject::new().labels("a in b")));
        assert!(text.contains("\"a in b\""), "{text}");
        for fields in ["spec.nodeName", "a=b=c", "=b", "a=b\\", "a=\\b"] {
            for by_object in [
                ByObject::new().fields(fields),
                ByObject::new().namespace("a", Settings::new().fields(fields)),
                ByObject::new().other_namespaces(Settings::new().fields(fields)),
            ] {
                let text = refused(CacheOptions::new().by_object::<Pod>(by_object));
                let named = format!("field selector {fields:?}");
                assert!(text.contains("Pod.v1") && text.contains(&named), "{text}");
            }
        }
        let text = refused(CacheOptions::new().defaults(Settings::new().fields("x")));
        assert!(
            text.contains("defaults") && text.contains("\"x\""),
            "{text}"
        );
        let text = refused(CacheOptions::new().by_object::<Pod>(ByObject::new().namespaces([""])));
        assert!(text.contains("all_namespaces"), "{text}");
        let nameless = ByObject::new().index_labels(["app", ""]);
        let text = refused(CacheOptions::new().by_object::<Pod>(nameless));
        assert!(text.contains("empty label name"), "{text}");
        assert!(check(&CacheOptions::new()).is_ok());
    }
}
