//! What is said of broken configurations.
