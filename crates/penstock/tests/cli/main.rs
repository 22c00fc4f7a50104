//! The program as it is run: what it prints, its exit codes, its signals.
#![expect(clippy::unwrap_used, reason = "in a test it is the assertion")]

mod commands;
mod doctor;
mod program;
mod serving;
mod signals;
mod tickets;
