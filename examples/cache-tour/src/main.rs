//! The tour's binary: visits every stop in turn, and prints its page.

use std::io::Write as _;

use cache_tour::cluster::Cluster;
use cache_tour::{BoxError, stops};

// The paused clock jumps over every wait. No socket is open, so the clock cannot outrun data in
// flight.
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
