//! `penstock top`: the essentials of the admin listener's page in a terminal.

mod draw;
mod view;

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use penstock_config::{Admin, Config, limits};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use serde_json::Value;

use crate::admin_client;
use crate::arguments::TopArgs;
use crate::failure::Failure;
use crate::terminal;
use view::View;

pub(crate) fn run(arguments: &TopArgs) -> Result<(), Failure> {
    let admin = match (&arguments.config, &arguments.admin) {
        (Some(file), _) => {
            let config = Config::load(file).map_err(Failure::Config)?;
            admin_client::listener_of(&config, file)?.clone()
        }
        (None, Some(address)) => Admin::at(address.clone()),
        (None, None) => return Err(Failure::Usage("write -c FILE or --admin ADDR".to_owned())),
    };
    let first = read(&admin)?;
    if arguments.once {
        return print(&first);
    }
    if !io::stdout().is_terminal() {
        return Err(Failure::Usage("the output is no terminal; add --once for text".to_owned()));
    }
    let terminal = ratatui::try_init().map_err(Failure::machine("use the terminal"))?;
    let shown = show(terminal, &admin, first);
    ratatui::restore();
    shown.map_err(Failure::machine("use the terminal"))
}

/// What the server says now.
fn read(admin: &Admin) -> Result<View, Failure> {
    let status = json(admin, "/status.json")?;
    let history = json(admin, &format!("/history.json?seconds={}", limits::TOP_SECONDS))?;
    Ok(View::new(&admin.address.to_string(), &status, &history))
}

fn json(admin: &Admin, target: &str) -> Result<Value, Failure> {
    let (status, body) = admin_client::ask(admin, "GET", target)?;
    let wrong = |what: String| Failure::machine(format!("read {target}"))(io::Error::other(what));
    match status {
        200 => serde_json::from_str(&body).map_err(|error| wrong(error.to_string())),
        401 => {
            Err(wrong("the admin listener needs its token: give the configuration with -c FILE".to_owned()))
        }
        _ => Err(wrong(format!("the admin listener answered {status}"))),
    }
}

fn print(view: &View) -> Result<(), Failure> {
    view.text().iter().for_each(|line| terminal::say(line));
    match view.critical() {
        0 => Ok(()),
        count => {
            let what = if count == 1 { "1 problem".to_owned() } else { format!("{count} problems") };
            Err(Failure::machine("find all well")(io::Error::other(what)))
        }
    }
}

/// Draws once a second until a key ends it.
fn show(mut terminal: DefaultTerminal, admin: &Admin, first: View) -> io::Result<()> {
    const SECOND: Duration = Duration::from_secs(1);
    let (mut view, mut is_paused) = (first, false);
    let mut next = Instant::now() + SECOND;
    loop {
        terminal.draw(|frame| draw::draw(frame, &view, is_paused))?;
        let is_due = !event::poll(next.saturating_duration_since(Instant::now()))?;
        if is_due {
            next = Instant::now() + SECOND;
            if !is_paused {
                match read(admin) {
                    Ok(newer) => view = newer,
                    Err(failure) => view.lose(&failure.to_string()),
                }
            }
            continue;
        }
        if let Event::Key(key) = event::read()? {
            match action(key) {
                Some(Action::End) => return Ok(()),
                Some(Action::Pause) => is_paused = !is_paused,
                None => {}
            }
        }
    }
}

/// What a key does.
enum Action {
    End,
    Pause,
}

fn action(key: KeyEvent) -> Option<Action> {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        _ if key.kind == KeyEventKind::Release => None,
        KeyCode::Char('c') if is_control => Some(Action::End),
        KeyCode::Char('q') | KeyCode::Esc => Some(Action::End),
        KeyCode::Char('p') => Some(Action::Pause),
        _ => None,
    }
}
