//! Room: who asks, and what they may do.

mod user;

pub use user::{
    ANONYMOUS, AUTHENTICATED, MASTERS, SERVICE_ACCOUNT_PREFIX, SERVICE_ACCOUNTS, UNAUTHENTICATED,
    User,
};
