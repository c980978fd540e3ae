//! The fuzz body for agent files: any bytes lead to an answer and never to a panic.

use softland_agent::AgentFile;
use softland_agent::tools::BUILT_IN;
use softland_session::core::policy::Policy;

/// Parses `data` and checks the properties of every outcome.
pub(crate) fn run(data: &[u8]) {
    let (result, warnings) = AgentFile::parse_bytes("f.md", data);
    let lines = 1 + data.iter().filter(|byte| **byte == b'\n').count();
    let problems = result.as_ref().err().map(Vec::as_slice).unwrap_or_default();
    for problem in problems.iter().chain(&warnings) {
        let text = problem.to_string();
        assert!(text.starts_with("f.md"), "{text}");
        assert!(!text.contains('\n'), "{text:?}");
        // One more than there are: an empty body is told of the line after the last.
        assert!(problem.line.is_none_or(|line| (1..=lines + 1).contains(&line)), "{text}");
    }
    match result {
        Ok(agent) => {
            assert!(!agent.name.trim().is_empty() && !agent.description.trim().is_empty());
            assert!(agent.tools.iter().all(|tool| BUILT_IN.contains(&tool.as_str())));
            let mut policy = Policy::default();
            agent.apply_policy(&mut policy);
            assert_eq!(AgentFile::parse_bytes("f.md", data), (Ok(agent), warnings));
        }
        Err(problems) => assert!(!problems.is_empty()),
    }
}
