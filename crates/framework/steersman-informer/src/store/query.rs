//! Machine: finds the objects that a query selects, in the smallest matching bucket of an index.

use std::sync::Arc;

use steersman_api::Malformed;
use steersman_object::{ListOptions, ObjectKey, Required, ResourceVersion};

use crate::entry::{Entry, RawEntry};
use crate::store::index::Index;
use crate::store::indexer::Indexer;
use crate::store::table::Ordered;
use crate::store::view::View;

/// The name of the index of labels, see [`label_values`]. It is empty, so that no index of a user has this name.
pub(crate) const LABELS: &str = "";

/// The entries of a list, at one version.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EntryList<K> {
    /// The entries, ordered by key.
    pub entries: Vec<Entry<K>>,
    /// The resource version of the list: the informer had applied all events, bookmarks and lists up to it.
    pub version: ResourceVersion,
    /// The first object in the query's namespace of which no version decodes; `None` if there is none.
    pub unreadable: Option<Malformed>,
}

/// The decoded objects of a list, at one version.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ObjectList<K> {
    /// The objects, ordered by key.
    pub objects: Vec<Arc<K>>,
    /// The resource version of the list: the informer had applied all events, bookmarks and lists up to it.
    pub version: ResourceVersion,
    /// The first object in the query's namespace of which no version decodes; `None` if there is none.
    pub unreadable: Option<Malformed>,
}

/// One value of an index, with the number of its objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct IndexedValue {
    /// The value, as the index function returned it.
    pub value: Arc<str>,
    /// The number of objects that have the value.
    pub objects: usize,
}

/// Returns the values of an object in the index of labels: the key of each label, and each `key=value`.
pub(crate) fn label_values(entry: &RawEntry) -> Vec<String> {
    let labels = entry.labels().iter();
    labels
        .flat_map(|(key, value)| [key.to_owned(), labelled(key, value)])
        .collect()
}

fn labelled(key: &str, value: &str) -> String {
    format!("{key}={value}")
}

/// A part of a query that an index can answer: a term, or a requirement of the label selector, by position.
#[derive(Clone, Copy, PartialEq)]
enum QueryPart {
    Term(usize),
    Label(usize),
}

/// The objects that satisfy one part of a query, in the buckets of an index. No object is in two of the buckets.
struct Candidates<'a> {
    part: QueryPart,
    buckets: Vec<&'a Ordered>,
}

impl Candidates<'_> {
    fn len(&self) -> usize {
        self.buckets.iter().map(|bucket| bucket.len()).sum()
    }
}

/// Calls `found` with each selected entry, ordered by key: of the entries that a view sees or, without a view, of all
/// entries. The error is the name of an index that does not exist.
pub(crate) fn select<'a, 'q>(
    indexer: &'a Indexer,
    view: Option<&'a View>,
    query: &'q ListOptions,
    found: impl FnMut(&'a RawEntry),
) -> Result<(), &'q str> {
    let index = |name: &str| view.and_then(|view| view.index(name));
    let candidates = narrowest(view, query)?;
    // The part that the index answered needs no check of each object.
    let part = candidates.as_ref().map(|candidates| candidates.part);
    let labels = query.selected_labels();
    let labelled =
        labels.is_everything() || matches!(part, Some(QueryPart::Label(_))) && labels.terms() == 1;
    let terms = query.selected_indexes().iter().enumerate();
    let terms = terms.filter(|(number, _)| part != Some(QueryPart::Term(*number)));
    let terms = terms.filter_map(|(_, (name, value))| Some((index(name)?, value)));
    let terms: Vec<(&Index, &String)> = terms.collect();
    let selects = |entry: &&RawEntry| {
        let mut terms = terms.iter();
        (labelled || labels.selects(entry.labels()))
            && terms.all(|(index, value)| index.has(entry.key(), value))
    };
    let limit = query.selected_limit().unwrap_or(usize::MAX);
    let namespace = query.selected_namespace();
    let Some(Candidates { buckets, .. }) = candidates else {
        let entries = indexer.entries(namespace);
        let seen = entries.filter_map(|entry| sees(view, entry));
        seen.filter(selects).take(limit).for_each(found);
        return Ok(());
    };
    let within = buckets.iter().flat_map(|bucket| bucket.within(namespace));
    let selected = within.filter(selects);
    if buckets.len() <= 1 {
        selected.take(limit).for_each(found);
        return Ok(());
    }
    let mut all: Vec<&RawEntry> = selected.collect();
    // Each bucket is ordered, but their concatenation is not.
    all.sort_unstable_by(|a, b| a.key().cmp(b.key()));
    all.into_iter().take(limit).for_each(found);
    Ok(())
}

/// Selects entries as [`select`] does, for a single term: the name of an index, and the value in it.
pub(crate) fn having<'a, 'q>(
    view: &'a View,
    name: &'q str,
    value: &str,
    namespace: Option<&str>,
    found: impl FnMut(&'a RawEntry),
) -> Result<(), &'q str> {
    let index = view.index(name).filter(|_| !name.is_empty());
    if let Some(entries) = index.ok_or(name)?.get(value) {
        entries.within(namespace).for_each(found);
    }
    Ok(())
}

/// Returns the smallest set of candidates that an index has for a part of the query; the error names a missing index.
fn narrowest<'a, 'q>(
    view: Option<&'a View>,
    query: &'q ListOptions,
) -> Result<Option<Candidates<'a>>, &'q str> {
    let mut least: Option<Candidates<'a>> = None;
    let mut consider = |part, buckets: Vec<&'a Ordered>| {
        let new = Candidates { part, buckets };
        if least.as_ref().is_none_or(|least| new.len() < least.len()) {
            least = Some(new);
        }
    };
    for (number, (name, value)) in query.selected_indexes().iter().enumerate() {
        let index = view.and_then(|view| view.index(name));
        let index = index.filter(|_| !name.is_empty()).ok_or(&**name)?;
        let bucket = index.get(value);
        consider(QueryPart::Term(number), bucket.into_iter().collect());
    }
    for (number, required) in query.selected_labels().required().enumerate() {
        if let Some(buckets) = view.and_then(|view| buckets(view, &required)) {
            consider(QueryPart::Label(number), buckets);
        }
    }
    Ok(least)
}

/// Returns the buckets of the objects that meet a requirement; `None` if no index has the label. An object has one
/// value per label, so it is in one bucket only.
fn buckets<'a>(view: &'a View, required: &Required<'_>) -> Option<Vec<&'a Ordered>> {
    let with = |key: &str, value: &str| match view.label_index(key) {
        Some(index) => Some(index.get(value)),
        None => Some(view.index(LABELS)?.get(&labelled(key, value))),
    };
    match *required {
        Required::Key(key) => Some(view.index(LABELS)?.get(key).into_iter().collect()),
        Required::Is(key, value) => Some(with(key, value)?.into_iter().collect()),
        Required::OneOf(key, values) => {
            let buckets: Option<Vec<_>> = values.iter().map(|value| with(key, value)).collect();
            Some(buckets?.into_iter().flatten().collect())
        }
    }
}

/// Returns the first object of a namespace (`None`: of all) of which no version decodes.
pub(crate) fn unreadable(
    indexer: &Indexer,
    view: Option<&View>,
    namespace: Option<&str>,
) -> Option<Malformed> {
    let may_be_in = |key: &ObjectKey| match (namespace, key.namespace()) {
        (Some(asked), Some(own)) => asked == own,
        _ => true,
    };
    let aside = view.into_iter().flat_map(View::malformed);
    let malformed = indexer.malformed().values().chain(aside);
    let unseen = malformed
        .filter(|malformed| may_be_in(&malformed.key))
        .filter(|malformed| {
            let stored = indexer.get(&malformed.key);
            stored.and_then(|stored| sees(view, stored)).is_none()
        });
    unseen.min_by(|a, b| a.key.cmp(&b.key)).cloned()
}

fn sees<'a>(view: Option<&'a View>, stored: &'a RawEntry) -> Option<&'a RawEntry> {
    view.map_or(Some(stored), |view| view.sees(stored))
}

pub(crate) fn distinct(index: &Index) -> Vec<IndexedValue> {
    let values = index.values().map(|(value, objects)| IndexedValue {
        value: Arc::clone(value),
        objects,
    });
    let mut values: Vec<IndexedValue> = values.collect();
    values.sort_unstable();
    values
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use proptest::prelude::*;
    use steersman_api::Decoded;

    use super::*;
    use crate::store::indexer::StoreChange;
    use crate::store::view::{ViewEffects, ViewHandle};
    use crate::view_results::ViewResults;

    fn entry(number: u8) -> RawEntry {
        let mut map = ConfigMap::default();
        map.metadata.namespace = Some(format!("ns{}", number % 3));
        map.metadata.name = Some(format!("m{number}"));
        let labels = [("half", number % 2), ("fifth", number % 5)];
        let labels = labels.into_iter().filter(|(_, value)| *value > 0);
        map.metadata.labels = Some(labels.map(|(k, v)| (k.into(), v.to_string())).collect());
        Entry::new(map).cast()
    }

    #[derive(Clone, Copy)]
    enum Indexed {
        None,
        One(&'static str),
        All,
    }

    /// Returns forty objects, with an index of the last digit of their numbers and, if requested, of labels.
    fn store(labels: Indexed) -> (Indexer, Arc<ViewHandle>) {
        let mut indexer = Indexer::default();
        let handle = Arc::new(ViewHandle::new::<ConfigMap>(1));
        let mut view = View::new::<ConfigMap>(&handle, true);
        let mut effects = ViewEffects::nothing(handle.id);
        let name = |entry: &RawEntry| entry.key().name().to_owned();
        let digit = move |entry: &RawEntry| Ok(vec![name(entry).split_off(name(entry).len() - 1)]);
        view.add_index(
            Index::new("digit", Arc::new(digit)),
            Vec::new(),
            &mut effects,
        );
        match labels {
            Indexed::None => {}
            Indexed::One(label) => {
                view.add_index(Index::of_label(label), Vec::new(), &mut effects);
            }
            Indexed::All => {
                let index = Index::new(LABELS, Arc::new(|entry| Ok(label_values(entry))));
                view.add_index(index, Vec::new(), &mut effects);
            }
        }
        let decoder = view.decoder();
        indexer.add_view(view);
        for number in 0..40 {
            let entry = entry(number);
            let result = decoder.decode(&entry, false);
            let mut effects = indexer.unchanged();
            indexer.apply(
                StoreChange::Put(Decoded::Good(entry), ViewResults::from_iter([result])),
                &mut effects,
            );
        }
        (indexer, handle)
    }

    fn keys(indexer: &Indexer, handle: &ViewHandle, query: &ListOptions) -> Vec<String> {
        let view = indexer.view(handle.id);
        let mut keys = Vec::new();
        select(indexer, view, query, |entry| {
            keys.push(entry.key().to_string())
        })
        .unwrap();
        keys
    }

    proptest! {
        #[test]
        fn an_index_of_labels_changes_what_a_list_costs_and_not_what_it_finds(
            namespace in prop::option::of(prop::sample::select(vec!["ns0", "ns2", "ns"])),
            labels in prop::sample::select(vec![
                "", "half", "half=1", "!half", "fifth in (1,3)", "fifth notin (1,3)", "fifth in (9)",
                "half=1,fifth in (2,4)", "half!=1,fifth", "gone", "gone=1",
            ]),
            digit in prop::option::of(0..10_u8),
            limit in prop::option::of(0..5_usize),
        ) {
            let mut query = ListOptions::new()
                .namespace(namespace.unwrap_or_default())
                .labels(labels.parse().unwrap());
            if let Some(digit) = digit {
                query = query.index("digit", digit.to_string());
            }
            if let Some(limit) = limit {
                query = query.limit(limit);
            }
            let mut expected: Vec<(ObjectKey, u8)> = (0..40)
                .map(|number| (entry(number).key().clone(), number))
                .filter(|(key, number)| {
                    namespace.is_none_or(|namespace| key.namespace() == Some(namespace))
                        && query.selected_labels().selects(entry(*number).labels())
                        && digit.is_none_or(|digit| number % 10 == digit)
                })
                .collect();
            expected.sort();
            expected.truncate(limit.unwrap_or(usize::MAX));
            let expected: Vec<String> = expected.iter().map(|(key, _)| key.to_string()).collect();
            use Indexed::{All, None, One};
            for indexed in [None, One("half"), One("fifth"), One("gone"), All] {
                let (indexer, handle) = store(indexed);
                prop_assert_eq!(&keys(&indexer, &handle, &query), &expected);
            }
        }
    }

    #[test]
    fn a_selector_visits_only_the_smallest_bucket_that_it_requires() {
        let looked_at = |indexed, selector: &str| {
            let (indexer, handle) = store(indexed);
            let query = ListOptions::new().labels(selector.parse().unwrap());
            let candidates = narrowest(indexer.view(handle.id), &query).unwrap();
            candidates.map(|candidates| candidates.len())
        };
        for (indexed, selector, expected) in [
            (Indexed::One("half"), "half=1", Some(20)),
            (Indexed::One("fifth"), "half=1,fifth in (1,3)", Some(16)),
            (Indexed::One("half"), "half=2", Some(0)),
            (Indexed::One("half"), "half", None),
            (Indexed::One("half"), "fifth=1", None),
            (Indexed::One("half"), "half!=1", None),
            (Indexed::All, "half=1,fifth", Some(20)),
            (Indexed::None, "half=1", None),
        ] {
            assert_eq!(looked_at(indexed, selector), expected, "{selector}");
        }
    }

    #[test]
    fn the_first_unreadable_object_of_the_namespace_is_returned() {
        let (mut indexer, handle) = store(Indexed::None);
        for (namespace, name) in [("ns1", "z"), ("ns0", "y"), ("ns1", "b")] {
            let key = ObjectKey::namespaced(namespace, name);
            let version = ResourceVersion::new("7");
            let malformed = Malformed::new(key, "", version, "broken");
            let change =
                StoreChange::Put(Decoded::Malformed(malformed.into()), ViewResults::default());
            let mut effects = indexer.unchanged();
            indexer.apply(change, &mut effects);
        }
        let view = indexer.view(handle.id);
        let unreadable_key =
            |namespace| unreadable(&indexer, view, namespace).map(|m| m.key.to_string());
        assert_eq!(unreadable_key(None).as_deref(), Some("ns0/y"));
        assert_eq!(unreadable_key(Some("ns1")).as_deref(), Some("ns1/b"));
        assert_eq!(unreadable_key(Some("ns2")), None);
    }

    #[test]
    fn a_missing_index_is_named_and_the_index_of_labels_cannot_be_queried_by_name() {
        let (indexer, handle) = store(Indexed::All);
        let view = indexer.view(handle.id).unwrap();
        for name in ["none", LABELS] {
            let query = ListOptions::new().index("digit", "1").index(name, "x");
            let found = select(&indexer, Some(view), &query, |_| ());
            assert_eq!(found.unwrap_err(), name);
        }
        let values = distinct(view.index("digit").unwrap());
        assert_eq!(values.len(), 10);
        assert_eq!((&*values[9].value, values[9].objects), ("9", 4));
    }
}
