//! The commands, one file each.

pub(crate) mod cache;
pub(crate) mod check;
pub(crate) mod cluster;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod ech;
mod fleet_report;
pub(crate) mod init;
pub(crate) mod keyserver;
pub(crate) mod load;
pub(crate) mod manual;
pub(crate) mod revoke;
pub(crate) mod serve;
pub(crate) mod sign;
pub(crate) mod tickets;
pub(crate) mod top;
