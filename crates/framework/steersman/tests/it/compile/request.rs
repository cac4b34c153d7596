//! A type that does not implement `Hash` cannot be a request.
//~ `Shop` cannot be a request
//~ derive `Clone`, `Debug`, `PartialEq`, `Eq` and `Hash` for it; equal requests are one request

use steersman::controller::RequestKey;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Shop;

fn requested<R: RequestKey>() {}

fn main() {
    requested::<Shop>();
}
