//! Driver: `cargo steersman top`.

mod screen_lines;

use std::io::{IsTerminal as _, stdout};

use steersman_object::json_text;

use self::screen_lines::screen_lines;
use crate::command_line::TopArgs;
use crate::dev::output::ViewMessage;
use crate::dev::page_source::PageSource;
use crate::dev::terminal::TerminalView;
use crate::dev::view::model::{Heading, ShownParts};
use crate::error::Error;
use crate::screen::say;

/// Shows what a running operator works on and waits for: in a terminal until it is interrupted, elsewhere once.
pub(crate) async fn top(args: &TopArgs) -> Result<(), Error> {
    let source = PageSource::find(args).await?;
    let overview = source.overview().await?;
    if args.once || !stdout().is_terminal() {
        say(screen_lines(&overview).join("\n"));
        return Ok(());
    }
    let heading = Heading {
        name: json_text(&overview["replica"]).to_owned(),
        server: json_text(&overview["server"]).to_owned(),
        access: source.to_string(),
        shown: ShownParts::PageOnly,
    };
    let (view, sender, keys) = TerminalView::open(heading, None)?;
    let shown = ViewMessage::Operator(String::new(), Some(source));
    // A failed send means that the view has ended.
    let _ = sender.messages.send(shown);
    // An error of the signal means that it cannot be listened to; an error of the keys, that the view has ended.
    tokio::select! {
        _ = keys.quit => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    view.close().await;
    Ok(())
}
