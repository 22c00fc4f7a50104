//! The syntax of nginx configurations: directives, blocks, quotes, variables, comments, `include`.

use std::fmt;

/// The most directives of a configuration, those of included files too.
const DIRECTIVES_MAX: usize = 100_000;

/// The deepest nesting of blocks.
const DEPTH_MAX: usize = 32;

/// The deepest nesting of included files.
const INCLUDES_MAX: usize = 8;

/// A directive with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// The name.
    pub name: String,
    /// The arguments, without their quotes.
    pub arguments: Vec<String>,
    /// The directives of its block, if it has one.
    pub block: Option<Vec<Self>>,
    /// The file that has it.
    pub file: String,
    /// Its line in that file, counted from 1.
    pub line: usize,
}

impl Directive {
    /// An argument; empty if there is none.
    pub(crate) fn argument(&self, place: usize) -> &str {
        self.arguments.get(place).map_or("", String::as_str)
    }

    /// The directives of its block.
    pub(crate) fn children(&self) -> &[Self] {
        self.block.as_deref().unwrap_or_default()
    }

    /// The first of the directives in its block with this name.
    pub(crate) fn child(&self, name: &str) -> Option<&Self> {
        self.children().iter().find(|child| child.name == name)
    }

    /// All directives in its block with this name.
    pub(crate) fn all<'d>(&'d self, name: &'d str) -> impl Iterator<Item = &'d Self> {
        self.children().iter().filter(move |child| child.name == name)
    }
}

/// Why a configuration cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxFault {
    /// The file.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The fault.
    pub what: String,
}

impl fmt::Display for SyntaxFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.escape_debug(), self.line, self.what.escape_debug())
    }
}

/// Finds the files of an `include`, by its pattern: their names and texts. An error is the reason.
pub type Finder<'f> = dyn Fn(&str) -> Result<Vec<(String, String)>, String> + 'f;

/// Reads a configuration. `finder` reads the files that it includes.
///
/// # Errors
/// The first fault.
pub fn parse(text: &str, file: &str, finder: &Finder<'_>) -> Result<Vec<Directive>, SyntaxFault> {
    let mut left = DIRECTIVES_MAX;
    read_file(text, file, finder, &mut Depths { includes: 0, left: &mut left })
}

struct Depths<'l> {
    includes: usize,
    /// Directives that may still follow.
    left: &'l mut usize,
}

fn read_file(
    text: &str,
    file: &str,
    finder: &Finder<'_>,
    depths: &mut Depths<'_>,
) -> Result<Vec<Directive>, SyntaxFault> {
    Reader { rest: text, file, line: 1, finder }.directives(0, depths)
}

struct Reader<'t> {
    rest: &'t str,
    file: &'t str,
    line: usize,
    finder: &'t Finder<'t>,
}

#[derive(PartialEq)]
enum Token {
    Word(String),
    End,
    Open,
    Close,
}

impl Reader<'_> {
    fn fault(&self, what: impl Into<String>) -> SyntaxFault {
        SyntaxFault { file: self.file.to_owned(), line: self.line, what: what.into() }
    }

    /// The directives up to the end of a block, or of the file at depth 0.
    fn directives(&mut self, depth: usize, depths: &mut Depths<'_>) -> Result<Vec<Directive>, SyntaxFault> {
        if depth > DEPTH_MAX {
            return Err(self.fault("blocks are nested too deeply"));
        }
        let mut found = Vec::new();
        loop {
            let name = match self.token()? {
                None if depth == 0 => return Ok(found),
                None => return Err(self.fault("the file ends within a block: a `}` is missing")),
                Some(Token::Close) if depth > 0 => return Ok(found),
                Some(Token::Close) => return Err(self.fault("there is no block that `}` could end")),
                Some(Token::Open) => return Err(self.fault("a block has no name")),
                // As nginx does not: an empty statement does no harm.
                Some(Token::End) => continue,
                Some(Token::Word(name)) => name,
            };
            *depths.left =
                depths.left.checked_sub(1).ok_or_else(|| self.fault("there are too many directives"))?;
            let line = self.line;
            let (arguments, block) = self.rest_of(&name, depth, depths)?;
            if name == "include" && block.is_none() {
                found.extend(self.include(&arguments, line, depths)?);
                continue;
            }
            found.push(Directive { name, arguments, block, file: self.file.to_owned(), line });
        }
    }

    /// Arguments and block of a directive.
    fn rest_of(
        &mut self,
        name: &str,
        depth: usize,
        depths: &mut Depths<'_>,
    ) -> Result<(Vec<String>, Option<Vec<Directive>>), SyntaxFault> {
        let mut arguments = Vec::new();
        loop {
            match self.token()? {
                None => return Err(self.fault(format!("{name}: the file ends before its `;`"))),
                Some(Token::Word(word)) => arguments.push(word),
                Some(Token::End) => return Ok((arguments, None)),
                Some(Token::Open) if name.ends_with("_by_lua_block") => {
                    self.skip_code()?;
                    return Ok((arguments, Some(Vec::new())));
                }
                Some(Token::Open) => return Ok((arguments, Some(self.directives(depth + 1, depths)?))),
                Some(Token::Close) => return Err(self.fault(format!("{name}: a `;` is missing"))),
            }
        }
    }

    fn include(
        &self,
        arguments: &[String],
        line: usize,
        depths: &mut Depths<'_>,
    ) -> Result<Vec<Directive>, SyntaxFault> {
        let at = |what: String| SyntaxFault { file: self.file.to_owned(), line, what };
        let [pattern] = arguments else { return Err(at("include: it takes one argument".to_owned())) };
        if depths.includes >= INCLUDES_MAX {
            return Err(at("include: files are included too deeply".to_owned()));
        }
        let files = (self.finder)(pattern).map_err(|why| at(format!("include: {why}")))?;
        let mut found = Vec::new();
        for (name, text) in files {
            let mut inner = Depths { includes: depths.includes + 1, left: &mut *depths.left };
            found.extend(read_file(&text, &name, self.finder, &mut inner)?);
        }
        Ok(found)
    }

    /// Skips a block of another language, with its inner braces.
    fn skip_code(&mut self) -> Result<(), SyntaxFault> {
        let mut open = 1_usize;
        for (at, character) in self.rest.char_indices() {
            match character {
                '\n' => self.line += 1,
                '{' => open += 1,
                '}' => open -= 1,
                _ => {}
            }
            if open == 0 {
                self.rest = &self.rest[at + 1..];
                return Ok(());
            }
        }
        Err(self.fault("a block of code has no end"))
    }

    fn skip_blanks(&mut self) {
        loop {
            let trimmed = self.rest.trim_start_matches([' ', '\t', '\r', '\n', '\u{feff}']);
            let skipped = &self.rest[..self.rest.len() - trimmed.len()];
            self.line += skipped.bytes().filter(|byte| *byte == b'\n').count();
            self.rest = trimmed;
            if !trimmed.starts_with('#') {
                return;
            }
            self.rest = &trimmed[trimmed.find('\n').unwrap_or(trimmed.len())..];
        }
    }

    fn token(&mut self) -> Result<Option<Token>, SyntaxFault> {
        self.skip_blanks();
        let token = match self.rest.chars().next() {
            None => return Ok(None),
            Some(';') => Token::End,
            Some('{') => Token::Open,
            Some('}') => Token::Close,
            Some(quote @ ('"' | '\'')) => return self.quoted(quote).map(Some),
            Some(_) => return Ok(Some(self.bare())),
        };
        self.rest = &self.rest[1..];
        Ok(Some(token))
    }

    fn quoted(&mut self, quote: char) -> Result<Token, SyntaxFault> {
        let (mut word, mut escaped, began) = (String::new(), false, self.line);
        for (at, character) in self.rest.char_indices().skip(1) {
            self.line += usize::from(character == '\n');
            if escaped {
                escaped = false;
                push_escaped(&mut word, character, quote);
            } else if character == '\\' {
                escaped = true;
            } else if character == quote {
                self.rest = &self.rest[at + 1..];
                return Ok(Token::Word(word));
            } else {
                word.push(character);
            }
        }
        self.line = began;
        Err(self.fault("a quote has no end"))
    }

    /// A word without quotes. `${name}` in it opens no block.
    fn bare(&mut self) -> Token {
        let (mut word, mut escaped, mut end) = (String::new(), false, self.rest.len());
        let mut in_variable = false;
        for (at, character) in self.rest.char_indices() {
            if escaped {
                escaped = false;
                push_escaped(&mut word, character, '\\');
                continue;
            }
            match character {
                '\\' => escaped = true,
                '{' if word.ends_with('$') => {
                    in_variable = true;
                    word.push(character);
                }
                '}' if in_variable => {
                    in_variable = false;
                    word.push(character);
                }
                ' ' | '\t' | '\r' | '\n' | ';' | '{' => {
                    end = at;
                    break;
                }
                _ => word.push(character),
            }
        }
        self.rest = &self.rest[end..];
        Token::Word(word)
    }
}

/// Adds a character behind a backslash. Backslashes of regular expressions stay.
fn push_escaped(word: &mut String, character: char, quote: char) {
    match character {
        't' if quote != '\\' => word.push('\t'),
        'n' if quote != '\\' => word.push('\n'),
        'r' if quote != '\\' => word.push('\r'),
        '"' | '\'' | '\\' => word.push(character),
        other => {
            word.push('\\');
            word.push(other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Directive>, String> {
        let finder = |pattern: &str| match pattern {
            "inner.conf" => Ok(vec![("inner.conf".to_owned(), "\ninner 1;\n".to_owned())]),
            "itself.conf" => Ok(vec![("itself.conf".to_owned(), "include itself.conf;".to_owned())]),
            other => Err(format!("there is no {other}")),
        };
        parse(text, "nginx.conf", &finder).map_err(|fault| fault.to_string())
    }

    /// Name and arguments of each directive, with blocks in braces.
    fn shown(directives: &[Directive]) -> String {
        let one = |directive: &Directive| {
            let mut words = vec![directive.name.clone()];
            words.extend(directive.arguments.iter().map(|word| format!("[{word}]")));
            words.extend(directive.block.as_ref().map(|block| format!("{{{}}}", shown(block))));
            words.join(" ")
        };
        directives.iter().map(one).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn directives_blocks_quotes_and_variables_are_read() {
        for (text, expected) in [
            ("", ""),
            ("# only a remark", ""),
            ("a;b c;", "a; b [c]"),
            ("a b # remark; {\n c;", "a [b] [c]"),
            ("http{server{listen 80;}}", "http {server {listen [80]}}"),
            ("a \"b ; {\" 'c \\' d';", "a [b ; {] [c ' d]"),
            ("a ${b}c$d;", "a [${b}c$d]"),
            ("location ~ \\.(mp4|ts)$ { }", "location [~] [\\.(mp4|ts)$] {}"),
            ("location ~ \"\\.m4s$\" { }", "location [~] [\\.m4s$] {}"),
            ("a \"\\t\\\\\";", "a [\t\\]"),
            ("a b#c;", "a [b#c]"),
            ("content_by_lua_block { if x { y } }\na;", "content_by_lua_block {}; a"),
            ("x 1; include inner.conf; y 2;", "x [1]; inner [1]; y [2]"),
            ("a\r\n b;\r\n", "a [b]"),
        ] {
            assert_eq!(read(text).map(|found| shown(&found)).as_deref(), Ok(expected), "{text}");
        }
        let found = read("\na;\nb {\n c;\n}\ninclude inner.conf;").unwrap();
        let places: Vec<_> = found.iter().map(|one| (one.file.as_str(), one.line)).collect();
        assert_eq!(places, [("nginx.conf", 2), ("nginx.conf", 3), ("inner.conf", 2)]);
        assert_eq!(found[1].children()[0].line, 4);
    }

    #[test]
    fn faults_have_their_line() {
        let deep = format!("{}{}", "a {".repeat(40), "}".repeat(40));
        for (text, expected) in [
            ("a", "nginx.conf:1: a: the file ends before its `;`"),
            ("\na {", "nginx.conf:2: the file ends within a block: a `}` is missing"),
            ("a; }", "nginx.conf:1: there is no block that `}` could end"),
            ("a { b }", "nginx.conf:1: b: a `;` is missing"),
            ("{ a; }", "nginx.conf:1: a block has no name"),
            ("a;\nb \"c\n;", "nginx.conf:2: a quote has no end"),
            ("include none.conf;", "nginx.conf:1: include: there is no none.conf"),
            ("include a b;", "nginx.conf:1: include: it takes one argument"),
            ("include itself.conf;", "itself.conf:1: include: files are included too deeply"),
            ("x_by_lua_block { {", "nginx.conf:1: a block of code has no end"),
            (deep.as_str(), "nginx.conf:1: blocks are nested too deeply"),
        ] {
            assert_eq!(read(text), Err(expected.to_owned()), "{text}");
        }
    }
}
