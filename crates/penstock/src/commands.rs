//! The commands, one file each.

pub(crate) mod cache;
pub(crate) mod check;
pub(crate) mod doctor;
pub(crate) mod ech;
pub(crate) mod keyserver;
pub(crate) mod load;
pub(crate) mod manual;
pub(crate) mod serve;
pub(crate) mod sign;
pub(crate) mod tickets;
