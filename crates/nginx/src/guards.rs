//! Who may ask beside addresses: `secure_link`, `auth_basic`, `valid_referers`, and the conditions that act upon them.

use crate::parse::Directive;
use crate::remarks::Remarks;
use crate::scope::Scope;
use crate::yaml::Node;

/// What a condition looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Test {
    /// A link that is wrong or missing.
    WrongLink,
    /// A link whose time is over.
    OldLink,
    /// A link that is wrong, missing, or whose time is over.
    AnyLink,
    Referer,
}

/// An `if` that refuses requests.
#[derive(Debug)]
struct Refusal<'d> {
    directive: &'d Directive,
    test: Test,
    /// The status of the response.
    status: &'d str,
}

impl<'d> Refusal<'d> {
    /// Reads an `if`; `None` for one of another kind.
    fn read(directive: &'d Directive) -> Option<Self> {
        let mut words: Vec<&str> = directive.arguments.iter().map(String::as_str).collect();
        if words.last() == Some(&")") {
            words.pop();
        } else {
            let last = words.last_mut()?;
            *last = last.strip_suffix(')')?;
        }
        let first = words.first_mut()?;
        *first = first.strip_prefix('(')?;
        let test = match words.strip_prefix(&[""]).unwrap_or(&words[..]) {
            ["$secure_link", "=", ""] => Test::WrongLink,
            ["$secure_link", "=", "0"] => Test::OldLink,
            ["$secure_link", "!=", "1"] => Test::AnyLink,
            ["$invalid_referer"] | ["$invalid_referer", "=", "1"] => Test::Referer,
            _ => return None,
        };
        match directive.children() {
            [only] if only.name == "return" => Some(Self { directive, test, status: only.argument(0) }),
            _ => None,
        }
    }

    /// Says that clients get another status.
    fn compare(&self, status: &str, remarks: &mut Remarks) {
        if self.status != status {
            remarks.add(self.directive, format!("the status is {status}"));
        }
    }
}

/// Writes who may ask. The values `off` of `tokens` and `{}` of `access` are for routes, whose site may have others.
pub(crate) fn guards(
    scope: &Scope<'_>,
    hosts: &[String],
    own: &Directive,
    settings: &mut Node,
    remarks: &mut Remarks,
) {
    let of_server = scope.server().filter(|server| !std::ptr::eq(*server, own));
    let mut refusals = Vec::new();
    for condition in own.all("if").chain(of_server.into_iter().flat_map(|server| server.all("if"))) {
        match Refusal::read(condition) {
            Some(refusal) => refusals.push(refusal),
            None => remarks.caution(condition, "there are no conditions of this kind"),
        }
    }
    links(scope, &refusals, settings, remarks);
    passwords(scope, settings, remarks);
    referers((scope, hosts), &refusals, settings, remarks);
    if let Some(directive) = scope.find("secure_link_secret") {
        remarks.caution(
            directive,
            "links without an end are not known: write sites.tokens, and see docs/signed-urls.md",
        );
    }
    let admits_all =
        scope.all_of(&["allow", "deny"]).iter().all(|rule| rule.name == "allow" && rule.argument(0) == "all");
    let asks = scope.value("auth_basic").is_some_and(|realm| realm != "off");
    if admits_all && !asks && settings.get("access").is_none() && scope.find("valid_referers").is_none() {
        settings.set("access", Node::Map(Vec::new()));
    }
}

fn links(scope: &Scope<'_>, refusals: &[Refusal<'_>], settings: &mut Node, remarks: &mut Remarks) {
    let Some(link) = scope.find("secure_link") else {
        settings.set("tokens", Node::text("off"));
        return;
    };
    let of = |tests: &[Test]| refusals.iter().find(|refusal| tests.contains(&refusal.test));
    let (wrong, old) = (of(&[Test::WrongLink, Test::AnyLink]), of(&[Test::OldLink]));
    if wrong.is_none() && old.is_none() {
        remarks.add(link, "links are verified only where a condition refuses a request without one");
        settings.set("tokens", Node::text("off"));
        return;
    }
    let (Some(wrong), Some(mut tokens)) = (wrong, tokens(link, scope.find("secure_link_md5"), remarks))
    else {
        let why = "links are not verified: write the secret to a file, add tokens: {format: secure_link, key: FILE} with \
                   the expression of secure_link_md5, and see docs/signed-urls.md";
        remarks.caution(link, why);
        return;
    };
    wrong.compare("403", remarks);
    match old {
        Some(old) if old.status == "410" => tokens.set("expired", Node::text("410")),
        Some(old) => old.compare("403", remarks),
        None if wrong.test == Test::WrongLink => {
            remarks.add(link, "a link whose time is over is refused as well");
        }
        None => {}
    }
    settings.set("tokens", tokens);
}

/// The section for links; `None` if their form has no counterpart.
fn tokens(link: &Directive, expression: Option<&Directive>, remarks: &mut Remarks) -> Option<Node> {
    let mut tokens = Node::map([("format", Node::text("secure_link"))]);
    let (expression, secret) = expression_of(expression?.argument(0))?;
    let words: Vec<&str> = link.argument(0).split(',').collect();
    let (place, end) = match words[..] {
        [whole] => (whole, None),
        [digest, end] => (digest, Some(end.strip_prefix("$arg_")?)),
        _ => return None,
    };
    let (key, name) = [("parameter", "$arg_"), ("cookie", "$cookie_"), ("field", "$http_")]
        .into_iter()
        .find_map(|(key, prefix)| Some((key, place.strip_prefix(prefix)?)))?;
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    if !is_name(name) || !end.is_none_or(is_name) || end.is_some() && key != "parameter" {
        return None;
    }
    let file = remarks.secret_file(secret);
    let why = format!(
        "write its secret, the longest text between the variables of secure_link_md5, to {file} beside the configuration \
         (chmod 600)"
    );
    remarks.add(link, why);
    tokens.set("key", Node::text(file));
    if key != "parameter" || name != "md5" {
        let name = if key == "field" { name.replace('_', "-") } else { name.to_owned() };
        tokens.set(key, Node::text(name));
    }
    if let Some(end) = end.filter(|end| *end != "expires") {
        tokens.set("expires", Node::text(end));
    }
    tokens.set("leeway", Node::text("0s"));
    if expression != "$secure_link_expires$uri$remote_addr $secret" {
        tokens.set("expression", Node::text(expression));
    }
    Some(tokens)
}

/// An expression with `$secret` for its longest text, and that text; `None` if Penstock would refuse it.
fn expression_of(text: &str) -> Option<(String, &str)> {
    let mut pieces = text.split('$');
    let first = pieces.next()?;
    let mut parts: Vec<(&str, &str)> = vec![("", first)];
    for piece in pieces {
        let (name, rest) = match piece.strip_prefix('{') {
            Some(inside) => inside.split_once('}')?,
            None => piece.split_at(
                piece.find(|next: char| !next.is_ascii_alphanumeric() && next != '_').unwrap_or(piece.len()),
            ),
        };
        let name = match name {
            "document_uri" => "uri",
            "uri" | "secure_link_expires" | "remote_addr" | "host" => name,
            _ => return None,
        };
        parts.push((name, rest));
    }
    let has = |wanted: &str| parts.iter().any(|(name, _)| *name == wanted);
    let secret = parts.iter().map(|(_, text)| text.trim()).max_by_key(|text| text.len())?;
    if secret.is_empty() || !has("uri") || !has("secure_link_expires") {
        return None;
    }
    let mut written = String::new();
    let mut is_left = true;
    for (name, text) in &parts {
        if !name.is_empty() {
            written.extend(["$", *name]);
        }
        match text.trim() == secret && is_left {
            true => {
                is_left = false;
                written.push_str(&text.replacen(secret, "$secret", 1));
            }
            // A letter would belong to the name of the variable.
            false
                if !name.is_empty()
                    && text.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_') =>
            {
                return None;
            }
            false => written.push_str(text),
        }
    }
    Some((written, secret))
}

fn passwords(scope: &Scope<'_>, settings: &mut Node, remarks: &mut Remarks) {
    let Some(realm) = scope.find("auth_basic").filter(|realm| realm.argument(0) != "off") else { return };
    let Some(file) = scope.find("auth_basic_user_file") else {
        remarks.caution(realm, "passwords are not asked for: there is no auth_basic_user_file");
        return;
    };
    if file.argument(0).contains('$') {
        remarks.caution(file, "passwords are not asked for: a file has no variables");
        return;
    }
    settings.set("access.basic.file", Node::text(file.argument(0)));
    remarks.add(file, "hashes are bcrypt (htpasswd -B) or argon2: a file with others is refused");
    let text = realm.argument(0);
    let is_plain = text.len() <= 200 && !text.contains(|one: char| one.is_control() || "$\"\\".contains(one));
    match is_plain {
        true if text == "Restricted" => {}
        true => settings.set("access.basic.realm", Node::text(text)),
        false => remarks.add(realm, "the realm is a plain text"),
    }
}

fn referers(
    (scope, own): (&Scope<'_>, &[String]),
    refusals: &[Refusal<'_>],
    settings: &mut Node,
    remarks: &mut Remarks,
) {
    let directives = scope.all("valid_referers");
    let Some(refusal) = refusals.iter().find(|refusal| refusal.test == Test::Referer) else { return };
    let mut hosts: Vec<String> = Vec::new();
    for directive in &directives {
        for word in &directive.arguments {
            match word.as_str() {
                "none" => hosts.push(word.clone()),
                "blocked" => remarks.add(directive, "a Referer that is no URL is refused"),
                "server_names" => hosts.extend(own.iter().filter(|host| *host != "*").cloned()),
                dotted if dotted.starts_with('.') => {
                    hosts.extend([dotted[1..].to_owned(), format!("*{dotted}")]);
                }
                host if host.starts_with('~') || host.ends_with(".*") || host.contains('$') => {
                    remarks.add(directive, "pages have hosts, or *.example.com for all below");
                }
                host => {
                    let (host, path) = host.split_once('/').unwrap_or((host, ""));
                    if !path.is_empty() {
                        remarks.caution(directive, "the path of a page is not compared");
                    }
                    hosts.push(host.to_owned());
                }
            }
        }
    }
    hosts.dedup();
    match (&directives[..], hosts.is_empty()) {
        // Without a list nginx refuses no page.
        ([], _) => {}
        ([first, ..], true) => remarks.caution(first, "no page of the list is known, so all are let in"),
        (_, false) => {
            refusal.compare("403", remarks);
            settings.set("access.referers", Node::texts(hosts));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::expression_of;
    use crate::http::tests::{remarks, site};

    const LINKS: &str = "secure_link $arg_md5,$arg_expires; secure_link_md5 \"$secure_link_expires$uri$remote_addr enigma\"; \
                         if ($secure_link = \"\") { return 403; } if ($secure_link = \"0\") { return 410; }";

    #[test]
    fn what_keeps_clients_out_of_a_server_or_a_location_does_so_in_the_translation() {
        for (inside, expected) in [
            (
                format!("root /a; location /x/ {{ {LINKS} }}"),
                "    routes:\n      - path: \"/x/*\"\n        tokens: {format: secure_link, key: secure-link.key, leeway: 0s, \
                 expired: 410}\n",
            ),
            (
                format!("root /a; location / {{ {LINKS} }} location /open/ {{ }} location /own/ {{ return 204; }}"),
                "    tokens: {format: secure_link, key: secure-link.key, leeway: 0s, expired: 410}\n    routes:\n      \
                 - path: \"/open/*\"\n        tokens: off\n      - path: \"/own/*\"\n        respond: {status: 204}\n        \
                 tokens: off\n",
            ),
            (
                "root /a; secure_link $cookie_pass; secure_link_md5 \"$secure_link_expires$uri a\"; \
                 if ($secure_link != 1) { return 403; } location /b/ { secure_link $http_x_link; \
                 secure_link_md5 \"${uri}bc$secure_link_expires\"; if ($secure_link != 1) { return 403; } }"
                    .to_owned(),
                "    tokens: {format: secure_link, key: secure-link.key, cookie: pass, leeway: 0s, expression: \
                 \"$secure_link_expires$uri $secret\"}\n    routes:\n      - path: \"/b/*\"\n        tokens: {format: secure_link, \
                 key: secure-link-2.key, field: x-link, leeway: 0s, expression: \"$uri$secret$secure_link_expires\"}\n",
            ),
            (
                "root /a; auth_basic Films; auth_basic_user_file users; location /b/ { auth_basic off; }".to_owned(),
                "    access:\n      basic: {file: users, realm: Films}\n    routes:\n      - path: \"/b/*\"\n        access: {}\n",
            ),
            (
                "server_name c.d; root /a; valid_referers none server_names .b.c a.b/x; if ($invalid_referer) { return 403; }"
                    .to_owned(),
                "    access:\n      referers: [none, c.d, b.c, \"*.b.c\", a.b]\n",
            ),
            ("root /a; deny 192.0.2.1; location /b/ { allow all; }".to_owned(), "    access:\n      deny: [192.0.2.1]\n    routes:\n      - path: \"/b/*\"\n        access: {}\n"),
            ("root /a; valid_referers none;".to_owned(), ""),
        ] {
            let found = site(&inside);
            let (_, found) = found.split_once("origin: {directory: /a}\n").unwrap();
            assert_eq!(found, expected, "{inside}");
        }
    }

    #[test]
    fn what_is_not_translated_is_said_and_what_opens_is_a_caution() {
        let unverified = "links are not verified: write the secret to a file";
        for (inside, expected) in [
            ("if ($request_method = POST) { return 405; }", &["CAUTION: if ($request_method = POST)"][..]),
            ("if ($invalid_referer) { rewrite ^ /no.png; }", &["CAUTION: if ($invalid_referer)"]),
            ("location / { } if ($bad) { return 403; }", &["CAUTION: if ($bad)"]),
            (
                "secure_link $1,$2; secure_link_md5 \"$secure_link_expires$uri x\"; if ($secure_link = \"\") { return 403; }",
                &["CAUTION: secure_link $1,$2", unverified],
            ),
            (
                "secure_link $arg_a; secure_link_md5 \"$uri x\"; if ($secure_link = \"\") { return 403; }",
                &["CAUTION: secure_link $arg_a", unverified],
            ),
            (
                "secure_link $arg_a; secure_link_md5 \"$secure_link_expires$uri x\"; if ($secure_link = \"0\") { return 410; }",
                &["CAUTION: secure_link $arg_a", unverified],
            ),
            (
                "secure_link $arg_a; secure_link_md5 \"$secure_link_expires$uri x\";",
                &["secure_link $arg_a: links are verified only"],
            ),
            (
                "secure_link $arg_a; secure_link_md5 \"$secure_link_expires$uri x\"; if ($secure_link = \"\") { return 404; }",
                &["secure_link $arg_a: write its secret", "whose time is over", ": the status is 403"],
            ),
            ("secure_link_secret x;", &["CAUTION: secure_link_secret"]),
            ("auth_basic a; auth_basic_user_file /a/$host;", &["CAUTION: auth_basic_user_file"]),
            (
                "auth_basic $host; auth_basic_user_file users;",
                &["auth_basic_user_file users: hashes", "the realm"],
            ),
            (
                "valid_referers blocked ~x; if ($invalid_referer) { return 403; }",
                &["CAUTION: valid_referers", "no URL", "pages have hosts"],
            ),
        ] {
            let found = remarks(&format!("root /a; {inside}"));
            for part in expected {
                assert!(
                    found.iter().any(|remark| remark.contains(part)),
                    "{inside}: {part} is not in {found:?}"
                );
            }
            let opens = |all: &[String]| all.iter().filter(|one| one.starts_with("CAUTION")).count();
            assert_eq!(
                opens(&found),
                expected.iter().filter(|one| one.starts_with("CAUTION")).count(),
                "{found:?}"
            );
            // The secret alone is x.
            assert!(!found.iter().any(|remark| remark.contains("$uri x")), "{found:?}");
        }
    }

    #[test]
    fn the_longest_text_of_an_expression_is_the_secret() {
        for (text, expected) in [
            (
                "$secure_link_expires$uri$remote_addr enigma",
                Some(("$secure_link_expires$uri$remote_addr $secret", "enigma")),
            ),
            ("enigma$uri ${secure_link_expires}", Some(("$secret$uri $secure_link_expires", "enigma"))),
            (
                "$document_uri:$host-$secure_link_expires a b ",
                Some(("$uri:$host-$secure_link_expires $secret ", "a b")),
            ),
            ("${uri}enigma$secure_link_expires", Some(("$uri$secret$secure_link_expires", "enigma"))),
            ("${uri}x$secure_link_expires enigma", None),
            ("$secure_link_expires$uri", None),
            ("$secure_link_expires enigma", None),
            ("$uri enigma", None),
            ("$secure_link_expires$uri$arg_user enigma", None),
            ("${uri$secure_link_expires enigma", None),
        ] {
            let expected = expected.map(|(text, secret)| (text.to_owned(), secret));
            assert_eq!(expression_of(text), expected, "{text}");
        }
    }
}
