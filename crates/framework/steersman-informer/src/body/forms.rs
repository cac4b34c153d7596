//! Machine: the values decoded from one body, one per Rust type. A body with one value or none takes few bytes.

use std::any::{Any, TypeId};
use std::sync::Arc;

use steersman_object::Object;

pub(crate) type AnyDecoded = Arc<dyn Any + Send + Sync>;

pub(crate) enum Forms {
    Nothing,
    One(AnyDecoded),
    Several(Box<[DecodedForm]>),
}

/// A body decoded as one Rust type: the object, or the decode error.
pub(crate) struct DecodedForm {
    pub(crate) of: TypeId,
    pub(crate) decoded: Result<AnyDecoded, Arc<str>>,
    pub(crate) charge: usize,
}

/// A body decoded as a `K`, or the decode error.
pub(crate) type DecodeResult<K> = Result<Arc<K>, Arc<str>>;

impl Forms {
    /// Stores decoded values. A single object is stored alone: `Any` tells its type, and the body's charge its size.
    pub(crate) fn of(mut forms: Vec<DecodedForm>) -> Self {
        match (forms.len(), forms.pop()) {
            (_, None) => Self::Nothing,
            (
                1,
                Some(DecodedForm {
                    decoded: Ok(object),
                    ..
                }),
            ) => Self::One(object),
            (_, Some(last)) => {
                forms.push(last);
                Self::Several(forms.into())
            }
        }
    }

    /// Removes and returns all decoded values. `charge`: their total size in bytes; a single value has all of it.
    pub(crate) fn take(&mut self, charge: usize) -> Vec<DecodedForm> {
        match std::mem::replace(self, Self::Nothing) {
            Self::Nothing => Vec::new(),
            Self::One(object) => vec![DecodedForm {
                of: (*object).type_id(),
                decoded: Ok(object),
                charge,
            }],
            Self::Several(forms) => forms.into_vec(),
        }
    }

    pub(crate) fn is_decoded(&self) -> bool {
        match self {
            Self::Nothing => false,
            Self::One(_) => true,
            Self::Several(forms) => forms.iter().any(|form| form.decoded.is_ok()),
        }
    }

    /// Returns the object decoded as a `K`, or the decode error; `None` if the body was not decoded as a `K`.
    fn find<K: Object>(&self) -> Option<Result<&AnyDecoded, &Arc<str>>> {
        match self {
            Self::Nothing => None,
            Self::One(object) => (**object).is::<K>().then_some(Ok(object)),
            Self::Several(forms) => {
                let form = forms.iter().find(|form| form.of == TypeId::of::<K>())?;
                Some(form.decoded.as_ref())
            }
        }
    }

    pub(crate) fn object<K: Object>(&self) -> Option<&AnyDecoded> {
        self.find::<K>()?.ok()
    }

    pub(crate) fn get<K: Object>(&self) -> Option<DecodeResult<K>> {
        match self.find::<K>()? {
            Ok(object) => Arc::clone(object).downcast().ok().map(Ok),
            Err(problem) => Some(Err(Arc::clone(problem))),
        }
    }
}
