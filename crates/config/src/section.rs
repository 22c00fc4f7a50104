//! Describes a section of the raw form once, for parsing, searching and documentation.
//!
//! Parsing does not stop at an unknown key. [`Shape::unknown_keys`] collects them from all sections, so that none is
//! ignored. A configuration in several files is parsed file by file: [`Shape::settle`] marks each value with its file and
//! expands variables, then [`Shape::merge`] adds the keys of one file to those of another.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, MapDeserializer};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_saphyr::{Location, Spanned};

pub(crate) use crate::fault::Position;
use crate::variables::Expansion;

/// A single value with its position.
pub(crate) type Text = Spanned<String>;

/// A list of single values.
pub(crate) type Texts = Spanned<Vec<Text>>;

/// Values by keys that the file makes up, in its order.
pub(crate) type Pairs = Spanned<PairList>;

/// A list of sections.
pub(crate) type Sections<S> = Spanned<Vec<Spanned<S>>>;

/// A list of words or sections.
pub(crate) type Entries<S> = Spanned<Vec<Spanned<WordOr<S>>>>;

impl From<Location> for Position {
    fn from(location: Location) -> Self {
        let number = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        let file = usize::try_from(location.source_id()).unwrap_or(usize::MAX);
        Self { file, line: number(location.line()), column: number(location.column()) }
    }
}

/// Marks a value with the number of its file: the parser knows one text only.
pub(crate) fn set_file<T>(value: &mut Spanned<T>, file: u32) {
    let number = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    let here = value.referenced;
    let fields =
        [("line", number(here.line())), ("column", number(here.column())), ("source_id", file)].into_iter();
    // A location has no public constructor, but the fields of one can be read from a map.
    if let Ok(marked) = Location::deserialize(MapDeserializer::<_, serde::de::value::Error>::new(fields)) {
        value.referenced = marked;
    }
}

/// The position of a value; for an alias the position of the alias.
pub(crate) fn position<T>(value: &Spanned<T>) -> Position {
    value.referenced.into()
}

/// Where a section begins; nowhere if it is absent.
pub(crate) fn start<T>(section: Option<&Spanned<T>>) -> Position {
    section.map_or(Position::NONE, position)
}

/// The description of one key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    /// Its values: a kind or words.
    pub(crate) takes: &'static str,
    /// The default as it would be written, or in words.
    pub(crate) default: &'static str,
    pub(crate) meaning: &'static str,
    /// The contents of its value.
    pub(crate) inside: Inside,
}

/// The contents of the value of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Inside {
    Value,
    Section(&'static [Key]),
    List(&'static [Key]),
}

/// A key that is refused, and those that could stand in its place.
#[derive(Debug)]
pub(crate) struct UnknownKey {
    pub(crate) key: Text,
    pub(crate) siblings: &'static [Key],
}

/// The form of a key's value.
pub(crate) trait Shape: Sized {
    /// For the reference.
    const INSIDE: Inside = Inside::Value;

    /// Adds the unknown keys of this value.
    fn unknown_keys(&self, _found: &mut Vec<UnknownKey>) {}

    /// Marks this value and those in it with their file, and expands variables in single values.
    fn settle(&mut self, expansion: &mut Expansion<'_>);

    /// Adds the value that another file has for the same key. A key that cannot have two values is added to `twice`.
    fn merge(&mut self, other: Self, key: &'static str, twice: &mut Vec<Twice>);
}

/// A key that two files have.
#[derive(Debug)]
pub(crate) struct Twice {
    pub(crate) key: &'static str,
    pub(crate) first: Position,
    pub(crate) second: Position,
}

impl Twice {
    fn of<T>(key: &'static str, first: &Spanned<T>, second: &Spanned<T>) -> Self {
        Self { key, first: position(first), second: position(second) }
    }
}

impl Shape for Text {
    fn settle(&mut self, expansion: &mut Expansion<'_>) {
        set_file(self, expansion.file);
        let here = position(self);
        expansion.expand(&mut self.value, here);
    }

    fn merge(&mut self, other: Self, key: &'static str, twice: &mut Vec<Twice>) {
        twice.push(Twice::of(key, self, &other));
    }
}

impl Shape for Texts {
    fn settle(&mut self, expansion: &mut Expansion<'_>) {
        set_file(self, expansion.file);
        self.value.iter_mut().for_each(|text| text.settle(expansion));
    }

    fn merge(&mut self, other: Self, key: &'static str, twice: &mut Vec<Twice>) {
        twice.push(Twice::of(key, self, &other));
    }
}

impl Shape for Pairs {
    fn settle(&mut self, expansion: &mut Expansion<'_>) {
        set_file(self, expansion.file);
        for (key, value) in &mut self.value.0 {
            set_file(key, expansion.file);
            value.settle(expansion);
        }
    }

    fn merge(&mut self, other: Self, key: &'static str, twice: &mut Vec<Twice>) {
        twice.push(Twice::of(key, self, &other));
    }
}

/// Keys with their values.
#[derive(Debug, Default)]
pub(crate) struct PairList(pub(crate) Vec<(Text, Text)>);

impl<'de> Deserialize<'de> for PairList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairVisitor;

        impl<'de> Visitor<'de> for PairVisitor {
            type Value = PairList;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("keys with values")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PairList, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(PairList(pairs))
            }
        }

        deserializer.deserialize_map(PairVisitor)
    }
}

/// A section of keys. Implemented by [`section!`].
pub(crate) trait Section: Sized {
    const KEYS: &'static [Key];

    fn unknown_keys_within(&self, found: &mut Vec<UnknownKey>);

    fn settle_within(&mut self, expansion: &mut Expansion<'_>);

    fn merge_within(&mut self, other: Self, twice: &mut Vec<Twice>);

    /// Reads the value of `key` from `map`. False if it is no key of this section: its value is still to be read.
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &Text, map: &mut A) -> Result<bool, A::Error>;
}

/// The keys of a section, with those of the section that it includes between them.
pub(crate) const fn joined<const N: usize>(own: &[Key], included: &[Key], more: &[Key]) -> [Key; N] {
    let mut all = [own[0]; N];
    let mut at = 0;
    while at < N {
        let (included_at, more_at) = (own.len(), own.len() + included.len());
        all[at] = if at < included_at {
            own[at]
        } else if at < more_at {
            included[at - included_at]
        } else {
            more[at - more_at]
        };
        at += 1;
    }
    all
}

impl<S: Section> Shape for Spanned<S> {
    const INSIDE: Inside = Inside::Section(S::KEYS);

    fn unknown_keys(&self, found: &mut Vec<UnknownKey>) {
        self.value.unknown_keys_within(found);
    }

    fn settle(&mut self, expansion: &mut Expansion<'_>) {
        set_file(self, expansion.file);
        self.value.settle_within(expansion);
    }

    fn merge(&mut self, other: Self, _key: &'static str, twice: &mut Vec<Twice>) {
        self.value.merge_within(other.value, twice);
    }
}

impl<S: Section> Shape for Sections<S> {
    const INSIDE: Inside = Inside::List(S::KEYS);

    fn unknown_keys(&self, found: &mut Vec<UnknownKey>) {
        for section in &self.value {
            section.value.unknown_keys_within(found);
        }
    }

    fn settle(&mut self, expansion: &mut Expansion<'_>) {
        set_file(self, expansion.file);
        self.value.iter_mut().for_each(|section| section.settle(expansion));
    }

    fn merge(&mut self, other: Self, _key: &'static str, _twice: &mut Vec<Twice>) {
        self.value.extend(other.value);
    }
}

impl<S: Section> Shape for Entries<S> {
    const INSIDE: Inside = Inside::List(S::KEYS);

    fn unknown_keys(&self, found: &mut Vec<UnknownKey>) {
        for entry in &self.value {
            entry.unknown_keys(found);
        }
    }

    fn settle(&mut self, expansion: &mut Expansion<'_>) {
        set_file(self, expansion.file);
        self.value.iter_mut().for_each(|entry| entry.settle(expansion));
    }

    fn merge(&mut self, other: Self, _key: &'static str, _twice: &mut Vec<Twice>) {
        self.value.extend(other.value);
    }
}

/// A word or a section: `hsts: 180d` or `hsts: {max_age: 180d, preload: true}`.
#[derive(Debug)]
pub(crate) enum WordOr<S> {
    Word(String),
    Section(S),
}

impl<S: Section> Shape for Spanned<WordOr<S>> {
    const INSIDE: Inside = Inside::Section(S::KEYS);

    fn unknown_keys(&self, found: &mut Vec<UnknownKey>) {
        if let WordOr::Section(section) = &self.value {
            section.unknown_keys_within(found);
        }
    }

    fn settle(&mut self, expansion: &mut Expansion<'_>) {
        set_file(self, expansion.file);
        let here = position(self);
        match &mut self.value {
            WordOr::Word(word) => expansion.expand(word, here),
            WordOr::Section(section) => section.settle_within(expansion),
        }
    }

    fn merge(&mut self, other: Self, key: &'static str, twice: &mut Vec<Twice>) {
        twice.push(Twice::of(key, self, &other));
    }
}

impl<'de, S: Deserialize<'de>> Deserialize<'de> for WordOr<S> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EitherVisitor<S>(PhantomData<S>);

        impl<'de, S: Deserialize<'de>> Visitor<'de> for EitherVisitor<S> {
            type Value = WordOr<S>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a word or a section")
            }

            fn visit_str<E>(self, word: &str) -> Result<WordOr<S>, E> {
                Ok(WordOr::Word(word.to_owned()))
            }

            fn visit_bool<E>(self, word: bool) -> Result<WordOr<S>, E> {
                Ok(WordOr::Word(word.to_string()))
            }

            fn visit_i64<E>(self, word: i64) -> Result<WordOr<S>, E> {
                Ok(WordOr::Word(word.to_string()))
            }

            fn visit_u64<E>(self, word: u64) -> Result<WordOr<S>, E> {
                Ok(WordOr::Word(word.to_string()))
            }

            fn visit_f64<E>(self, word: f64) -> Result<WordOr<S>, E> {
                Ok(WordOr::Word(word.to_string()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<WordOr<S>, A::Error> {
                S::deserialize(MapAccessDeserializer::new(map)).map(WordOr::Section)
            }
        }

        deserializer.deserialize_any(EitherVisitor(PhantomData))
    }
}

/// Adds the value that another file has for a key.
pub(crate) fn merge_key<S: Shape>(
    own: &mut Option<S>,
    other: Option<S>,
    key: &'static str,
    twice: &mut Vec<Twice>,
) {
    match (own, other) {
        (Some(value), Some(other)) => value.merge(other, key, twice),
        (own @ None, other) => *own = other,
        (Some(_), None) => {}
    }
}

/// The name of a key: that of its field, unless that is a keyword of Rust.
macro_rules! key_name {
    ($key:ident) => {
        stringify!($key)
    };
    ($key:ident $name:literal) => {
        $name
    };
}

/// The keys of a section, with those of the section that it includes.
macro_rules! all_keys {
    ($own:ident) => {
        $own
    };
    ($own:ident $included:ty, $more:expr) => {{
        const INCLUDED: &[$crate::section::Key] = <$included as $crate::section::Section>::KEYS;
        const MORE: &[$crate::section::Key] = $more;
        const ALL: [$crate::section::Key; $own.len() + INCLUDED.len() + MORE.len()] =
            $crate::section::joined($own, INCLUDED, MORE);
        &ALL
    }};
}

/// The description of one key.
macro_rules! key {
    ($shape:ty, $takes:literal, $default:literal, [$($meaning:literal)+], $key:ident $($written:literal)?) => {
        $crate::section::Key {
            name: $crate::section::key_name!($key $($written)?),
            takes: $takes,
            default: $default,
            meaning: concat!($($meaning),+),
            inside: <$shape as $crate::section::Shape>::INSIDE,
        }
    };
}

/// Defines a section: for each key its meaning (the comment), its shape, its values and its default. `..name: Section;`
/// includes the keys of another section.
macro_rules! section {
    (
        $(#[doc = $about:literal])+
        $name:ident {
            $( $(#[doc = $meaning:literal])+ $key:ident $(as $written:literal)?: $shape:ty, $takes:literal, $default:literal; )+
            $(
                ..$rest:ident: $included:ty;
                $( $(#[doc = $more_meaning:literal])+ $more:ident $(as $more_written:literal)?: $more_shape:ty, $more_takes:literal, $more_default:literal; )*
            )?
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Default)]
        pub(crate) struct $name {
            $( $(#[doc = $meaning])+ pub(crate) $key: Option<$shape>, )+
            $( /// The keys of the section that this one includes.
            pub(crate) $rest: $included,
            $( $(#[doc = $more_meaning])+ pub(crate) $more: Option<$more_shape>, )* )?
            unknown: Vec<$crate::section::Text>,
        }

        impl $crate::section::Section for $name {
            const KEYS: &'static [$crate::section::Key] = {
                const OWN: &[$crate::section::Key] =
                    &[$( $crate::section::key!($shape, $takes, $default, [$($meaning)+], $key $($written)?) ),+];
                $crate::section::all_keys!(OWN $($included, &[$(
                    $crate::section::key!($more_shape, $more_takes, $more_default, [$($more_meaning)+], $more $($more_written)?)
                ),*])?)
            };

            fn unknown_keys_within(&self, found: &mut Vec<$crate::section::UnknownKey>) {
                let siblings = <Self as $crate::section::Section>::KEYS;
                found.extend(self.unknown.iter().map(|key| {
                    $crate::section::UnknownKey { key: key.clone(), siblings }
                }));
                $( if let Some(value) = &self.$key {
                    $crate::section::Shape::unknown_keys(value, found);
                } )+
                $( $crate::section::Section::unknown_keys_within(&self.$rest, found);
                $( if let Some(value) = &self.$more {
                    $crate::section::Shape::unknown_keys(value, found);
                } )* )?
            }

            fn settle_within(&mut self, expansion: &mut $crate::variables::Expansion<'_>) {
                self.unknown.iter_mut().for_each(|key| $crate::section::set_file(key, expansion.file));
                $( if let Some(value) = &mut self.$key {
                    $crate::section::Shape::settle(value, expansion);
                } )+
                $( $crate::section::Section::settle_within(&mut self.$rest, expansion);
                $( if let Some(value) = &mut self.$more {
                    $crate::section::Shape::settle(value, expansion);
                } )* )?
            }

            fn merge_within(&mut self, other: Self, twice: &mut Vec<$crate::section::Twice>) {
                self.unknown.extend(other.unknown);
                $( $crate::section::merge_key(
                    &mut self.$key,
                    other.$key,
                    $crate::section::key_name!($key $($written)?),
                    twice,
                ); )+
                $( $crate::section::Section::merge_within(&mut self.$rest, other.$rest, twice);
                $( $crate::section::merge_key(
                    &mut self.$more,
                    other.$more,
                    $crate::section::key_name!($more $($more_written)?),
                    twice,
                ); )* )?
            }

            fn take<'de, A: serde::de::MapAccess<'de>>(
                &mut self,
                key: &$crate::section::Text,
                map: &mut A,
            ) -> Result<bool, A::Error> {
                match key.value.as_str() {
                    $( $crate::section::key_name!($key $($written)?) => self.$key = map.next_value()?, )+
                    $( $( $crate::section::key_name!($more $($more_written)?) => self.$more = map.next_value()?, )* )?
                    _ => {
                        $( if $crate::section::Section::take(&mut self.$rest, key, map)? {
                            return Ok(true);
                        } )?
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct SectionVisitor;

                impl<'de> serde::de::Visitor<'de> for SectionVisitor {
                    type Value = $name;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str("a section of keys")
                    }

                    fn visit_unit<E>(self) -> Result<$name, E> {
                        Ok($name::default())
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<$name, A::Error> {
                        let mut section = $name::default();
                        while let Some(key) = map.next_key::<$crate::section::Text>()? {
                            if !$crate::section::Section::take(&mut section, &key, &mut map)? {
                                map.next_value::<serde::de::IgnoredAny>()?;
                                section.unknown.push(key);
                            }
                        }
                        Ok(section)
                    }
                }

                deserializer.deserialize_map(SectionVisitor)
            }
        }
    };
}

pub(crate) use {all_keys, key, key_name, section};
