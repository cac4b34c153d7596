//! A type that does not implement `Hash` cannot be a request.

use steersman::controller::RequestKey;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Shop;

fn requested<R: RequestKey>() {}

fn main() {
    requested::<Shop>();
}
