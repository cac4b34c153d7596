//! Machine: decides which types accept values of other types, and binds type variables.

use super::Checker;
use crate::types::Type;

impl Checker<'_> {
    pub(super) fn fresh(&mut self) -> Type {
        self.bound.push(None);
        Type::Param(self.bound.len() - 1)
    }

    pub(super) fn bind(&mut self, number: usize, to: Type) {
        if let Some(bound) = self.bound.get_mut(number) {
            let before = bound.replace(to);
            self.trail.push((number, before));
        }
    }

    pub(super) fn take_back(&mut self, (variables, bindings): (usize, usize)) {
        for (number, before) in self.trail.drain(bindings..).rev() {
            self.bound[number] = before;
        }
        self.bound.truncate(variables);
    }

    /// Returns whether a value of type `found` fits type `wanted`, and binds type variables in both so that they fit.
    pub(super) fn fits(&mut self, wanted: &Type, found: &Type) -> bool {
        for (variable, other) in [(wanted, found), (found, wanted)] {
            if let Type::Param(number) = variable
                && let Some(Some(bound)) = self.bound.get(*number)
            {
                let bound = bound.clone();
                return self.fits_bound(*number, &bound, other);
            }
        }
        match (wanted, found) {
            (Type::Param(a), Type::Param(b)) if a == b => true,
            (Type::Param(number), other) | (other, Type::Param(number)) => {
                if self.occurs(*number, other) {
                    return false;
                }
                self.bind(*number, other.clone());
                true
            }
            (Type::Dyn | Type::Error, _) | (_, Type::Dyn | Type::Error) => true,
            (Type::Null, other) | (other, Type::Null) => *other == Type::Null || other.takes_null(),
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => {
                self.fits(a, b)
            }
            // Every type used as a value, such as `int` in `type(x) == int`, has the type `type`, so these two fit.
            (Type::Of(_), Type::Of(_)) => true,
            (Type::Map(a), Type::Map(b)) => self.fits(&a.0, &b.0) && self.fits(&a.1, &b.1),
            (a, b) => a == b,
        }
    }

    /// Returns whether a type variable with the bound type `bound` accepts the type `other`. The variable is then bound
    /// to the more general of the two types.
    fn fits_bound(&mut self, number: usize, bound: &Type, other: &Type) -> bool {
        if !self.fits(bound, other) {
            return false;
        }
        if other.is_as_general_as(bound) && !self.occurs(number, other) {
            self.bind(number, other.clone());
        }
        true
    }

    /// Returns the type that a type variable is bound to; unbound variables and other types are returned unchanged.
    fn head(&self, of: &Type) -> Type {
        let mut of = of.clone();
        while let Type::Param(number) = &of {
            match self.bound.get(*number) {
                Some(Some(bound)) => of = bound.clone(),
                _ => break,
            }
        }
        of
    }

    fn occurs(&self, number: usize, within: &Type) -> bool {
        match self.head(within) {
            Type::Param(other) => other == number,
            Type::List(of) | Type::Optional(of) | Type::Of(of) => self.occurs(number, &of),
            Type::Map(entry) => self.occurs(number, &entry.0) || self.occurs(number, &entry.1),
            _ => false,
        }
    }

    /// Replaces bound type variables in a type by their types. With `end`, unbound variables become `dyn`.
    pub(super) fn settled(&self, of: &Type, end: bool) -> Type {
        match self.head(of) {
            Type::Param(_) if end => Type::Dyn,
            Type::List(of) => Type::list(self.settled(&of, end)),
            Type::Optional(of) => Type::optional(self.settled(&of, end)),
            Type::Of(of) => Type::Of(self.settled(&of, end).into()),
            Type::Map(entry) => Type::map(self.settled(&entry.0, end), self.settled(&entry.1, end)),
            other => other,
        }
    }
}

/// Replaces the type parameters of an overload (`A` and `B`) in a type by the types `params`.
pub(super) fn replaced(of: &Type, params: &[Type; 2]) -> Type {
    match of {
        Type::Param(number) => params.get(*number).cloned().unwrap_or(Type::Dyn),
        Type::List(of) => Type::list(replaced(of, params)),
        Type::Optional(of) => Type::optional(replaced(of, params)),
        Type::Of(of) => Type::Of(replaced(of, params).into()),
        Type::Map(entry) => Type::map(replaced(&entry.0, params), replaced(&entry.1, params)),
        other => other.clone(),
    }
}
