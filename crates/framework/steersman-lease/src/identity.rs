//! Words: the identity of a replica.

use std::hash::{BuildHasher as _, RandomState};

use uuid::Uuid;

/// Returns the host name (in a Pod, the name of the Pod), an underscore and a random UUID: controller-runtime's default
/// identity (`pkg/leaderelection`, `os.Hostname() + "_" + uuid`).
pub(crate) fn hostname_uuid() -> String {
    format!("{}_{}", hostname(), uuid())
}

fn hostname() -> String {
    let name = hostname::get().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Returns a random UUID of version 4. The randomness is that of the hashers of std.
fn uuid() -> Uuid {
    let random = || u128::from(RandomState::new().hash_one("steersman-lease"));
    let bits = (random() << 64) | random();
    uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_a_host_and_a_random_uuid() {
        let (one, other) = (hostname_uuid(), hostname_uuid());
        assert_ne!(one, other);
        let (host, uuid) = one.rsplit_once('_').unwrap();
        assert!(!host.is_empty());
        let parts: Vec<usize> = uuid.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
        assert_eq!(&uuid[14..15], "4");
        assert!("89ab".contains(&uuid[19..20]), "{uuid}");
    }
}
