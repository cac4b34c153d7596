//! A request can be compared, hashed and cloned.

use steersman::controller::RequestKey;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Shop;

fn requested<R: RequestKey>() {}

fn main() {
    requested::<Shop>();
}
