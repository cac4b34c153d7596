//! Words: the causes of one run of a key.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// The causes of one run of a key, as a set.
///
/// The queue collects the causes of all adds that became one run. Its user defines more with [`Causes::custom`].
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Causes(u8);

/// The names of the queue's own causes, in the order of their bits.
const NAMES: [&str; 3] = ["add", "delay", "backoff"];

impl Causes {
    /// The empty set.
    pub const NONE: Self = Self(0);
    /// An add with options that name no causes.
    pub const ADD: Self = Self(1);
    /// The end of a delay of [`AddOptions::after`](crate::AddOptions::after) or
    /// [`Ticket::after`](crate::Ticket::after).
    pub const DELAY: Self = Self(1 << 1);
    /// The end of a backoff: the run is a retry.
    pub const BACKOFF: Self = Self(1 << 2);

    /// Returns the user-defined cause `number`, from 0 to 4; greater numbers count as 4.
    #[must_use]
    pub const fn custom(number: u8) -> Self {
        let number = if number < 4 { number } else { 4 };
        Self(1 << (number + 3))
    }

    /// Returns whether all of `causes` are in the set.
    #[must_use]
    pub const fn contains(self, causes: Self) -> bool {
        self.0 & causes.0 == causes.0
    }

    /// Returns whether at least one of `causes` is in the set.
    #[must_use]
    pub const fn intersects(self, causes: Self) -> bool {
        self.0 & causes.0 != 0
    }

    /// Returns the set without `causes`.
    #[must_use]
    pub const fn without(self, causes: Self) -> Self {
        Self(self.0 & !causes.0)
    }

    /// Returns this set or, if it is empty, `causes`.
    pub(crate) const fn or(self, causes: Self) -> Self {
        if self.0 == 0 { causes } else { self }
    }
}

impl BitOr for Causes {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Causes {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for Causes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut set = f.debug_set();
        for bit in (0..8_usize).filter(|bit| self.0 >> bit & 1 == 1) {
            match NAMES.get(bit) {
                Some(name) => set.entry(&format_args!("{name}")),
                None => set.entry(&format_args!("custom {}", bit - NAMES.len())),
            };
        }
        set.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_a_set() {
        let both = Causes::ADD | Causes::custom(1);
        assert!(both.contains(Causes::ADD) && both.contains(Causes::custom(1)));
        assert!(!both.contains(Causes::ADD | Causes::DELAY));
        assert!(both.intersects(Causes::ADD | Causes::DELAY));
        assert!(!both.intersects(Causes::custom(0)));
        assert_eq!(both.without(Causes::ADD), Causes::custom(1));
        assert_eq!(Causes::custom(200), Causes::custom(4));
        assert_eq!(format!("{both:?}"), "{add, custom 1}");
        assert_eq!(Causes::NONE.or(Causes::ADD), Causes::ADD);
    }
}
