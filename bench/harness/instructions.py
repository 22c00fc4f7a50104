"""Reads the output of bench/guest/measure and makes a page of it.

A nanosecond of the guest's CPU time is an instruction. QEMU counts every repetition of a `rep` instruction, which a
processor's own counter counts once; two runs, one copying bytes and one 8 bytes at a time, show how many bytes such
instructions moved or cleared, and thus the count without them.
"""

from datetime import date

from .fixtures import GIB
from .stats import compare, spread

KINDS = {
    "off": "user space",
    "on": "kernel",
    "nginx": "nginx, user space",
    "nginx-kernel": "nginx, kernel",
    "h2o": "h2o, user space",
}
REFERENCE = "nginx"
TRACED_MIB = 16
WIDE, NARROW = "8-byte copies", "byte copies"  # bytes per `rep` repetition
CLOCK_TOLERANCE = 0.01


def read(said):
    """One guest's lines as data. Fails if its clock does not count instructions or a body is incomplete."""
    found = {"known": {}, "machine": {}, "sent": [], "calls": [], "all_calls": {}, "counters": [], "tls_stat": {}}
    for line in said.splitlines():
        word, _, rest = line.partition(" ")
        if word == "known":
            name, count, ns = rest.split()
            found["known"][name] = {"instructions": int(count), "ns": int(ns)}
        elif word == "machine":
            name, _, value = rest.partition(" ")
            found["machine"][name] = value.strip()
        elif word == "sent":
            found["sent"].append(_transfer(rest.split()))
        elif word == "call":
            kind, about, name, count, total = rest.split()
            found["calls"].append({"kind": kind, "about": about, "call": name, "count": int(count), "sum": int(total)})
        elif word == "calls":
            kind, count = rest.split()
            found["all_calls"][kind] = int(count)
        elif word == "counter":
            found["counters"].append(rest)
        elif word == "tls_stat":
            name, value = rest.split()
            found["tls_stat"][name] = int(value)
    _require_truth(found)
    return found


def _transfer(words):
    part, kind, file, size, *clocks = words
    server, kernel, busy = (int(after) - int(before) for before, after in zip(clocks[:3], clocks[3:]))
    return {
        "part": part, "kind": kind, "file": file, "bytes": int(size),
        "server_ns": server, "kernel_threads_ns": kernel, "machine_ns": busy,
    }  # fmt: skip


def _require_truth(found):
    for name in ("plain", "aes", "string_bytes"):
        known = found["known"][name]
        if abs(known["ns"] / known["instructions"] - 1) > CLOCK_TOLERANCE:
            raise ValueError(f"the guest's clock does not count instructions: {name} {known}")
    sizes = {transfer["bytes"] for transfer in found["sent"] if transfer["file"] == "large.bin"}
    if len(sizes) != 1:
        raise ValueError(f"not every body was whole: {sizes}")
    # Frames of HTTP/2 are sent out of the mapped file.
    is_http2 = found["machine"].get("http") == "--http2"
    if not is_http2 and not any(call["kind"] == "on" and call["call"] == "sendfile" for call in found["calls"]):
        raise ValueError("the kernel kind called no sendfile")


def per_gib(found, kind, account="server_ns"):
    """Instructions per GiB of body, round by round."""
    rounds = [sent for sent in found["sent"] if sent["kind"] == kind and sent["part"].isdigit()]
    return [sent[account] * GIB / sent["bytes"] for sent in rounds]


def without_repetitions(wide, narrow):
    """From rounds with 8-byte and with byte copies: the instructions without repetitions, and the bytes they touched."""
    touched = [(byte - eight) * 8 / 7 for eight, byte in zip(wide, narrow)]
    return [eight - moved / 8 for eight, moved in zip(wide, touched)], touched


def summary(raw, configs):
    """The run as a page of Markdown."""
    processors, versions = raw["processors"], raw["versions"]
    wide, narrow = processors[WIDE], processors[NARROW]
    kinds = [kind for kind in KINDS if per_gib(wide, kind)]
    bare, touched = {}, {}
    for kind in kinds:
        bare[kind], touched[kind] = without_repetitions(per_gib(wide, kind), per_gib(narrow, kind))
    rounds = len(bare["on"])
    setup = f" The guest was set up by `{raw['setup']}`." if raw.get("setup") else ""
    lines = [
        f"# Instructions per GiB sent: kernel against user space, {date.today()}",
        "",
        f"{versions['penstock']}, revision `{versions['revision'][:12]}`"
        f"{' with uncommitted changes' if versions['uncommitted_changes'] else ''}. Debian's cloud kernel "
        f"{wide['machine']['kernel']} (`gcm(aes)` by `{wide['machine']['driver_used']}`) in {versions['qemu']}, "
        f"TCG, one CPU, `-icount shift=0`. {versions['curl']} in the same guest fetches {raw['mib']} MiB over "
        f"HTTP/{raw.get('http', '1.1')} on one TLS 1.3 connection with AES-128-GCM; {rounds} rounds per column, in turn, after one transfer each.{setup} "
        f"Congestion control and loopback: {wide['machine'].get('congestion', 'not recorded')}",
        "",
        "The server's instructions in 10⁹ per GiB: its own and the kernel's on its threads. Median (lowest..highest). The ratios are "
        "of the first column, within each round. System calls are those of another connection, its handshake included.",
        "",
        "| Penstock, and others | a `rep` instruction once, as a processor's counter does | once per 8 bytes (`-cpu max,-erms,-fsrm`) "
        "| once per byte (`-cpu max`) | of user space | of nginx's user space | the whole machine | system calls per MiB |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
        *(_row(kind, bare, wide, narrow) for kind in kinds),
        "",
        "The first column is computed from the other two, taking the width of a repetition as all in which they differ. The whole "
        "machine, the client included, is counted with a `rep` instruction once per 8 bytes.",
        "",
        *_findings(wide, touched, kinds),
        "",
        *_copies(raw),
        "",
        *LIMITS,
        "",
        "## Configurations",
    ]
    for name, config in configs.items():
        lines += ["", f"{KINDS[name]}:", "", "```", config.rstrip(), "```"]
    return "\n".join(lines) + "\n"


def _row(kind, bare, wide, narrow):
    def cell(values, digits=2):
        return f"{values.median:.{digits}f} ({values.low:.{digits}f}..{values.high:.{digits}f})"

    def billions(values):
        return cell(spread([value / 1e9 for value in values]))

    def of(other):
        return cell(compare(bare[kind], bare[other]).ratio, 3) if other in bare and other != kind else ""

    columns = [
        KINDS[kind],
        billions(bare[kind]),
        billions(per_gib(wide, kind)),
        billions(per_gib(narrow, kind)),
        of("off"),
        of(REFERENCE),
        billions(per_gib(wide, kind, "machine_ns")),
        f"{wide['all_calls'][kind] / TRACED_MIB:.1f}",
    ]
    return f"| {' | '.join(columns)} |"


def _findings(wide, touched, kinds):
    moved = {kind: spread(values).median / GIB for kind, values in touched.items()}
    small = {sent["kind"]: sent["server_ns"] / 1e6 for sent in wide["sent"] if sent["part"] == "small"}
    threads = {kind: spread(per_gib(wide, kind, "kernel_threads_ns")).median / 1e6 for kind in kinds}
    known = wide["known"]
    return [
        f"- Bytes moved or cleared by `rep` instructions, per byte of the body: {moved['off']:.2f} in user space, "
        f"{moved['on']:.2f} in the kernel. That fits one clearing of the pages for sealed bytes on both ways (Debian's kernel "
        "clears what it allocates, `CONFIG_INIT_ON_ALLOC_DEFAULT_ON`) and, in user space, the copy into the socket. "
        "Where they happen was not traced.",
        f"- A connection with a handshake and a body of 1 byte: {small['off']:.1f} and {small['on']:.1f} million; "
        "that is in the figures above.",
        f"- The kernel's own threads meanwhile, whatever they did: {threads['off']:.0f} and {threads['on']:.0f} million "
        "per GiB, not in the figures.",
        "- The clock, against code of known length, nanoseconds per instruction: "
        + ", ".join(f"{name} {value['ns'] / value['instructions']:.4f}" for name, value in known.items())
        + " (`string_bytes`: per byte of a `rep movsb`).",
    ]


def _copies(raw):
    found = raw["processors"][WIDE]
    is_http2 = raw.get("http") == "2"
    title = "System calls with the body" if is_http2 else "User-space copies per body byte in the kernel kind: 0"
    lines = [
        f"## {title}",
        "",
        "One more connection each, under strace, with a body of 16,777,216 bytes that was never sent before. Calls on the "
        "body's file, and those of `read`, `pread`, `preadv`, `recv`, `send`, `write`, `writev`, `mmap`, `splice` and their "
        "kin that are not (the handshake, the head, wakers). `preadv2` asks whether a page is in memory and got no byte here:",
        "",
        "| | call | on the body's file | times | sum of results |",
        "|---|---|---|---:|---:|",
    ]
    for call in sorted(found["calls"], key=lambda call: (call["kind"], call["about"], call["call"])):
        total = "" if call["call"] in ("openat2", "openat", "mmap") else f"{call['sum']:,}"
        mine = "yes" if call["about"] == "body" else ""
        lines.append(f"| {KINDS[call['kind']]} | `{call['call']}` | {mine} | {call['count']} | {total} |")
    sealed = {kind: _counter(found, kind) for kind in ("off", "on")}
    stat = found["tls_stat"]
    return [
        *lines,
        "",
        "The program's own counters before that, all transfers: "
        + "; ".join(f"`tls.kernel: {kind}`: {text}" for kind, text in sealed.items())
        + f". The kernel's: `TlsTxSw` {stat['TlsTxSw']}, `TlsDecryptError` {stat['TlsDecryptError']} (what "
        "is more than the connections, the servers opened at their start to see what the kernel accepts).",
        "",
        "Frames leave out of the mapped file; what a full socket does not take of a batch is copied. The case "
        "`http2_frames_leave_together_from_the_mapped_file` of `make test-ktls-stock` fails if this changes."
        if is_http2
        else "The case `a_body_is_never_read_or_mapped` of `make test-ktls` and `make test-ktls-stock` "
        "(`crates/penstock/tests/ktls/traced.rs`) fails if this changes.",
    ]


def _counter(found, kind):
    own = [line.removeprefix(f"{kind} ") for line in found["counters"] if line.startswith(f"{kind} ")]
    return ", ".join(f"`{line}`" for line in own if not line.endswith(" 0"))


LIMITS = [
    "## What it can say, and what it cannot",
    "",
    "- It counts instructions, with the AES and AVX code that both sides choose on this emulated processor: AES-NI, "
    "PCLMULQDQ and AVX2, without VPCLMULQDQ and AVX-512. On a processor with those BoringSSL needs fewer; this kernel "
    "(before 6.11) has no such code.",
    "- It says nothing about time. There are no caches, no memory, no branch prediction: an `aesenc` counts as much as a "
    "`nop`, and a copy, which costs memory bandwidth and not instructions, is nearly free in the first line. What kernel "
    "sealing saves is just that: one pass of the sealed bytes through the cache, and the sealed bytes' place in it.",
    "- It is loopback, and the server's thread also pays for what the receiving side does in the same system call; part "
    "of the sending is paid by the client, when its acknowledgements open the window. Both alike.",
    "- No network card seals here; with one, the kernel's way needs no sealing instructions at all.",
    "- An elapsed or CPU time on real hardware with a kernel that has `tls` is still to be measured.",
]
