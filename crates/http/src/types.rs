//! Media types by file name.

/// The longest extension in the table, in bytes.
const EXTENSION_BYTES_MAX: usize = 11;

/// The media type for a file of this name, for the Content-Type field; `application/octet-stream` if
/// the extension (in any case) is unknown.
pub fn content_type(file_name: impl AsRef<[u8]>) -> &'static str {
    let mut lower = [0; EXTENSION_BYTES_MAX];
    match extension(file_name.as_ref(), &mut lower) {
        // Manifests. RFC 8216, ISO/IEC 23009-1.
        b"m3u8" => "application/vnd.apple.mpegurl",
        b"mpd" => "application/dash+xml",
        // Segments and whole films.
        b"ts" | b"m2ts" => "video/mp2t",
        b"m4s" => "video/iso.segment",
        b"mp4" | b"m4v" | b"cmfv" => "video/mp4",
        b"m4a" | b"cmfa" => "audio/mp4",
        b"cmft" => "application/mp4",
        b"webm" => "video/webm",
        b"mkv" => "video/matroska",
        b"mka" => "audio/matroska",
        b"mov" => "video/quicktime",
        b"ogv" => "video/ogg",
        b"aac" => "audio/aac",
        b"mp3" => "audio/mpeg",
        b"ac3" => "audio/ac3",
        b"ec3" => "audio/eac3",
        b"flac" => "audio/flac",
        b"ogg" | b"oga" | b"opus" => "audio/ogg",
        b"wav" => "audio/wav",
        // Subtitles. WebVTT is UTF-8 always, so it has no charset.
        b"vtt" => "text/vtt",
        b"srt" => "application/x-subrip",
        b"ttml" | b"dfxp" => "application/ttml+xml",
        // Thumbnails and posters.
        b"jpg" | b"jpeg" => "image/jpeg",
        b"png" => "image/png",
        b"webp" => "image/webp",
        b"avif" => "image/avif",
        b"gif" => "image/gif",
        b"svg" => "image/svg+xml",
        b"ico" => "image/vnd.microsoft.icon",
        // The page around the player.
        b"html" | b"htm" => "text/html; charset=utf-8",
        b"css" => "text/css; charset=utf-8",
        b"js" | b"mjs" => "text/javascript; charset=utf-8",
        b"json" | b"map" => "application/json",
        b"webmanifest" => "application/manifest+json",
        b"txt" => "text/plain; charset=utf-8",
        b"md" => "text/markdown; charset=utf-8",
        b"xml" => "application/xml",
        b"wasm" => "application/wasm",
        b"pdf" => "application/pdf",
        b"woff" => "font/woff",
        b"woff2" => "font/woff2",
        b"ttf" => "font/ttf",
        b"otf" => "font/otf",
        b"zip" => "application/zip",
        b"gz" => "application/gzip",
        // HLS keys (`key`) are sixteen plain bytes.
        _ => "application/octet-stream",
    }
}

/// Whether this is the name of a playlist or manifest, HLS or DASH.
pub fn is_manifest(file_name: impl AsRef<[u8]>) -> bool {
    let mut lower = [0; EXTENSION_BYTES_MAX];
    matches!(extension(file_name.as_ref(), &mut lower), b"m3u8" | b"mpd")
}

/// Whether a file of this name is text that gzip or brotli makes much smaller.
pub fn is_text_compressible(file_name: impl AsRef<[u8]>) -> bool {
    let mut lower = [0; EXTENSION_BYTES_MAX];
    matches!(
        extension(file_name.as_ref(), &mut lower),
        b"m3u8"
            | b"mpd"
            | b"vtt"
            | b"srt"
            | b"ttml"
            | b"dfxp"
            | b"svg"
            | b"html"
            | b"htm"
            | b"css"
            | b"js"
            | b"mjs"
            | b"json"
            | b"map"
            | b"webmanifest"
            | b"txt"
            | b"md"
            | b"xml"
            | b"wasm"
    )
}

/// Media types of the files that [`is_text_compressible`] names, and their other names.
const COMPRESSIBLE_TYPES: [&str; 20] = [
    "application/vnd.apple.mpegurl",
    "application/x-mpegurl",
    "audio/mpegurl",
    "audio/x-mpegurl",
    "application/dash+xml",
    "text/vtt",
    "application/x-subrip",
    "application/ttml+xml",
    "image/svg+xml",
    "text/html",
    "text/css",
    "text/javascript",
    "application/javascript",
    "application/json",
    "application/manifest+json",
    "text/plain",
    "text/markdown",
    "application/xml",
    "text/xml",
    "application/wasm",
];

/// Whether a response of this media type is such text. The path, which may have a query, decides if the type says nothing.
pub fn is_compressible_response(content_type: &str, target: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim_ascii();
    if essence.is_empty() || essence.eq_ignore_ascii_case("application/octet-stream") {
        return is_text_compressible(target.split('?').next().unwrap_or_default());
    }
    COMPRESSIBLE_TYPES.iter().any(|known| known.eq_ignore_ascii_case(essence))
}

/// The extension in lower case; empty if it is longer than any known.
fn extension<'l>(file_name: &[u8], lower: &'l mut [u8; EXTENSION_BYTES_MAX]) -> &'l [u8] {
    let Some(dot) = memchr::memrchr(b'.', file_name) else { return &[] };
    let extension = &file_name[dot + 1..];
    let Some(lower) = lower.get_mut(..extension.len()) else { return &[] };
    lower.copy_from_slice(extension);
    lower.make_ascii_lowercase();
    lower
}

#[cfg(test)]
mod tests {
    use super::{content_type, is_compressible_response, is_manifest, is_text_compressible};

    #[test]
    fn video_types_are_those_that_players_expect() {
        for (name, expected) in [
            ("index.m3u8", "application/vnd.apple.mpegurl"),
            ("Index.M3U8", "application/vnd.apple.mpegurl"),
            ("a.mpd", "application/dash+xml"),
            ("seg1.ts", "video/mp2t"),
            ("seg1.m4s", "video/iso.segment"),
            ("init.mp4", "video/mp4"),
            ("a.b.m4a", "audio/mp4"),
            ("a.vtt", "text/vtt"),
            ("a.webm", "video/webm"),
            ("a.jpg", "image/jpeg"),
            ("a.webmanifest", "application/manifest+json"),
            ("a.key", "application/octet-stream"),
            ("mp4", "application/octet-stream"),
            ("a.", "application/octet-stream"),
            ("", "application/octet-stream"),
            (".mp4", "video/mp4"),
            ("a.averyveryverylongextension", "application/octet-stream"),
        ] {
            assert_eq!(content_type(name), expected, "{name}");
        }
        assert_eq!(content_type(b"\xff\xfe.mp4"), "video/mp4");
    }

    #[test]
    fn only_text_is_worth_compressing() {
        assert!(is_manifest("a.m3u8") && is_manifest("a.MPD") && !is_manifest("a.m3u8.ts"));
        for name in ["a.m3u8", "a.mpd", "a.vtt", "a.html", "a.js"] {
            assert!(is_text_compressible(name), "{name}");
        }
        for name in ["a.ts", "a.mp4", "a.jpg", "a.woff2", "a", "a.gz"] {
            assert!(!is_text_compressible(name), "{name}");
        }
        for end in [
            "m3u8",
            "mpd",
            "vtt",
            "srt",
            "ttml",
            "dfxp",
            "svg",
            "html",
            "htm",
            "css",
            "js",
            "mjs",
            "json",
            "map",
            "webmanifest",
            "txt",
            "md",
            "xml",
            "wasm",
            "ts",
            "m4s",
            "mp4",
            "jpg",
            "woff2",
            "key",
            "gz",
            "pdf",
        ] {
            let name = format!("a.{end}");
            let expected = is_text_compressible(&name);
            let kind = content_type(&name);
            assert_eq!(is_compressible_response(kind, &name), expected, "{name} of {kind}");
            assert_eq!(is_compressible_response("", &format!("/x/{name}?a=b.ts")), expected, "{name}");
        }
        for (kind, target, expected) in [
            ("Application/X-mpegURL; charset=utf-8", "/live", true),
            ("video/mp2t", "/a.m3u8", false),
            ("application/octet-stream", "/a.mpd", true),
            ("application/octet-stream", "/a.bin?x=.mpd", false),
        ] {
            assert_eq!(is_compressible_response(kind, target), expected, "{kind} {target}");
        }
    }
}
