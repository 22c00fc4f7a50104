//! `penstock top`: the essentials of the admin listener's page in a terminal.

mod draw;
mod format;
mod tabs;
mod view;

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use penstock_config::{Admin, Config, limits};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use serde_json::Value;

use crate::admin_client;
use crate::arguments::{TopArgs, TopTab};
use crate::failure::Failure;
use crate::terminal;
use draw::Shown;
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
        return print(&first, arguments.show);
    }
    if !io::stdout().is_terminal() {
        return Err(Failure::Usage("the output is no terminal; add --once for text".to_owned()));
    }
    let terminal = ratatui::try_init().map_err(Failure::machine("use the terminal"))?;
    let shown = show(terminal, &admin, first, arguments.show);
    ratatui::restore();
    shown.map_err(Failure::machine("use the terminal"))
}

/// What the server says now.
fn read(admin: &Admin) -> Result<View, Failure> {
    let status = json(admin, "/status.json")?;
    let history = json(admin, &format!("/history.json?seconds={}", limits::TOP_SECONDS))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    Ok(View::new(&admin.address.to_string(), &status, &history, now))
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

fn print(view: &View, tab: TopTab) -> Result<(), Failure> {
    view.text(tab).iter().for_each(|line| terminal::say(line));
    match view.critical() {
        0 => Ok(()),
        count => {
            let what = if count == 1 { "1 problem".to_owned() } else { format!("{count} problems") };
            Err(Failure::machine("find all well")(io::Error::other(what)))
        }
    }
}

/// Draws once a second until a key ends it.
fn show(mut terminal: DefaultTerminal, admin: &Admin, first: View, tab: TopTab) -> io::Result<()> {
    const SECOND: Duration = Duration::from_secs(1);
    let (mut view, mut shown) = (first, Shown { tab, is_paused: false });
    let mut next = Instant::now() + SECOND;
    loop {
        terminal.draw(|frame| draw::draw(frame, &view, shown))?;
        let is_due = !event::poll(next.saturating_duration_since(Instant::now()))?;
        if is_due {
            next = Instant::now() + SECOND;
            if !shown.is_paused {
                match read(admin) {
                    Ok(newer) => view = newer,
                    Err(failure) => view.lose(&failure.to_string()),
                }
            }
            continue;
        }
        if let Event::Key(key) = event::read()? {
            match action(key, shown.tab) {
                Some(Action::End) => return Ok(()),
                Some(Action::Pause) => shown.is_paused = !shown.is_paused,
                Some(Action::Show(tab)) => shown.tab = tab,
                None => {}
            }
        }
    }
}

/// What a key does.
#[derive(Debug, PartialEq, Eq)]
enum Action {
    End,
    Pause,
    Show(TopTab),
}

fn action(key: KeyEvent, shown: TopTab) -> Option<Action> {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        _ if key.kind == KeyEventKind::Release => None,
        KeyCode::Char('c') if is_control => Some(Action::End),
        KeyCode::Char('q') | KeyCode::Esc => Some(Action::End),
        KeyCode::Char('p') => Some(Action::Pause),
        KeyCode::Char(digit) => {
            let place = usize::try_from(digit.to_digit(10)?).ok()?.checked_sub(1)?;
            TopTab::ALL.get(place).map(|tab| Action::Show(*tab))
        }
        KeyCode::Tab | KeyCode::Right => Some(Action::Show(neighbour(shown, 1))),
        KeyCode::BackTab | KeyCode::Left => Some(Action::Show(neighbour(shown, TopTab::ALL.len() - 1))),
        _ => None,
    }
}

/// The tab so many places after this one, and behind the last the first.
fn neighbour(tab: TopTab, places: usize) -> TopTab {
    let place = TopTab::ALL.iter().position(|other| *other == tab).unwrap_or(0);
    TopTab::ALL[(place + places) % TopTab::ALL.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_and_arrows_choose_a_tab() {
        let pressed = |code| action(KeyEvent::new(code, KeyModifiers::NONE), TopTab::Overview);
        for (code, wanted) in [
            (KeyCode::Char('1'), Some(Action::Show(TopTab::Overview))),
            (KeyCode::Char('2'), Some(Action::Show(TopTab::Titles))),
            (KeyCode::Char('7'), Some(Action::Show(TopTab::Store))),
            (KeyCode::Char('8'), None),
            (KeyCode::Char('0'), None),
            (KeyCode::Char('x'), None),
            (KeyCode::Tab, Some(Action::Show(TopTab::Titles))),
            (KeyCode::Right, Some(Action::Show(TopTab::Titles))),
            (KeyCode::Left, Some(Action::Show(TopTab::Store))),
            (KeyCode::Char('p'), Some(Action::Pause)),
            (KeyCode::Esc, Some(Action::End)),
        ] {
            assert_eq!(pressed(code), wanted, "{code:?}");
        }
        assert_eq!(
            action(KeyEvent::new(KeyCode::Right, KeyModifiers::NONE), TopTab::Store),
            Some(Action::Show(TopTab::Overview))
        );
    }
}
