//! Handle: a desired set: the children that an owner shall have.

use std::fmt;

use steersman_client::Client;
use steersman_object::{AsObject, Kind, Object, ObjectKey, OwnedKinds, TypedObject};

use crate::child::{AbsentChild, Child};
use crate::child_id::ChildId;
use crate::error::Error;
use crate::inventory::OwnedKind;
use crate::member::ChildMember;
use crate::outcome::SetOutcome;
use crate::owner::SetOwner;
use crate::plan::SetPlan;
use crate::run;

/// The default of the number of children that are processed at once.
const AT_ONCE: usize = 8;

/// The children that an owner shall have. The set applies them, in order where the order matters, and deletes children
/// that are no longer in it.
///
/// A reconciler makes a set in each run from the owner's spec, in ordinary code: a child that is only sometimes needed
/// is inside an `if`. The guide's page on desired sets has an example.
///
/// Children are the objects of the [declared kinds](Self::owns) that have the set's label and that the owner controls
/// by its uid (SET-1). Other objects are neither deleted nor applied (SET-2).
///
/// # Cancel safety
///
/// After a drop of [`apply`](Self::apply), a sent request still completes, and no other is sent. The next run
/// continues.
#[must_use = "nothing is applied before `apply`"]
pub struct DesiredSet {
    plan: SetPlan,
}

impl DesiredSet {
    /// Makes an empty set for an owner.
    ///
    /// `label` is the key of a label, such as `web.example.com/children`. Each child gets it with the owner's uid as
    /// its value, and is found by it. Several sets of one owner need different labels. After a change of the label,
    /// children with the old one are no longer found.
    pub fn new<O: TypedObject>(owner: &impl AsObject<O>, label: impl Into<String>) -> Self {
        Self::of_kind(owner, &Kind::of::<O>(), label)
    }

    /// Makes an empty set for an owner of a kind that is known at run time.
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

    /// Declares a kind of children. Each child's kind must be declared, and stay declared while such children may
    /// exist: children that are no longer in the code are found by their kind.
    ///
    /// The controller's `owns` should declare the same kinds, so that a change of a child runs the reconciler, which
    /// corrects drift and continues with later children. A function over [`OwnedKinds`] can declare the kinds for both.
    pub fn owns<K: TypedObject>(self) -> Self {
        self.owns_kind::<K>(&Kind::of::<K>())
    }

    /// Declares a kind of children that is known at run time. Its objects are read as type `K`.
    pub fn owns_kind<K: Object>(mut self, kind: &Kind) -> Self {
        if !self.plan.is_declared(kind) {
            self.plan.kinds.push(OwnedKind::of::<K>(kind.clone()));
        }
        self
    }

    /// Sets the number of children that are applied or deleted at once; at least 1, by default 8.
    pub fn at_once(mut self, children: usize) -> Self {
        self.plan.at_once = children.max(1);
        self
    }

    /// Adds a child. Returns its id, for the children that come after it, and for the outcome.
    pub fn add<K: Object>(&mut self, child: Child<K>) -> ChildId<K> {
        let owner = &self.plan.owner;
        let complete = |document| owner.complete(&child.kind, document);
        let (key, document) = match child.document.and_then(complete) {
            Ok((key, document)) => (key, Ok(document)),
            Err(refused) => (ObjectKey::cluster_scoped(""), Err(refused)),
        };
        let member = ChildMember::present(child.kind, key, document, child.ready_when);
        self.push(member, child.after)
    }

    /// Adds a child that shall not exist. An object with its key that the owner does not control is left alone, and
    /// counts as absent.
    pub fn add_absent<K: Object>(&mut self, child: AbsentChild<K>) -> ChildId<K> {
        let key = self.plan.owner.key_of(&child.kind, &child.key);
        let member = ChildMember::absent(child.kind, key, child.gone_when);
        self.push(member, child.after)
    }

    /// Applies the children of the set, deletes those that shall not exist, and returns the outcome of each child.
    ///
    /// First, the existing children of the declared kinds are listed from the cache. Then the children are applied by
    /// server-side apply with the client's field manager, several at once, each when the children that it comes after
    /// are ready. Nothing is sent for a child that is as it was applied
    /// ([`if_changed`](steersman_client::ApplyRequest::if_changed)), and a child that must wait is left to a later run.
    /// At the end, existing children that are not in the set are deleted, unless a child of the set failed or waits.
    ///
    /// A set without children deletes all existing children, for the clean-up of a finalizer. [`SetOutcome::is_gone`]
    /// returns whether all are gone.
    ///
    /// # Errors
    ///
    /// [`Error::KindNotDeclared`], [`Error::Twice`] and [`Error::Owner`] if the set is invalid; [`Error::Inventory`] if
    /// the existing children cannot be listed. Errors of children are in the outcome: [`SetOutcome::into_result`]
    /// returns the first.
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
