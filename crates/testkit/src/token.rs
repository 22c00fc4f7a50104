//! A token of SoftHSM, a hardware module in software.

use std::fs;
use std::path::{Path, PathBuf};

use crate::tool::Tool;

/// A token in a directory. Programs whose configuration is in that directory find it.
pub struct SoftToken {
    directory: PathBuf,
}

impl SoftToken {
    /// Where Debian has the module.
    pub const MODULE: &str = "/usr/lib/softhsm/libsofthsm2.so";

    const LABEL: &str = "edge";
    const PIN: &str = "1234";

    /// Makes the token `edge` in the folder `tokens` of this directory, and its PIN in the file `pin`.
    pub fn make(directory: &Path) -> Self {
        let token = Self { directory: directory.to_owned() };
        fs::create_dir(token.tokens()).unwrap();
        let settings = format!("directories.tokendir = {}\nlog.level = ERROR\n", token.tokens().display());
        fs::write(directory.join("softhsm2.conf"), settings).unwrap();
        fs::write(directory.join("pin"), Self::PIN).unwrap();
        token.util(&["--init-token", "--free", "--label", Self::LABEL, "--so-pin", "12345678"]);
        token
    }

    /// Where the token is. It is removed by moving this folder, and comes back with it.
    pub fn tokens(&self) -> PathBuf {
        self.directory.join("tokens")
    }

    /// Imports a private key in PEM under this name.
    pub fn import(&self, name: &str, key: &Path) {
        let id = format!("{:02x}", name.bytes().fold(0_u8, u8::wrapping_add));
        let key = key.to_str().expect("a path in UTF-8");
        self.util(&["--import", key, "--token", Self::LABEL, "--label", name, "--id", &id]);
    }

    /// The URI of a key, with the PIN in the file `pin` beside the configuration.
    pub fn uri(name: &str) -> String {
        let (token, module) = (Self::LABEL, Self::MODULE);
        format!("pkcs11:token={token};object={name}?module-path={module}&pin-source=file:pin")
    }

    fn util(&self, arguments: &[&str]) {
        let conf = self.directory.join("softhsm2.conf");
        let util = Tool::new("softhsm2-util").env("SOFTHSM2_CONF", &conf).args(arguments);
        util.args(["--pin", Self::PIN]).run().ok();
    }
}
