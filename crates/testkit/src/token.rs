//! A token of SoftHSM, a hardware module in software.

use std::ffi::OsStr;
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
        fs::write(directory.join("pin"), Self::PIN).unwrap();
        Self::make_without_pin(directory)
    }

    /// Makes the token `edge` in the folder `tokens` of this directory, and leaves the file `pin` as it is.
    pub fn make_without_pin(directory: &Path) -> Self {
        let token = Self { directory: directory.to_owned() };
        fs::create_dir(token.tokens()).unwrap();
        let settings = format!("directories.tokendir = {}\nlog.level = ERROR\n", token.tokens().display());
        fs::write(directory.join("softhsm2.conf"), settings).unwrap();
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

    /// Has the private keys of the token want a login before each signature. SoftHSM's tool cannot, so this changes the files:
    /// an attribute is its type, the kind of its value, and the value.
    pub fn want_logins(&self) {
        let objects = |directory: &Path| fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        let files = objects(&self.tokens()).flat_map(|token| objects(&token).collect::<Vec<_>>());
        let mut count = 0;
        for file in files.filter(|file| file.extension() == Some(OsStr::new("object"))) {
            let mut bytes = fs::read(&file).unwrap();
            let attribute = b"\0\0\0\0\0\0\x02\x02\0\0\0\0\0\0\0\x01\0";
            if let Some(at) = bytes.windows(attribute.len()).position(|window| window == attribute) {
                bytes[at + attribute.len() - 1] = 1;
                fs::write(&file, bytes).unwrap();
                count += 1;
            }
        }
        assert!(count > 0, "no private key has CKA_ALWAYS_AUTHENTICATE");
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
