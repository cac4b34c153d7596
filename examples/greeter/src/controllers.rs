//! The controllers of the operator.

use steersman::Manager;
use steersman::cli::BoxError;

pub mod greeting;

/// Adds every controller to the manager.
///
/// # Errors
///
/// The reason why a controller cannot be declared.
pub fn add_all(manager: &Manager) -> Result<(), BoxError> {
    greeting::add(manager)?;
    Ok(())
}
