//! Machine: the body of one object: its JSON, and what the types that look at it made of that.

use std::any::{Any, TypeId};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::RwLock;
use steersman_api::{RawObject, decode_json};
use steersman_object::Object;

/// How much of an object there is, or is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Extent {
    /// Its metadata.
    Metadata,
    /// All of it.
    Whole,
}

/// One object's body. What is decoded once is shared from then on (STORE-2).
pub(crate) struct Body {
    held: RwLock<Held>,
    /// Whether an error may quote a value of it: not of a Secret.
    quotes: bool,
}

struct Held {
    json: Box<[u8]>,
    extent: Extent,
    /// The form of the type that looked first: most objects have one.
    first: Option<Form>,
    others: Vec<Form>,
}

/// The body as a type: decoded, or what is wrong with it.
struct Form {
    of: TypeId,
    decoded: Result<Arc<dyn Any + Send + Sync>, Arc<str>>,
}

/// What a body is as a `K`.
enum Made<K> {
    Before(Result<Arc<K>, Arc<str>>),
    Now(Result<Arc<K>, Arc<str>>),
}

impl Extent {
    /// How much of an object the type `K` needs.
    pub(crate) fn of<K: Object>() -> Self {
        if K::metadata_api() {
            Self::Metadata
        } else {
            Self::Whole
        }
    }
}

impl Body {
    pub(crate) fn new(json: Box<[u8]>, extent: Extent, quotes: bool) -> Self {
        let held = Held {
            json,
            extent,
            first: None,
            others: Vec::new(),
        };
        Self {
            held: RwLock::new(held),
            quotes,
        }
    }

    /// A body that was never JSON.
    pub(crate) fn of<K: Object>(object: &Arc<K>) -> Self {
        let json = serde_json::to_vec(&**object).unwrap_or_default();
        let body = Self::new(json.into_boxed_slice(), Extent::Whole, true);
        body.held.write().first = Some(Form::of(Ok(Arc::clone(object))));
        body
    }

    /// How long its JSON is.
    pub(crate) fn bytes(&self) -> usize {
        self.held.read().json.len()
    }

    /// Makes a body of which only metadata was there a whole one. What types made of the metadata
    /// stays right: it is the same version.
    pub(crate) fn complete(&self, whole: RawObject) {
        let mut held = self.held.write();
        if held.extent == Extent::Metadata {
            held.json = whole.into_parts().1;
            held.extent = Extent::Whole;
        }
    }

    /// As [`complete`](Self::complete), from another body of the same version.
    pub(crate) fn complete_as(&self, other: &Self) {
        // Both may be one: never under two locks.
        if self.held.read().extent == Extent::Whole {
            return;
        }
        let whole = {
            let other = other.held.read();
            (other.extent == Extent::Whole).then(|| other.json.clone())
        };
        if let Some(json) = whole {
            let mut held = self.held.write();
            held.json = json;
            held.extent = Extent::Whole;
        }
    }

    /// The object as a `K` where somebody looked at it as one, or what was wrong with it: without
    /// decoding anything, so that it may be asked under a lock.
    pub(crate) fn at_hand<K: Object>(&self) -> Option<Result<Arc<K>, Arc<str>>> {
        self.held.read().form::<K>()
    }

    /// The object as a `K`; decoded where nobody looked at it as one before, and kept.
    pub(crate) fn decoded<K: Object>(&self) -> Result<Arc<K>, Arc<str>> {
        let decoded = match self.made() {
            Made::Before(form) => return form,
            Made::Now(decoded) => decoded,
        };
        let mut held = self.held.write();
        // Another was faster: all share one.
        if let Some(form) = held.form::<K>() {
            return form;
        }
        let form = Form::of(decoded.clone());
        match held.first {
            None => held.first = Some(form),
            Some(_) => held.others.push(form),
        }
        decoded
    }

    /// The object as a `K`; decoded where nobody looks at it as one, and not kept (VIEW-5).
    pub(crate) fn read<K: Object>(&self) -> Result<Arc<K>, Arc<str>> {
        match self.made() {
            Made::Before(form) | Made::Now(form) => form,
        }
    }

    /// Lets go of what these types made of it.
    pub(crate) fn forget(&self, types: &[TypeId]) {
        let mut held = self.held.write();
        held.others.retain(|form| !types.contains(&form.of));
        if held
            .first
            .as_ref()
            .is_some_and(|form| types.contains(&form.of))
        {
            held.first = held.others.pop();
        }
    }

    fn made<K: Object>(&self) -> Made<K> {
        let held = self.held.read();
        if let Some(form) = held.form::<K>() {
            return Made::Before(form);
        }
        if Extent::of::<K>() > held.extent {
            return Made::Before(Err("only its metadata is known".into()));
        }
        Made::Now(self.decode::<K>(&held.json))
    }

    fn decode<K: Object>(&self, json: &[u8]) -> Result<Arc<K>, Arc<str>> {
        let decoded = catch_unwind(AssertUnwindSafe(|| decode_json::<K>(json, self.quotes)));
        match decoded {
            Ok(Ok(object)) => Ok(Arc::new(object)),
            Ok(Err(problem)) => Err(problem.into()),
            Err(_) => Err("its type panicked while decoding it".into()),
        }
    }
}

impl Held {
    fn form<K: Object>(&self) -> Option<Result<Arc<K>, Arc<str>>> {
        let of = TypeId::of::<K>();
        let mut forms = self.first.iter().chain(&self.others);
        let form = forms.find(|form| form.of == of)?;
        match &form.decoded {
            Ok(object) => Arc::clone(object).downcast().ok().map(Ok),
            Err(problem) => Some(Err(Arc::clone(problem))),
        }
    }
}

impl Form {
    fn of<K: Object>(decoded: Result<Arc<K>, Arc<str>>) -> Self {
        Self {
            of: TypeId::of::<K>(),
            decoded: decoded.map(|object| object as Arc<dyn Any + Send + Sync>),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube_core::PartialObjectMeta;

    use super::*;

    const JSON: &[u8] = br#"{"metadata":{"name":"a"},"data":{"k":"v"}}"#;

    // STORE-2
    #[test]
    fn store_2_all_who_look_at_an_object_as_one_type_share_it() {
        let body = Body::new(JSON.into(), Extent::Whole, true);
        let one = body.decoded::<ConfigMap>().unwrap();
        let metadata = body.decoded::<PartialObjectMeta<ConfigMap>>().unwrap();
        assert_eq!(metadata.metadata, one.metadata);
        assert!(Arc::ptr_eq(&one, &body.decoded::<ConfigMap>().unwrap()));
    }

    // VIEW-5
    #[test]
    fn view_5_what_is_read_in_passing_is_not_kept_and_what_is_kept_is_shared() {
        let body = Body::new(JSON.into(), Extent::Whole, true);
        let (one, two) = (body.read::<ConfigMap>().unwrap(), body.read().unwrap());
        assert!(one == two && !Arc::ptr_eq(&one, &two));
        assert_eq!(Arc::strong_count(&one), 1);
        let kept = body.decoded::<ConfigMap>().unwrap();
        assert!(Arc::ptr_eq(&kept, &body.read().unwrap()));
    }

    // VIEW-4
    #[test]
    fn view_4_what_one_type_made_goes_without_what_the_others_did() {
        let body = Body::new(JSON.into(), Extent::Whole, true);
        type Metadata = PartialObjectMeta<ConfigMap>;
        let (first, other) = (
            body.decoded::<ConfigMap>().unwrap(),
            body.decoded::<Metadata>().unwrap(),
        );
        body.forget(&[TypeId::of::<ConfigMap>()]);
        assert_eq!(Arc::strong_count(&first), 1);
        assert!(Arc::ptr_eq(&other, &body.decoded().unwrap()));
        body.forget(&[TypeId::of::<Metadata>()]);
        assert_eq!(Arc::strong_count(&other), 1);
        assert_eq!(body.decoded::<ConfigMap>().unwrap(), first);
    }

    #[test]
    fn a_body_of_metadata_becomes_whole_and_what_was_made_of_it_stays() {
        let body = Body::new(
            br#"{"metadata":{"name":"a"}}"#[..].into(),
            Extent::Metadata,
            true,
        );
        let metadata = body.decoded::<PartialObjectMeta<ConfigMap>>().unwrap();
        assert!(body.decoded::<ConfigMap>().is_err());
        body.complete(RawObject::from_json(JSON).unwrap());
        assert!(body.decoded::<ConfigMap>().unwrap().data.is_some());
        let again = body.decoded::<PartialObjectMeta<ConfigMap>>().unwrap();
        assert!(Arc::ptr_eq(&metadata, &again));
    }

    #[test]
    fn what_does_not_decode_is_told_and_not_quoted_where_it_is_secret() {
        let json = br#"{"metadata":{"name":"a"},"data":"hunter2"}"#;
        let error = |quotes| {
            let body = Body::new(json[..].into(), Extent::Whole, quotes);
            body.decoded::<ConfigMap>().unwrap_err()
        };
        assert!(
            error(true).starts_with("data: invalid type"),
            "{}",
            error(true)
        );
        assert!(!error(false).contains("hunter2"), "{}", error(false));
    }
}
