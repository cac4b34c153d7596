//! Words: conversions between neighbouring versions, for the code that `#[versioned]` generates.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::hash::{BuildHasher, Hash};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::crd::merge_crds;

use super::BoxError;

/// A type of one version that converts to its form in a neighbouring version.
///
/// `#[versioned]` implements the trait for the types of its module, and calls it for each field with
/// such a type. Options, vectors, boxes and maps convert their elements. Another container needs an
/// implementation of its own, or functions in `changed(…)`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not convert to `{T}`",
    note = "implement `ConvertTo` for this container of versioned types, or name two functions in `changed(…)`"
)]
pub trait ConvertTo<T> {
    /// Converts the value to the other version.
    ///
    /// # Errors
    ///
    /// The field that cannot be converted, with the reason.
    fn convert_to(&self) -> Result<T, FieldConversionError>;
}

/// The result of a function that converts a field: the value, or a `Result`.
pub trait ConversionResult<T> {
    /// Returns the converted value.
    ///
    /// # Errors
    ///
    /// The error of the conversion function.
    fn into_result(self) -> Result<T, BoxError>;
}

/// The reason why a field cannot be converted to another version.
#[derive(Debug, thiserror::Error)]
#[error("{path} cannot be converted")]
pub struct FieldConversionError {
    path: String,
    #[source]
    problem: BoxError,
}

impl<T> ConversionResult<T> for T {
    fn into_result(self) -> Result<T, BoxError> {
        Ok(self)
    }
}

impl<T, E: Into<BoxError>> ConversionResult<T> for Result<T, E> {
    fn into_result(self) -> Result<T, BoxError> {
        self.map_err(Into::into)
    }
}

impl FieldConversionError {
    /// Returns the path of the field, such as `spec.tls.hosts[2]`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Prepends the name of the containing field to the path.
    fn within(mut self, outer: impl Display) -> Self {
        let is_joined = self.path.is_empty() || self.path.starts_with('[');
        let separator = if is_joined { "" } else { "." };
        self.path = format!("{outer}{separator}{}", self.path);
        self
    }
}

/// Returns the field value that a conversion function of the operator has made.
///
/// # Errors
///
/// The error of the conversion function, with the name of the field.
pub fn changed<T>(
    field: &str,
    result: impl ConversionResult<T>,
) -> Result<T, FieldConversionError> {
    let result = result.into_result();
    result.map_err(|problem| FieldConversionError {
        path: field.to_owned(),
        problem,
    })
}

/// Converts a field that has a versioned type.
///
/// # Errors
///
/// The field that cannot be converted, with its path relative to the containing type.
pub fn nested<A: ConvertTo<B>, B>(field: &str, value: &A) -> Result<B, FieldConversionError> {
    let converted = value.convert_to();
    converted.map_err(|error| match field {
        "" => error,
        field => error.within(field),
    })
}

/// Merges definitions of a kind with one version each. The stored version is the first version of the first definition.
///
/// # Panics
///
/// If the definitions do not have one group, kind and scope, or none has the stored version.
#[must_use]
pub fn merged_definition(
    versions: Vec<CustomResourceDefinition>,
    stored: &str,
) -> CustomResourceDefinition {
    match merge_crds(versions, stored) {
        Ok(definition) => definition,
        Err(error) => panic!("the versions are not those of one kind: {error}"),
    }
}

impl<A: ConvertTo<B>, B> ConvertTo<Option<B>> for Option<A> {
    fn convert_to(&self) -> Result<Option<B>, FieldConversionError> {
        self.as_ref().map(A::convert_to).transpose()
    }
}

impl<A: ConvertTo<B>, B> ConvertTo<Box<B>> for Box<A> {
    fn convert_to(&self) -> Result<Box<B>, FieldConversionError> {
        A::convert_to(self).map(Box::new)
    }
}

impl<A: ConvertTo<B>, B> ConvertTo<Vec<B>> for Vec<A> {
    fn convert_to(&self) -> Result<Vec<B>, FieldConversionError> {
        let elements = self.iter().enumerate();
        elements
            .map(|(at, element)| {
                let converted = element.convert_to();
                converted.map_err(|error| error.within(format_args!("[{at}]")))
            })
            .collect()
    }
}

impl<K: Clone + Display + Ord, A: ConvertTo<B>, B> ConvertTo<BTreeMap<K, B>> for BTreeMap<K, A> {
    fn convert_to(&self) -> Result<BTreeMap<K, B>, FieldConversionError> {
        self.iter().map(member).collect()
    }
}

impl<K, A, B, S> ConvertTo<HashMap<K, B, S>> for HashMap<K, A, S>
where
    K: Clone + Display + Eq + Hash,
    A: ConvertTo<B>,
    S: BuildHasher + Default,
{
    fn convert_to(&self) -> Result<HashMap<K, B, S>, FieldConversionError> {
        self.iter().map(member).collect()
    }
}

fn member<K: Clone + Display, A: ConvertTo<B>, B>(
    (key, value): (&K, &A),
) -> Result<(K, B), FieldConversionError> {
    let converted = value.convert_to();
    let converted = converted.map_err(|error| error.within(format_args!("[{key}]")))?;
    Ok((key.clone(), converted))
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    struct Text(&'static str);

    impl ConvertTo<u8> for Text {
        fn convert_to(&self) -> Result<u8, FieldConversionError> {
            changed("size", self.0.parse::<u8>())
        }
    }

    #[test]
    fn an_error_has_the_path_through_containers() {
        let lists = BTreeMap::from([("a", Some(vec![Text("1")])), ("b", Some(vec![]))]);
        let converted: BTreeMap<&str, Option<Vec<u8>>> = nested("lists", &lists).unwrap();
        assert_eq!(converted["a"], Some(vec![1]));
        let lists = HashMap::from([("a", Box::new(vec![Text("1"), Text("x")]))]);
        let result: Result<HashMap<&str, Box<Vec<u8>>>, _> = nested("lists", &lists);
        let error = result.unwrap_err();
        assert_eq!(error.path(), "lists[a][1].size");
        assert_eq!(error.to_string(), "lists[a][1].size cannot be converted");
        let problem = error.source().unwrap().to_string();
        assert_eq!(problem, "invalid digit found in string");
    }

    #[test]
    fn a_function_returns_the_value_or_a_result() {
        let plain: Result<u8, _> = changed("a", 7_u8);
        assert_eq!(plain.unwrap(), 7);
        let fallible: Result<u8, _> = changed("a", Err::<u8, _>("no number"));
        assert_eq!(fallible.unwrap_err().path(), "a");
    }
}
