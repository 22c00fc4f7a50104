//! Names of what something is remembered of.

use std::sync::{Arc, Weak};

use penstock_cache::{Key, Object};
use penstock_sys::file::{Identity, OpenFile};

use crate::object::ObjectMetadata;

/// One version of a file, or all versions of an object, of which one is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Name {
    File(Identity),
    Object(Key),
}

/// A version of an object; of nothing for a file, whose name has its version. The reference keeps the address from being that
/// of another version.
pub(crate) type Version = Weak<Object<ObjectMetadata>>;

pub(crate) fn of_file(file: &OpenFile) -> (Name, Version) {
    (Name::File(file.identity()), Weak::new())
}

pub(crate) fn of_object(object: &Arc<Object<ObjectMetadata>>) -> (Name, Version) {
    (Name::Object(*object.key()), Arc::downgrade(object))
}
