//! Words: the errors of desired sets.

use steersman_client::Error as ClientError;
use steersman_object::owner::OwnerError;
use steersman_object::{Kind, ObjectKey};
use thiserror::Error as ThisError;

/// An error of a [`DesiredSet`](crate::DesiredSet).
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// A child has a kind that the set does not declare, so it would not be pruned after its removal from the code.
    #[error(
        "{kind} {key} is a child of a kind that its set does not declare: add `.owns` with this kind to the set, and \
         to the controller"
    )]
    KindNotDeclared {
        /// The kind of the child.
        kind: Kind,
        /// The key of the child.
        key: ObjectKey,
    },
    /// Two children of a set have the same kind and key.
    #[error("{kind} {key} is in its set twice: give one of the two children another name")]
    Twice {
        /// The kind of the children.
        kind: Kind,
        /// The key of the children.
        key: ObjectKey,
    },
    /// The owner cannot be the controller of the children.
    #[error(transparent)]
    Owner(#[from] OwnerError),
    /// The existing children could not be listed.
    #[error("the {kind} children of {owner} cannot be listed")]
    Inventory {
        /// The kind of the children.
        kind: Kind,
        /// The key of the owner.
        owner: ObjectKey,
        /// The error of the list.
        #[source]
        source: Box<ClientError>,
    },
    /// A child could not be read, applied or deleted.
    #[error("{kind} {key} failed{}", also(*.others))]
    Child {
        /// The kind of the child.
        kind: Kind,
        /// The key of the child.
        key: ObjectKey,
        /// The number of other children that also failed.
        others: usize,
        /// The error of the child.
        #[source]
        source: Box<ClientError>,
    },
}

fn also(number: usize) -> String {
    match number {
        0 => String::new(),
        1 => ", and so did 1 other child".to_owned(),
        more => format!(", and so did {more} other children"),
    }
}
