//! The imports between the files of a crate, read from the tokens of its source.
//!
//! An import is a path, in a `use` line or anywhere in the code, that leads to an item of another file of the crate. A name
//! that a file only passes on (`pub use`) leads to the file that defines it. Code under `cfg(test)` is left out.

use std::collections::BTreeMap;

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};

/// The source of a crate: the text of each file by its path below `src`.
pub(crate) type Source = BTreeMap<String, String>;

/// For each pair of files of which the first imports the second, the places where it does.
pub(crate) type Imports = BTreeMap<(String, String), Vec<String>>;

/// The names on the way from the root of the crate to a module.
type ModulePath = Vec<String>;

/// Reads the imports of the crate whose root is `lib.rs` or `main.rs`.
pub(crate) fn imports_of(source: &Source) -> Imports {
    let root = if source.contains_key("lib.rs") { "lib.rs" } else { "main.rs" };
    let mut tree = ModuleTree { source, modules: BTreeMap::new() };
    tree.read_file(root, Vec::new());
    let mut imports = Imports::new();
    for (path, module) in &tree.modules {
        for used in &module.used {
            let Some(Target::Item(file)) = tree.resolve(path, &used.names, 0) else { continue };
            if file != module.file {
                let place = format!("{}:{}: {}", module.file, used.line, used.names.join("::"));
                imports.entry((module.file.clone(), file)).or_default().push(place);
            }
        }
    }
    imports
}

struct ModuleTree<'s> {
    source: &'s Source,
    modules: BTreeMap<ModulePath, Module>,
}

#[derive(Default)]
struct Module {
    file: String,
    /// Names that `use` brings into the module, and the paths that they stand for.
    names: BTreeMap<String, Vec<String>>,
    used: Vec<UsedPath>,
}

struct UsedPath {
    names: Vec<String>,
    line: usize,
}

/// What a path leads to.
enum Target {
    Module(ModulePath),
    /// An item that this file defines.
    Item(String),
}

impl ModuleTree<'_> {
    fn read_file(&mut self, file: &str, path: ModulePath) {
        let text = &self.source[file];
        let tokens: TokenStream = text.parse().unwrap_or_else(|error| panic!("{file}: {error}"));
        self.read_module(file, path, tokens);
    }

    fn read_module(&mut self, file: &str, path: ModulePath, tokens: TokenStream) {
        self.modules.insert(path.clone(), Module { file: file.to_owned(), ..Module::default() });
        self.read_tokens(&path, tokens);
    }

    fn read_tokens(&mut self, path: &ModulePath, tokens: TokenStream) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut rest = tokens.as_slice();
        loop {
            rest = match rest {
                [] => return,
                [TokenTree::Punct(hash), TokenTree::Group(attribute), rest @ ..] if hash.as_char() == '#' => {
                    if is_for_tests(&attribute.stream().to_string()) {
                        after_item(rest)
                    } else {
                        rest
                    }
                }
                [TokenTree::Ident(word), TokenTree::Ident(name), rest @ ..] if word == "mod" => {
                    self.read_child(path, name, rest)
                }
                [TokenTree::Ident(word), TokenTree::Group(_), TokenTree::Ident(next), rest @ ..]
                    if word == "pub" && next == "use" =>
                {
                    self.read_passed_on(path, rest)
                }
                [TokenTree::Ident(word), TokenTree::Ident(next), rest @ ..]
                    if word == "pub" && next == "use" =>
                {
                    self.read_passed_on(path, rest)
                }
                [TokenTree::Ident(word), TokenTree::Group(_), rest @ ..] if word == "pub" => rest,
                [TokenTree::Ident(word), rest @ ..] if word == "use" => self.read_use(path, Vec::new(), rest),
                // A path that does not begin here: of another crate, or behind a type in angle brackets.
                [colon, second, TokenTree::Ident(_), rest @ ..] if is_colon(colon) && is_colon(second) => {
                    rest
                }
                [TokenTree::Ident(first), after @ ..] => self.read_path(path, first, after),
                [TokenTree::Group(group), rest @ ..] => {
                    self.read_tokens(path, group.stream());
                    rest
                }
                [_, rest @ ..] => rest,
            };
        }
    }

    fn read_child<'t>(&mut self, path: &ModulePath, name: &Ident, rest: &'t [TokenTree]) -> &'t [TokenTree] {
        let child: ModulePath = path.iter().cloned().chain([name.to_string()]).collect();
        let file = self.modules[path].file.clone();
        if let Some(TokenTree::Group(body)) = rest.first() {
            self.read_module(&file, child, body.stream());
        } else {
            self.read_file(&format!("{}.rs", child.join("/")), child);
        }
        &rest[1..]
    }

    /// Reads a `pub use`: the file passes the names on and does not use them.
    fn read_passed_on<'t>(&mut self, path: &ModulePath, rest: &'t [TokenTree]) -> &'t [TokenTree] {
        let used = self.modules[path].used.len();
        let rest = self.read_use(path, Vec::new(), rest);
        self.modules.get_mut(path).expect("the module is being read").used.truncate(used);
        rest
    }

    /// Reads one tree of a `use` line that stands behind `prefix`, and returns what follows it.
    fn read_use<'t>(
        &mut self,
        path: &ModulePath,
        mut prefix: Vec<String>,
        mut rest: &'t [TokenTree],
    ) -> &'t [TokenTree] {
        let mut line = 0;
        let mut alias = None;
        loop {
            rest = match rest {
                [colon, rest @ ..] if is_colon(colon) => rest,
                [TokenTree::Ident(word), TokenTree::Ident(name), rest @ ..] if word == "as" => {
                    alias = Some(name.to_string());
                    rest
                }
                [TokenTree::Ident(name), rest @ ..] => {
                    line = name.span().start().line;
                    prefix.push(name.to_string());
                    rest
                }
                [TokenTree::Punct(star), rest @ ..] if star.as_char() == '*' => {
                    prefix.push("*".to_owned());
                    rest
                }
                [TokenTree::Group(group), rest @ ..] if group.delimiter() == Delimiter::Brace => {
                    let trees: Vec<_> = group.stream().into_iter().collect();
                    let mut trees = trees.as_slice();
                    while !trees.is_empty() {
                        trees = self.read_use(path, prefix.clone(), trees);
                    }
                    return rest;
                }
                // The end of a tree: a comma or semicolon. Anything else is `use<..>` in a type.
                [_, rest @ ..] => {
                    self.add_use(path, prefix, alias, line);
                    return rest;
                }
                [] => {
                    self.add_use(path, prefix, alias, line);
                    return rest;
                }
            };
        }
    }

    fn add_use(&mut self, path: &ModulePath, mut names: Vec<String>, alias: Option<String>, line: usize) {
        if names.len() > 1 && names.last().is_some_and(|name| name == "self") {
            names.pop();
        }
        let Some(name) = alias.or_else(|| names.last().cloned()) else { return };
        let module = self.modules.get_mut(path).expect("the module is being read");
        module.names.insert(name, names.clone());
        module.used.push(UsedPath { names, line });
    }

    /// Reads a path in the code; a single name is none.
    fn read_path<'t>(
        &mut self,
        path: &ModulePath,
        first: &Ident,
        mut rest: &'t [TokenTree],
    ) -> &'t [TokenTree] {
        let mut names = vec![first.to_string()];
        while let [colon, second, TokenTree::Ident(name), after @ ..] = rest
            && is_colon(colon)
            && is_colon(second)
        {
            names.push(name.to_string());
            rest = after;
        }
        if names.len() > 1 {
            let line = first.span().start().line;
            let module = self.modules.get_mut(path).expect("the module is being read");
            module.used.push(UsedPath { names, line });
        }
        rest
    }

    /// What `names`, written in the module `path`, leads to; none if that is outside the crate.
    fn resolve(&self, path: &ModulePath, names: &[String], depth: u32) -> Option<Target> {
        let (first, mut rest) = names.split_first()?;
        let mut place = match first.as_str() {
            "crate" => ModulePath::new(),
            "self" => path.clone(),
            "super" => path[..path.len().checked_sub(1)?].to_vec(),
            name => match self.child(path, name) {
                Some(child) => child,
                None => match self.resolve_name(path, name, depth)? {
                    Target::Module(module) => module,
                    item @ Target::Item(_) => return Some(item),
                },
            },
        };
        while let Some((name, after)) = rest.split_first() {
            rest = after;
            let file = self.modules[&place].file.clone();
            place = match self.child(&place, name) {
                _ if name == "super" => place[..place.len().checked_sub(1)?].to_vec(),
                // `mod a; pub use a::a;`: the last name of a path means the item.
                Some(child) if !(rest.is_empty() && self.modules[&place].names.contains_key(name)) => child,
                _ if !self.modules[&place].names.contains_key(name) => return Some(Target::Item(file)),
                _ => match self.resolve_name(&place, name, depth) {
                    Some(Target::Module(module)) => module,
                    Some(item) => return Some(item),
                    // `use name;` of a macro. Any other name is of another crate and only passed on.
                    None => {
                        return (self.modules[&place].names[name] == [name.clone()])
                            .then_some(Target::Item(file));
                    }
                },
            };
        }
        Some(Target::Module(place))
    }

    /// What a name that `use` brought into the module leads to.
    fn resolve_name(&self, path: &ModulePath, name: &str, depth: u32) -> Option<Target> {
        let names = self.modules[path].names.get(name)?;
        if depth > 16 || (names.len() == 1 && names[0] == name) {
            return None;
        }
        self.resolve(path, names, depth + 1)
    }

    fn child(&self, path: &ModulePath, name: &str) -> Option<ModulePath> {
        let child: ModulePath = path.iter().cloned().chain([name.to_owned()]).collect();
        self.modules.contains_key(&child).then_some(child)
    }
}

fn is_colon(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == ':')
}

fn is_for_tests(attribute: &str) -> bool {
    attribute.starts_with("cfg") && attribute.contains("test") && !attribute.contains("not")
}

/// What follows the item at the head of `tokens`.
fn after_item(tokens: &[TokenTree]) -> &[TokenTree] {
    let end = tokens.iter().position(|token| match token {
        TokenTree::Punct(punct) => punct.as_char() == ';',
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        _ => false,
    });
    end.map_or(&[], |end| &tokens[end + 1..])
}
