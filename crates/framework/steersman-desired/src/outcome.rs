//! Words: the outcome of a run for the children of a set.

use std::any::Any;
use std::sync::Arc;

use steersman_client::Error as ClientError;
use steersman_object::{Kind, Object, ObjectKey};

use crate::child_id::ChildId;
use crate::error::Error;
use crate::readiness::Readiness;

/// The state of one child after a run.
#[derive(Debug)]
#[non_exhaustive]
pub enum ChildState {
    /// The child was applied: the server created it, or may have changed it.
    Applied {
        /// Whether the server created the child.
        created: bool,
    },
    /// The child is as it was applied before, so nothing was sent.
    Unchanged,
    /// The child was not processed, because children that it comes after are not ready, or not gone, yet.
    Waiting {
        /// The kinds and keys of the children that this child waits for.
        after: Vec<(Kind, ObjectKey)>,
    },
    /// The child could not be read, applied or deleted.
    Failed(Box<ClientError>),
    /// The child shall exist, but is being deleted: it is applied again when it is gone.
    Terminating,
    /// The child shall not exist, and its deletion was accepted, now or earlier.
    Deleting,
    /// The child shall not exist and does not exist.
    Absent,
}

/// The outcome for one child.
#[derive(Debug)]
#[non_exhaustive]
pub struct ChildOutcome {
    /// The kind of the child.
    pub kind: Kind,
    /// The key of the child.
    pub key: ObjectKey,
    /// The state of the child after the run.
    pub state: ChildState,
    /// The readiness of the child, or of its deletion if it shall not exist. `None` if it is unknown, because the child
    /// waits or has failed.
    pub readiness: Option<Readiness>,
    /// Whether the child is not in the set, and was found by its owner and label to be pruned.
    pub pruned: bool,
}

/// The outcome of one run of [`DesiredSet::apply`](crate::DesiredSet::apply), for each child.
#[derive(Debug)]
#[must_use = "the errors of the children are in the outcome: `into_result` returns them"]
pub struct SetOutcome {
    pub(crate) children: Vec<ChildOutcome>,
    pub(crate) objects: Vec<Option<FoundObject>>,
}

#[derive(Clone, derive_more::Debug)]
#[debug("FoundObject")]
pub(crate) struct FoundObject(pub(crate) Arc<dyn Any + Send + Sync>);

impl SetOutcome {
    /// Returns the outcome of each child: first the children of the set in the order of their addition, then the pruned
    /// children.
    pub fn children(&self) -> &[ChildOutcome] {
        &self.children
    }

    /// Returns the outcome of a child.
    pub fn child<K>(&self, id: ChildId<K>) -> Option<&ChildOutcome> {
        self.children.get(id.index())
    }

    /// Returns the object of a child, as the server or the cache had it in this run. For a failed child, it is the
    /// state before the failed request. `None` if the child waits, does not exist, or could not be read.
    pub fn object<K: Object>(&self, id: ChildId<K>) -> Option<Arc<K>> {
        let found = self.objects.get(id.index())?.as_ref()?;
        Arc::clone(&found.0).downcast().ok()
    }

    /// Returns whether a child is ready, or is gone if it shall not exist.
    pub fn is_child_ready<K>(&self, id: ChildId<K>) -> bool {
        self.child(id).is_some_and(ChildOutcome::is_ready)
    }

    /// Returns whether every child of the set is ready, or is gone if it shall not exist. Pruned children do not count.
    pub fn is_ready(&self) -> bool {
        let mut children = self.children.iter().filter(|child| !child.pruned);
        children.all(ChildOutcome::is_ready)
    }

    /// Returns whether no child is left, for a set without children: then a finalizer can be removed.
    pub fn is_gone(&self) -> bool {
        let mut states = self.children.iter().map(|child| &child.state);
        states.all(|state| matches!(state, ChildState::Absent))
    }

    /// Returns the failed children with their errors.
    pub fn failures(&self) -> impl Iterator<Item = (&ChildOutcome, &ClientError)> {
        self.children.iter().filter_map(|child| match &child.state {
            ChildState::Failed(error) => Some((child, &**error)),
            _ => None,
        })
    }

    /// Returns the error of the first failed child, for a reconciler that leaves the retry to the backoff of its
    /// controller.
    ///
    /// # Errors
    ///
    /// [`Error::Child`].
    pub fn into_result(self) -> Result<(), Error> {
        self.without_failures().map(drop)
    }

    /// Returns the outcome unless a child failed, for a reconciler that leaves the report of failures to its
    /// controller: `report_failures` and [`set_conditions`](Self::set_conditions) would both write `Ready`.
    ///
    /// # Errors
    ///
    /// [`Error::Child`] with the first failed child.
    pub fn without_failures(self) -> Result<Self, Error> {
        let others = self.failures().count().saturating_sub(1);
        let mut children = Vec::with_capacity(self.children.len());
        for child in self.children {
            match child.state {
                ChildState::Failed(source) => {
                    return Err(Error::Child {
                        kind: child.kind,
                        key: child.key,
                        others,
                        source,
                    });
                }
                state => children.push(ChildOutcome { state, ..child }),
            }
        }
        Ok(Self { children, ..self })
    }
}

impl ChildOutcome {
    /// Returns whether the child is ready, or is gone if it shall not exist.
    pub fn is_ready(&self) -> bool {
        self.readiness == Some(Readiness::Current)
    }

    /// Returns whether the child was applied, or its deletion accepted, whether it is ready or not.
    pub fn is_processed(&self) -> bool {
        match self.state {
            ChildState::Applied { .. }
            | ChildState::Unchanged
            | ChildState::Deleting
            | ChildState::Absent => true,
            ChildState::Waiting { .. } | ChildState::Failed(_) | ChildState::Terminating => false,
        }
    }
}
