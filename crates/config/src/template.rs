//! Text with variables: `/new/{rest}`, `{cache_status}`.

use std::fmt;

/// Text with variables. A `{` that no lowercase letter follows is a plain character, as in JSON.
#[derive(Clone, PartialEq, Eq)]
pub struct Template {
    text: String,
    pieces: Vec<Piece>,
}

#[derive(Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Variable(Variable),
}

/// A value that a request has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Variable {
    /// What a part of the route's path stands for.
    Capture(String),
    /// The path, in its normal form.
    Path,
    /// The query, empty without one.
    Query,
    /// The host that the client asked for, without a port.
    Host,
    /// The address of the client.
    Client,
    /// How the cache handled the request.
    CacheStatus,
    /// The name of the request in logs.
    RequestId,
}

impl Variable {
    /// The variable of this name; one of a path if it is no other.
    pub fn named(name: &str) -> Self {
        match name {
            "path" => Self::Path,
            "query" => Self::Query,
            "host" => Self::Host,
            "client" => Self::Client,
            "cache_status" => Self::CacheStatus,
            "request_id" => Self::RequestId,
            other => Self::Capture(other.to_owned()),
        }
    }
}

impl Template {
    /// Reads a text. `value` gives the text that stands in place of a name from now on, or the variable of requests.
    ///
    /// # Errors
    /// A `{` without its `}`, or the first error of `value`.
    pub fn parse<E>(
        text: &str,
        mut value: impl FnMut(&str) -> Result<Result<String, Variable>, E>,
    ) -> Result<Self, Result<&'static str, E>> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut left = text;
        while let Some(at) = left.find('{') {
            let behind = &left[at + 1..];
            plain.push_str(&left[..at]);
            if !behind.starts_with(|first: char| first.is_ascii_lowercase()) {
                plain.push('{');
                left = behind;
                continue;
            }
            let (name, rest) = behind.split_once('}').ok_or(Ok("a `{` without a `}`"))?;
            match value(name).map_err(Err)? {
                Ok(text) => plain.push_str(&text),
                Err(variable) => {
                    pieces.extend((!plain.is_empty()).then(|| Piece::Text(std::mem::take(&mut plain))));
                    pieces.push(Piece::Variable(variable));
                }
            }
            left = rest;
        }
        plain.push_str(left);
        pieces.extend((!plain.is_empty()).then_some(Piece::Text(plain)));
        Ok(Self { text: text.to_owned(), pieces })
    }

    /// The text as it was written, with the names of all variables.
    pub fn written(&self) -> &str {
        &self.text
    }

    /// The variables, in order.
    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Variable(variable) => Some(variable),
            Piece::Text(_) => None,
        })
    }

    /// The text in front of the first variable.
    pub fn beginning(&self) -> &str {
        match self.pieces.first() {
            Some(Piece::Text(text)) => text,
            Some(Piece::Variable(_)) | None => "",
        }
    }

    /// The text if there is no variable of requests in it.
    pub fn fixed(&self) -> Option<&str> {
        match &*self.pieces {
            [] => Some(""),
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The text with its values, which `append` appends.
    pub fn filled(&self, mut append: impl FnMut(&Variable, &mut String)) -> String {
        self.filled_while(|variable, filled| {
            append(variable, filled);
            true
        })
    }

    /// The same up to the first variable for which `append` returns false.
    pub fn filled_while(&self, mut append: impl FnMut(&Variable, &mut String) -> bool) -> String {
        let mut filled = String::with_capacity(self.text.len() + 64);
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => filled.push_str(text),
                Piece::Variable(variable) => {
                    if !append(variable, &mut filled) {
                        break;
                    }
                }
            }
        }
        filled
    }
}

/// As it was written: what stands in place of names may be secret.
impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_filled_and_other_braces_are_text() {
        let parse = |text: &str| {
            Template::parse(text, |name| match name {
                "env.A" => Ok(Ok("secret".to_owned())),
                "wrong" => Err(()),
                other => Ok(Err(Variable::named(other))),
            })
        };
        let show = |variable: &Variable, out: &mut String| out.push_str(&format!("<{variable:?}>"));
        for (text, filled) in [
            ("/new/{rest}", "/new/<Capture(\"rest\")>"),
            ("{host}{path}", "<Host><Path>"),
            ("a{env.A}b", "asecretb"),
            ("{\"group\":\"a\",{}}", "{\"group\":\"a\",{}}"),
            ("", ""),
        ] {
            assert_eq!(parse(text).unwrap().filled(show), filled, "{text}");
            assert_eq!(parse(text).unwrap().written(), text);
        }
        assert_eq!(parse("{a"), Err(Ok("a `{` without a `}`")));
        assert_eq!(parse("{wrong}"), Err(Err(())));
        assert_eq!(parse("a{env.A}").unwrap().fixed(), Some("asecret"));
    }
}
