//! Draws the view in a terminal of any size.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{self, Gauge, Paragraph, Sparkline, SparklineBar};

use super::tabs::{Cell, Tab, Table};
use super::view::{Origin, Problem, Row, Tier, View};
use crate::arguments::TopTab;

const SOFT: Style = Style::new().fg(Color::DarkGray);
const STRONG: Style = Style::new().add_modifier(Modifier::BOLD);
const PROBLEMS_SHOWN: usize = 6;
const NAME_WIDTH: u16 = 25;
const VALUE_WIDTH: u16 = 12;

/// Problems above a table, which needs the space.
const PROBLEMS_ABOVE_TABLES: usize = 3;
/// With fewer lines nothing stands between the parts.
const ROOMY: u16 = 28;

/// What of the view is shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    pub(super) tab: TopTab,
    pub(super) is_paused: bool,
}

/// Draws a tab; what has no space is left out from below.
pub(super) fn draw(frame: &mut Frame<'_>, view: &View, shown: Shown) {
    let tab = view.tab(shown.tab);
    let most = if tab.is_some() { PROBLEMS_ABOVE_TABLES } else { PROBLEMS_SHOWN };
    let areas = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        height(view.problems.len().clamp(1, most)),
        Constraint::Length(1),
        Constraint::Fill(1),
    ]);
    let [title, tabs, wrong, _, rest] = areas.areas(frame.area());
    let state = if shown.is_paused { "  paused" } else { "" };
    let words = Line::from(vec![
        Span::styled(view.title.as_str(), STRONG),
        Span::styled(format!("{state}  q ends, p pauses"), SOFT),
    ]);
    frame.render_widget(Paragraph::new(words), title);
    frame.render_widget(Paragraph::new(tab_line(shown.tab)), tabs);
    draw_problems(frame, wrong, &view.problems);
    match tab {
        Some(tab) => draw_tab(frame, rest, tab),
        None => draw_overview(frame, rest, view),
    }
}

fn height(count: usize) -> Constraint {
    Constraint::Length(u16::try_from(count).unwrap_or(u16::MAX))
}

/// The tabs with their keys.
fn tab_line(chosen: TopTab) -> Line<'static> {
    let name = |(place, tab): (usize, &TopTab)| {
        let style = if *tab == chosen { STRONG.add_modifier(Modifier::REVERSED) } else { SOFT };
        [Span::styled(format!(" {} {} ", place + 1, tab.name()), style), Span::raw(" ")]
    };
    Line::from(TopTab::ALL.iter().enumerate().flat_map(name).collect::<Vec<_>>())
}

fn draw_overview(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let pause = u16::from(frame.area().height >= ROOMY);
    let areas = Layout::vertical([
        height(view.rows.len()),
        Constraint::Length(pause),
        height(view.tiers.len()),
        height(view.origins.len()),
        Constraint::Fill(1),
    ]);
    let [rows, _, tiers, origins, _] = areas.areas(area);
    for (row, area) in view.rows.iter().zip(lines(rows)) {
        draw_row(frame, area, row);
    }
    for (tier, area) in view.tiers.iter().zip(lines(tiers)) {
        draw_tier(frame, area, tier);
    }
    for (origin, area) in view.origins.iter().zip(lines(origins)) {
        frame.render_widget(Paragraph::new(origin_line(origin)), area);
    }
}

fn draw_tab(frame: &mut Frame<'_>, area: Rect, tab: &Tab) {
    if tab.tables.is_empty() {
        frame.render_widget(Paragraph::new(Span::styled(tab.empty(), SOFT)), area);
        return;
    }
    let heights = shares(area.height, &tab.tables);
    let areas = Layout::vertical(heights.iter().map(|lines| Constraint::Length(*lines))).split(area);
    for (table, area) in tab.tables.iter().zip(areas.iter()) {
        draw_table(frame, *area, table);
    }
}

/// The lines of each table: its own, with one below, or its part if there are fewer, the first tables first.
fn shares(lines: u16, tables: &[Table]) -> Vec<u16> {
    let mut left = lines;
    let mut waiting = u16::try_from(tables.len()).unwrap_or(u16::MAX);
    let of = |table: &Table| u16::try_from(table.rows.len() + 2).unwrap_or(u16::MAX);
    let mut below: u16 = tables.iter().map(of).fold(0, u16::saturating_add);
    let mut share = |table: &Table| {
        below -= of(table).min(below);
        // What the tables below do not need is this one's.
        let most = (left / waiting.max(1)).max(left.saturating_sub(below));
        let own = of(table).min(most);
        (left, waiting) = (left - own, waiting - 1);
        own
    };
    tables.iter().map(&mut share).collect()
}

fn draw_table(frame: &mut Frame<'_>, area: Rect, table: &Table) {
    let others = (1..table.heads.len()).map(|column| table.width(column)).collect::<Vec<_>>();
    let first = usize::from(area.width).saturating_sub(others.iter().map(|width| width + 2).sum());
    let first = first.min(table.width(0).max(usize::from(NAME_WIDTH)));
    let widths = [first].into_iter().chain(others).map(height);
    let row = |cells: &[Cell], style: Style| {
        let cell = |(column, cell): (usize, &Cell)| {
            let style = if cell.is_bad { style.fg(Color::Red).add_modifier(Modifier::BOLD) } else { style };
            let text = if column == 0 { cut(&cell.text, first) } else { cell.text.clone() };
            let line = Line::styled(text, style);
            widgets::Cell::from(if column == 0 { line } else { line.right_aligned() })
        };
        widgets::Row::new(cells.iter().enumerate().map(cell))
    };
    let heads: Vec<Cell> =
        table.heads.iter().map(|head| Cell { text: (*head).to_owned(), is_bad: false }).collect();
    let rows: Vec<_> = table.rows.iter().map(|cells| row(cells, Style::new())).collect();
    let drawn = widgets::Table::new(rows, widths).header(row(&heads, SOFT)).column_spacing(2);
    let area =
        Rect { height: area.height.min(u16::try_from(table.rows.len() + 1).unwrap_or(u16::MAX)), ..area };
    frame.render_widget(drawn, area);
}

/// A text of at most so many letters, which says that it was cut.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// The lines of an area.
fn lines(area: Rect) -> impl Iterator<Item = Rect> {
    (area.top()..area.bottom()).map(move |y| Rect { y, height: 1, ..area })
}

fn draw_problems(frame: &mut Frame<'_>, area: Rect, problems: &[Problem]) {
    if problems.is_empty() {
        let well = Span::styled("nothing is wrong", Style::new().fg(Color::Green));
        frame.render_widget(Paragraph::new(Line::from(well)), area);
    }
    for (problem, area) in problems.iter().zip(lines(area)) {
        let (sign, color) = if problem.is_critical { ("x", Color::Red) } else { ("!", Color::Yellow) };
        let line = Line::from(vec![
            Span::styled(format!("{sign} {}", problem.what), STRONG.fg(color)),
            Span::styled(format!("  {}", problem.help), SOFT),
        ]);
        frame.render_widget(Paragraph::new(line), area);
    }
}

fn draw_row(frame: &mut Frame<'_>, area: Rect, row: &Row) {
    let parts = [Constraint::Length(NAME_WIDTH), Constraint::Length(VALUE_WIDTH), Constraint::Fill(1)];
    let [name, value, chart] = Layout::horizontal(parts).spacing(1).areas(area);
    frame.render_widget(Paragraph::new(Span::styled(row.name, SOFT)), name);
    frame.render_widget(Paragraph::new(Line::styled(row.value.as_str(), STRONG).right_aligned()), value);
    let shown = row.past.len().saturating_sub(chart.width.into());
    let highest = row.past.iter().flatten().copied().fold(0.0, f64::max);
    let bars = row
        .past
        .iter()
        .skip(shown)
        .map(|value| SparklineBar::from(value.and_then(|value| bar(value, highest))));
    frame.render_widget(
        Sparkline::default().data(bars).max(BAR_MAX).style(Style::new().fg(Color::Blue)),
        chart,
    );
}

/// The full height of a bar.
const BAR_MAX: u64 = 1000;

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to BAR_MAX")]
fn bar(value: f64, highest: f64) -> Option<u64> {
    (highest > 0.0).then(|| (BAR_MAX as f64 * (value / highest).clamp(0.0, 1.0)) as u64)
}

fn draw_tier(frame: &mut Frame<'_>, area: Rect, tier: &Tier) {
    let [name, gauge] =
        Layout::horizontal([Constraint::Length(NAME_WIDTH), Constraint::Fill(1)]).spacing(1).areas(area);
    frame.render_widget(Paragraph::new(Span::styled(tier.name.as_str(), SOFT)), name);
    let bar = Gauge::default().ratio(tier.fill).label(tier.words.as_str());
    frame.render_widget(bar.gauge_style(Style::new().fg(Color::Blue).bg(Color::Black)), gauge);
}

fn origin_line(origin: &Origin) -> Line<'_> {
    let (state, color) = if origin.is_up { ("up", Color::Green) } else { ("out", Color::Red) };
    Line::from(vec![
        Span::styled(format!("{} ", origin.url), SOFT),
        Span::styled(state, STRONG.fg(color)),
        Span::raw(format!("  {}  failed {}", origin.latency, origin.failed)),
    ])
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::view::tests::example;
    use super::*;

    fn drawn(width: u16, height: u16, tab: TopTab) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let shown = Shown { tab, is_paused: false };
        terminal.draw(|frame| draw(frame, &example(), shown)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn all_parts_are_drawn() {
        let text = drawn(120, 30, TopTab::Overview);
        for part in [
            "Penstock 1.2.3 at 127.0.0.1:9600, up 2 h 1 min",
            "x origin http://b.example is out",
            "1 Gbit/s",
            "512 MiB of 1 GiB, 50.0 %",
            "http://b.example out",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
    }

    /// What has to be seen on a terminal of 80 columns and 24 lines.
    const AT_80_BY_24: [(TopTab, &[&str]); 7] = [
        (
            TopTab::Overview,
            &["1 overview", "x origin http://b.example is out", "first byte, p99", "512 MiB of 1 GiB"],
        ),
        (TopTab::Titles, &["title, by bytes", "a.example/film/", "4 GiB", "title, by requests", "9 k"]),
        (TopTab::Players, &["a.example", "20.0 %", "12.5 %", "title that starves"]),
        (
            TopTab::Certificates,
            &["old.example", "over", "later.example", "b.example no such name", "failing"],
        ),
        (TopTab::Nodes, &["edge1", "10 Gbit/s", "90.0 %", "edge2", "out", "purges  wrong"]),
        (TopTab::Keys, &["192.0.2.9:2407", "refused", "hsm", "gets none", "under way"]),
        (TopTab::Store, &["0123abcd", "edge-b", "away for 2 h 0 min", "purges to apply"]),
    ];

    #[test]
    fn each_tab_fits_a_terminal_of_80_columns_and_24_lines() {
        for (tab, parts) in AT_80_BY_24 {
            let text = drawn(80, 24, tab);
            for part in parts.iter().chain(&["7 store"]) {
                assert!(text.contains(part), "{part} is missing in {tab:?}\n{text}");
            }
        }
    }

    #[test]
    fn tables_share_the_lines_and_a_long_name_says_that_it_was_cut() {
        let table = |rows: usize| Table { heads: &["a"], rows: vec![vec![Cell::default()]; rows] };
        for (lines, rows, wanted) in [
            (20, vec![2, 3], [4, 5]),
            (20, vec![100, 100], [10, 10]),
            (20, vec![100, 3], [15, 5]),
            (20, vec![2, 100], [4, 16]),
            (1, vec![2, 2], [0, 1]),
        ] {
            let tables: Vec<Table> = rows.iter().map(|rows| table(*rows)).collect();
            assert_eq!(shares(lines, &tables), wanted, "{lines} {rows:?}");
        }
        assert_eq!(
            (cut("abc", 3).as_str(), cut("abcd", 3).as_str(), cut("a", 0).as_str()),
            ("abc", "ab…", "…")
        );
    }

    #[test]
    fn a_terminal_of_any_size_is_no_fault() {
        for (width, height) in [(1, 1), (10, 3), (40, 8), (300, 100)] {
            TopTab::ALL.into_iter().for_each(|tab| drop(drawn(width, height, tab)));
        }
    }
}
