//! A child process that ends with the test that started it.

use std::ops::{Deref, DerefMut};
use std::process::{Child, Command};

/// A running child process: killed, by its own handle, when this is dropped, also by a test that panics.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    /// Starts a command.
    ///
    /// # Errors
    /// As [`Command::spawn`].
    pub fn spawn(command: &mut Command) -> std::io::Result<Self> {
        command.spawn().map(Self)
    }
}

impl Deref for Process {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Process {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended before.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
