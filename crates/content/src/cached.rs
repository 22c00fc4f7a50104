//! Finds an object in the cache, or fetches it once for all requests that wait for it.

mod blocking_reload;
mod fetch;
mod find;
mod lookup;
mod prefetch;
mod restore;

pub(crate) use find::find_fresh;
pub(crate) use lookup::{Lookup, LookupResult};
pub(crate) use prefetch::{prefetch_named, prefetch_next};
