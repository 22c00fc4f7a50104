//! `penstock completions` and `penstock man`: generated from the command line.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::failure::Failure;

pub(crate) fn completions(shell: Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "penstock", &mut script);
    print(&script)
}

pub(crate) fn man(directory: Option<&Path>) -> Result<(), Failure> {
    let Some(directory) = directory else {
        let mut page = Vec::new();
        let rendered = clap_mangen::Man::new(Arguments::command()).render(&mut page);
        rendered.map_err(Failure::machine("render the manual page"))?;
        return print(&page);
    };
    let write = || {
        fs::create_dir_all(directory)?;
        clap_mangen::generate_to(Arguments::command(), directory)
    };
    write().map_err(Failure::machine(format!("write manual pages to {}", directory.display())))
}

fn print(bytes: &[u8]) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    match output.write_all(bytes).and_then(|()| output.flush()) {
        // The reader has closed the pipe, as `| head` does.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(Failure::machine("write to stdout")),
    }
}
