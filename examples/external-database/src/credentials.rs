//! Machine: the Secret with the credentials of a database.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use steersman::ObjectKey;
use steersman::k8s_openapi;
use steersman::object::Object as _;

use crate::database::Database;

/// The label of the Secrets of this operator. The cache holds no other Secret.
pub const LABEL: &str = "db.example.com/credentials";

/// The user and the password of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The user.
    pub user: String,
    /// The password.
    pub password: String,
}

/// Returns the key of the Secret of a database.
pub fn secret_key(database: &Database) -> ObjectKey {
    let key = database.key();
    key.sibling(format!("{}-credentials", key.name()))
}

/// Writes credentials into a Secret, and leaves its other fields unchanged.
pub fn fill(secret: &mut Secret, external_name: &str, credentials: &Credentials) {
    let labels = secret.metadata.labels.get_or_insert_default();
    labels.insert(LABEL.to_owned(), "true".to_owned());
    let data = secret.data.get_or_insert_default();
    for (name, value) in [
        ("database", external_name),
        ("user", &credentials.user),
        ("password", &credentials.password),
    ] {
        data.insert(name.to_owned(), ByteString(value.as_bytes().to_vec()));
    }
}

/// Reads the credentials in a Secret; `None` if they are not complete.
pub fn read(secret: &Secret) -> Option<Credentials> {
    let data = secret.data.as_ref()?;
    let text = |name: &str| String::from_utf8(data.get(name)?.0.clone()).ok();
    Some(Credentials {
        user: text("user")?,
        password: text("password")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_read_as_they_were_written() {
        let credentials = Credentials {
            user: "ann".to_owned(),
            password: "p4ss".to_owned(),
        };
        let mut secret = Secret::default();
        assert_eq!(read(&secret), None);
        fill(&mut secret, "shop.orders", &credentials);
        assert_eq!(read(&secret), Some(credentials));
        secret.data.as_mut().unwrap().remove("password");
        assert_eq!(read(&secret), None);
    }
}
