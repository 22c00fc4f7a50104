//! How a section of the written form is described once and then read, searched and documented.
//!
//! Reading never stops at a key it does not know, nor at one whose feature is not built yet: they are kept, and
//! [`Shape::strays`] finds them all, in every section below, so that none can be ignored by mistake.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

/// A single value as it was written, with its place.
pub(crate) type Text = Spanned<String>;

/// A list of single values.
pub(crate) type Texts = Spanned<Vec<Text>>;

/// A list of sections.
pub(crate) type Sections<S> = Spanned<Vec<Spanned<S>>>;

/// A list of words, or of sections where a word is too little.
pub(crate) type Entries<S> = Spanned<Vec<Spanned<WordOr<S>>>>;

/// A place in the file, counted from 1; zeros when there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl Place {
    /// For what is missing from the file as a whole.
    pub(crate) const NOWHERE: Self = Self { line: 0, column: 0 };
}

impl From<serde_saphyr::Location> for Place {
    fn from(location: serde_saphyr::Location) -> Self {
        let number = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        Self { line: number(location.line()), column: number(location.column()) }
    }
}

/// Where a value is used: with an alias the place of the alias, not of what it stands for.
pub(crate) fn place<T>(value: &Spanned<T>) -> Place {
    value.referenced.into()
}

/// The description of one key.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    /// What may be written: a kind of value or the words.
    pub(crate) takes: &'static str,
    /// What holds when the key is absent, as it would be written; in words if nothing can be written.
    pub(crate) default: &'static str,
    pub(crate) meaning: &'static str,
    /// What stands inside it.
    pub(crate) inside: Inside,
}

/// What stands inside the value of a key.
#[derive(Debug)]
pub(crate) enum Inside {
    Value,
    Section(&'static [Key]),
    List(&'static [Key]),
    /// Anything: the feature is not built yet.
    Later,
}

/// A key that cannot be obeyed.
#[derive(Debug)]
pub(crate) enum Stray {
    Unknown { key: Text, siblings: &'static [Key] },
    Later { path: String, place: Place },
}

/// What the value of a key looks like.
pub(crate) trait Shape: Sized {
    /// For the reference.
    const INSIDE: Inside = Inside::Value;

    /// The value once it is known where its key stands.
    fn beside(self, _key: Place) -> Self {
        self
    }

    /// The value of a key with nothing behind it; `None` if that means the default.
    fn when_empty(_key: Place) -> Option<Self> {
        None
    }

    /// Adds all that cannot be obeyed in here; `path` leads here.
    fn strays(&self, _path: &str, _found: &mut Vec<Stray>) {}
}

impl Shape for Text {}
impl Shape for Texts {}

/// A section of keys. Implemented by [`section!`].
pub(crate) trait Section: Sized {
    const KEYS: &'static [Key];

    fn strays_inside(&self, path: &str, found: &mut Vec<Stray>);
}

impl<S: Section> Shape for Spanned<S> {
    const INSIDE: Inside = Inside::Section(S::KEYS);

    fn strays(&self, path: &str, found: &mut Vec<Stray>) {
        self.value.strays_inside(path, found);
    }
}

impl<S: Section> Shape for Sections<S> {
    const INSIDE: Inside = Inside::List(S::KEYS);

    fn strays(&self, path: &str, found: &mut Vec<Stray>) {
        for section in &self.value {
            section.value.strays_inside(path, found);
        }
    }
}

impl<S: Section> Shape for Entries<S> {
    const INSIDE: Inside = Inside::List(S::KEYS);

    fn strays(&self, path: &str, found: &mut Vec<Stray>) {
        for entry in &self.value {
            entry.strays(path, found);
        }
    }
}

/// The value of a key whose feature is not built yet.
#[derive(Debug)]
pub(crate) struct Later(Place);

impl<'de> Deserialize<'de> for Later {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer)?;
        Ok(Self(Place::NOWHERE))
    }
}

impl Shape for Later {
    const INSIDE: Inside = Inside::Later;

    fn beside(self, key: Place) -> Self {
        Self(key)
    }

    fn when_empty(key: Place) -> Option<Self> {
        Some(Self(key))
    }

    fn strays(&self, path: &str, found: &mut Vec<Stray>) {
        found.push(Stray::Later { path: path.to_owned(), place: self.0 });
    }
}

/// A word, or something larger whose feature is not built yet.
#[derive(Debug)]
pub(crate) enum WordOrMore {
    Word(String),
    More,
}

impl Shape for Spanned<WordOrMore> {}

impl<'de> Deserialize<'de> for WordOrMore {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyVisitor;

        impl<'de> Visitor<'de> for AnyVisitor {
            type Value = WordOrMore;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a word or a section")
            }

            fn visit_str<E>(self, word: &str) -> Result<WordOrMore, E> {
                Ok(WordOrMore::Word(word.to_owned()))
            }

            fn visit_bool<E>(self, word: bool) -> Result<WordOrMore, E> {
                Ok(WordOrMore::Word(word.to_string()))
            }

            fn visit_i64<E>(self, word: i64) -> Result<WordOrMore, E> {
                Ok(WordOrMore::Word(word.to_string()))
            }

            fn visit_u64<E>(self, word: u64) -> Result<WordOrMore, E> {
                Ok(WordOrMore::Word(word.to_string()))
            }

            fn visit_f64<E>(self, word: f64) -> Result<WordOrMore, E> {
                Ok(WordOrMore::Word(word.to_string()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<WordOrMore, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(WordOrMore::More)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WordOrMore, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(WordOrMore::More)
            }
        }

        deserializer.deserialize_any(AnyVisitor)
    }
}

/// A word, or a section where the word is too little: `hsts: 180d` or `hsts: {max_age: 180d, preload: true}`.
#[derive(Debug)]
pub(crate) enum WordOr<S> {
    Word(String),
    Section(S),
}

impl<S: Section> Shape for Spanned<WordOr<S>> {
    const INSIDE: Inside = Inside::Section(S::KEYS);

    fn strays(&self, path: &str, found: &mut Vec<Stray>) {
        if let WordOr::Section(section) = &self.value {
            section.strays_inside(path, found);
        }
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

/// Defines a section: for each key its meaning (the comment), its shape, what it takes and its default.
macro_rules! section {
    (
        $(#[doc = $about:literal])+
        $name:ident {
            $( $(#[doc = $meaning:literal])+ $key:ident: $shape:ty, $takes:literal, $default:literal; )+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Default)]
        pub(crate) struct $name {
            $( $(#[doc = $meaning])+ pub(crate) $key: Option<$shape>, )+
            unknown: Vec<$crate::section::Text>,
        }

        impl $crate::section::Section for $name {
            const KEYS: &'static [$crate::section::Key] = &[$( $crate::section::Key {
                name: stringify!($key),
                takes: $takes,
                default: $default,
                meaning: concat!($($meaning),+),
                inside: <$shape as $crate::section::Shape>::INSIDE,
            } ),+];

            fn strays_inside(&self, path: &str, found: &mut Vec<$crate::section::Stray>) {
                let siblings = <Self as $crate::section::Section>::KEYS;
                found.extend(self.unknown.iter().map(|key| {
                    $crate::section::Stray::Unknown { key: key.clone(), siblings }
                }));
                $( if let Some(value) = &self.$key {
                    let path = match path {
                        "" => stringify!($key).to_owned(),
                        _ => format!("{path}.{}", stringify!($key)),
                    };
                    $crate::section::Shape::strays(value, &path, found);
                } )+
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
                            let place = $crate::section::place(&key);
                            match key.value.as_str() {
                                $( stringify!($key) => {
                                    let value: Option<$shape> = map.next_value()?;
                                    section.$key = match value {
                                        Some(value) => Some($crate::section::Shape::beside(value, place)),
                                        None => <$shape as $crate::section::Shape>::when_empty(place),
                                    };
                                } )+
                                _ => {
                                    map.next_value::<serde::de::IgnoredAny>()?;
                                    section.unknown.push(key);
                                }
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

pub(crate) use section;
