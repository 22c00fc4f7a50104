//! The program: command line, order of start-up, signals.
#![forbid(unsafe_code)]

mod admin_client;
mod admin_socket;
mod advice;
mod arguments;
mod commands;
mod console_limits;
mod control;
mod descriptors;
mod failure;
mod finding;
mod findings;
mod given_config;
mod https_records;
mod logging;
mod ports;
mod privileges;
mod self_signed;
mod storage_advice;
mod store_advice;
mod succession;
mod systemd;
mod terminal;

use std::process::ExitCode;

use clap::Parser;
use penstock_sys::process;

use arguments::{Arguments, Command};
use failure::Failure;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return failure::of_command_line(&error),
    };
    let code = match run(arguments) {
        Ok(()) => 0,
        Err(failure) => failure.report(),
    };
    logging::flush();
    process::end(code)
}

fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.command {
        Command::Serve(serve) => {
            logging::start(arguments.log_level);
            commands::serve::run(&serve)
        }
        Command::Keyserver(keyserver) => {
            logging::start(arguments.log_level);
            commands::keyserver::run(&keyserver)
        }
        Command::Check(check) => commands::check::run(&check),
        Command::Config(config) => commands::config::run(&config),
        Command::Doctor(doctor) => commands::doctor::run(&doctor),
        Command::Cache(cache) => commands::cache::run(&cache),
        Command::Cluster(cluster) => commands::cluster::run(&cluster),
        Command::Ech(ech) => commands::ech::run(&ech),
        Command::Sign(sign) => commands::sign::run(&sign),
        Command::Revoke(revoke) => commands::revoke::run(&revoke),
        Command::Tickets(tickets) => commands::tickets::run(&tickets),
        Command::Init(init) => commands::init::run(&init),
        Command::Top(top) => commands::top::run(&top),
        Command::Load(load) => commands::load::run(&load),
        Command::Completions { shell } => commands::manual::completions(shell),
        Command::Man { directory } => commands::manual::man(directory.as_deref()),
    }
}
