//! Words: the fuzz targets and their names.

use crate::{admission, conversion, token};

/// A fuzz target: decides how the bytes of an input become a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// A byte that selects the webhook and the form of the input, a byte that selects the change of the defaulter,
    /// and the body of an admission review or the objects of one.
    Reviews,
    /// A byte that selects the form of the input, a byte that selects the versions, and the body of a conversion
    /// review or an object.
    Conversions,
    /// A byte that selects the form of the input, and the body of a token review or a token.
    TokenReviews,
}

impl Target {
    /// Every target.
    pub const ALL: [Self; 3] = [Self::Reviews, Self::Conversions, Self::TokenReviews];

    /// Returns the name of the target and of its folder in the corpus.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Reviews => "reviews",
            Self::Conversions => "conversions",
            Self::TokenReviews => "token_reviews",
        }
    }

    /// Returns the target of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|target| target.name() == name)
    }

    /// Sends the input to new webhooks.
    ///
    /// # Panics
    /// On a finding: a webhook that panicked, or a response that is not that of its review.
    pub fn run(self, input: &[u8]) {
        match self {
            Self::Reviews => admission::run(input),
            Self::Conversions => conversion::run(input),
            Self::TokenReviews => token::run(input),
        }
    }
}
