//! A tour of the cache: each stop sets options, and shows the requests and the memory that they cost.
//!
//! Everything runs in this process, on a paused clock that jumps while all tasks wait. So the tour takes a
//! moment, and its output is the same every time but for some bytes.
//!
//! - `page` lays out the text.
//! - `asked` counts the requests that arrived.
//! - `cluster` has the server with its objects, and the caches that are opened on it.
//! - `stops` has the stops, in order.

mod page;
mod asked;
mod cluster;
mod stops;

use std::io::Write as _;

use crate::cluster::Cluster;

/// Any error; it ends the tour.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

// The paused clock jumps over every wait. No socket is open, so the clock cannot outrun data in flight.
#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), BoxError> {
    let cluster = Cluster::filled().await?;
    let mut out = std::io::stdout();
    writeln!(out, "{}", stops::welcome())?;
    writeln!(out, "{}", stops::scope::visit(&cluster).await?)?;
    writeln!(out, "{}", stops::indexes::visit(&cluster).await?)?;
    writeln!(out, "{}", stops::metadata::visit(&cluster).await?)?;
    writeln!(out, "{}", stops::views::visit(&cluster).await?)?;
    writeln!(out, "{}", stops::own_writes::visit(&cluster).await?)?;
    writeln!(out, "{}", stops::degraded::visit(&cluster).await?)?;
    writeln!(out, "{}", stops::memory::visit(&cluster).await?)?;
    Ok(())
}
