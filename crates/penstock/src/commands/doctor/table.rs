//! The report for people.

use penstock_egress::measure::{CIPHERS, Costs, Rate};

use super::auto;
use super::facts::{Facts, bytes_text, cipher_name};
use super::finding::{Finding, Rating, Section};
use super::paint::{Ink, Style};
use super::report::Report;

/// Where the values start: behind the longest name of a sysctl.
const VALUES_AT: usize = 31;

/// Marks a command for root.
const PROMPT: &str = "# ";

/// Column of the better values, if there is space.
const BETTER_AT: usize = 57;

/// The number before a bar, and the blanks around both.
const NUMBER_COLUMNS: usize = 8;

/// The whole table.
pub(crate) fn render(report: &Report, style: &Style) -> String {
    let mut page = Page { style, text: String::new() };
    page.line("");
    for line in wrap(&title(&report.facts), style.width.saturating_sub(2)) {
        page.line(&format!("  {}", style.paint(Ink::Strong, &line)));
    }
    for section in Section::ALL {
        let mut findings = report.findings.iter().filter(|finding| finding.section == section).peekable();
        if findings.peek().is_none() {
            continue;
        }
        page.heading(section.title());
        findings.for_each(|finding| page.finding(finding));
        if section == Section::Ciphers {
            page.costs(report.facts.costs.as_ref());
            page.auto(&report.facts);
        }
    }
    page.footer(&report.findings);
    page.text
}

fn title(facts: &Facts) -> String {
    let machine = &facts.machine;
    let mut parts = vec![format!("Penstock {}", env!("PENSTOCK_VERSION"))];
    parts.extend(machine.cpu.model.clone());
    parts.extend(
        machine
            .cpu
            .available
            .map(|count| if count == 1 { "1 core".into() } else { format!("{count} cores") }),
    );
    parts.extend(machine.memory.total_bytes.map(bytes_text));
    parts.join(", ")
}

struct Page<'a> {
    style: &'a Style,
    text: String,
}

impl Page<'_> {
    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    fn heading(&mut self, title: &str) {
        let rule = self.style.rule(self.style.width.saturating_sub(title.chars().count() + 5));
        let (title, rule) = (self.style.paint(Ink::Strong, title), self.style.paint(Ink::Faint, &rule));
        self.line("");
        self.line(&format!("  {title} {rule}"));
    }

    fn finding(&mut self, finding: &Finding) {
        let (mark, ink) = self.style.mark(&finding.rating);
        let what = pad(&finding.what, VALUES_AT - 5);
        let ink_of_value = if finding.rating == Rating::Unknown { Ink::Faint } else { Ink::Text };
        let mut lines = wrap(&finding.value, self.style.width.saturating_sub(VALUES_AT)).into_iter();
        let value = lines.next().unwrap_or_default();
        let painted = self.style.paint(ink_of_value, &value);
        let line = format!("  {} {what} {painted}", self.style.paint(ink, mark));
        let rest: Vec<String> = lines.collect();
        let Some(wanted) = finding.rating.wanted() else {
            self.line(&line);
            return self.indented(&rest.join(" "), ink_of_value);
        };

        let wanted = format!("{} {wanted}", self.style.arrow());
        let columns = VALUES_AT + value.chars().count();
        let gap = BETTER_AT.saturating_sub(columns).max(2);
        if rest.is_empty() && columns + gap + wanted.chars().count() <= self.style.width {
            let wanted = self.style.paint(ink, &wanted);
            self.line(&format!("{line}{}{wanted}", " ".repeat(gap)));
        } else {
            self.line(&line);
            self.indented(&rest.join(" "), ink_of_value);
            self.indented(&wanted, ink);
        }
        self.indented(&finding.why, Ink::Faint);
        if let Some(command) = &finding.command {
            // Never broken: it is there to be copied. A long one starts further left.
            let columns = PROMPT.len() + command.chars().count();
            let indent = self.style.width.saturating_sub(columns).clamp(4, VALUES_AT);
            let (prompt, command) =
                (self.style.paint(Ink::Faint, PROMPT), self.style.paint(Ink::Command, command));
            self.line(&format!("{}{prompt}{command}", " ".repeat(indent)));
        }
    }

    fn indented(&mut self, text: &str, ink: Ink) {
        for line in wrap(text, self.style.width.saturating_sub(VALUES_AT)) {
            let painted = self.style.paint(ink, &line);
            self.line(&format!("{}{painted}", " ".repeat(VALUES_AT)));
        }
    }

    /// Bars for each cipher and each way, all on one scale.
    fn costs(&mut self, costs: Option<&Costs>) {
        let Some(costs) = costs else {
            self.line("");
            self.indented("The ciphers were not measured.", Ink::Faint);
            return;
        };
        let rates = |cipher| {
            let cost = costs.of(cipher);
            [cost.user_space_seal, cost.user_space_send, cost.kernel_send]
        };
        let all = CIPHERS.into_iter().flat_map(rates).flatten();
        let fastest = all.map(Rate::bytes_per_second).fold(1.0, f64::max);
        let cell = self.style.width.saturating_sub(VALUES_AT) / 3;
        let bar = cell.saturating_sub(NUMBER_COLUMNS);
        self.line("");
        let titles = ["seal", "seal + send", "kernel"].map(|title| pad(title, cell)).concat();
        let head = format!("    {}{titles}", pad("GB/s of one core", VALUES_AT - 4));
        let head = self.style.paint(Ink::Faint, head.trim_end());
        self.line(&head);
        for cipher in CIPHERS {
            let mut line = format!("    {}", pad(cipher_name(cipher), VALUES_AT - 4));
            for rate in rates(cipher) {
                line += &self.cell(rate, fastest, bar);
            }
            self.line(&line);
        }
    }

    /// The number, then the bar, so that both stand in columns.
    fn cell(&self, rate: Option<Rate>, fastest: f64, bar: usize) -> String {
        let Some(rate) = rate else {
            return self.style.paint(Ink::Faint, &pad(self.style.nothing(), bar + NUMBER_COLUMNS));
        };
        let number = pad(&format!("{:.2}", rate.bytes_per_second() / 1e9), NUMBER_COLUMNS - 2);
        let drawn = self.style.bar(rate.bytes_per_second() / fastest, bar);
        let rest = " ".repeat(2 + bar.saturating_sub(drawn.chars().count()));
        format!("{number}{}{rest}", self.style.paint(Ink::Bar, &drawn))
    }

    fn auto(&mut self, facts: &Facts) {
        self.line("");
        let lines = auto::lines(facts)
            .unwrap_or_else(|| vec!["decided by measuring, at the start of the server".to_owned()]);
        let mut label = self.style.paint(Ink::Strong, &pad("tls.kernel: auto", VALUES_AT - 4));
        for line in lines {
            for piece in wrap(&line, self.style.width.saturating_sub(VALUES_AT)) {
                self.line(&format!("    {label}{piece}"));
                label = pad("", VALUES_AT - 4);
            }
        }
    }

    fn footer(&mut self, findings: &[Finding]) {
        let count = |wanted: &str| findings.iter().filter(|finding| finding.rating.label() == wanted).count();
        let parts = [
            (count("problem"), Ink::Bad, "a problem", "problems"),
            (count("better"), Ink::Fair, "could be better", "could be better"),
            (count("ok"), Ink::Good, "ok", "ok"),
            (count("unknown"), Ink::Faint, "not known", "not known"),
        ];
        let said = parts.into_iter().filter(|(count, ..)| *count > 0).map(|(count, ink, one, many)| {
            self.style.paint(ink, &format!("{count} {}", if count == 1 { one } else { many }))
        });
        let said = said.collect::<Vec<_>>().join(", ");
        self.line("");
        self.line(&format!("  {said}"));
        let sets =
            |finding: &Finding| finding.command.as_ref().is_some_and(|command| command.contains("sysctl -w"));
        if findings.iter().any(sets) {
            let keep = "sysctl -w lasts until the next boot; /etc/sysctl.d/90-penstock.conf keeps a setting.";
            for line in wrap(keep, self.style.width.saturating_sub(2)) {
                let line = self.style.paint(Ink::Faint, &line);
                self.line(&format!("  {line}"));
            }
        }
    }
}

/// `text` with blanks up to this width; longer text keeps one blank.
fn pad(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(text.chars().count()).max(usize::from(!text.is_empty()));
    format!("{text}{}", " ".repeat(missing))
}

/// Lines of whole words; a word that is longer than a line stands alone. No lines for no words.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
