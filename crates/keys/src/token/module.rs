//! A token behind the PKCS #11 module of its maker.

use std::collections::HashMap;
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::error::{Error, RvError};
use cryptoki::mechanism::eddsa::{EddsaParams, EddsaSignatureScheme};
use cryptoki::mechanism::rsa::{PkcsMgfType, PkcsPssParams};
use cryptoki::mechanism::{Mechanism, MechanismType};
use cryptoki::object::{Attribute, AttributeType, KeyType, ObjectClass, ObjectHandle};
use cryptoki::session::{Session, UserType};
use cryptoki::slot::Slot;
use cryptoki::types::AuthPin;
use penstock_sys::lock::Unpoisoned;
use penstock_sys::small_file;
use penstock_tls::digest_signer::digest_info;
use penstock_tls::pkcs11_uri::{ObjectName, TokenName};
use penstock_tls::remote_key::PublicKey;
use penstock_tls::{EcCurve, Hash, SignatureKind, ecdsa_der};
use zeroize::Zeroizing;

use super::device::{Device, TokenFault, TokenSession};

/// Limit on a PIN file in bytes.
const PIN_BYTES_MAX: u64 = 4096;

/// A token, and how to log in to it.
pub(super) struct ModuleToken {
    module: PathBuf,
    token: TokenName,
    pin: Option<PathBuf>,
    /// A PIN that the token has refused. It is not tried again: tokens lock after a few wrong ones.
    refused: Mutex<Option<Zeroizing<String>>>,
}

impl ModuleToken {
    pub(super) fn new(module: PathBuf, token: TokenName, pin: Option<PathBuf>) -> Self {
        Self { module, token, pin, refused: Mutex::default() }
    }

    fn slot(&self, module: &Pkcs11) -> Result<Slot, TokenFault> {
        let slots = module.get_slots_with_token().map_err(lost)?;
        let mut found = slots.into_iter().filter(|slot| self.is_in(module, *slot));
        let slot = found.next().ok_or_else(|| TokenFault::Lost("there is no such token".to_owned()))?;
        match found.count() {
            0 => Ok(slot),
            more => {
                Err(TokenFault::Lost(format!("there are {} such tokens; add serial to the URI", more + 1)))
            }
        }
    }

    fn is_in(&self, module: &Pkcs11, slot: Slot) -> bool {
        let Ok(info) = module.get_token_info(slot) else { return false };
        let is = |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|name| name == found);
        info.token_initialized()
            && is(&self.token.label, info.label())
            && is(&self.token.manufacturer, info.manufacturer_id())
            && is(&self.token.serial, info.serial_number())
            && is(&self.token.model, info.model())
            && self.token.slot.is_none_or(|id| id == slot.id())
    }

    fn log_in(&self, session: &Session) -> Result<(), TokenFault> {
        let Some(file) = &self.pin else { return Ok(()) };
        let unreadable = |error: io::Error| {
            TokenFault::Lost(format!("the PIN in {} cannot be read: {error}", file.display()))
        };
        let pin = read_pin(file).map_err(unreadable)?;
        // One thread at a time, so that a wrong PIN is tried once.
        let mut refused = self.refused();
        if refused.as_ref() == Some(&pin) {
            let what = format!("it has refused the PIN in {}, which is not tried again", file.display());
            return Err(TokenFault::Lost(what));
        }
        match session.login(UserType::User, Some(&AuthPin::from(pin.as_str()))) {
            Ok(()) | Err(Error::Pkcs11(RvError::UserAlreadyLoggedIn, _)) => Ok(()),
            Err(error) => {
                if let Error::Pkcs11(
                    RvError::PinIncorrect | RvError::PinInvalid | RvError::PinLenRange | RvError::PinLocked,
                    _,
                ) = error
                {
                    *refused = Some(pin);
                }
                Err(lost(error))
            }
        }
    }

    fn refused(&self) -> MutexGuard<'_, Option<Zeroizing<String>>> {
        self.refused.lock().unpoisoned()
    }
}

impl Device for ModuleToken {
    fn open(&self) -> Result<Box<dyn TokenSession>, TokenFault> {
        let shared = module(&self.module);
        // A module that hangs here keeps only those waiting that need it.
        let mut module = shared.lock().unpoisoned();
        let library = module.initialized(&self.module)?;
        let session = self.slot(&library).and_then(|slot| {
            let session = library.open_ro_session(slot).map_err(lost)?;
            self.log_in(&session)?;
            Ok(session)
        });
        match session {
            Ok(session) => {
                module.sessions.fetch_add(1, Relaxed);
                let count = SessionCount(Arc::clone(&module.sessions));
                Ok(Box::new(ModuleSession { session, keys: HashMap::new(), _count: count }))
            }
            Err(fault) => {
                module.finalize_if_unused();
                Err(fault)
            }
        }
    }
}

/// The first line of the file.
fn read_pin(file: &Path) -> io::Result<Zeroizing<String>> {
    let text = Zeroizing::new(small_file::read_text(file, PIN_BYTES_MAX)?);
    Ok(Zeroizing::new(text.lines().next().unwrap_or_default().to_owned()))
}

/// The module of this file in this process.
fn module(file: &Path) -> Arc<Mutex<Module>> {
    static MODULES: LazyLock<Mutex<HashMap<PathBuf, Arc<Mutex<Module>>>>> = LazyLock::new(Mutex::default);
    let mut modules = MODULES.lock().unpoisoned();
    Arc::clone(modules.entry(file.to_owned()).or_default())
}

/// A module, which a process may initialize once only.
#[derive(Default)]
struct Module {
    /// It stays loaded until the process ends.
    library: Option<Pkcs11>,
    is_initialized: bool,
    sessions: Arc<AtomicUsize>,
}

impl Module {
    fn initialized(&mut self, file: &Path) -> Result<Pkcs11, TokenFault> {
        let library = match &self.library {
            Some(library) => library.clone(),
            None => {
                let loaded = Pkcs11::new(file).map_err(|error| {
                    TokenFault::Lost(format!("the module {} cannot be loaded: {error}", file.display()))
                })?;
                self.library.insert(loaded).clone()
            }
        };
        if !self.is_initialized {
            match library.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK)) {
                Ok(()) | Err(Error::Pkcs11(RvError::CryptokiAlreadyInitialized, _)) => {}
                Err(error) => return Err(lost(error)),
            }
            self.is_initialized = true;
        }
        Ok(library)
    }

    /// Has the next session initialize it again: many modules see tokens that come only then.
    fn finalize_if_unused(&mut self) {
        if self.sessions.load(Relaxed) > 0 {
            return;
        }
        if let Some(library) = &self.library {
            // A module that refuses stays as it is.
            self.is_initialized = library.clone().finalize().is_err();
        }
    }
}

/// Counts a session of a module until it is dropped.
struct SessionCount(Arc<AtomicUsize>);

impl Drop for SessionCount {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

fn lost(error: impl Display) -> TokenFault {
    TokenFault::Lost(error.to_string())
}

/// A session of one thread.
struct ModuleSession {
    /// Dropped, and so closed, before it is counted as such.
    session: Session,
    /// The keys that were used, by their names.
    keys: HashMap<ObjectName, TokenKeyHandle>,
    _count: SessionCount,
}

#[derive(Clone, Copy)]
struct TokenKeyHandle {
    handle: ObjectHandle,
    kind: TokenKeyKind,
}

#[derive(Clone, Copy)]
enum TokenKeyKind {
    Rsa,
    Ec(EcCurve),
    Ed25519,
}

/// `CKA_EC_PARAMS` of Ed25519: its object identifier (RFC 8410), or its name as a PrintableString.
const ED25519: [&[u8]; 2] = [b"\x06\x03\x2b\x65\x70", b"\x13\x0cedwards25519"];

impl ModuleSession {
    fn key(&mut self, name: &ObjectName) -> Result<TokenKeyHandle, TokenFault> {
        if let Some(known) = self.keys.get(name) {
            return Ok(*known);
        }
        let found = self.find(name, ObjectClass::PRIVATE_KEY)?;
        let [handle] = found[..] else { return Err(TokenFault::Keys(found.len())) };
        let kind = self.kind(handle)?;
        let key = TokenKeyHandle { handle, kind };
        self.keys.insert(name.clone(), key);
        Ok(key)
    }

    fn find(&self, name: &ObjectName, class: ObjectClass) -> Result<Vec<ObjectHandle>, TokenFault> {
        let mut template = vec![Attribute::Token(true), Attribute::Class(class)];
        template.extend(name.label.as_ref().map(|label| Attribute::Label(label.clone().into_bytes())));
        template.extend(name.id.clone().map(Attribute::Id));
        self.session.find_objects(&template).map_err(fault_of)
    }

    fn kind(&self, handle: ObjectHandle) -> Result<TokenKeyKind, TokenFault> {
        let types = [AttributeType::KeyType, AttributeType::EcParams, AttributeType::AlwaysAuthenticate];
        let mut kind = None;
        for attribute in self.session.get_attributes(handle, &types).map_err(fault_of)? {
            match attribute {
                // The login belongs between the begin and the end of a signature. The safe functions of the library make both
                // at once, and the mechanisms for digests have no form with several parts.
                Attribute::AlwaysAuthenticate(true) => return Err(TokenFault::LoginEach),
                Attribute::KeyType(KeyType::RSA) => kind = Some(TokenKeyKind::Rsa),
                Attribute::EcParams(parameters) if ED25519.contains(&&parameters[..]) => {
                    kind = Some(TokenKeyKind::Ed25519);
                }
                Attribute::EcParams(parameters) => {
                    kind = EcCurve::of_parameters(&parameters).map(TokenKeyKind::Ec);
                }
                _ => {}
            }
        }
        kind.ok_or(TokenFault::WrongKind)
    }

    /// From the attributes of the private key if it is RSA; otherwise from the public key of the same name.
    fn public_key(&self, name: &ObjectName, key: TokenKeyHandle) -> Result<Option<PublicKey>, TokenFault> {
        let types = [AttributeType::Modulus, AttributeType::PublicExponent, AttributeType::EcPoint];
        let public = self.find(name, ObjectClass::PUBLIC_KEY)?;
        for handle in public.into_iter().take(1).chain([key.handle]) {
            let (mut modulus, mut exponent, mut point) = (None, None, None);
            for attribute in self.session.get_attributes(handle, &types).map_err(fault_of)? {
                match attribute {
                    Attribute::Modulus(bytes) => modulus = Some(bytes),
                    Attribute::PublicExponent(bytes) => exponent = Some(bytes),
                    Attribute::EcPoint(bytes) => point = Some(bytes),
                    _ => {}
                }
            }
            let public = match key.kind {
                TokenKeyKind::Rsa => modulus.zip(exponent).and_then(|(n, e)| PublicKey::rsa(&n, &e)),
                TokenKeyKind::Ec(curve) => point.and_then(|point| curve.public_key(&point)),
                // With or without the OCTET STRING around it.
                TokenKeyKind::Ed25519 => point.and_then(|point| {
                    PublicKey::ed25519(
                        point.strip_prefix(b"\x04\x20").filter(|p| p.len() == 32).unwrap_or(&point),
                    )
                }),
            };
            if public.is_some() {
                return Ok(public);
            }
        }
        Ok(None)
    }
}

impl TokenSession for ModuleSession {
    fn look(&mut self, key: &ObjectName) -> Result<Option<PublicKey>, TokenFault> {
        self.forget(key);
        let handle = self.key(key)?;
        self.public_key(key, handle)
    }

    fn sign(&mut self, key: &ObjectName, kind: SignatureKind, digest: &[u8]) -> Result<Vec<u8>, TokenFault> {
        let TokenKeyHandle { handle, kind: of_key } = self.key(key)?;
        let sign = |mechanism: Mechanism<'_>, data: &[u8]| {
            self.session.sign(&mechanism, handle, data).map_err(fault_of)
        };
        match (kind, of_key) {
            (SignatureKind::RsaPkcs1(hash), TokenKeyKind::Rsa) => {
                sign(Mechanism::RsaPkcs, &[digest_info(hash), digest].concat())
            }
            (SignatureKind::RsaPss(hash), TokenKeyKind::Rsa) => sign(pss(hash)?, digest),
            (SignatureKind::Ecdsa(_), TokenKeyKind::Ec(curve)) => {
                // FIPS 186-5 section 6.4.1 takes the first bits of a longer digest; not all tokens do.
                let raw = sign(Mechanism::Ecdsa, &digest[..digest.len().min(curve.bytes())])?;
                ecdsa_der(&raw).ok_or_else(|| TokenFault::Failed("its signature is malformed".to_owned()))
            }
            // The message itself is signed.
            (SignatureKind::Ed25519, TokenKeyKind::Ed25519) => {
                sign(Mechanism::Eddsa(EddsaParams::new(EddsaSignatureScheme::Pure)), digest)
            }
            _ => Err(TokenFault::WrongKind),
        }
    }

    fn forget(&mut self, key: &ObjectName) {
        self.keys.remove(key);
    }
}

fn pss(hash: Hash) -> Result<Mechanism<'static>, TokenFault> {
    let (hash_alg, mgf, s_len) = match hash {
        Hash::Sha256 => (MechanismType::SHA256, PkcsMgfType::MGF1_SHA256, 32),
        Hash::Sha384 => (MechanismType::SHA384, PkcsMgfType::MGF1_SHA384, 48),
        Hash::Sha512 => (MechanismType::SHA512, PkcsMgfType::MGF1_SHA512, 64),
        Hash::Md5Sha1 | Hash::Sha1 | Hash::Sha224 => return Err(TokenFault::WrongKind),
    };
    Ok(Mechanism::RsaPkcsPss(PkcsPssParams { hash_alg, mgf, s_len: s_len.into() }))
}

/// Whether an operation failed by itself, or because its session is of no use any more.
fn fault_of(error: Error) -> TokenFault {
    let Error::Pkcs11(code, _) = &error else { return TokenFault::Failed(error.to_string()) };
    match code {
        RvError::MechanismInvalid
        | RvError::MechanismParamInvalid
        | RvError::KeyTypeInconsistent
        | RvError::KeyFunctionNotPermitted
        | RvError::FunctionNotSupported
        | RvError::KeySizeRange => TokenFault::WrongKind,
        RvError::DataInvalid
        | RvError::DataLenRange
        | RvError::ArgumentsBad
        | RvError::BufferTooSmall
        | RvError::FunctionRejected
        | RvError::AttributeSensitive
        | RvError::AttributeTypeInvalid => TokenFault::Failed(error.to_string()),
        // Handles of a session, a token or a key that are gone, and whatever the maker has invented.
        _ => TokenFault::Lost(error.to_string()),
    }
}
