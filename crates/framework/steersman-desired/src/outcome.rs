//! Words: what became of the children of a set.

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
    /// The child is as it was applied before; nothing was sent.
    Unchanged,
    /// The child was not processed: it comes after children that are not ready, or not gone, yet.
    Waiting {
        /// The kinds and keys of these children.
        after: Vec<(Kind, ObjectKey)>,
    },
    /// The child could not be read, applied or deleted.
    Failed(Box<ClientError>),
    /// The child should exist and is being deleted: it is applied once it is gone.
    Terminating,
    /// The child should not exist, and the server has accepted its deletion, now or earlier.
    Deleting,
    /// The child should not exist, and does not exist.
    Absent,
}

/// What became of one child.
#[derive(Debug)]
#[non_exhaustive]
pub struct ChildOutcome {
    /// The kind of the child.
    pub kind: Kind,
    /// The key of the child.
    pub key: ObjectKey,
    /// The state of the child after the run.
    pub state: ChildState,
    /// Whether the child is as its spec says, or, if it should not exist, whether it is gone. `None` if that is
    /// unknown: the child waits, or it failed.
    pub readiness: Option<Readiness>,
    /// Whether the child is not in the set and was found by its owner and label.
    pub pruned: bool,
}

/// What became of the children of a set in one run of [`DesiredSet::apply`](crate::DesiredSet::apply).
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
    /// Returns what became of each child: of those in the set in the order in which they were added, then of those
    /// that were pruned.
    pub fn children(&self) -> &[ChildOutcome] {
        &self.children
    }

    /// Returns what became of a child.
    pub fn child<K>(&self, id: ChildId<K>) -> Option<&ChildOutcome> {
        self.children.get(id.index())
    }

    /// Returns the object of a child as the server or the cache had it in this run. Of a child that failed this is the
    /// state before the failed request, beside the error. `None` if the child waits, does not exist, or could not be
    /// read.
    pub fn object<K: Object>(&self, id: ChildId<K>) -> Option<Arc<K>> {
        let found = self.objects.get(id.index())?.as_ref()?;
        Arc::clone(&found.0).downcast().ok()
    }

    /// Returns whether the child is ready, or gone if it should not exist.
    pub fn is_child_ready<K>(&self, id: ChildId<K>) -> bool {
        self.child(id).is_some_and(ChildOutcome::is_ready)
    }

    /// Returns whether every child of the set is ready, or gone if it should not exist. Children that are being pruned
    /// do not matter.
    pub fn is_ready(&self) -> bool {
        let mut children = self.children.iter().filter(|child| !child.pruned);
        children.all(ChildOutcome::is_ready)
    }

    /// Returns whether nothing is left of a set without children: a finalizer that waits for their end may be removed.
    pub fn is_gone(&self) -> bool {
        let mut states = self.children.iter().map(|child| &child.state);
        states.all(|state| matches!(state, ChildState::Absent))
    }

    /// Returns the children that failed, with their errors.
    pub fn failures(&self) -> impl Iterator<Item = (&ChildOutcome, &ClientError)> {
        self.children.iter().filter_map(|child| match &child.state {
            ChildState::Failed(error) => Some((child, &**error)),
            _ => None,
        })
    }

    /// Returns the error of the first child that failed, for a reconciler that leaves the next attempt to the backoff
    /// of its controller.
    ///
    /// # Errors
    ///
    /// [`Error::Child`].
    pub fn into_result(self) -> Result<(), Error> {
        self.without_failures().map(drop)
    }

    /// Returns the outcome if no child failed, for a reconciler that leaves the report of a failure to its controller:
    /// `report_failures` and [`set_conditions`](Self::set_conditions) would both write `Ready` for one failure.
    ///
    /// # Errors
    ///
    /// [`Error::Child`] of the first child that failed.
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
    /// Returns whether the child is ready, or gone if it should not exist.
    pub fn is_ready(&self) -> bool {
        self.readiness == Some(Readiness::Current)
    }

    /// Returns whether the child was applied, or its deletion accepted, ready or not.
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
