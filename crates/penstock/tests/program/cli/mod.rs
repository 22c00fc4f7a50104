//! The program as it is run: what it prints, its exit codes, its signals.

mod checks;
mod commands;
mod doctor;
mod documented;
mod init;
mod privileges;
mod program;
mod serving;
mod signals;
mod storage;
mod tickets;
