//! Memory does not grow with what was said. Alone in its file: the process is what is measured.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::io::Write as _;

/// The most memory that this process has had, in KiB.
fn most() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_document_of_one_line_is_streamed() {
    let folder = tempfile::tempdir().unwrap();
    let text = "all work and no play ".repeat(5000);
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(b"{\"id\":\"long\",\"messages\":[").unwrap();
    for n in 0..1500 {
        let comma = if n == 0 { "" } else { "," };
        let message = format!(
            "{comma}{{\"role\":\"user\",\"content\":\"{text}\"}},{{\"role\":\"assistant\",\"content\":\"{n} {text}\"}}"
        );
        packed.write_all(message.as_bytes()).unwrap();
    }
    packed.write_all(b"]}").unwrap();
    let path = folder.path().join("long");
    std::fs::write(&path, packed.finish().unwrap()).unwrap();
    let before = most();
    struct Nothing(usize);
    impl softland_import::Sink for Nothing {
        fn begin_conversation(
            &mut self,
            _: softland_import::ConversationId,
            _: &softland_import::ConversationStart<'_>,
        ) {
        }
        fn take_user_step(
            &mut self,
            _: softland_import::ConversationId,
            _: &softland_import::UserStep<'_>,
        ) {
        }
        fn take_turn(
            &mut self,
            _: softland_import::ConversationId,
            _: &softland_import::TurnStep<'_>,
        ) {
            self.0 += 1;
        }
        fn end_conversation(&mut self, _: softland_import::ConversationId) {}
    }
    let options = softland_import::ReadOptions::default();
    let read = softland_import::read_paths(&[path], &options, |_| Nothing(0), |_| {});
    assert_eq!(read.sources[0].sink.as_ref().map(|sink| sink.0), Some(1500));
    let grown = most() - before;
    assert!(grown < 32 << 10, "300 MB of messages took {grown} KiB");
}
