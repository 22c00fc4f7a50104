//! `penstock doctor` where the kernel can seal.

use penstock_testkit::Tool;
use serde_json::Value;

use crate::kernel::with_everything;

pub(crate) fn finds_the_kernel() {
    with_everything();
    let output = Tool::penstock().args(["doctor", "--json"]).run().exits_with(0);
    let document: Value = serde_json::from_str(&output.text()).unwrap();
    let kernel = &document["kernel_tls"];
    assert_eq!(kernel["available"], true);
    assert_eq!(kernel["accepts"].as_array().unwrap().len(), 6, "three ciphers in two versions: {kernel}");
    for cipher in document["ciphers"].as_array().unwrap() {
        for speed in ["kernel_send_bytes_per_second", "kernel_send_frames_bytes_per_second"] {
            assert!(cipher[speed].as_f64().is_some_and(|speed| speed > 0.0), "{cipher}");
        }
        for choice in ["auto", "auto_http2"] {
            assert!(cipher[choice]["reason"].as_str().unwrap().starts_with("kernel_measured_"), "{cipher}");
        }
    }
    let findings = document["findings"].as_array().unwrap();
    let tls = findings.iter().find(|one| one["name"] == "tls").unwrap();
    assert_eq!((tls["value"].as_str(), tls["verdict"].as_str()), (Some("ready"), Some("ok")));
}
