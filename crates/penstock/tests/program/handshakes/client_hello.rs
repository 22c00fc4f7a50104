//! ClientHellos put together byte by byte (RFC 8446 §4.1.2), so that any of them can be wrong.

/// A ClientHello like that of a browser. Every part can be replaced.
#[derive(Clone)]
pub(crate) struct ClientHello {
    pub(crate) legacy_version: u16,
    pub(crate) session_id: Vec<u8>,
    pub(crate) suites: Vec<u16>,
    pub(crate) compression: Vec<u8>,
    /// Numbers and bodies, in order; `None` leaves the whole block out, its length too.
    pub(crate) extensions: Option<Vec<(u16, Vec<u8>)>>,
}

/// Extensions by their numbers in the IANA registry.
pub(crate) mod ext {
    pub(crate) const SERVER_NAME: u16 = 0;
    pub(crate) const GROUPS: u16 = 10;
    pub(crate) const POINT_FORMATS: u16 = 11;
    pub(crate) const SIGNATURES: u16 = 13;
    pub(crate) const ALPN: u16 = 16;
    pub(crate) const PADDING: u16 = 21;
    pub(crate) const EXTENDED_MASTER_SECRET: u16 = 23;
    pub(crate) const TICKET: u16 = 35;
    pub(crate) const PRE_SHARED_KEY: u16 = 41;
    pub(crate) const EARLY_DATA: u16 = 42;
    pub(crate) const VERSIONS: u16 = 43;
    pub(crate) const PSK_MODES: u16 = 45;
    pub(crate) const KEY_SHARE: u16 = 51;
    pub(crate) const RENEGOTIATION: u16 = 0xff01;
}

pub(crate) const X25519: u16 = 29;
pub(crate) const P256: u16 = 23;
pub(crate) const X25519_MLKEM768: u16 = 4588;

impl ClientHello {
    /// One that offers TLS 1.3 alone.
    pub(crate) fn tls13() -> Self {
        let extensions = vec![
            (ext::SERVER_NAME, server_name(b"localhost")),
            (ext::GROUPS, list16(&numbers(&[X25519, P256]))),
            (ext::SIGNATURES, list16(&numbers(&[0x0403, 0x0804, 0x0401]))),
            (ext::VERSIONS, list8(&numbers(&[0x0304]))),
            (ext::PSK_MODES, list8(&[1])),
            (ext::KEY_SHARE, key_shares(&[(X25519, &[9; 32])])),
        ];
        Self {
            legacy_version: 0x0303,
            session_id: vec![7; 32],
            suites: vec![0x1301, 0x1302, 0x1303],
            compression: vec![0],
            extensions: Some(extensions),
        }
    }

    /// One that offers TLS 1.2 alone.
    pub(crate) fn tls12() -> Self {
        let extensions = vec![
            (ext::SERVER_NAME, server_name(b"localhost")),
            (ext::GROUPS, list16(&numbers(&[X25519, P256]))),
            (ext::POINT_FORMATS, list8(&[0])),
            (ext::SIGNATURES, list16(&numbers(&[0x0403, 0x0804, 0x0401]))),
            (ext::EXTENDED_MASTER_SECRET, Vec::new()),
        ];
        Self {
            session_id: Vec::new(),
            suites: vec![0xc02b, 0xc02f, 0xcca9],
            extensions: Some(extensions),
            ..Self::tls13()
        }
    }

    /// With another body of this extension, or with this extension at the end.
    pub(crate) fn with(mut self, number: u16, body: impl Into<Vec<u8>>) -> Self {
        let extensions = self.extensions.get_or_insert_default();
        match extensions.iter_mut().find(|(found, _)| *found == number) {
            Some((_, old)) => *old = body.into(),
            None => extensions.push((number, body.into())),
        }
        self
    }

    /// With one more extension at the end, whether there is one of its kind or not.
    pub(crate) fn and(mut self, number: u16, body: impl Into<Vec<u8>>) -> Self {
        self.extensions.get_or_insert_default().push((number, body.into()));
        self
    }

    /// Without this extension.
    pub(crate) fn without(mut self, number: u16) -> Self {
        self.extensions.get_or_insert_default().retain(|(found, _)| *found != number);
        self
    }

    pub(crate) fn suites(self, suites: &[u16]) -> Self {
        Self { suites: suites.to_vec(), ..self }
    }

    /// The content of the handshake message.
    pub(crate) fn body(&self) -> Vec<u8> {
        let mut body = self.legacy_version.to_be_bytes().to_vec();
        body.extend([0x5a; 32]);
        body.extend(list8(&self.session_id));
        body.extend(list16(&numbers(&self.suites)));
        body.extend(list8(&self.compression));
        if let Some(extensions) = &self.extensions {
            let block = extensions
                .iter()
                .flat_map(|(number, body)| [number.to_be_bytes().to_vec(), list16(body)].concat());
            body.extend(list16(&block.collect::<Vec<u8>>()));
        }
        body
    }

    /// In one record, or as many as it needs.
    pub(crate) fn records(&self) -> Vec<u8> {
        records(&message(1, &self.body()), 16 * 1024)
    }
}

/// A handshake message: its type, its length in 24 bits, its body.
pub(crate) fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&[kind], &length[1..], body].concat()
}

/// Handshake records of so many bytes.
pub(crate) fn records(bytes: &[u8], most: usize) -> Vec<u8> {
    bytes.chunks(most).flat_map(|part| record(22, part)).collect()
}

/// One record.
pub(crate) fn record(kind: u8, bytes: &[u8]) -> Vec<u8> {
    [&[kind, 3, 1][..], &list16(bytes)].concat()
}

/// Behind a length of 8 bits.
pub(crate) fn list8(bytes: &[u8]) -> Vec<u8> {
    [&[u8::try_from(bytes.len()).unwrap()], bytes].concat()
}

/// Behind a length of 16 bits.
pub(crate) fn list16(bytes: &[u8]) -> Vec<u8> {
    [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
}

pub(crate) fn numbers(numbers: &[u16]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}

pub(crate) fn server_name(name: &[u8]) -> Vec<u8> {
    list16(&[&[0], &*list16(name)].concat())
}

pub(crate) fn key_shares(shares: &[(u16, &[u8])]) -> Vec<u8> {
    let shares = shares.iter().flat_map(|(group, key)| [group.to_be_bytes().to_vec(), list16(key)].concat());
    list16(&shares.collect::<Vec<u8>>())
}

/// So many unknown identities, each with a binder.
pub(crate) fn pre_shared_keys(identities: usize, binders: usize) -> Vec<u8> {
    let identity = [&*list16(&[0x77; 16]), &[0; 4]].concat();
    [list16(&identity.repeat(identities)), list16(&list8(&[0; 32]).repeat(binders))].concat()
}
