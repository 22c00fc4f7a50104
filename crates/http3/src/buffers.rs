//! Where QUIC keeps what it sends.

use bytes::Bytes;

/// The library's QUIC.
pub(crate) type Quic = quiche::Connection<Buffers>;

/// What QUIC keeps of a stream until it is acknowledged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffers;

impl quiche::BufFactory for Buffers {
    type Buf = Bytes;

    type DgramBuf = Vec<u8>;

    fn buf_from_slice(bytes: &[u8]) -> Bytes {
        Bytes::copy_from_slice(bytes)
    }

    fn dgram_buf_from_slice(bytes: &[u8]) -> Vec<u8> {
        bytes.to_vec()
    }
}
