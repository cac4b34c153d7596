//! Room: fuzz targets of the webhooks of an operator.
//!
//! For any input, no webhook panics, and each review has one response with its uid. The patch of a defaulter changes
//! what the defaulter changes and nothing else, and an object that is converted to another version and back is what it
//! was.

mod kinds;
mod webhooks;
mod admission;
mod conversion;
mod token;

pub(crate) use admission::reviews;
pub(crate) use conversion::conversions;
pub(crate) use token::token_reviews;
