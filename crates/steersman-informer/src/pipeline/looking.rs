//! Driver: who looks at the objects, and as what: views, subscriptions and indexes.

use std::any::TypeId;
use std::sync::Arc;

use steersman_api::{Decoded, Malformed, RawObject};
use steersman_object::Object;

use super::{Core, Run};
use crate::body::Extent;
use crate::entry::RawEntry;
use crate::error::Error;
use crate::fanout::Subscription;
use crate::pass::{Pass, Unread};
use crate::store::{Held, Index, Query, Told, View, select, unreadable, values};

impl Core {
    /// The view of a type, which is made where nobody holds one: what is there is looked at
    /// before anybody sees it. A type that needs more than is there makes the reflector ask for
    /// it (VIEW-3).
    pub(crate) fn view<K: Object>(&self) -> Arc<Held> {
        let mut writer = self.writer.lock();
        if let Some(held) = self.shared.indexer.read().held(TypeId::of::<K>()) {
            return held;
        }
        // Before anything is made of the objects: what goes may have been made for the same type.
        self.drop_left_views();
        writer.views += 1;
        let held = Arc::new(Held::new::<K>(writer.views));
        let ready = self.reached().is_none_or(|reached| held.needs() <= reached);
        let mut view = View::new::<K>(&held, ready);
        let mut told = Told::nothing(held.id());
        for label in &self.options.indexed_labels {
            view.add_index(Index::of_label(label), Vec::new(), &mut told);
        }
        // VIEW-2: while the writer's lock is held nothing changes.
        if ready {
            let judge = view.judge();
            for entry in self.entries() {
                view.file(&entry, &judge.finding(&entry), &mut told);
            }
        }
        self.tell(&told.malformed);
        self.shared.indexer.write().add_view(view);
        self.want(held.needs());
        self.publish(&writer);
        held
    }

    /// So much of each object is asked for from now on (VIEW-3).
    pub(crate) fn want(&self, extent: Extent) {
        self.wanted.send_if_modified(|wanted| {
            let more = extent > *wanted;
            *wanted = extent.max(*wanted);
            more
        });
    }

    /// Lets go of the views that nobody holds any more, and of what was made of the objects for them
    /// (VIEW-4). The writer's lock is held.
    pub(super) fn drop_left_views(&self) {
        if self.shared.indexer.read().views().iter().all(View::is_held) {
            return;
        }
        let left = self.shared.indexer.write().drop_left_views();
        for entry in self.entries() {
            entry.raw_body().forget(&left);
        }
    }

    /// What a query selects, whatever anybody looks at it as (VIEW-5).
    pub(crate) fn pass<K>(&self, query: &Query) -> Result<Pass<K>, Error> {
        let indexer = self.shared.indexer.read();
        let mut objects = Vec::new();
        let selected = select(&indexer, None, query, |entry| {
            objects.push(Unread::new(entry))
        });
        selected.map_err(|name| Error::NoSuchIndex {
            kind: self.kind.to_string(),
            name: name.to_owned(),
            known: "nobody looks at it in passing".to_owned(),
        })?;
        Ok(Pass {
            objects,
            version: indexer.version().clone(),
            unreadable: unreadable(&indexer, None, query.namespace.as_deref()),
        })
    }

    /// An object that came by another way than the reflector's, as this informer would have it.
    pub(crate) fn look_at<K: Object>(
        &self,
        arrived: Decoded<RawObject>,
    ) -> Result<Arc<K>, Malformed> {
        let object = match arrived {
            Decoded::Good(object) => self.transformed(object)?,
            Decoded::Malformed(malformed) => return Err(*malformed),
        };
        let entry = RawEntry::ingest(object, Extent::Whole, &self.shelf, None, &self.pools);
        Unread::new(&entry).read()
    }

    /// The object as the transform leaves it; where that fails, nobody can read it.
    pub(super) fn transformed(&self, object: RawObject) -> Result<RawObject, Malformed> {
        let Some(transform) = &self.options.transform else {
            return Ok(object);
        };
        let (key, uid) = (object.head().key.clone(), object.head().uid.clone());
        let version = object.head().version.clone();
        let transformed = transform.apply(object, self.shelf.quotes());
        transformed.map_err(|problem| Malformed::new(key, uid, version, problem))
    }

    pub(crate) fn subscribe<K>(&self, held: &Arc<Held>) -> Subscription<K> {
        let mut writer = self.writer.lock();
        let synced = self.has_synced(held.needs());
        let subscription = {
            let indexer = self.shared.indexer.read();
            let view = indexer.view(held.id()).into_iter();
            let present = view.flat_map(|view| indexer.seen(view, None));
            writer.fanout.join(held, present, synced)
        };
        if writer.run == Run::Stopped {
            writer.fanout.close();
        }
        subscription
    }

    pub(crate) fn add_index(&self, held: &Held, mut index: Index) -> Result<(), Error> {
        let _writer = self.writer.lock();
        let seen: Vec<RawEntry> = {
            let indexer = self.shared.indexer.read();
            let view = indexer.view(held.id());
            if view.is_some_and(|view| view.index(index.name()).is_some()) {
                return Err(Error::IndexExists {
                    kind: self.kind.to_string(),
                    name: index.name().to_owned(),
                });
            }
            let seen = view.into_iter().flat_map(|view| indexer.seen(view, None));
            seen.cloned().collect()
        };
        // Nothing changes while the writer's lock is held; readers go on meanwhile (STORE-7).
        let function = index.function();
        let mut misread = Vec::new();
        for entry in seen {
            match values(&function, &entry) {
                Ok(values) => index.put(&entry, &values),
                Err(problem) => misread.push((entry, problem)),
            }
        }
        let mut told = Told::nothing(held.id());
        {
            let mut indexer = self.shared.indexer.write();
            indexer.add_index(held.id(), index, misread, &mut told);
        }
        self.tell(&told.malformed);
        Ok(())
    }

    pub(super) fn entries(&self) -> Vec<RawEntry> {
        self.shared.indexer.read().entries(None).cloned().collect()
    }
}
