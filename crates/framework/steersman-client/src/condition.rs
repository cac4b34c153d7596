//! Words: conditions of objects, for [`Client::await_condition`](crate::Client::await_condition).

use std::borrow::Cow;

use steersman_object::{Object, ResourceVersion};

/// A condition that a program can wait for: a test of an object or of its absence.
///
/// Each `Fn(Option<&K>) -> bool` is a condition; the argument is `None` if the object does not exist. Conditions can be
/// combined, and [`conditions`](crate::conditions) has the conditions that programs need most.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use steersman_client::Condition;
///
/// let is_blue = |config: Option<&ConfigMap>| {
///     let data = config.and_then(|config| config.data.as_ref());
///     data.is_some_and(|data| data.get("sky").is_some_and(|sky| sky == "blue"))
/// };
/// let not_blue = is_blue.named("is blue").not();
/// assert!(not_blue.is_met(None));
/// assert_eq!(not_blue.name(), "not (is blue)");
/// ```
pub trait Condition<K>: Send + Sync {
    /// Returns whether the object meets the condition; `None` means that the object does not exist.
    fn is_met(&self, object: Option<&K>) -> bool;

    /// Returns the name of the condition, for errors; by default `the condition`.
    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed("the condition")
    }

    /// Returns the same condition with a name.
    fn named(self, name: impl Into<Cow<'static, str>>) -> NamedCondition<Self>
    where
        Self: Sized,
    {
        NamedCondition {
            condition: self,
            name: name.into(),
        }
    }

    /// Returns the negation of this condition.
    fn not(self) -> Not<Self>
    where
        Self: Sized,
    {
        Not(self)
    }

    /// Returns the condition that both this condition and `other` are met.
    fn and<C: Condition<K>>(self, other: C) -> And<Self, C>
    where
        Self: Sized,
    {
        And(self, other)
    }

    /// Returns the condition that this condition or `other` is met.
    fn or<C: Condition<K>>(self, other: C) -> Or<Self, C>
    where
        Self: Sized,
    {
        Or(self, other)
    }
}

/// A condition with a name, for the message of [`Error::ConditionNotMet`](crate::Error::ConditionNotMet). Made by
/// [`Condition::named`].
#[derive(Clone, Debug)]
pub struct NamedCondition<C> {
    condition: C,
    name: Cow<'static, str>,
}

/// A condition that is met while another condition is not met. Made by [`Condition::not`].
#[derive(Clone, Copy, Debug)]
pub struct Not<C>(C);

/// A condition that is met while two conditions are both met. Made by [`Condition::and`].
#[derive(Clone, Copy, Debug)]
pub struct And<A, B>(A, B);

/// A condition that is met while at least one of two conditions is met. Made by [`Condition::or`].
#[derive(Clone, Copy, Debug)]
pub struct Or<A, B>(A, B);

/// The last state of an object that did not meet a condition before the timeout of the wait.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
#[non_exhaustive]
pub enum LastSeen {
    /// No state is known, because the server did not answer the first list.
    #[display("the server has not answered")]
    Nothing,
    /// The object did not exist, and its absence did not meet the condition.
    #[display("the object does not exist")]
    Absent,
    /// The object existed, and did not meet the condition.
    #[display(
        "the object has resource version {version} and uid {uid}{}",
        if *is_being_deleted { ", is being deleted" } else { "" }
    )]
    Present {
        /// The uid of the object; it distinguishes the object from an earlier object with its name.
        uid: String,
        /// The resource version at which the object did not meet the condition.
        version: ResourceVersion,
        /// Whether the object had a deletion timestamp. If so, finalizers delay its deletion.
        is_being_deleted: bool,
    },
}

impl<K, F: Fn(Option<&K>) -> bool + Send + Sync> Condition<K> for F {
    fn is_met(&self, object: Option<&K>) -> bool {
        self(object)
    }
}

impl<K, C: Condition<K>> Condition<K> for NamedCondition<C> {
    fn is_met(&self, object: Option<&K>) -> bool {
        self.condition.is_met(object)
    }

    fn name(&self) -> Cow<'static, str> {
        self.name.clone()
    }
}

impl<K, C: Condition<K>> Condition<K> for Not<C> {
    fn is_met(&self, object: Option<&K>) -> bool {
        !self.0.is_met(object)
    }

    fn name(&self) -> Cow<'static, str> {
        format!("not ({})", self.0.name()).into()
    }
}

impl<K, A: Condition<K>, B: Condition<K>> Condition<K> for And<A, B> {
    fn is_met(&self, object: Option<&K>) -> bool {
        self.0.is_met(object) && self.1.is_met(object)
    }

    fn name(&self) -> Cow<'static, str> {
        format!("({} and {})", self.0.name(), self.1.name()).into()
    }
}

impl<K, A: Condition<K>, B: Condition<K>> Condition<K> for Or<A, B> {
    fn is_met(&self, object: Option<&K>) -> bool {
        self.0.is_met(object) || self.1.is_met(object)
    }

    fn name(&self) -> Cow<'static, str> {
        format!("({} or {})", self.0.name(), self.1.name()).into()
    }
}

impl LastSeen {
    pub(crate) fn of<K: Object>(object: Option<&K>) -> Self {
        match object {
            None => Self::Absent,
            Some(object) => Self::Present {
                uid: object.uid_str().to_owned(),
                version: object.stored_version(),
                is_being_deleted: object.is_being_deleted(),
            },
        }
    }
}
