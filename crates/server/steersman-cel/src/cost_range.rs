//! Words: ranges of sizes and of costs, which cost estimates compute with.

/// The cost of reading one character of a string; a call of a simple function costs 1.
pub(crate) const PER_CHARACTER: f64 = 0.1;

/// A match costs this factor times the length of the regular expression, times the cost of reading the text.
pub(crate) const PER_PATTERN_CHARACTER: f64 = 0.25;

/// A lower and an upper bound of a size or a cost. Sums and products stop at `u64::MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub min: u64,
    pub max: u64,
}

impl Range {
    pub(crate) const UNKNOWN: Self = Self::up_to(u64::MAX);

    pub(crate) const fn up_to(max: u64) -> Self {
        Self { min: 0, max }
    }

    pub(crate) const fn exactly(size: u64) -> Self {
        let (min, max) = (size, size);
        Self { min, max }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_add(other.min),
            max: self.max.saturating_add(other.max),
        }
    }

    pub(crate) fn times(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_mul(other.min),
            max: self.max.saturating_mul(other.max),
        }
    }

    pub(crate) fn scaled(self, factor: f64) -> Self {
        Self {
            min: scaled(self.min, factor),
            max: scaled(self.max, factor),
        }
    }

    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }
}

/// Returns `size * factor`, rounded up, for the estimates and costs that Kubernetes and cel-go round up.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "estimates; a cast from a float stops at the largest number"
)]
pub(crate) fn scaled(size: u64, factor: f64) -> u64 {
    (size as f64 * factor).ceil() as u64
}

/// Returns `size * factor`, rounded down, for the costs that Kubernetes and cel-go round down.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "costs; a cast from a float stops at the largest number"
)]
pub(crate) fn floored(size: u64, factor: f64) -> u64 {
    (size as f64 * factor) as u64
}
