//! Draws the view in a terminal of any size.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Gauge, Paragraph, Sparkline, SparklineBar};

use super::view::{Origin, Problem, Row, Tier, View};

const SOFT: Style = Style::new().fg(Color::DarkGray);
const STRONG: Style = Style::new().add_modifier(Modifier::BOLD);
const PROBLEMS_SHOWN: usize = 6;
const NAME_WIDTH: u16 = 25;
const VALUE_WIDTH: u16 = 12;

/// Draws all of it; what has no space is left out from below.
pub(super) fn draw(frame: &mut Frame<'_>, view: &View, is_paused: bool) {
    let height = |count: usize| Constraint::Length(u16::try_from(count).unwrap_or(u16::MAX));
    let problems = view.problems.len().clamp(1, PROBLEMS_SHOWN);
    let areas = Layout::vertical([
        Constraint::Length(1),
        height(problems),
        Constraint::Length(1),
        height(view.rows.len()),
        Constraint::Length(1),
        height(view.tiers.len()),
        height(view.origins.len()),
        Constraint::Fill(1),
    ]);
    let [title, wrong, _, rows, _, tiers, origins, _] = areas.areas(frame.area());
    let state = if is_paused { "  paused" } else { "" };
    let words = Line::from(vec![
        Span::styled(view.title.as_str(), STRONG),
        Span::styled(format!("{state}  q ends, p pauses"), SOFT),
    ]);
    frame.render_widget(Paragraph::new(words), title);
    draw_problems(frame, wrong, &view.problems);
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

    fn drawn(width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, &example(), false)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn all_parts_are_drawn() {
        let text = drawn(120, 30);
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

    #[test]
    fn a_terminal_of_any_size_is_no_fault() {
        for (width, height) in [(1, 1), (10, 3), (40, 8), (300, 100)] {
            drawn(width, height);
        }
    }
}
