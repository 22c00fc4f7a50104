//! URIs of private keys in hardware modules (RFC 7512).

use std::fmt;
use std::path::PathBuf;

/// A private key in a token, and the module that reaches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pkcs11Uri {
    /// `module-path`: the shared library of the module.
    pub module: PathBuf,
    /// `pin-source`: the file with the PIN in its first line; `None` if the token needs no login.
    pub pin: Option<PathBuf>,
    /// The token.
    pub token: TokenName,
    /// The key in it.
    pub key: ObjectName,
}

/// What a token must have. At least one of label, serial number and slot is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TokenName {
    /// `token`: its label.
    pub label: Option<String>,
    /// `manufacturer`.
    pub manufacturer: Option<String>,
    /// `serial`.
    pub serial: Option<String>,
    /// `model`.
    pub model: Option<String>,
    /// `slot-id`.
    pub slot: Option<u64>,
}

/// What a key must have. At least one of them is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ObjectName {
    /// `object`: its label, `CKA_LABEL`.
    pub label: Option<String>,
    /// `id`: `CKA_ID`.
    pub id: Option<Vec<u8>>,
}

impl fmt::Display for TokenName {
    /// The label, and the serial number if one is given.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.label, &self.serial, self.slot) {
            (Some(label), Some(serial), _) => write!(f, "{label} ({serial})"),
            (Some(label), None, _) => f.write_str(label),
            (None, Some(serial), _) => write!(f, "serial {serial}"),
            (None, None, slot) => write!(f, "slot {}", slot.unwrap_or_default()),
        }
    }
}

impl fmt::Display for ObjectName {
    /// The label, otherwise the identifier in hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.label {
            Some(label) => f.write_str(label),
            None => self.id.iter().flatten().try_for_each(|byte| write!(f, "{byte:02x}")),
        }
    }
}

/// Why a text names no private key of a module. Its form for people is the fault; see also [`Self::instead`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pkcs11UriError {
    /// It does not begin with `pkcs11:`.
    Scheme,
    /// A part is not `name=value`.
    Part(String),
    /// An attribute occurs twice.
    Repeated(String),
    /// An attribute that is unknown, or that selects no token and no key.
    Unsupported(String),
    /// A path attribute behind the `?`, or a query attribute in front of it.
    Misplaced(String),
    /// The value of this attribute is empty.
    Empty(String),
    /// The value of this attribute has a character that must be percent-encoded, or a broken encoding.
    Encoding(String),
    /// `type` is another than `private`.
    Type(String),
    /// `slot-id` is not a number.
    Slot(String),
    /// The PIN itself is in the URI.
    PinValue,
    /// `pin-source` is not a file of this machine.
    PinSource(String),
    /// There is no `module-path`.
    NoModule,
    /// Neither `token` nor `serial` nor `slot-id`.
    NoToken,
    /// Neither `object` nor `id`.
    NoObject,
}

impl Pkcs11UriError {
    /// What to write instead.
    pub fn instead(&self) -> &'static str {
        match self {
            Self::Scheme | Self::NoModule => {
                "write \"pkcs11:token=edge;object=video?module-path=/usr/lib/softhsm/libsofthsm2.so&pin-source=file:pin\""
            }
            Self::Part(_) => {
                "write name=value, with ; between attributes, ? before module-path and pin-source, and & between those"
            }
            Self::Repeated(_) => "write it once",
            Self::Unsupported(_) => {
                "remove it; token, serial, manufacturer, model and slot-id choose the token, object and id the key"
            }
            Self::Misplaced(_) => {
                "write module-path and pin-source behind the ?, and all others in front of it"
            }
            Self::Empty(_) => "write a value, or remove it",
            Self::Encoding(_) => {
                "write letters, digits and -._~ as they are, a space as %20, and other bytes as % and two hexadecimal digits"
            }
            Self::Type(_) => "remove it, or write type=private",
            Self::Slot(_) => "write a number, or choose the token with token=LABEL",
            Self::PinValue => "write the PIN into a file with mode 600, and pin-source=file:FILE",
            Self::PinSource(_) => "write pin-source=file:FILE with a file of this machine",
            Self::NoToken => {
                "add token=LABEL; `softhsm2-util --show-slots` and `pkcs11-tool --list-slots` list tokens"
            }
            Self::NoObject => {
                "add object=LABEL or id=%01; `pkcs11-tool --list-objects --type privkey` lists keys"
            }
        }
    }
}

impl fmt::Display for Pkcs11UriError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scheme => f.write_str("does not begin with pkcs11:"),
            Self::Part(part) => write!(f, "`{}` is not an attribute", part.escape_debug()),
            Self::Repeated(name) => write!(f, "`{name}` is there twice"),
            Self::Unsupported(name) => write!(f, "the attribute `{}` is not supported", name.escape_debug()),
            Self::Misplaced(name) => write!(f, "`{name}` is on the wrong side of the `?`"),
            Self::Empty(name) => write!(f, "`{name}` has no value"),
            Self::Encoding(name) => write!(f, "the value of `{name}` is not percent-encoded"),
            Self::Type(value) => write!(f, "`type={}` is not a private key", value.escape_debug()),
            Self::Slot(value) => write!(f, "`slot-id={}` is not a number", value.escape_debug()),
            Self::PinValue => f.write_str("a PIN in a configuration is read by everyone who reads that"),
            Self::PinSource(value) => {
                write!(f, "`pin-source={}` is not a file of this machine", value.escape_debug())
            }
            Self::NoModule => f.write_str("names no module"),
            Self::NoToken => f.write_str("names no token"),
            Self::NoObject => f.write_str("names no key"),
        }
    }
}

impl std::error::Error for Pkcs11UriError {}

/// The supported attributes of the path (RFC 7512 section 2.3).
const PATH: [&str; 8] = ["token", "manufacturer", "serial", "model", "slot-id", "object", "id", "type"];

/// Those of the query (RFC 7512 section 2.4).
const QUERY: [&str; 3] = ["module-path", "pin-source", "pin-value"];

/// Characters besides letters, digits and `-._~` that both parts may contain as they are (RFC 7512 section 2.3).
const PLAIN: &[u8] = b":[]@!$'()*+,=-._~";

impl Pkcs11Uri {
    /// Reads a URI. Paths in it may be relative.
    ///
    /// # Errors
    /// The first fault; see [`Pkcs11UriError`].
    pub fn parse(text: &str) -> Result<Self, Pkcs11UriError> {
        let rest = text.strip_prefix("pkcs11:").ok_or(Pkcs11UriError::Scheme)?;
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let path = Attributes::read(path, ';', (&PATH, &QUERY), b"&")?;
        let query = Attributes::read(query, '&', (&QUERY, &PATH), b"/?|")?;
        if let Some(value) = path.text("type")?.filter(|value| value != "private") {
            return Err(Pkcs11UriError::Type(value));
        }
        if query.bytes("pin-value").is_some() {
            return Err(Pkcs11UriError::PinValue);
        }
        let number = |value: String| value.parse().map_err(|_| Pkcs11UriError::Slot(value));
        let token = TokenName {
            label: path.text("token")?,
            manufacturer: path.text("manufacturer")?,
            serial: path.text("serial")?,
            model: path.text("model")?,
            slot: path.text("slot-id")?.map(number).transpose()?,
        };
        let key = ObjectName { label: path.text("object")?, id: path.bytes("id").map(<[u8]>::to_vec) };
        let module = query.text("module-path")?.ok_or(Pkcs11UriError::NoModule)?.into();
        let pin = query.text("pin-source")?.map(pin_file).transpose()?;
        if token.label.is_none() && token.serial.is_none() && token.slot.is_none() {
            return Err(Pkcs11UriError::NoToken);
        }
        if key == ObjectName::default() {
            return Err(Pkcs11UriError::NoObject);
        }
        Ok(Self { module, pin, token, key })
    }
}

/// The file of `pin-source`: a path, or a URL with the scheme `file` and no host.
fn pin_file(value: String) -> Result<PathBuf, Pkcs11UriError> {
    let path = value.strip_prefix("file:").unwrap_or(&value);
    let path = match path.strip_prefix("//") {
        Some(path) if !path.starts_with('/') => "",
        Some(path) => path,
        None => path,
    };
    let has_scheme = path.split_once(':').is_some_and(|(scheme, _)| !scheme.contains('/'));
    if path.is_empty() || path.starts_with('|') || has_scheme {
        return Err(Pkcs11UriError::PinSource(value));
    }
    Ok(path.into())
}

/// The attributes of one part, decoded.
struct Attributes(Vec<(&'static str, Vec<u8>)>);

impl Attributes {
    fn read(
        part: &str,
        separator: char,
        (known, other): (&[&'static str], &[&'static str]),
        plain: &[u8],
    ) -> Result<Self, Pkcs11UriError> {
        let mut found: Vec<(&'static str, Vec<u8>)> = Vec::new();
        for pair in part.split(separator).filter(|_| !part.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or_else(|| Pkcs11UriError::Part(pair.to_owned()))?;
            if other.contains(&name) {
                return Err(Pkcs11UriError::Misplaced(name.to_owned()));
            }
            let Some(name) = known.iter().find(|one| **one == name) else {
                return Err(Pkcs11UriError::Unsupported(name.to_owned()));
            };
            if found.iter().any(|(other, _)| other == name) {
                return Err(Pkcs11UriError::Repeated((*name).to_owned()));
            }
            let value = decode(value, plain).ok_or_else(|| Pkcs11UriError::Encoding((*name).to_owned()))?;
            if value.is_empty() {
                return Err(Pkcs11UriError::Empty((*name).to_owned()));
            }
            found.push((name, value));
        }
        Ok(Self(found))
    }

    fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|(other, _)| *other == name).map(|(_, value)| value.as_slice())
    }

    fn text(&self, name: &str) -> Result<Option<String>, Pkcs11UriError> {
        let text = |bytes: &[u8]| {
            let text = str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
            text.map(str::to_owned).ok_or_else(|| Pkcs11UriError::Encoding(name.to_owned()))
        };
        self.bytes(name).map(text).transpose()
    }
}

/// Decodes `%XX`; `None` if an encoding is broken or a character must be encoded.
fn decode(value: &str, plain: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        rest = behind;
        match first {
            b'%' => {
                let (pair, behind) = rest.split_first_chunk::<2>()?;
                let digits = str::from_utf8(pair).ok().filter(|pair| !pair.starts_with('+'))?;
                decoded.push(u8::from_str_radix(digits, 16).ok()?);
                rest = behind;
            }
            _ if first.is_ascii_alphanumeric() || PLAIN.contains(&first) || plain.contains(&first) => {
                decoded.push(first);
            }
            _ => return None,
        }
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = "?module-path=/usr/lib/softhsm/libsofthsm2.so";

    fn fault(path: &str) -> Pkcs11UriError {
        let text = if path.contains('?') { path.to_owned() } else { format!("{path}{MODULE}") };
        Pkcs11Uri::parse(&text).expect_err(&text)
    }

    #[test]
    fn a_uri_names_module_pin_token_and_key() {
        let uri = "pkcs11:token=The%20Software%20PKCS%2311;serial=7;slot-id=12;object=my&key;id=%01%fF;type=private";
        let parsed = Pkcs11Uri::parse(&format!("{uri}{MODULE}&pin-source=file:///etc/token%20pin")).unwrap();
        assert_eq!(parsed.token.label.as_deref(), Some("The Software PKCS#11"));
        assert_eq!((parsed.token.serial.as_deref(), parsed.token.slot), (Some("7"), Some(12)));
        assert_eq!((parsed.key.label.as_deref(), parsed.key.id), (Some("my&key"), Some(vec![1, 255])));
        assert_eq!(parsed.module, PathBuf::from("/usr/lib/softhsm/libsofthsm2.so"));
        assert_eq!(parsed.pin, Some("/etc/token pin".into()));
        for (source, file) in [("file:pin", "pin"), ("/etc/pin", "/etc/pin"), ("pins/a:b", "pins/a:b")] {
            let uri = format!("pkcs11:token=a;object=b{MODULE}&pin-source={source}");
            assert_eq!(Pkcs11Uri::parse(&uri).unwrap().pin, Some(file.into()), "{source}");
        }
    }

    #[test]
    fn each_fault_is_found() {
        use Pkcs11UriError as Fault;
        let named = |name: &str| name.to_owned();
        for (uri, expected) in [
            ("", Fault::Scheme),
            ("PKCS11:token=a;object=b", Fault::Scheme),
            ("pkcs11:token=a;;object=b", Fault::Part(named(""))),
            ("pkcs11:token=a;object", Fault::Part(named("object"))),
            ("pkcs11:token=a;object=b;token=a", Fault::Repeated(named("token"))),
            ("pkcs11:token=a;object=b;library-version=1", Fault::Unsupported(named("library-version"))),
            ("pkcs11:token=a;object=b;x-vendor=1", Fault::Unsupported(named("x-vendor"))),
            ("pkcs11:token=a;object=b;module-path=m", Fault::Misplaced(named("module-path"))),
            ("pkcs11:object=b?module-path=m&token=a", Fault::Misplaced(named("token"))),
            ("pkcs11:token=;object=b", Fault::Empty(named("token"))),
            ("pkcs11:token=a b;object=b", Fault::Encoding(named("token"))),
            ("pkcs11:token=a;object=%2", Fault::Encoding(named("object"))),
            ("pkcs11:token=a;object=%+2", Fault::Encoding(named("object"))),
            ("pkcs11:token=a;object=%ff", Fault::Encoding(named("object"))),
            ("pkcs11:token=%00;object=b", Fault::Encoding(named("token"))),
            ("pkcs11:token=a/b;object=b", Fault::Encoding(named("token"))),
            ("pkcs11:token=ä;object=b", Fault::Encoding(named("token"))),
            ("pkcs11:token=a;object=b;type=cert", Fault::Type(named("cert"))),
            ("pkcs11:slot-id=first;object=b", Fault::Slot(named("first"))),
            ("pkcs11:token=a;object=b?module-path=m&pin-value=1234", Fault::PinValue),
            ("pkcs11:token=a;object=b?module-path=m&pin-source=|cat", Fault::PinSource(named("|cat"))),
            ("pkcs11:token=a;object=b?module-path=m&pin-source=file:", Fault::PinSource(named("file:"))),
            (
                "pkcs11:token=a;object=b?module-path=m&pin-source=file://host/pin",
                Fault::PinSource(named("file://host/pin")),
            ),
            (
                "pkcs11:token=a;object=b?module-path=m&pin-source=https://host/pin",
                Fault::PinSource(named("https://host/pin")),
            ),
            ("pkcs11:token=a;object=b?pin-source=pin", Fault::NoModule),
            ("pkcs11:model=a;object=b", Fault::NoToken),
            ("pkcs11:token=a", Fault::NoObject),
        ] {
            assert_eq!(fault(uri), expected, "{uri}");
            assert!(!expected.instead().is_empty() && !expected.to_string().is_empty());
        }
    }
}
