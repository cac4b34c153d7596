//! Handle: a desired set: the children that an owner shall have.

use std::fmt;

use steersman_client::Client;
use steersman_object::{AsObject, Kind, Object, ObjectKey, OwnedKinds, TypedObject};

use crate::child::{AbsentChild, Child, encode_error};
use crate::child_id::ChildId;
use crate::error::Error;
use crate::inventory::OwnedKind;
use crate::member::ChildMember;
use crate::outcome::SetOutcome;
use crate::owner::SetOwner;
use crate::plan::SetPlan;
use crate::run;

/// The number of children that are processed at once by default.
const AT_ONCE: usize = 8;

/// The children that an owner shall have: they are applied, in order where the order matters, and children that are no
/// longer in the set are deleted.
///
/// A reconciler makes a set in each run, from the spec of the owner, in ordinary code: a child that is needed only
/// sometimes is behind an `if`. The page on desired sets of the guide has an example.
///
/// The children of a set are the objects of its [declared kinds](Self::owns) with the label of the set that the owner
/// controls, by its uid (SET-1). So other objects are never deleted, nor are they applied (SET-2).
///
/// # Cancel safety
///
/// A request that was sent is finished even if the future of [`apply`](Self::apply) is dropped, and no further request
/// is sent. The next run continues.
#[must_use = "nothing is applied before `apply`"]
pub struct DesiredSet {
    plan: SetPlan,
}

impl DesiredSet {
    /// Makes an empty set of an owner.
    ///
    /// `label` is the key of a label, such as `web.example.com/children`. Each child gets it, with the uid of the owner
    /// as its value, and without it a child is not found. If an owner has several sets, each has a label of its own. A
    /// new label leaves the children with the earlier one behind.
    pub fn new<O: TypedObject>(owner: &impl AsObject<O>, label: impl Into<String>) -> Self {
        Self::of_kind(owner, &Kind::of::<O>(), label)
    }

    /// Makes an empty set of an owner of a kind that is known at run time.
    pub fn of_kind<O: Object>(
        owner: &impl AsObject<O>,
        kind: &Kind,
        label: impl Into<String>,
    ) -> Self {
        let plan = SetPlan {
            owner: SetOwner::new(owner.as_object(), kind, label.into()),
            kinds: Vec::new(),
            members: Vec::new(),
            after: Vec::new(),
            at_once: AT_ONCE,
        };
        Self { plan }
    }

    /// Declares a kind of children. Every kind of a child in the set must be declared, and a kind stays declared as
    /// long as children of it may exist: a child that is no longer in the code is found by its kind.
    ///
    /// The controller declares the same kinds with its own `owns`: then a change of a child runs the reconciler, which
    /// corrects drift and continues with the children that come after it. One function over [`OwnedKinds`] declares
    /// them for both.
    pub fn owns<K: TypedObject>(self) -> Self {
        self.owns_kind::<K>(&Kind::of::<K>())
    }

    /// Declares a kind of children that is known at run time, with objects that are read as type `K`.
    pub fn owns_kind<K: Object>(mut self, kind: &Kind) -> Self {
        if !self.plan.is_declared(kind) {
            self.plan.kinds.push(OwnedKind::of::<K>(kind.clone()));
        }
        self
    }

    /// Sets the number of children that are applied or deleted at once, at least 1. Eight by default.
    pub fn at_once(mut self, children: usize) -> Self {
        self.plan.at_once = children.max(1);
        self
    }

    /// Adds a child. Its id is for the children that come after it, and for the outcome.
    pub fn add<K: Object>(&mut self, child: Child<K>) -> ChildId<K> {
        let Child {
            kind,
            document,
            after,
            ready_when,
        } = child;
        let complete = document
            .map_err(|source| encode_error(&kind, source))
            .and_then(|document| self.plan.owner.complete(&kind, document));
        let (key, document) = match complete {
            Ok((key, document)) => (key, Ok(document)),
            Err(refused) => (ObjectKey::cluster_scoped(""), Err(refused)),
        };
        self.push(ChildMember::present(kind, key, document, ready_when), after)
    }

    /// Adds a child that shall not exist. An object of its key that the owner does not control is left alone, and
    /// counts as absent.
    pub fn add_absent<K: Object>(&mut self, child: AbsentChild<K>) -> ChildId<K> {
        let AbsentChild {
            kind,
            key,
            after,
            gone_when,
        } = child;
        let key = self.plan.owner.key_of(&kind, &key);
        self.push(ChildMember::absent(kind, key, gone_when), after)
    }

    /// Applies the children, deletes those that shall not exist, and returns what became of each.
    ///
    /// First the existing children of the declared kinds are listed, from the cache. Then each child is applied with
    /// server-side apply under the field manager of the client, several at once, and each after the children that it
    /// comes after are ready; nothing is sent for a child that is as it was applied before
    /// ([`if_changed`](steersman_client::ApplyRequest::if_changed)). A child that must wait is left for a later run. At
    /// the end, existing children that are not in the set are deleted, if every child of the set was applied: not while
    /// one failed or waits.
    ///
    /// A set without children deletes all children, as the clean-up of a finalizer needs it:
    /// [`SetOutcome::is_gone`] returns whether the end has come.
    ///
    /// # Errors
    ///
    /// [`Error::KindNotDeclared`], [`Error::Twice`] and [`Error::Owner`] if the set cannot be applied, and
    /// [`Error::Inventory`] if the existing children cannot be listed. The errors of children are in the outcome:
    /// [`SetOutcome::into_result`] returns the first of them.
    pub async fn apply(self, client: &Client) -> Result<SetOutcome, Error> {
        run::run(self.plan, client).await
    }

    fn push<K>(&mut self, member: ChildMember, after: Vec<usize>) -> ChildId<K> {
        let id = ChildId::new(self.plan.members.len());
        self.plan.members.push(member);
        self.plan.after.push(after);
        id
    }
}

impl OwnedKinds for DesiredSet {
    fn owns<K: TypedObject>(self) -> Self {
        self.owns::<K>()
    }
}

impl fmt::Debug for DesiredSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let children = self.plan.members.iter();
        let names = children.map(|child| format!("{} {}", child.kind, child.key));
        f.debug_struct("DesiredSet")
            .field("owner", &self.plan.owner)
            .field("children", &names.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
